"""Known defects explain an INVALID run only where the record proves their mechanism. Times are in
ms."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from checkers_cases import _nemesis, fault, final, history, insert, read, rest
from msgspec import structs
from sim_play import play
from test_sim_bugs import CASES

from checkers.judge import Judgement, judge, judgement_of
from checkers.ladder import Level
from checkers.suite import set_checkers
from checkers.triage.defects import DEFECTS, known_in
from checkers.triage.evidence import evidence_of
from checkers.triage.explanation import Cause, explained_by
from checkers.triage.triage import triage
from harness.core.clock import WallClock
from harness.core.dialect import Version
from harness.core.history import History
from harness.core.protocols import Checker
from harness.core.verdict import Status, Verdict
from harness.sim.bugs import OF_SERVERS

REPLICAS = ("ch1", "ch2", "ch3")
MS = 1_000_000
KEPT = "319 UNKNOWN_STATUS_OF_INSERT: client must retry"
Fact = list[Any]


def quorum(part: str, writer: str, begin: int, end: int, *others: tuple[str, int]) -> list[Fact]:
    """Return the facts of a quorum insert, and of the fetches of its part."""
    partition = part.split("_")[0]
    return [
        ["begin", begin, part, 2],
        ["commit", begin, part, 7],
        ["hold", begin, part, writer, 0],
        ["last", end, partition, part],
        ["end", end, part],
        *(["hold", at, part, replica, 0] for replica, at in others),
    ]


FIRST = quorum("0_0_0_0", "ch1", 2, 5, ("ch2", 4), ("ch3", 6))
"""Value 0, which is everywhere at 6 ms."""
ONE = quorum("0_1_1_0", "ch1", 20, 40, ("ch2", 30))
"""Value 1, which ch3 lacks."""
CALLS = (insert(0, 0, 1, 8), insert(0, 1, 10, 50))


@dataclass(frozen=True)
class Run:
    """What was recorded of a run."""

    facts: list[Fact]
    calls: tuple[Any, ...]
    version: str = "18.16.1"
    ended: str = ""
    vague: Sequence[Sequence[int]] | None = ()

    def history(self) -> History:
        """Return the history, with the trace at its end."""
        value = {
            "table": "/t",
            "versions": [self.version],
            "keepers": {"ch1": ["zk1"], "ch2": ["zk2"], "ch3": ["zk3"]},
            "facts": sorted(self.facts, key=lambda fact: fact[1]),
            "ended": self.ended,
            "gaps": [],
            "dates": {} if self.vague is None else {"corrected": 3, "vague": self.vague},
        }
        return history(*self.calls, _nemesis("trace", 9000, "ok", value))

    def judged(self) -> Judgement:
        checkers = set_checkers(Level.LINEARIZABLE, faults_expected=False)
        return judge(self.history(), checkers, 60, Level.LINEARIZABLE, explain=True)

    def explained(self) -> tuple[str, list[str]]:
        found = self.judged().explanation
        assert found is not None, "the run is INVALID"
        return found.status, [one.name for one in found.defects]


NEW: tuple[str, list[str]] = ("new", [])


def wrong_clock(name: str, node: str) -> list[Any]:
    """Return the op of a fault of a clock."""
    return _nemesis(name, 32, "ok", {"name": name, "nodes": [node]}, invoked=31)


CUT = fault(30, 900, "{zk3 | zk1 zk2}")
LATE = read(1, [0], 400, 410, node="ch3")
"""A read without value 1, which was acknowledged 350 ms before."""
STALE = Run([*FIRST, *ONE, ["hold", 950, "0_1_1_0", "ch3", 0]], (*CALLS, CUT, LATE))
TWO = quorum("0_2_2_0", "ch2", 60, 80, ("ch1", 70), ("ch3", 90))
SKIPPED = Run(
    [*FIRST, *ONE, *TWO, ["hold", 500, "0_1_1_0", "ch3", 0]],
    (*CALLS, insert(2, 2, 55, 85, node="ch2"), read(1, [0, 2], 300, 310, node="ch3")),
)
OWN = quorum("0_2_2_0", "ch3", 60, 80, ("ch1", 70), ("ch2", 75))
LAGGING = Run(
    [*FIRST, *ONE, *OWN, ["hold", 500, "0_1_1_0", "ch3", 0]],
    (*CALLS, insert(2, 2, 55, 85, node="ch3"), read(1, [0, 2], 300, 310, node="ch3")),
)
EARLY = Run([*FIRST, *ONE, ["hold", 405, "0_1_1_0", "ch3", 0]], (*CALLS, LATE), "25.8.2")
ABOVE = quorum("0_2_2_0", "ch2", 60, 80, ("ch1", 70), ("ch3", 78))
BELOW = quorum("0_1_1_0", "ch1", 90, 95, ("ch2", 92), ("ch3", 94))
OVERTAKEN = Run(
    [*FIRST, *ABOVE, *BELOW],
    (
        insert(0, 0, 1, 8),
        insert(0, 1, 10, 100),
        insert(2, 2, 55, 85, node="ch2"),
        read(1, [0, 1], 300, 310),
    ),
)
MERGED = replace(
    OVERTAKEN,
    facts=[*OVERTAKEN.facts, ["hold", 200, "0_0_2_1", "ch1", 0]],
    calls=(*OVERTAKEN.calls[:3], read(1, [], 300, 310)),
    version="25.8.2",
)
PLAIN = [["commit", 20, "0_1_1_0", 7], *(["hold", 20, "0_1_1_0", node, 0] for node in REPLICAS)]
HIDDEN = Run([*FIRST, *PLAIN], (*CALLS, read(1, [0], 300, 310)))
UNSEEN = Run(
    [["commit", 20, "0_1_1_0", 7], ["hold", 20, "0_1_1_0", "ch1", 0],
     ["hold", 500, "0_1_1_0", "ch3", 0]],
    (insert(0, 1, 10, 50), read(1, [], 300, 310, node="ch3")),
)  # fmt: skip
FINALS = tuple(final(5 + i, [0], 600, 610, node=node) for i, node in enumerate(REPLICAS[1:]))
PHANTOM = Run(
    FIRST,
    (
        insert(0, 0, 1, 8),
        insert(1, 1, 10, 50, "info", error=KEPT),
        read(2, [0, 1], 60, 70),
        rest(500),
        final(4, [0, 1], 600, 610),
        *FINALS,
    ),
)
AGAIN = quorum("0_2_2_0", "ch2", 60, 80, ("ch1", 70), ("ch3", 78))
DOUBLED = Run(
    [*FIRST, *AGAIN],
    (
        insert(0, 0, 1, 8),
        insert(1, 1, 10, 50, "info", error=KEPT),
        insert(2, 1, 55, 85, node="ch2"),
        read(3, [0, 1, 1], 300, 310),
    ),
)
GIVEN_UP = Run(
    [
        ["commit", 20, "0_1_1_0", 7],
        ["hold", 20, "0_1_1_0", "ch1", 0],
        ["drop", 60, "0_1_1_0", "ch1", 0],
        *(["hold", 70, "0_1_1_0", node, 0] for node in REPLICAS),
    ],
    (
        insert(0, 1, 10, 50, "info", error="159 TIMEOUT_EXCEEDED"),
        insert(1, 1, 52, 58, node="ch2"),
        read(2, [], 300, 310),
    ),
    "25.8.2",
)
"""The part that comes later under the name is empty."""
RUNS = {
    "stale-read": STALE,
    "skipped-part": SKIPPED,
    "lagging-writer": LAGGING,
    "early-snapshot": EARLY,
    "overtaken-insert": OVERTAKEN,
    "merged-away": MERGED,
    "hidden-insert": HIDDEN,
    "unseen-write": UNSEEN,
    "phantom-part": PHANTOM,
    "doubled-insert": DOUBLED,
    "lost-retry": GIVEN_UP,
}


@pytest.mark.parametrize("name", RUNS)
def test_each_defect_is_recognized_by_its_mechanism(name: str) -> None:
    assert RUNS[name].explained() == ("known", [name])


SEEN_BEFORE = replace(
    UNSEEN,
    calls=(insert(0, 1, 10, 450), read(2, [1], 100, 110), read(1, [], 300, 310, node="ch3")),
)
"""The insert goes on for longer than both reads."""


def test_a_value_that_a_read_returned_must_be_in_later_ones_before_its_insert_ends() -> None:
    assert SEEN_BEFORE.explained() == ("known", ["unseen-write"])
    assert replace(SEEN_BEFORE, facts=[
        ["commit", 20, "0_1_1_0", 7],
        *(["hold", 20, "0_1_1_0", node, 0] for node in ("ch1", "ch3")),
    ]).explained() == NEW  # fmt: skip


def without(run: Run, *facts: Fact) -> Run:
    left = [fact for fact in run.facts if fact not in facts]
    assert len(left) == len(run.facts) - len(facts)
    return replace(run, facts=left)


def instead(run: Run, old: Fact, new: Fact) -> Run:
    return replace(without(run, old), facts=[*without(run, old).facts, new])


@pytest.mark.parametrize(
    ("why", "run"),
    [
        ("no fault, and too late", replace(STALE, calls=(*CALLS, LATE))),
        (
            "the fault is elsewhere",
            replace(STALE, calls=(*CALLS, fault(30, 900, "{zk2 | zk1 zk3}"), LATE)),
        ),
        (
            "the replica's server knew: a transaction of its own came after",
            replace(STALE, facts=[*STALE.facts, ["hold", 390, "7_0_0_0", "ch3", 0]]),
        ),
        (
            "acknowledged before its quorum",
            Run(
                [
                    *FIRST,
                    *quorum("0_1_1_0", "ch1", 20, 390, ("ch2", 380)),
                    ["hold", 950, "0_1_1_0", "ch3", 0],
                ],
                STALE.calls,
            ),
        ),
        ("the part never comes", without(SKIPPED, ["hold", 500, "0_1_1_0", "ch3", 0])),
        (
            "the part had been there for long",
            instead(
                SKIPPED, ["hold", 500, "0_1_1_0", "ch3", 0], ["hold", 100, "0_1_1_0", "ch3", 0]
            ),
        ),
        ("the version has no early snapshot", replace(EARLY, version="18.16.1")),
        ("18.16 does not merge these", replace(MERGED, version="18.16.1")),
        (
            "last_part goes back to another part than the one whose quorum ended",
            instead(OVERTAKEN, ["last", 95, "0", "0_1_1_0"], ["last", 95, "0", "0_0_0_0"]),
        ),
        (
            "the part was committed, and is missing elsewhere",
            replace(
                PHANTOM,
                facts=[*FIRST, ["commit", 20, "0_1_1_0", 7], ["hold", 20, "0_1_1_0", "ch1", 0]],
            ),
        ),
        (
            "both tries were committed",
            replace(
                DOUBLED,
                facts=[
                    *DOUBLED.facts,
                    ["commit", 20, "0_1_1_0", 7],
                    ["hold", 20, "0_1_1_0", "ch1", 0],
                ],
            ),
        ),
        (
            "a plain insert that the replica had",
            instead(
                UNSEEN, ["hold", 500, "0_1_1_0", "ch3", 0], ["hold", 100, "0_1_1_0", "ch3", 0]
            ),
        ),
        (
            "another replica had the first try's part before it was removed",
            replace(GIVEN_UP, facts=[*GIVEN_UP.facts, ["hold", 30, "0_1_1_0", "ch2", 0]]),
        ),
        ("the first try was not removed", without(GIVEN_UP, ["drop", 60, "0_1_1_0", "ch1", 0])),
        ("the trace is cut off", replace(SKIPPED, ended="more than 20,000 facts")),
    ],
)  # fmt: skip
def test_without_its_evidence_a_defect_explains_nothing(why: str, run: Run) -> None:
    assert run.explained()[0] != "known", why


def test_a_fetch_that_was_undone_leaves_nothing() -> None:
    undone = [["hold", 100, "0_1_1_0", "ch3", 0], ["drop", 150, "0_1_1_0", "ch3", 0]]
    run = replace(SKIPPED, facts=[*SKIPPED.facts, *undone])
    assert run.explained() == ("known", ["skipped-part"])


def half(odd: int) -> list[str]:
    return [name for at, name in enumerate(DEFECTS) if at % 2 == odd]


@pytest.mark.parametrize(
    ("name", "node", "vague", "status"),
    [
        ("clock-jump", "zk1", (), "known"),
        ("clock-jump", "zk1", None, "new"),
        ("clock-drift", "zk1", ((240, 600),), "new"),
        ("clock-drift", "zk1", ((35, 45), (260, 9000)), "known"),
        ("clock-drift", "zk1", ((35, 45, 10), (260, 9000, 8740)), "known"),
        ("clock-stop", "zk1", ((30, 510),), "new"),
        ("clock-stop", "zk1", ((8000, 9000),), "known"),
        ("clock-drift", "ch1", None, "known"),
    ],
)
def test_what_zookeeper_dated_by_a_wrong_clock_explains_what_it_does_at_any_time_that_it_had(
    name: str, node: str, vague: Sequence[Sequence[int]] | None, status: str
) -> None:
    calls = (*SKIPPED.calls, wrong_clock(name, node))
    assert replace(SKIPPED, calls=calls, vague=vague).explained()[0] == status


@pytest.mark.parametrize("odd", [0, 1])
def test_one_half_of_the_defects_explains_nothing_of_the_other(odd: int) -> None:
    judged = {name: RUNS[name].judged() for name in half(1 - odd) if name in RUNS}
    assert len(judged) >= 3
    for name, found in judged.items():
        invalid = [v for v in found.deciding if v.status is Status.INVALID]
        checkers = set_checkers(Level.LINEARIZABLE, faults_expected=False)
        again = triage(
            RUNS[name].history(), checkers, invalid, 60, WallClock(), names=half(odd)
        )  # fmt: skip
        # Overtaken inserts are what makes a merge hide rows, and remain known beside it.
        assert again.status != "known", name


def test_each_time_that_a_fact_may_have_had_may_have_a_defect_of_its_own() -> None:
    """A part that came during the read was looked for too early, and of one that came later the
    replica had not heard."""
    soon = read(1, [0], 52, 60, node="ch3")
    run = Run([*FIRST, *ONE, ["hold", 55, "0_1_1_0", "ch3", 0]], (*CALLS, soon), "25.8.2")
    late = replace(run, facts=[*FIRST, *ONE, ["hold", 80, "0_1_1_0", "ch3", 0]])
    either = replace(run, vague=((53, 80),))
    assert [one.explained() for one in (run, late, either)] == [
        ("known", ["early-snapshot"]),
        ("known", ["stale-read"]),
        ("known", ["early-snapshot"]),
    ]


def test_vague_facts_keep_their_order_at_every_time_that_they_may_have_had() -> None:
    run = replace(SKIPPED, vague=((50, 75), (70, 100)))
    precise, vague = (evidence_of(one.history()) for one in (SKIPPED, run))
    assert not precise.others
    held = [
        [one.commits["0_2_2_0"][0], *(one.acts[replica][-1] for replica in ("ch1", "ch3"))]
        for one in (vague.others[0], vague, vague.others[-1])
    ]
    assert held[1] == [60 * MS, 70 * MS, 500 * MS]
    assert held[0] == pytest.approx([50 * MS, 50 * MS + 1_000, 500 * MS], abs=5)
    assert held[2] == pytest.approx([75 * MS, 100 * MS - 2_000, 500 * MS], abs=5)
    for one in vague.others:
        times = [one.commits["0_2_2_0"][0], one.ended["0_2_2_0"]]
        assert times == sorted(times)
        assert one.last["0"][-1].own


def test_what_a_checker_cannot_decide_once_more_is_not_explained() -> None:
    run, checkers = SKIPPED, set_checkers(Level.LINEARIZABLE, faults_expected=False)
    late = [Late(one) for one in checkers]
    invalid = [v for v in run.judged().deciding if v.status is Status.INVALID]
    found = triage(run.history(), late, invalid, 60, WallClock())
    assert found.status != "known"
    assert "set-full UNKNOWN: not decided" in found.text


class Late:
    """A checker whose time is over."""

    def __init__(self, checker: Checker) -> None:
        self.name = checker.name

    def check(self, history: History) -> Verdict:
        return Verdict(
            checker=self.name,
            status=Status.UNKNOWN,
            summary="not decided",
            checked=0,
            cut_short=True,
        )


def test_an_early_snapshot_is_no_stale_read_where_it_is_not_known() -> None:
    soon = read(1, [0], 100, 110, node="ch3")
    facts = [*FIRST, *ONE, ["hold", 105, "0_1_1_0", "ch3", 0]]
    run = Run(facts, (*CALLS, soon), "25.8.2")
    assert run.explained() == ("known", ["early-snapshot"])
    checkers = set_checkers(Level.LINEARIZABLE, faults_expected=False)
    invalid = [v for v in run.judged().deciding if v.status is Status.INVALID]
    left = [name for name in DEFECTS if name != "early-snapshot"]
    found = triage(run.history(), checkers, invalid, 60, WallClock(), names=left)
    assert found.status == "new"


def test_two_defects_are_both_named_and_what_is_left_is_not_explained() -> None:
    lost = read(9, [], 700, 710, node="ch1")
    both = Run([*LAGGING.facts], (*LAGGING.calls, lost))
    status, names = both.explained()
    assert (status, names) == ("partly", ["lagging-writer"])
    found = both.judged().explanation
    assert found is not None
    assert found.text.startswith("not explained: set-full stale: value 0 of key 0")
    assert found.text.endswith("; beside it lagging-writer (known since 18.16.1)")


def test_the_text_names_each_defect_and_the_first_version_once() -> None:
    found = SKIPPED.judged().explanation
    assert found is not None
    assert found.text == "explained by skipped-part (known since 18.16.1)"
    (defect,) = found.defects
    assert defect.evidence == (
        "op #6 read on ch3: returned value 2 of 0_2_2_0, which had come before, and 0_1_1_0 of "
        "value 1 was registered there at 0.500 s"
    )
    pair = structs.replace(found, defects=(defect, structs.replace(defect, name="lagging-writer")))
    assert pair.text == "explained by skipped-part (known since 18.16.1), lagging-writer"


def test_results_keep_the_explanation() -> None:
    judged = SKIPPED.judged()
    assert judgement_of(judged.results()).explanation == judged.explanation
    assert judgement_of({**judged.results(), "explanation": None}).explanation is None


def test_a_run_that_recorded_nothing_is_not_explained() -> None:
    checkers = set_checkers(Level.LINEARIZABLE, faults_expected=False)
    told = judge(history(*SKIPPED.calls), checkers, 60, Level.LINEARIZABLE, explain=True)
    found = told.explanation
    assert isinstance(found, Cause)
    assert (found.status, found.why) == ("new", "the run recorded nothing of them")


def test_versions_decide_what_is_known() -> None:
    assert "early-snapshot" not in known_in([Version(18, 16, 1)])
    assert "early-snapshot" in known_in([Version(18, 16, 1), Version(25, 8, 2)])


@pytest.mark.parametrize("bug", [bug for bug in CASES if bug not in OF_SERVERS])
def test_a_planted_bug_is_not_explained(bug: str) -> None:
    case = CASES[bug]
    seen = [case.play(bug, seed).outcome.judgement for seed in case.seeds]
    found = [one.explanation for one in seen if one.status is Status.INVALID]
    if bug == "fetch-torn":  # it breaks no promise, only levels above it
        assert found == []
        return
    assert found
    assert "known" not in {one.status for one in found if one is not None}


def test_what_simulated_servers_do_as_18_16_does_is_explained() -> None:
    names: set[str] = set()
    for seed in range(1, 9):
        judged = play(seed, "partition", read="server", rate=100.0).outcome.judgement
        if judged.status is not Status.INVALID:
            continue
        assert judged.explanation is not None
        assert judged.explanation.status == "known", judged.explanation.text
        names |= {one.name for one in judged.explanation.defects}
    assert names >= {"stale-read"}


def test_what_simulated_servers_do_as_25_8_does_is_explained() -> None:
    """Their record names the version; 18.16.1 does not have this defect."""
    judged = play(22, "none", protocol="25.8", read="server", rate=60.0).outcome.judgement
    assert judged.explanation is not None
    assert judged.explanation.status == "known", judged.explanation.text
    assert [one.name for one in judged.explanation.defects] == ["early-snapshot"]


def test_a_defect_that_breaks_no_promise_says_so() -> None:
    found = explained_by([("stale-replace", "w"), ("overlapped", "w"), ("moved-away", "w")])
    assert Cause("known", tuple(found.values()), ()).text == (
        "explained by stale-replace (known since 24.8.0, nobody promises otherwise), "
        "overlapped (documented), moved-away"
    )

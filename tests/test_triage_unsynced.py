"""Values that power cuts took from every replica are explained by what the servers sync, only where
the record shows it. Times are in ms."""

from typing import Any

import pytest
from checkers_cases import fault, final, history, insert, read, rest
from test_triage_looks import NEW, Events, Fact, trace

from checkers.consistency.session import MONOTONIC_READS, SessionGuarantee
from checkers.headline import headline
from checkers.judge import Judgement, judge
from checkers.ladder import Level
from checkers.sets.convergence import Convergence
from checkers.sets.set_full import SetFull
from harness.core.verdict import Status

NODES = ("ch1", "ch2", "ch3")
PART = "0_1_1_0"
INSERTED = insert(0, 1, 10, 30)
OTHER = insert(1, 2, 80_000, 80_010)
AT_REST = (
    rest(95_000, ch1={}, ch2={}, ch3={}),
    *(final(5 + at, [2], 95_010, 95_020, node=node) for at, node in enumerate(NODES)),
)
FACTS: tuple[Fact, ...] = (
    ["begin", 15, PART, 2],
    ["commit", 15, PART, 7],
    ["hold", 15, PART, "ch1"],
    ["hold", 20, PART, "ch2"],
    ["end", 21, PART],
    ["drop", 300, PART, "ch1"],
    ["drop", 310, PART, "ch2"],
)
KNOWN = ("known", ["unsynced-parts"])


def cut(*nodes: str, at: float = 100, fsync: str = "default", number: int = 1) -> Events:
    more = {"takes": "unsynced", "nodes": list(nodes), "fsync": fsync}
    return fault(at, at + 50, " ".join(nodes), "power-cut", number, invoked=at - 5, **more)


def judged(*calls: Events) -> Judgement:
    checkers = (SetFull(linearizable=False, copies=2), Convergence())
    every = history(INSERTED, OTHER, *calls, *AT_REST)
    found = judge(every, checkers, 60, Level.EVENTUAL, explain=True)
    assert found.status is Status.INVALID
    return found


@pytest.mark.parametrize(
    ("about", "faults", "facts", "expected"),
    [
        ("power was cut on all", cut(*NODES), (), KNOWN),
        ("on both that had it", cut("ch1", "ch2"), FACTS, KNOWN),
        ("on both, nobody knows which", cut("ch1", "ch2"), (), NEW),
        ("on one of two", cut("ch1"), FACTS, NEW),
        ("one after the other", cut("ch1") + cut("ch2", at=170, number=2), FACTS, KNOWN),
        ("a third one merged what was left", cut("ch1", "ch2"),
         (*FACTS[:5], ["hold", 400, "0_0_2_1", "ch3"]), KNOWN),
        ("a third one fetched it after that", cut("ch1", "ch2"),
         (*FACTS[:5], ["hold", 400, PART, "ch3"]), NEW),
        ("a third one had it by then", cut("ch1", "ch2"),
         (*FACTS[:5], ["hold", 60, PART, "ch3"], *FACTS[5:]), NEW),
        ("before it was inserted", cut(*NODES, at=8), FACTS, NEW),
        ("what was inserted was synced", cut(*NODES, fsync="inserts"), FACTS, NEW),
        ("after the kernel had written it", cut(*NODES, at=40_000), FACTS, NEW),
        ("after that, but it was merged", cut(*NODES, at=40_000),
         (*FACTS[:5], ["hold", 30_000, "0_0_1_1", "ch1"], ["hold", 30_000, "0_0_1_1", "ch2"]),
         KNOWN),
    ],
    ids=lambda one: one if isinstance(one, str) and " " in one else "",
)  # fmt: skip
def test_what_no_server_had_synced_is_explained_by_the_setting(
    about: str, faults: Events, facts: tuple[Fact, ...], expected: Any
) -> None:
    found = judged(faults, trace("25.8.2", *facts)).explanation
    assert found is not None
    assert (found.status, [one.name for one in found.defects]) == expected, about


def test_a_replica_that_merged_what_was_left_never_shows_the_value() -> None:
    facts = (*FACTS[:5], ["hold", 400, "0_0_2_1", "ch3"])
    shown = read(7, [1], 500, 510, node="ch3")
    found = judged(cut("ch1", "ch2"), shown, trace("25.8.2", *facts)).explanation
    assert found is not None
    assert found.status == "new"


@pytest.mark.parametrize(
    ("about", "faults", "last", "expected"),
    [
        (
            "power was cut on both that had it",
            cut("ch1") + cut("ch2", at=170, number=2),
            [2],
            KNOWN,
        ),
        ("on one of them", cut("ch1"), [2], NEW),
        ("before it was inserted", cut("ch1", "ch2", at=8), [2], NEW),
        ("it comes back", cut("ch1", "ch2"), [1, 2], None),
    ],
    ids=lambda one: one if isinstance(one, str) and " " in one else "",
)
def test_so_is_a_value_without_an_answer_that_a_read_had_returned(
    about: str, faults: Events, last: list[int], expected: Any
) -> None:
    seen = read(7, [1], 40, 50)
    missed = read(7, [2] if last == [2] else [1, 2], 90_000, 90_010)
    finals = (final(5 + at, last, 95_010, 95_020, node=node) for at, node in enumerate(NODES))
    every = history(
        insert(0, 1, 10, 30, "info", error="-1 CONNECTION_LOST: ch1: the server ended"),
        OTHER, seen, faults, trace("25.8.2", *FACTS), missed, AT_REST[0], *finals,
    )  # fmt: skip
    judgement = judge(every, (SessionGuarantee(MONOTONIC_READS),), 60, Level.SESSION, explain=True)
    found = judgement.explanation
    got = None if found is None else (found.status, [cause.name for cause in found.defects])
    assert got == expected, about


def test_the_setting_and_the_option_that_changes_it_are_named() -> None:
    found = judged(cut(*NODES), trace("25.8.2"))
    assert headline(found) == (
        "lost insert, 1 of 2 inserts; explained by the setting --fsync default; --fsync inserts "
        "makes acknowledged parts durable"
    )
    assert found.explanation is not None
    assert found.explanation.text == (
        "explained by the setting --fsync default; --fsync inserts makes acknowledged parts durable"
    )
    assert found.explanation.defects[0].evidence == (
        "value 1 was acknowledged at 0.030 s, and power was cut on every replica that may have had "
        "it before it was synced: ch1 (0.095 s), ch2 (0.095 s), ch3 (0.095 s)"
    )

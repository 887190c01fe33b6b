"""The explorer against the plainest search; its command; its counterexamples as histories."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from harness.cli.main import app
from harness.core.op import Kind
from harness.native.explorer import MODELS, Exploration
from harness.sim.bugs import BUGS, OF_SERVERS, PROTOCOLS
from harness.sim.counterexample import history_of
from harness.store.store import Store
from harness.web.runs import Runs
from tests import sim_naive as naive
from tests.sim_naive_quorum import quorum_of
from tests.sim_naive_sharing import zero_copy


def explored(model: str, **scope: Any) -> Exploration:
    search = Exploration(model, **scope)
    while not search.advance(1):
        pass
    return search


def explore(tmp_path: Path, *words: str) -> tuple[int, dict[str, Any]]:
    words = ("explore", *words, "--json", "--store", str(tmp_path))
    outcome = CliRunner().invoke(app, words, standalone_mode=False)
    assert outcome.exception is None, outcome.exception
    return outcome.return_value, json.loads(outcome.stdout)


AGREE: list[tuple[str, dict[str, Any], Callable[[], tuple[int, int]]]] = [
    (
        "quorum",
        {"replicas": 2, "records": 2, "reads": 2},
        lambda: naive.quorum(2, 2, 2, "server"),
    ),
    (
        "quorum",
        {"replicas": 3, "records": 2, "reads": 1, "read": "linearizable"},
        lambda: naive.quorum(3, 2, 1, "linearizable"),
    ),
    (
        "quorum",
        {"replicas": 3, "records": 2, "reads": 1, "skip_failed": True},
        lambda: naive.quorum(3, 2, 1, "server", skip=True),
    ),
    (
        "quorum",
        {"replicas": 2, "records": 3, "reads": 1, "skip_failed": True},
        lambda: naive.quorum(2, 3, 1, "server", skip=True),
    ),
    ("truncation", {"replicas": 3, "records": 4}, lambda: naive.truncation(3, 4)),
    ("truncation", {"replicas": 2, "records": 6}, lambda: naive.truncation(2, 6)),
    (
        "truncation",
        {"replicas": 3, "records": 3, "mutant": "max-for-min"},
        lambda: naive.truncation(3, 3, max),
    ),
    ("replication", {"replicas": 2, "records": 3}, lambda: naive.replication(2, 3)),
    ("replication", {"replicas": 3, "records": 2}, lambda: naive.replication(3, 2)),
    (
        "replication",
        {"replicas": 3, "records": 2, "protocol": (["many-leaders"], [])},
        lambda: naive.replication(3, 2, many_leaders=True),
    ),
    ("zero-copy", {"replicas": 1, "records": 2}, lambda: zero_copy(1, 2)),
    ("zero-copy", {"replicas": 2, "records": 1}, lambda: zero_copy(2, 1)),
]


RETRIES = frozenset({"insert-retries"})
NOT_EXPRESSED = frozenset(
    {
        *("clone-unwaited", "clone-keeps-dropped", "undone-alter", "stale-leader-claim"),
        *("clone-uncounted", "pending-merged", "failed-duplicate", "attach-own-copy"),
        *("shortage-as-broken", "old-parts-by-wall", "acknowledged-failure"),
        *("broken-part-fetched", "copied-part", "lost-part-unreplaced"),
        *("moved-away", "hidden-by-move", "half-moved", "stale-replace", "unmutated-copy"),
        *("crossed-copies", "doubled-view", "forgotten-insert"),
    }
)
"""Defects of servers that no small model has: of clones, ALTERs, claims to lead, detached parts,
merges and retries of parallel quorum inserts, descriptors, ages of parts, of parts that are
unreadable or lost, of partitions that move, of views, and of blocks whose rows are deleted."""
DEFECTS = next(frozenset(defects) for model, *_, defects in MODELS if model == "quorum")


def by_protocol(mechanisms: frozenset[str], defects: frozenset[str], **scope: Any) -> Exploration:
    return explored("quorum", protocol=(sorted(mechanisms), sorted(defects)), **scope)


@pytest.mark.parametrize(
    ("mechanisms", "defects", "scope"),
    [
        (frozenset(), frozenset(), {"replicas": 2, "read": "linearizable"}),
        (frozenset(), PROTOCOLS["18.16"].defects & DEFECTS, {"replicas": 2, "read": "server"}),
        (RETRIES, PROTOCOLS["25.8"].defects & DEFECTS, {"replicas": 2, "read": "server"}),
        (
            frozenset(),
            frozenset({"early-snapshot", "failed-part-kept", "quorum-uncounted"}),
            {"replicas": 2, "read": "linearizable", "parallel": True},
        ),
        (
            frozenset(),
            frozenset({"quorum-aba", "failed-part-fetched", "last-part-back"}),
            {"replicas": 3, "records": 1, "read": "server"},
        ),
    ],
)
def test_the_plainest_search_counts_the_same_by_protocol(
    mechanisms: frozenset[str], defects: frozenset[str], scope: dict[str, Any]
) -> None:
    scope = {"records": 2, **scope}
    search = by_protocol(mechanisms, defects, **scope)
    assert (search.states, search.depth) == quorum_of((mechanisms, defects), **scope)


def test_the_models_have_the_defects_of_servers() -> None:
    assert not DEFECTS - BUGS.keys()
    assert OF_SERVERS - DEFECTS == NOT_EXPRESSED


@pytest.mark.parametrize("protocol", ["repaired", "repaired-25.8"])
def test_a_repaired_protocol_holds(tmp_path: Path, protocol: str) -> None:
    status, found = explore(tmp_path, "quorum", "--protocol", protocol, "--symmetry")
    assert (status, found["ended"], found["scope"]["read"]) == (0, "whole", "linearizable")
    applied = {claim["name"] for claim in found["claims"] if claim["applied"]}
    assert {c["name"] for c in found["claims"]} - applied == {"merged-shown"}, "of --read server"


@pytest.mark.parametrize(
    ("defect", "words", "claim", "actions"),
    [
        ("quorum-aba", (), "durable", 12),
        ("last-part-late", (), "last-part-highest", 12),
        ("last-part-back", (), "last-part-highest", 12),
        ("phantom-part", (), "no-phantom", 3),
        ("failed-part-missed", (), "failed-gone", 6),
        ("failed-part-kept", (), "failed-gone", 6),
        ("failed-part-fetched", (), "failed-gone", 6),
        ("early-snapshot", (), "reads-have-last", 10),
        ("lost-retry", (), "equal-at-rest", 5),
        ("quorum-uncounted", (), "durable", 4),
        ("merged-away", ("--protocol", "18.16"), "merged-shown", 13),
    ],
)
def test_each_defect_is_found_and_its_repair_holds(
    tmp_path: Path, defect: str, words: tuple[str, ...], claim: str, actions: int
) -> None:
    words = words or ("--protocol", "repaired")
    scope = ("quorum", *words, "--symmetry", "--claim", claim)
    status, found = explore(tmp_path, *scope, "--mutant", defect)
    assert (status, found["ended"]) == (1, "whole")
    assert found["counterexample"]["actions"] == actions
    status, found = explore(tmp_path, *scope, "--mutant", defect, "--fix", defect)
    assert found["counterexample"] is None
    assert len(Store(tmp_path).find("latest").history()) > 0


def test_25_8_reads_without_the_last_part_and_18_16_does_not(tmp_path: Path) -> None:
    words = ("quorum", "--symmetry", "--claim", "reads-have-last")
    status, found = explore(tmp_path, *words, "--protocol", "25.8")
    assert (status, found["counterexample"]["actions"]) == (1, 10)
    run = Store(tmp_path).find(found["run"])
    assert run.info().spec.command == ("harness explore quorum --protocol 25.8 --symmetry")
    assert run.results()["status"] == "INVALID", "the clients see it"
    assert explore(tmp_path, *words, "--protocol", "18.16")[0] == 0


def test_parallel_quorums_are_durable_and_not_for_sequential_reads(tmp_path: Path) -> None:
    words = ("quorum", "--protocol", "25.8", "--parallel", "--symmetry")
    fixes = [word for name in PROTOCOLS["25.8"].defects & DEFECTS for word in ("--fix", name)]
    status, found = explore(tmp_path, *words, *fixes)
    broken = {c["name"] for c in found["claims"] if c["broken_after"] is not None}
    assert (status, broken) == (1, {"reads-of-ended", "reads-in-order", "reads-are-recent"})
    status, found = explore(tmp_path, *words, *fixes, "--read", "linearizable")
    assert (status, found["ended"]) == (0, "whole")


def test_many_leaders_hold(tmp_path: Path) -> None:
    status, found = explore(tmp_path, "replication", "--protocol", "25.8")
    assert (status, found["ended"]) == (0, "whole")
    of = {claim["name"]: claim for claim in found["claims"]}
    assert of["one-leader"]["applied"] == 0
    status, found = explore(
        tmp_path, "replication", "--protocol", "25.8", "--mutant", "stale-leader"
    )
    assert (status, found["counterexample"]["claim"]) == (1, "no-intersection")


@pytest.mark.parametrize(("model", "scope", "plainly"), AGREE)
def test_the_plainest_search_counts_the_same(
    model: str, scope: dict[str, Any], plainly: Callable[[], tuple[int, int]]
) -> None:
    search = explored(model, **scope)
    assert (search.states, search.depth) == plainly()


def test_reads_of_the_server_go_backwards_and_harness_check_says_so(tmp_path: Path) -> None:
    status, found = explore(tmp_path, "quorum", "--claim", "reads-in-order")
    assert (status, found["status"], found["ended"]) == (1, "INVALID", "whole")
    assert (found["states"], found["depth"]) == (20_952, 17)
    assert found["counterexample"]["actions"] == 8
    outcome = CliRunner().invoke(
        app, ["check", found["run"], "--json", "--store", str(tmp_path)], standalone_mode=False
    )
    assert outcome.return_value == 1
    held = {v["checker"]: v["status"] for v in json.loads(outcome.stdout)["verdicts"]}
    assert held["linearizable"] == "INVALID"
    assert held["monotonic-reads"] == "INVALID"
    (listed,) = Runs(Store(tmp_path)).all()
    assert (listed.workload, listed.status) == ("explore-quorum", "INVALID"), "no quorum-set run"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), True),
        (("--mutant", "pending-visible"), False),
        (("--read", "linearizable"), False),
        (("--protocol", "25.8"), False),
    ],
)
def test_the_known_answer_is_called_so(tmp_path: Path, words: tuple[str, ...], said: bool) -> None:
    outcome = CliRunner().invoke(app, ["explore", "quorum", *words, "--store", str(tmp_path)])
    assert ("That is the known answer" in outcome.output) is said
    assert outcome.output.splitlines()[-1].startswith(("INVALID: ", "VALID: "))


def test_linearizable_reads_hold(tmp_path: Path) -> None:
    status, found = explore(tmp_path, "quorum", "--read", "linearizable")
    assert (status, found["states"], found["depth"], found["run"]) == (0, 18_744, 17, None)
    assert all(claim["broken_after"] is None for claim in found["claims"])
    assert all(claim["applied"] > 0 for claim in found["claims"])


def test_what_is_not_finished_is_unknown(tmp_path: Path) -> None:
    status, found = explore(tmp_path, "truncation", "--states-max", "1000")
    assert (status, found["status"], found["ended"]) == (2, "UNKNOWN", "states")
    assert found["states"] == 1000
    assert found["frontier"] > 0


def test_a_claim_that_says_nothing_is_unknown(tmp_path: Path) -> None:
    status, _ = explore(tmp_path, "quorum", "--reads", "0", "--claim", "reads-in-order")
    assert status == 2


def test_a_counterexample_says_what_clients_saw() -> None:
    search = explored("quorum")
    steps = search.trace("reads-are-recent")
    assert steps is not None
    seen = [(op.kind, op.f, op.node, op.value) for op in history_of("quorum", steps)]
    assert seen == [
        (Kind.INVOKE, "insert", "ch1", 1),
        (Kind.OK, "insert", "ch1", 1),
        (Kind.INVOKE, "insert", "ch3", 2),
        (Kind.OK, "insert", "ch3", 2),
        (Kind.INVOKE, "read", "ch1", None),
        (Kind.OK, "read", "ch1", (1,)),
    ]


def test_a_read_whose_replica_loses_its_session_fails_and_the_next_one_begins() -> None:
    names = (None, "BeginRead", "BecomeInactive", "BeginRead", "Read")
    replicas = (None, 0, 0, 1, 1)
    steps: list[Any] = [
        SimpleNamespace(action=name, replica=replica, other=None, visible=[[1], [1]])
        for name, replica in zip(names, replicas, strict=True)
    ]
    history = history_of("quorum", steps)
    reads = [(op.kind, op.node, op.value) for op in history if op.f == "read"]
    assert reads == [
        (Kind.INVOKE, "ch1", None),
        (Kind.FAIL, "ch1", None),
        (Kind.INVOKE, "ch2", None),
        (Kind.OK, "ch2", (1,)),
    ]


@pytest.mark.parametrize(
    ("words", "claim", "actions"),
    [
        (("quorum", "--mutant", "uncounted", "--claim", "durable"), "durable", 2),
        (("truncation", "--mutant", "max-for-min"), "valid-log-pointer", 3),
        (("replication", "--mutant", "covered-fetched", "--symmetry"), "no-intersection", 5),
    ],
)
def test_counterexamples_are_shortest_and_kept(
    tmp_path: Path, words: tuple[str, ...], claim: str, actions: int
) -> None:
    status, found = explore(tmp_path, *words)
    shown = found["counterexample"]
    assert (status, shown["claim"], shown["actions"]) == (1, claim, actions)
    run = Store(tmp_path).find(found["run"])
    assert len(run.history()) > 0
    assert run.info().spec.command.startswith(f"harness explore {words[0]}")


ZERO_COPY = ("lock-first", "resume", "durable-marker", "exclusive-move", "refuse-downgrade")


def sharing(without: str = "", **scope: Any) -> Exploration:
    """Return the exploration of zero-copy replication with every fix but one."""
    fixes = [name for name in ZERO_COPY if name != without]
    return explored("zero-copy", **{"replicas": 2, "records": 2, "fixes": fixes, **scope})


def broken(search: Exploration) -> dict[str, int]:
    return {c.name: c.broken_after for c in search.claims() if c.broken_after is not None}


def test_every_race_of_zero_copy_replication_is_found(tmp_path: Path) -> None:
    status, found = explore(tmp_path, "zero-copy", "--replicas", "3", "--records", "1")
    assert (status, found["states"], found["depth"]) == (1, 72_514, 31)
    assert {c["name"]: c["broken_after"] for c in found["claims"] if c["broken_after"]} == {
        "referenced-exists": 9,
        "locked-exists": 9,
        "no-orphan": 4,
        "no-idle-lock": 5,
        "moved-once": 7,
    }
    assert found["counterexample"]["claim"] == "no-orphan"
    run = Store(tmp_path).find(found["run"])
    seen = [(op.f, op.value) for op in run.history() if op.kind is Kind.OK]
    assert [f for f, _ in seen] == ["dead", *["read"] * 3]
    assert [value for _, value in seen[1:]] == [(1,)] * 3, "from their disks"


def test_zero_copy_replication_holds_with_every_fix() -> None:
    search = sharing()
    assert (search.ended, search.states, search.depth) == ("whole", 65_566, 29)
    assert broken(search) == {}
    applied = {c.name for c in search.claims() if c.applied}
    assert applied == {c.name for c in search.claims()} - {"downgrade-harmless", "comes-to-rest"}


@pytest.mark.parametrize(
    ("without", "scope", "claims"),
    [
        ("lock-first", {}, {"referenced-exists": 9, "locked-exists": 9}),
        ("resume", {}, {"no-orphan": 4, "no-idle-lock": 3}),
        ("durable-marker", {}, {"merged-once": 17}),
        ("exclusive-move", {}, {"moved-once": 7}),
        ("refuse-downgrade", {"mutant": "downgrade", "records": 1}, {"downgrade-harmless": 9}),
        ("", {"mutant": "downgrade", "records": 1}, {}),
        ("", {"mutant": "one-lock-path"}, {"referenced-exists": 9}),
        ("", {"mutant": "unchecked-delete"}, {"referenced-exists": 6, "locked-exists": 6}),
    ],
)
def test_each_fix_of_zero_copy_replication_is_needed(
    without: str, scope: dict[str, Any], claims: dict[str, int]
) -> None:
    search = sharing(without, **scope)
    assert (search.ended, broken(search)) == ("whole", claims)


def test_duplicates_of_a_counterexample_are_seen_by_the_checkers(tmp_path: Path) -> None:
    _, found = explore(tmp_path, "replication", "--mutant", "covered-fetched")
    results = Store(tmp_path).find(found["run"]).results()
    assert results["status"] == "INVALID"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("truncation", "--quorum", "3"), "--quorum: model truncation has no such option"),
        (("truncation", "--mutant", "x"), 'mutant "x": expected one of max-for-min'),
        (("quorum", "--replicas", "9"), "replicas: 9 given, expected 1 to 8"),
        (("quorum", "--claim", "x"), "--claim 'x': expected some of types durable"),
        (("zero-copy", "--fix", "x"), 'fix "x": expected some of lock-first'),
        (("truncation", "--protocol", "25.8"), "--protocol: model truncation has no protocols"),
        (("quorum", "--protocol", "25.8", "--reads", "1"), "such option with --protocol 25.8"),
        (("quorum", "--parallel"), "--parallel: model quorum has no such option"),
        (("quorum", "--protocol", "18.16", "--parallel"), "--parallel: 18.16 lacks parallel"),
        (("quorum", "--protocol", "18.16", "--fix", "x"), 'fix "x": expected some of quorum-aba'),
    ],
)
def test_refusals(words: tuple[str, ...], said: str) -> None:
    outcome = CliRunner().invoke(app, ["explore", *words], standalone_mode=False)
    assert said in str(outcome.exception)

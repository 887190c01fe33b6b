"""The workload `statements` on simulated servers: what a repaired protocol keeps, which defects of
25.8 and which planted bugs the checker finds, and what is refused."""

import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any

import pytest
from sim_play import Played, play

from checkers.statements.rows import StatementRows
from checkers.triage.explanation import KNOWN
from workloads import statement_presets

EVERY = "move,replace,attach-from,drop,delete,update,optimize"
TWICE = f"insert-retried,{EVERY}"


def played(bug: str, seed: int, nemesis: str = "none", **options: Any) -> Played:
    """Execute the workload, which expects no more than what a replica has."""
    own = {"statements": EVERY, "sees": "local", "protocol": "repaired-25.8", "time_limit_s": 20.0}
    faults = {"interval_s": 1.5, "duration_s": 1.0, "promise": "eventual"}
    given = {**own, **faults, **options}
    return play(seed, nemesis, bug=bug, name="statements", **given)


def drop_partition(seed: int, nemesis: str, **options: Any) -> Played:
    """Execute the workload of this name."""
    faults = {"interval_s": 1.5, "duration_s": 1.0, "promise": "eventual"}
    return play(seed, nemesis, name="drop-partition", **faults, **options)


@pytest.mark.parametrize("nemesis", ["none", "partition", "kill-clickhouse"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_repaired_protocol_keeps_what_its_replicas_have(nemesis: str, seed: int) -> None:
    run = played("", seed, nemesis)
    assert not run.accusers
    verdicts = {verdict.checker: verdict for verdict in run.outcome.judgement.verdicts}
    assert int(str(verdicts[StatementRows.name].figures["rows"])) > 50


@pytest.mark.parametrize(
    ("seed", "nemesis"),
    [
        (110, "partition-halves"),  # parts of a drop that was not answered before the clone
        (0x683, "partition,kill"),  # a drop on its way to a leader that is killed
    ],
)
def test_a_drop_that_is_cut_off_ends_and_leaves_nothing(
    seed: int, nemesis: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The replicas are lost while they are away."""
    monkeypatch.setattr(statement_presets, "WHOLE_LOG", {})
    few = {"protocol": "repaired", "time_limit_s": 6.0, "rate": 40.0}
    assert not drop_partition(seed, nemesis, **few).accusers


def test_a_row_of_a_part_that_was_never_registered_is_explained() -> None:
    run = drop_partition(178, "pause", protocol="18.16", time_limit_s=10.0)
    cause = run.outcome.judgement.explanation
    assert run.accusers == {StatementRows.name}
    assert cause is not None
    assert (cause.status, [defect.name for defect in cause.defects]) == (KNOWN, ["phantom-part"])


def test_drop_partition_loses_no_replica_whose_clone_would_keep_what_is_dropped() -> None:
    """18.16.1 does that; the scenario returned-rows shows it."""
    run = drop_partition(0x6F2782B5, "partition", protocol="18.16", time_limit_s=10.0)
    assert not run.accusers


@pytest.mark.parametrize(
    ("seed", "nemesis", "options"),
    [
        # an UPDATE and an insert in flight, which a REPLACE did not copy
        (0x5A0003B3, "partition,pause", {"sync": True}),
        # a DELETE with a number between those of the copies of a MOVE
        (0x70001225, "loss,restart", {"sync": True}),
        # a DROP at a ZooKeeper server that does not know the partition yet
        (0x70002563, "partition,pause", {"tables": 4}),
        # an insert that met its own block on another replica, and kept its number
        (0x7300004B, "jitter", {"statements": TWICE}),
        # blocks that were sent again after a DELETE of their rows
        (0x74000098, "power-cut", {"statements": TWICE, "tables": 4}),
        (0x740001A5, "memory-limit", {"statements": TWICE, "ttl": True}),
        (0x7400021D, "clock-strobe", {"statements": TWICE, "sees": "local"}),
        # a read on a replica whose insert was a duplicate of a part that it had yet to fetch
        (
            0x760022A3,
            "partition-majority",
            {"statements": TWICE, "sees": "local", "reads": True},
        ),
    ],
)
def test_statements_have_an_order(seed: int, nemesis: str, options: dict[str, Any]) -> None:
    short = {"sees": "acknowledged", "time_limit_s": 6.0, "rate": 40.0, "fsync": "all"}
    assert not played("", seed, nemesis, **{**short, **options}).accusers


@pytest.mark.parametrize(
    ("seed", "nemesis", "options"),
    [
        # a replica gave up a copy of another table's part that others had yet to make
        (0x700037BC, "disk-eio-reads", {"tables": 4}),
        # the same, and parts whose merge was given up were not mutated any more
        (0x71001024, "disk-eio-reads", {}),
        # a merged part was on the disk alone that was replaced
        (0x70004AEA, "replace", {"sees": "local"}),
        # a part was checked, and fetched again, while a drop removed it
        (0x78000A03, "disk-eio", {"statements": TWICE, "sees": "local"}),
    ],
)
def test_what_reads_that_fail_leave_is_the_same_everywhere(
    seed: int, nemesis: str, options: dict[str, Any]
) -> None:
    short = {"sees": "acknowledged", "time_limit_s": 6.0, "rate": 40.0, "fsync": "all"}
    assert not played("", seed, nemesis, **{**short, **options}).accusers


def test_a_part_that_is_checked_while_a_drop_removes_it_is_back_on_its_replica() -> None:
    """A fetch of the part outlives the drop; no replica has it any more, so that its source parts,
    which are still on the disk, are shown again, and mutations wait for them for good."""
    options = {"statements": TWICE, "time_limit_s": 6.0, "rate": 40.0, "fsync": "all"}
    assert played("drop-unpaused", 0x78000A03, "disk-eio", **options).accusers


@dataclass(frozen=True)
class Case:
    """A run that shows a bug."""

    nemesis: str
    seed: int
    options: dict[str, Any] = field(default_factory=dict)


MOVES = {"statements": "move"}
CASES = {
    "moved-away": Case("stop-fetches-one", 2, {**MOVES, "rate": 60.0}),
    "hidden-by-move": Case(
        "partition", 4, {**MOVES, "rate": 100.0, "interval_s": 0.3, "duration_s": 6.0}
    ),
    "stale-replace": Case(
        "stop-fetches-one", 2, {"statements": "replace", "rate": 60.0, "sees": "acknowledged"}
    ),
    "half-moved": Case(
        "kill-clickhouse", 1, {**MOVES, "rate": 100.0, "interval_s": 0.5, "sees": "acknowledged"}
    ),
    "drop-later": Case(
        "jitter",
        44,
        {
            "statements": "drop",
            "rate": 200.0,
            "interval_s": 0.5,
            "duration_s": 2.0,
            "time_limit_s": 15.0,
        },
    ),
    "crossed-copies": Case(
        "partition-one",
        0x51000003,
        {"rate": 40.0, "sees": "acknowledged", "sync": True, "time_limit_s": 6.0, "fsync": "all"},
    ),
    "unmutated-copy": Case(
        "none",
        4,
        {"statements": "attach-from,delete,update", "rate": 100.0, "sees": "acknowledged"},
    ),
    "replace-keeps-range": Case("none", 1, {"statements": "replace", "rate": 60.0}),
    "replace-deduplicated": Case(
        "none", 1, {"statements": "replace,attach-from", "rate": 60.0, "sees": "acknowledged"}
    ),
    "copy-skips-part": Case(
        "partition", 1, {"statements": "attach-from,delete,drop", "rate": 60.0}
    ),
    "move-drops-later": Case("none", 1, {**MOVES, "rate": 100.0}),
    "inserts-uncancelled": Case(
        "jitter", 5, {**MOVES, "rate": 200.0, "interval_s": 0.5, "duration_s": 2.0}
    ),
    "partition-unversioned": Case(
        "partition-one",
        37,
        {
            "statements": "replace,move,drop",
            "rate": 100.0,
            "interval_s": 0.5,
            "sees": "acknowledged",
        },
    ),
    "copy-keeps-version": Case(
        "none", 2, {"statements": "move,update,delete", "rate": 60.0, "time_limit_s": 30.0}
    ),
}


VIEWED = {"view": True, "sees": "acknowledged"}
CASES |= {
    "view-forgets": Case("none", 1, {**VIEWED, "statements": "insert-retried,update"}),
    "ttl-keeps": Case("none", 1, {"ttl": True, "statements": "move,update", "rate": 60.0}),
    "ttl-early": Case("none", 1, {"ttl": True, "statements": "move,update", "rate": 60.0}),
    "ttl-whole-part": Case(
        "none", 2, {"ttl": True, "statements": "move,update,optimize", "rate": 60.0}
    ),
    "forgotten-insert": Case(
        "none",
        8,
        {
            "statements": "insert-retried,delete",
            "inserts": 0.3,
            "rate": 100.0,
            "sees": "acknowledged",
        },
    ),
}


@pytest.mark.parametrize("bug", CASES)
def test_a_bug_of_copies_is_found(bug: str) -> None:
    case = CASES[bug]
    run = played(bug, case.seed, case.nemesis, **case.options)
    assert run.accusers == {StatementRows.name}
    assert not played("", case.seed, case.nemesis, **case.options).accusers


def test_mutations_finds_one_that_changes_rows_which_came_later() -> None:
    def accusers(bug: str) -> set[str]:
        return set(play(1, "none", bug=bug, name="mutations", protocol="repaired").accusers)

    assert accusers("mutation-late") == {StatementRows.name}
    assert not accusers("")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["statements=move"], "needs partitions that move to another table"),
        (["statements=replace"], "needs partitions copied between tables"),
    ],
)
def test_servers_of_18_16_refuse_what_they_do_not_simulate(options: list[str], why: str) -> None:
    command = [sys.executable, "-m", "harness.cli.main", "run", "--cluster", "sim"]
    words = ["--workload", "statements", "--protocol", "18.16", "-o", *options]
    done = subprocess.run([*command, *words], capture_output=True, text=True, check=False)
    assert done.returncode not in (0, 1)
    assert why in done.stderr

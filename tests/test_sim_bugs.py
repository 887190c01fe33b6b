"""Every planted bug is caught, by the checker that should; the same runs without it are not
accused by that checker. Some 3 s of CPU a bug."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from sim_play import Played, play

from harness.clients.connect import connect
from harness.clients.replicated_table import ReplicatedTable, TableSchema
from harness.clusters.sim_cluster import SimCluster
from harness.core.errors import UsageError
from harness.core.op import Call
from harness.core.protocols import Generator, clock_of
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.generators.calls import numbered
from harness.generators.timing import rate
from harness.sim.bugs import BUGS, bugs
from workloads.quorum_set import QuorumSet


class Retried(QuorumSet):
    """Every value is inserted four times, on whichever replica is free."""

    def generator(self) -> Generator:
        return rate(numbered(retried), 50, self.seed)


def retried(number: int) -> Call:
    if number % 5 == 4:
        return Call(f="read", key=0)
    return Call(f="insert", key=0, value=number // 5)


@dataclass(frozen=True)
class Case:
    """A run that shows a bug."""

    by: str
    """The checker that must say INVALID."""
    nemesis: str = "none"
    seed: int = 1
    options: dict[str, Any] = field(default_factory=dict)

    def play(self, bug: str) -> Played:
        options = {"read": "linearizable", "rate": 100.0, "time_limit_s": 10.0, **self.options}
        return play(self.seed, self.nemesis, bug=bug, **options)


PLAIN = {"insert": "plain", "read": "plain", "promise": "eventual"}

CASES = {
    "quorum-uncounted": Case("protocol"),
    "last-part-back": Case("set-full", options={"read": "server"}),
    "ack-early": Case("linearizable"),
    "dedup-per-replica": Case("set-full", options={"workload": Retried, **PLAIN}),
    "dedup-forgotten": Case(
        "set-full", "restart-clickhouse-one", options={"workload": Retried, **PLAIN}
    ),
    "failed-part-kept": Case(
        "convergence",
        "kill-clickhouse-one,stop-fetches-minority",
        options={"read": "plain", "promise": "eventual", "duration_s": 25.0, "time_limit_s": 60.0},
    ),
    "truncate-max": Case(
        "protocol", "pause-clickhouse,stop-fetches", options={"time_limit_s": 20.0}
    ),
    "clone-lost": Case(
        "protocol",
        "kill-clickhouse-majority",
        options={**PLAIN, "duration_s": 15.0, "time_limit_s": 40.0},
    ),
    "lost-unmarked": Case(
        "set-full", "kill-clickhouse-one", options={"time_limit_s": 30.0, "duration_s": 9.0}
    ),
    "clone-no-parts": Case(
        "set-full", "kill-clickhouse-one", options={"time_limit_s": 30.0, "duration_s": 9.0}
    ),
    "merge-order": Case("protocol"),
    "merge-drops": Case("set-full"),
    "merge-gap": Case("set-full", "pause-clickhouse-one", options={**PLAIN, "time_limit_s": 20.0}),
    "fetch-torn": Case("monotonic-reads", "stop-fetches", options={**PLAIN, "time_limit_s": 20.0}),
    "session-immortal": Case("protocol", "kill-clickhouse-one"),
    "stale-leader-merges": Case("protocol", "partition", options={"time_limit_s": 20.0}),
    "watch-missed": Case("protocol"),
    "keeper-unsynced": Case("set-full", "kill-zookeeper-all"),
    "keeper-minority": Case(
        "linearizable", "partition-pair", options={"insert": "plain", "time_limit_s": 20.0}
    ),
    "pointer-skips": Case("protocol", "pause-clickhouse", options={"time_limit_s": 20.0}),
}
BY_HAND = {"mutation-late"}


def test_every_bug_is_on_trial() -> None:
    assert CASES.keys() | BY_HAND == BUGS.keys()


@pytest.mark.parametrize("bug", CASES)
def test_a_planted_bug_is_caught(bug: str) -> None:
    case = CASES[bug]
    assert case.by in case.play(bug).accusers
    assert case.by not in case.play("").accusers


@pytest.mark.parametrize(("bug", "rows"), [("", [(1, 2), (100, 2)]), ("mutation-late", [(100, 2)])])
def test_a_mutation_spares_rows_that_come_after_it(bug: str, rows: list[tuple[int, int]]) -> None:
    cluster = SimCluster(Topology.of(), Seed(1), bugs=bugs([bug] if bug else []))
    cluster.up()
    table = ReplicatedTable(cluster, "m", TableSchema("key Int64, value Int64", "value", "key", {}))
    table.create()
    there = connect(cluster, "ch1")
    there.insert(table.name, [(2, 1)])
    there.command(f"ALTER TABLE {table.name} UPDATE value = value + 99 WHERE key = 2")
    there.insert(table.name, [(2, 1), (2, 7)])
    clock = clock_of(cluster)
    clock.sleep_until(5_000_000_000)
    assert not table.pending()
    for node in cluster.topology.replicas:
        found = connect(cluster, node).rows(
            f"SELECT value, key FROM {table.name} WHERE value < 101"
        )
        assert sorted(row for row in found if row[0] in (1, 100)) == (
            rows if not bug else [(100, 2), (100, 2)]
        )


def test_a_bug_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="--bug 'nope': expected some of quorum-uncounted"):
        bugs(["nope"])

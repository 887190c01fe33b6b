"""Rows that expire on simulated servers: merges remove them on every replica alike, by the clock of
the replica that chose the merge."""

import pytest
from sim_by_hand import planted, rows, wait

from harness.clients.clickhouse import connect
from harness.clients.replicated_table import ReplicatedTable, TableSchema
from harness.clusters.sim_cluster import SimCluster
from harness.core.capabilities import CanSetClocks
from harness.core.clock_fault import ClockFault

EXPIRES_S = 20
NEVER_S = 4_000_000_000
ALL = [(0, 1), (0, 2), (0, 3), (0, 4)]
LEFT = [(0, 1), (0, 3)]


def expiring(cluster: SimCluster) -> ReplicatedTable:
    """Return a table with rows of which the even ones expire at 20 s."""
    cluster.up()
    columns = "key Int64, value Int64, e DateTime"
    schema = TableSchema(columns, settings={"merge_with_ttl_timeout": 1}, ttl="e")
    table = ReplicatedTable(cluster, "by_hand", schema)
    table.create()
    connection = connect(cluster, "ch1")
    for key, value in ALL:
        connection.insert(table.name, [(key, value, NEVER_S if value % 2 else EXPIRES_S)])
    wait(cluster, 1)
    connection.command(f"OPTIMIZE TABLE {table.name} PARTITION 0 FINAL")
    wait(cluster, 1)
    return table


def on_each(cluster: SimCluster, table: ReplicatedTable) -> list[list[tuple[int, int]]]:
    return [rows(cluster, node, table) for node in cluster.topology.replicas]


def test_a_row_stays_until_it_expires_and_others_stay_for_good() -> None:
    cluster = planted("", "repaired-25.8")
    table = expiring(cluster)
    assert on_each(cluster, table) == [ALL] * 3
    wait(cluster, EXPIRES_S - 8)
    assert on_each(cluster, table) == [ALL] * 3
    wait(cluster, 10)
    assert on_each(cluster, table) == [LEFT] * 3
    assert not table.pending()


@pytest.mark.parametrize(
    ("wrong", "offset_s", "shown"),
    [
        (["ch2"], 3600.0, LEFT),  # it chooses a merge too soon, which all execute
        (["ch1", "ch2", "ch3"], -3600.0, ALL),
    ],
)
def test_what_counts_is_the_clock_of_the_replica_that_chose_the_merge(
    wrong: list[str], offset_s: float, shown: list[tuple[int, int]]
) -> None:
    cluster = planted("", "repaired-25.8")
    table = expiring(cluster)
    cluster.part(CanSetClocks).set_clocks(wrong, ClockFault(offset_s=offset_s))
    wait(cluster, EXPIRES_S - 8 if offset_s > 0 else EXPIRES_S + 8)
    assert on_each(cluster, table) == [shown] * 3
    assert not table.pending()


def test_a_replica_that_lags_behind_executes_the_merge_of_one_that_does_not() -> None:
    cluster = planted("", "repaired-25.8")
    table = expiring(cluster)
    cluster.part(CanSetClocks).set_clocks(["ch2", "ch3"], ClockFault(offset_s=-3600.0))
    wait(cluster, EXPIRES_S + 5)
    assert on_each(cluster, table) == [LEFT] * 3


def test_a_merge_may_take_one_expired_row_for_all() -> None:
    cluster = planted("ttl-whole-part", "repaired-25.8")
    table = expiring(cluster)
    wait(cluster, EXPIRES_S + 5)
    assert on_each(cluster, table) == [[]] * 3


def test_a_merge_may_take_rows_that_expire_later() -> None:
    cluster = planted("ttl-early", "repaired-25.8")
    table = expiring(cluster)
    wait(cluster, 3)
    assert on_each(cluster, table) == [LEFT] * 3

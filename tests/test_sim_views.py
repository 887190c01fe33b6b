"""Materialized views on simulated servers: the table of a view gets what is inserted into its
source as a block of its own."""

from contextlib import suppress

import pytest
from sim_by_hand import planted, rows, wait

from harness.clients.clickhouse import DatabaseError, connect
from harness.clients.replicated_table import ReplicatedTable, TableSchema
from harness.clusters.sim_cluster import SimCluster
from harness.core.capabilities import CanKill
from workloads.statement_tables import ViewTarget

SCHEMA = TableSchema("key Int64, value Int64")
DEDUPLICATED = {"deduplicate_blocks_in_dependent_materialized_views": 1}


def viewed(cluster: SimCluster) -> tuple[ReplicatedTable, ReplicatedTable]:
    """Return a table, and that of its view."""
    cluster.up()
    source = ReplicatedTable(cluster, "by_hand_t", SCHEMA)
    target = ViewTarget(cluster, "by_hand_v", SCHEMA, source.name, "key, value", late=False)
    source.create()
    target.create()
    return source, target


def test_a_view_gets_what_is_inserted_and_nothing_else() -> None:
    cluster = planted("", "repaired-25.8")
    source, target = viewed(cluster)
    one, two = connect(cluster, "ch1"), connect(cluster, "ch2")
    one.insert(source.name, [(0, 1)])
    two.insert(target.name, [(0, 7)])
    one.command(f"ALTER TABLE {source.name} DELETE WHERE key = 0", {"mutations_sync": 2})
    wait(cluster, 5)
    for node in cluster.topology.replicas:
        assert rows(cluster, node, source) == []
        assert rows(cluster, node, target) == [(0, 1), (0, 7)]


def test_a_view_that_changes_rows_is_refused() -> None:
    cluster = planted("", "repaired-25.8")
    source, target = viewed(cluster)
    view = f"CREATE MATERIALIZED VIEW w.mv TO {target.name} AS SELECT value FROM {source.name}"
    with pytest.raises(DatabaseError, match=r"48: .*every column of their source"):
        connect(cluster, "ch1").command(view)


def test_a_view_outlasts_its_server_and_ends_with_its_database() -> None:
    cluster = planted("", "repaired-25.8")
    source, target = viewed(cluster)
    cluster.part(CanKill).kill(["ch1"])
    cluster.part(CanKill).start(["ch1"])
    wait(cluster, 20)
    connect(cluster, "ch1").insert(source.name, [(0, 1)])
    assert rows(cluster, "ch1", target) == [(0, 1)]
    target.drop()
    connect(cluster, "ch1").insert(source.name, [(0, 2)])
    assert rows(cluster, "ch1", source) == [(0, 1), (0, 2)]


@pytest.mark.parametrize(
    ("bug", "settings", "times"),
    [
        ("", DEDUPLICATED, 1),
        ("", {}, 1),
        ("doubled-view", DEDUPLICATED, 1),
        ("doubled-view", {}, 2),
        ("view-forgets", DEDUPLICATED, 2),
    ],
)
def test_an_insert_that_is_sent_again_reaches_the_view(
    bug: str, settings: dict[str, int], times: int
) -> None:
    cluster = planted(bug, "repaired-25.8")
    source, target = viewed(cluster)
    for node in ("ch1", "ch2"):
        connect(cluster, node).insert(source.name, [(0, 1)], settings)
        wait(cluster, 5)
    assert rows(cluster, "ch1", source) == [(0, 1)]
    assert rows(cluster, "ch1", target) == [(0, 1)] * times


@pytest.mark.parametrize("bug", ["", "view-skips-duplicate"])
def test_a_retry_completes_an_insert_that_reached_the_table_alone(bug: str) -> None:
    tried = [retried(bug, round(ms * 1e6)) for ms in range(8, 24, 2)]
    shown = [found for found in tried if found is not None]
    assert shown
    assert all(found == ([] if bug else [(0, 1)]) for found in shown)


def retried(bug: str, after_ns: int) -> list[tuple[int, int]] | None:
    """Kill ch1 soon after an insert was called, and insert its row again on ch2. Return the rows of
    the view's table; None if the first insert did not end between the two tables."""
    cluster = planted(bug, "repaired-25.8")
    source, target = viewed(cluster)
    cluster.simulation.world.after(after_ns, lambda: cluster.part(CanKill).kill(["ch1"]))
    with suppress(DatabaseError):
        connect(cluster, "ch1").insert(source.name, [(0, 1)])
    wait(cluster, 20)
    logged = [
        connect(cluster, "ch2").numbers(
            f"SELECT count() FROM system.zookeeper WHERE path = '{table.path}/log'"
        )
        for table in (source, target)
    ]
    if logged != [(1,), (0,)]:
        return None
    cluster.part(CanKill).start(["ch1"])
    wait(cluster, 20)
    connect(cluster, "ch2").insert(source.name, [(0, 1)], DEDUPLICATED)
    return rows(cluster, "ch2", target)

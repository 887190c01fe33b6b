"""A block that is sent again on simulated servers: whether it is a duplicate, given what mutations
have left of its rows. 25.8 asks nothing but whether it knows the block."""

import pytest
from sim_by_hand import planted, rows, table_on, wait

from harness.clients.clickhouse import connect

BLOCK = [(0, 1), (0, 2)]


@pytest.mark.parametrize("bug", ["", "forgotten-insert"])
@pytest.mark.parametrize("sync", [0, 2])
@pytest.mark.parametrize(
    ("changes", "before", "after"),
    [
        (["DELETE WHERE key = 0"], [], BLOCK),
        (["DELETE WHERE value = 1", "DELETE WHERE value = 2"], [], BLOCK),
        (["DELETE WHERE value = 1"], [(0, 2)], [(0, 2)]),
        (["DELETE WHERE key = 7"], BLOCK, BLOCK),
        (["UPDATE value = value + 5 WHERE key = 0"], [(0, 6), (0, 7)], [(0, 6), (0, 7)]),
        (["UPDATE value = value + 5 WHERE key = 0", "DELETE WHERE value = 6"], [(0, 7)], [(0, 7)]),
    ],
)
def test_a_block_of_which_nothing_is_left_may_be_inserted_again(
    changes: list[str], before: list[tuple[int, int]], after: list[tuple[int, int]],
    sync: int, bug: str,
) -> None:  # fmt: skip
    cluster = planted(bug, "repaired-25.8")
    table = table_on(cluster)
    connect(cluster, "ch1").insert(table.name, BLOCK)
    for change in changes:
        statement = f"ALTER TABLE {table.name} {change}"
        connect(cluster, "ch2").command(statement, {"mutations_sync": sync})
    connect(cluster, "ch3").insert(table.name, BLOCK)
    connect(cluster, "ch2").insert(table.name, BLOCK)
    wait(cluster, 5)
    expected = before if bug else after
    assert [rows(cluster, node, table) for node in cluster.topology.replicas] == [expected] * 3


def test_what_was_inserted_again_is_deleted_by_the_next_mutation() -> None:
    cluster = planted("", "repaired-25.8")
    table = table_on(cluster)
    for node in ("ch1", "ch2", "ch3"):
        connect(cluster, node).insert(table.name, BLOCK)
        connect(cluster, node).command(f"ALTER TABLE {table.name} DELETE WHERE key = 0")
    wait(cluster, 5)
    assert rows(cluster, "ch1", table) == []

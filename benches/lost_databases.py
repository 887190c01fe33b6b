"""What becomes of the tables of a Replicated database on a replica that missed more of its log than
the log keeps.

    python -m benches.lost_databases --clickhouse 25.8 --store DIR

ch2 has rows in tables of each kind, and is killed. ch1 changes the definition of one table of each
kind, and makes more statements than the log keeps (`logs_to_keep`), so that ch2, once it is
started, takes the definitions from ZooKeeper in place of the log (`recoverLostReplica`). Then the
rows that each table shows on ch2 are counted, and those that were put aside in other databases.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from benches.bench_cluster import bench_cluster
from benches.recovery import until
from compose.releases import ImageChoice
from harness.clusters.replica import execute, query, query_value
from harness.core.capabilities import CanKill
from harness.core.errors import ClusterError
from harness.core.protocols import Cluster

DATABASE: Final = "harness_lost"
PATH: Final = f"/harness/{DATABASE}"
KEPT: Final = 3
"""Statements that the log of the database keeps."""
ROWS: Final = 10
WAITED_S: Final = 60.0
NOBODY: Final[dict[str, int | str]] = {
    "distributed_ddl_output_mode": "none",
    "distributed_ddl_task_timeout": 0,
}
"""Settings of a statement that does not wait for a replica that is away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A table whose definition changes while a replica is away."""

    name: str
    create: Sequence[str]
    """Statements that make the table, and what it reads from."""
    filled: str
    """Table into which rows are inserted."""
    shown: str
    """Table whose rows are counted in the end."""
    missed: Sequence[str] = ()
    """Statements that the replica misses."""


def _cases() -> Sequence[Case]:
    source = "CREATE TABLE {db}.%s (id Int64) ENGINE = MergeTree ORDER BY id"
    view = (
        "CREATE MATERIALIZED VIEW {db}.%s ENGINE = %sMergeTree ORDER BY id "
        "AS SELECT id FROM {db}.%s"
    )
    other = "ALTER TABLE {db}.%s MODIFY QUERY SELECT id FROM {db}.%s WHERE id >= 0"
    comment = "ALTER TABLE {db}.%s MODIFY COMMENT 'changed'"
    keeper = (
        "CREATE TABLE {db}.%s (id Int64, v Int64 DEFAULT 0) ENGINE = KeeperMap('/%s') "
        "PRIMARY KEY id"
    )
    return (
        Case(name="plain", create=[source % "p"], filled="p", shown="p"),
        Case(
            name="plain, commented", create=[source % "c"], filled="c", shown="c",
            missed=[comment % "c"],
        ),
        Case(
            name="plain, renamed", create=[source % "r"], filled="r", shown="r2",
            missed=["RENAME TABLE {db}.r TO {db}.r2"],
        ),
        Case(
            name="plain, renamed and commented", create=[source % "n"], filled="n", shown="n2",
            missed=["RENAME TABLE {db}.n TO {db}.n2", comment % "n2"],
        ),
        Case(
            name="view", create=[source % "s", view % ("v", "", "s")], filled="s", shown="v"
        ),
        Case(
            name="view, another query",
            create=[source % "s1", view % ("v1", "", "s1")], filled="s1", shown="v1",
            missed=[other % ("v1", "s1")],
        ),
        Case(
            name="view of a replicated table, another query",
            create=[source % "s2", view % ("v2", "Replicated", "s2")], filled="s2", shown="v2",
            missed=[other % ("v2", "s2")],
        ),
        Case(name="KeeperMap", create=[keeper % ("k", "lost_k")], filled="k", shown="k"),
        Case(
            name="KeeperMap, commented",
            create=[keeper % ("k1", "lost_k1")], filled="k1", shown="k1", missed=[comment % "k1"],
        ),
        Case(
            name="KeeperMap, made anew",
            create=[keeper % ("k2", "lost_k2")], filled="k2", shown="k2",
            missed=["DROP TABLE {db}.k2 SYNC", keeper % ("k2", "lost_k2")],
        ),
    )  # fmt: skip


def ddl(cluster: Cluster, node: str, sql: str, **settings: int | str) -> None:
    """Make a statement. Raises ClusterError."""
    text = sql.format(db=DATABASE)
    execute(cluster.endpoint(node), text, settings=settings, timeout_s=WAITED_S)


def rows(cluster: Cluster, node: str, table: str) -> str:
    """Return how many rows a table shows, or why none can be read."""
    try:
        sql = f"SELECT count() FROM {table}"
        return str(query_value(cluster.endpoint(node), sql, int, 10.0))
    except ClusterError as error:
        return str(error)[:100]


def recover(cluster: Cluster, cases: Sequence[Case]) -> None:
    """Make the tables, and have ch2 miss what changes them. Raises ClusterError."""
    for node in ("ch1", "ch2"):
        ddl(cluster, node, f"CREATE DATABASE {{db}} ENGINE = Replicated('{PATH}', '1', '{node}')",
            allow_experimental_database_replicated=1)  # fmt: skip
    session = cluster.zookeeper(cluster.topology.keepers)
    try:
        session.ask("set", f"{PATH}/logs_to_keep", str(KEPT).encode())
    finally:
        session.close()
    for case in cases:
        for sql in case.create:
            ddl(cluster, "ch1", sql)
        ddl(
            cluster,
            "ch2",
            f"INSERT INTO {{db}}.{case.filled} (id) SELECT number FROM numbers({ROWS})",
        )
    cluster.part(CanKill).kill(["ch2"])
    for case in cases:
        for sql in case.missed:
            ddl(cluster, "ch1", sql, **NOBODY)
    for number in range(3 * KEPT):
        ddl(cluster, "ch1", f"CREATE TABLE {{db}}.x{number} (id Int64) ENGINE = Memory", **NOBODY)
    cluster.part(CanKill).start(["ch2"])
    last = (
        f"SELECT count() FROM system.tables WHERE database = '{DATABASE}' "
        f"AND name = 'x{3 * KEPT - 1}'"
    )
    until(
        lambda: bool(query_value(cluster.endpoint("ch2"), last, int, 10.0)),
        WAITED_S,
        "ch2 has not recovered the database",
    )


def main() -> None:
    """Play every case on one cluster, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--clickhouse", default=ImageChoice().clickhouse)
    parser.add_argument("--store", required=True)
    options = parser.parse_args()
    with bench_cluster(options.store, options.clickhouse) as cluster:
        cases = _cases()
        recover(cluster, cases)
        for case in cases:
            table = f"{DATABASE}.{case.shown}"
            shown = [rows(cluster, node, table) for node in ("ch1", "ch2")]
            print(f"| {options.clickhouse} | {case.name} | {' | '.join(shown)} |", flush=True)
        sql = (
            "SELECT concat(database, '.', name, ': ', toString(total_rows)) FROM system.tables "
            f"WHERE startsWith(database, '{DATABASE}_')"
        )
        for (line,) in query(cluster.endpoint("ch2"), sql, (str,), timeout_s=10.0):
            print(f"aside on ch2: {line}", flush=True)


if __name__ == "__main__":
    main()

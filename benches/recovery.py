"""What becomes of acknowledged rows when a replica is killed while it is being recovered.

    python -m benches.recovery --clickhouse 25.8 --store DIR [--only restore,clone] [--moments 6]

Each statement by which operators recover a replica is made on a table of its own, to the end, and
its requests that write to ZooKeeper are counted. Then it is made on as many tables as there are
moments: on each one the replica's proxy holds back another of these requests, and when all are
held, the server is killed and started. The statement is repeated, what an operator would do next is
done, and a row is inserted on the replica. In the end every acknowledged row is in the table of a
replica, or only in what some replica has put aside ("detached"), or lost.

A line of JSON for each table goes to DIR/recovery.jsonl, and a table to standard output.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from textwrap import shorten
from typing import Final

from kazoo.exceptions import KazooException

from benches.bench_cluster import bench_cluster, note
from benches.recoveries import MENDS, OTHER, RECOVERIES, Recovery, Step
from compose.releases import ImageChoice
from compose.settings import Settings
from harness.clusters.replica import execute, query, query_value
from harness.core.capabilities import CanIntercept, CanKill
from harness.core.connections import ZooKeeper, ZooKeeperError
from harness.core.errors import ClusterError
from harness.core.op import Json
from harness.core.protocols import Cluster
from workloads.table import SHORT_LOG

ROOT: Final = "/harness"
ROWS: Final = range(4)
"""Rows of each table, one in each partition."""
OWN: Final = 8
"""Row that only the replica has which is recovered."""
LATE: Final = range(100, 125)
"""Rows whose inserts cut the log behind a replica that is away."""
LAST: Final = 9
"""Row that is inserted in the end."""
STATEMENT_S: Final = 60.0
PREPARED_S: Final = 40.0
"""Time for a step of the preparation to succeed, such as a drop of a replica that was active."""
HELD_S: Final = 25.0
RESTS_S: Final = 20.0
"""Time for the replicas to show every acknowledged row."""
ENDED_S: Final = 4.0
"""Time after a statement for what the replica writes in the background."""


@dataclass(kw_only=True)
class Outcome:
    """What became of the rows of a table."""

    recovery: str
    clickhouse: str
    moment: int
    """Number of the request before which the server was killed; 0: it was not."""
    moments: int
    state: str = ""
    """What ZooKeeper had of the replica when it was killed."""
    rows: int = 0
    kept: int = 0
    misplaced: Sequence[int] = ()
    lost: Sequence[int] = ()
    uneven: Sequence[str] = ()
    """Replicas that lack rows which others have."""
    repeated: str = ""
    after: Sequence[str] = field(default_factory=list)
    """Ends of the steps after it that did not succeed."""
    inserts: str = ""
    mended: Sequence[str] = field(default_factory=list)
    """What an operator tried in the end, and what came of it."""


class Table:
    """A table of one moment."""

    def __init__(self, cluster: Cluster, recovery: Recovery, number: int) -> None:
        self.cluster = cluster
        self.recovery = recovery
        token = f"{recovery.name.replace('-', '_')}_{number:02}"
        self.database = f"harness_{token}"
        self.name = f"{self.database}.t"
        self.path = f"{ROOT}/{token}/t"
        self.held_state = ""
        """What ZooKeeper had of the replica when it was killed."""
        self.rows = [*ROWS, *([OWN] if recovery.own else []), *(LATE if recovery.late else [])]

    def execute(self, node: str, sql: str) -> None:
        """Execute statements on a replica, or change ZooKeeper's tree. Raises ClusterError."""
        text = sql.format(
            table=self.name,
            path=self.path,
            other_path=f"{self.path}_other",
            create=self.definition(node),
        )
        for statement in text.split("; "):
            if node == "zookeeper":
                self._change(*statement.split(" ", 1))
            else:
                execute(self.cluster.endpoint(node), statement, timeout_s=STATEMENT_S)

    def definition(self, node: str, other: str = "") -> str:
        """Return the statement that creates the table on a replica."""
        known = self.cluster.engines.dialect.table_settings({**SHORT_LOG, "old_parts_lifetime": 10})
        settings = ", ".join(f"{name} = {value!r}" for name, value in known.items())
        return (
            f"CREATE TABLE {self.name}{other} (p Int64, id Int64) ENGINE = "
            f"ReplicatedMergeTree('{self.path}{other}', '{node}') PARTITION BY p ORDER BY id "
            f"SETTINGS {settings}"
        )

    def _change(self, what: str, path: str) -> None:
        session = self.cluster.zookeeper(self.cluster.topology.keepers)
        try:
            if what == "flag":
                session.ask("ensure_path", path)
            else:
                _empty(session, path)
            if what == "delete":
                session.ask("delete", path)
        except (ZooKeeperError, KazooException) as error:
            raise ClusterError(f"{what} {path}: {error}") from error
        finally:
            session.close()

    def prepare(self) -> None:
        """Create the table with its rows, and bring the replica where it is to be recovered from.
        Raises ClusterError."""
        for node in self.cluster.topology.replicas:
            self.execute(node, f"CREATE DATABASE {self.database}; {{create}}")
        for row in ROWS:
            self.insert("ch1", row)
        if self.recovery.gains:
            self.execute("ch2", self.definition("ch2", "_other"))
            self.execute("ch2", f"INSERT INTO {{table}}_other VALUES ({OTHER}, {OTHER})")
        for node in ("ch2", "ch3"):
            self.execute(node, "SYSTEM SYNC REPLICA {table}")
        if self.recovery.own:
            for node in ("ch2", "ch3"):
                self.execute(node, "SYSTEM STOP FETCHES {table}")
            self.insert("ch1", OWN)
        for step in self.recovery.prepare:
            _until_done(partial(self.execute, step.node, step.sql), PREPARED_S)
        if self.recovery.late:
            for row in LATE:
                self.insert("ch2", row, partition=5)
            until(self.is_lost, PREPARED_S, f"{self.name}: ch1 was not lost")
        if self.recovery.own:
            for node in ("ch2", "ch3"):
                self.execute(node, "SYSTEM START FETCHES {table}")

    def insert(self, node: str, row: int, partition: int | None = None) -> None:
        """Insert a row. Raises ClusterError."""
        p = row if partition is None else partition
        self.execute(node, f"INSERT INTO {{table}} VALUES ({p}, {row})")

    def is_lost(self) -> bool:
        """Return whether ZooKeeper has the replica as lost."""
        place = f"path = '{self.path}/replicas/ch1' AND name = 'is_lost'"
        text = f"SELECT count() FROM system.zookeeper WHERE {place} AND value = '1'"
        return bool(query_value(self.cluster.endpoint("ch2"), text, int, 10.0))

    def arm(self, do: str, skip: int = 0) -> None:
        """Have the proxy count the requests of the table that write, or hold the next but `skip`
        of them back."""
        rule: dict[str, Json] = {
            "name": self.name,
            "channel": "zookeeper",
            "edge": "request",
            "do": do,
        }
        rule |= {"op": "write", "words": [self.path], "skip": skip, "alone": do == "hold"}
        self.cluster.part(CanIntercept).intercept([self.recovery.statement.node], rule)

    def hits(self) -> int:
        """Return how many requests the rule has applied to."""
        state = self.cluster.part(CanIntercept).intercepted(self.recovery.statement.node)
        hits = state["hits"]
        assert isinstance(hits, dict), "the proxy counts hits by rule"
        return int(hits[self.name])

    def recover(self, repeated: bool) -> str:
        """Make the statement; return "yes", or the error with which it ended."""
        steps = [self.recovery.statement]
        if repeated and self.recovery.repeat is not None:
            steps = [*self.recovery.repeat]
        if not steps:
            return "by the start"
        begun = time.monotonic()
        for step in steps:
            act = partial(self.execute, step.node, step.sql)
            end = _ended(partial(_until_done, act, RESTS_S) if repeated else act)
            if end != "yes":
                return end
        took_s = time.monotonic() - begun
        return f"after {took_s:.0f} s" if repeated and took_s > 5 else "yes"

    def state(self) -> str:
        """Return what ZooKeeper has of the replica now."""
        session = self.cluster.zookeeper(self.cluster.topology.keepers)
        own = f"{self.path}/replicas/ch1"
        names = {"parts": f"{own}/parts", "queued": f"{own}/queue", "log": f"{self.path}/log"}
        try:
            if session.each("exists", [self.path])[self.path] is None:
                return "no table"
            found = session.each("get_children", [own, *names.values()])
            if found[own] is None:
                return "no replica"
            counts = [f"{name} {len(found[path])}" for name, path in names.items() if found[path]]
            active = ["active"] if "is_active" in found[own] else []
            return ", ".join([*active, *counts]) or "an empty replica"
        except (ZooKeeperError, KazooException) as error:
            return f"unknown: {error}"
        finally:
            session.close()

    def finish(self, outcome: Outcome) -> None:
        """Do what comes after the statement, insert a row, and look where the rows are."""
        outcome.after = [
            f"{step.node}: {end}"
            for step in self.recovery.after
            if (end := _ended(partial(self.execute, step.node, step.sql))) != "yes"
        ]
        if self.recovery.gains and not outcome.repeated.startswith("no"):
            self.rows.append(OTHER)
        self.insert_last(outcome)
        self.judge(outcome)
        outcome.mended = [*self.mend(replace(outcome))]

    def insert_last(self, outcome: Outcome) -> None:
        """Insert the last row."""
        outcome.inserts = _ended(lambda: _until_done(lambda: self.insert("ch1", LAST), RESTS_S))
        if outcome.inserts == "yes":
            self.rows.append(LAST)

    def mend(self, outcome: Outcome) -> Iterator[str]:
        """Do what an operator may do for rows that are misplaced and for a replica that takes no
        inserts, and yield what came of each attempt."""
        for mend in MENDS:
            partitions = [str(row) for row in outcome.misplaced] if mend.aside else [""]
            if not partitions or (not mend.aside and outcome.inserts == "yes"):
                continue
            ends = [
                end
                for partition in partitions
                for step in mend.steps
                for text in [step.sql.replace("{partition}", partition)]
                if (end := self.ended(Step(step.node, text))) != "yes"
            ]
            if outcome.inserts != "yes":
                self.insert_last(outcome)
            self.judge(outcome)
            rows = f"{outcome.kept} of {outcome.rows} kept"
            twice = [node for node in self.cluster.topology.replicas if self.is_doubled(node)]
            found = [*outcome.uneven, *(f"{node} has rows twice" for node in twice), *ends]
            yield "; ".join([f"{mend.name}: inserts {outcome.inserts}, {rows}", *found])

    def ended(self, step: Step) -> str:
        """Make a statement until it succeeds or its time is over; return "yes", or how it ended."""
        return _ended(lambda: _until_done(lambda: self.execute(step.node, step.sql), RESTS_S))

    def is_doubled(self, node: str) -> bool:
        """Return whether a replica's table has a row more than once."""
        sql = f"SELECT count() - uniqExact(id) FROM {self.name}"
        try:
            return bool(query_value(self.cluster.endpoint(node), sql, int, 10.0))
        except ClusterError:
            return False

    def judge(self, outcome: Outcome) -> None:
        """Fill in where the acknowledged rows are, once every replica has them or the time is
        over."""
        nodes = self.cluster.topology.replicas
        expected = set(self.rows)
        deadline = time.monotonic() + RESTS_S
        while True:
            shown = {node: self.shown(node) for node in nodes}
            if all(expected <= rows for rows in shown.values()) or time.monotonic() > deadline:
                break
            time.sleep(0.5)
        somewhere = set().union(*shown.values())
        aside = {row for node in nodes for row in self.aside(node)}
        outcome.rows = len(expected)
        outcome.kept = len(expected & somewhere)
        outcome.misplaced = sorted((expected - somewhere) & aside)
        outcome.lost = sorted(expected - somewhere - aside)
        outcome.uneven = [
            f"{node} lacks {len((expected & somewhere) - rows)}"
            for node, rows in shown.items()
            if (expected & somewhere) - rows
        ]

    def shown(self, node: str) -> set[int]:
        """Return the rows that a replica's table has; none if it has no such table."""
        try:
            found = query(
                self.cluster.endpoint(node), f"SELECT id FROM {self.name}", (int,), timeout_s=10.0
            )
        except ClusterError:
            return set()
        return {row for (row,) in found}

    def aside(self, node: str) -> Iterator[int]:
        """Yield the rows in parts that a replica has put aside; partition 5 has those of LATE."""
        text = (
            "SELECT DISTINCT ifNull(partition_id, '') FROM system.detached_parts "
            f"WHERE database = '{self.database}' AND table = 't'"
        )
        for (partition,) in query(self.cluster.endpoint(node), text, (str,), timeout_s=10.0):
            if partition.isdigit():
                yield from LATE if partition == "5" else [int(partition)]


def _empty(session: ZooKeeper, path: str) -> None:
    """Delete what is below a node. Raises ZooKeeperError."""
    for name in session.ask("get_children", path):
        _empty(session, f"{path}/{name}")
        session.ask("delete", f"{path}/{name}")


def _until_done(act: Callable[[], None], within_s: float) -> None:
    """Act until it succeeds. Raises the last ClusterError when the time is over."""
    deadline = time.monotonic() + within_s
    while True:
        try:
            return act()
        except ClusterError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.3)


def until(holds: Callable[[], bool], within_s: float, why: str) -> None:
    """Wait for a condition. Raises ClusterError when the time is over."""
    deadline = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > deadline:
            raise ClusterError(f"{why} within {within_s:.0f} s")
        time.sleep(0.1)


def _ended(act: Callable[[], None]) -> str:
    """Return "yes" if it succeeds, else how it ended."""
    try:
        act()
    except ClusterError as error:
        return f"no: {shorten(str(error).partition(': ')[2], 200, placeholder=' …')}"
    return "yes"


def play(
    cluster: Cluster, recovery: Recovery, version: str, moments: int, note: Callable[[str], None]
) -> Iterator[Outcome]:
    """Play a recovery without a kill, then with one at each moment. Raises ClusterError."""
    whole = Table(cluster, recovery, 0)
    whole.prepare()
    whole.arm("count")
    end = whole.recover(repeated=False)
    time.sleep(ENDED_S)
    count = whole.hits()
    cluster.part(CanIntercept).clear_rules([recovery.statement.node])
    outcome = Outcome(recovery=recovery.name, clickhouse=version, moment=0, moments=count)
    outcome.repeated = end
    whole.finish(outcome)
    yield outcome
    chosen = _spread(count, moments)
    note(f"{recovery.name}: {count} requests write, killed before {chosen}")
    tables = {at: Table(cluster, recovery, at) for at in chosen}
    with ThreadPoolExecutor(max(1, len(tables))) as pool:
        list(pool.map(Table.prepare, tables.values()))
        _kill_in(cluster, recovery, tables, pool, note)
        yield from pool.map(lambda at: _recovered(tables[at], at, count, version), tables)


def _kill_in(
    cluster: Cluster,
    recovery: Recovery,
    tables: dict[int, Table],
    pool: ThreadPoolExecutor,
    note: Callable[[str], None],
) -> None:
    """Begin the statement on each table, await its moment, kill the server, and start it."""
    victim = recovery.statement.node
    for at, table in tables.items():
        table.arm("hold", skip=at - 1)
    begun = [pool.submit(table.recover, False) for table in tables.values()]
    deadline = time.monotonic() + HELD_S
    while not all(table.hits() for table in tables.values()):
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    for at, table in list(tables.items()):
        if not table.hits():
            note(f"{recovery.name}: moment {at} did not come")
            del tables[at]
    for table in tables.values():
        table.held_state = table.state()
    cluster.part(CanKill).kill([victim])
    cluster.part(CanIntercept).clear_rules([victim])
    for one in begun:
        one.result()
    cluster.part(CanKill).start([victim])


def _recovered(table: Table, at: int, count: int, version: str) -> Outcome:
    outcome = Outcome(recovery=table.recovery.name, clickhouse=version, moment=at, moments=count)
    outcome.state = table.held_state
    outcome.repeated = table.recover(repeated=True)
    table.finish(outcome)
    return outcome


def _spread(count: int, most: int) -> list[int]:
    """Return up to so many of the numbers 1 to `count`, the first and the last among them."""
    if count <= most:
        return [*range(1, count + 1)]
    return sorted({1 + round(i * (count - 1) / max(1, most - 1)) for i in range(most)})


def line(one: Outcome) -> str:
    """Return a row of the table."""
    moment = f"{one.moment} of {one.moments}" if one.moment else f"none ({one.moments})"
    cells = (
        one.recovery,
        moment,
        one.state or "–",
        one.clickhouse,
        f"{one.kept} of {one.rows}",
        " ".join(map(str, one.misplaced)) or "–",
        " ".join(map(str, one.lost)) or "–",
        "; ".join(one.uneven) or "–",
        one.repeated,
        one.inserts,
        "; ".join(one.after) or "–",
        "; then ".join(one.mended) or "–",
    )
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Play the recoveries on one cluster, and print what became of the rows."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--clickhouse", default=ImageChoice().clickhouse)
    parser.add_argument("--store", required=True)
    parser.add_argument("--only", default=",".join(one.name for one in RECOVERIES))
    parser.add_argument("--moments", type=int, default=6)
    options = parser.parse_args()
    settings = Settings(operation_timeout_ms=10_000)  # as ClickHouse has it by itself
    with bench_cluster(options.store, options.clickhouse, settings=settings) as cluster:
        cluster.part(CanIntercept).interpose()
        with (Path(options.store) / "recovery.jsonl").open("a") as file:
            for recovery in RECOVERIES:
                if recovery.name not in options.only.split(","):
                    continue
                try:
                    version = options.clickhouse
                    for one in play(cluster, recovery, version, options.moments, note):
                        print(line(one), flush=True)
                        print(json.dumps(asdict(one)), file=file, flush=True)
                except ClusterError as error:
                    note(f"{recovery.name}: broke off: {error}")


if __name__ == "__main__":
    main()

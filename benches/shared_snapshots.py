"""What transactions see of another one if two servers have their transactions at one path in
ZooKeeper, as by default.

    python -m benches.shared_snapshots --clickhouse 25.8 --store DIR

A transaction stays open on ch1, and ch2 commits one after the other, which moves the tail of the
log beyond it: from then on ch1 looks at the log once a second ("Got unexpected tail_ptr"). Shortly
before it looks, a transaction on ch1 that has a part for each of 4,000 rows commits. ch2 removes
its entry from the log, since no transaction of its own needs it. So ch1 never loads the entry,
and takes a newer one for its latest snapshot while it still writes the number of the commit into
the parts. A transaction of this snapshot must see all rows or none; it sees those of the parts
that are written, and later the others. With `--own-paths` each server has a path of its own.
"""

import argparse
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from benches.bench_cluster import bench_cluster
from compose.releases import ImageChoice
from compose.settings import Settings
from harness.clients.clickhouse import ClickHouse, connect
from harness.core.protocols import Cluster

ROWS: Final = 4_000
INSERTED: Final = 1_000
"""Rows of one INSERT, each in a partition of its own."""
READERS: Final = 40
APART_S: Final = 0.04
TAIL_COMMITS: Final = 10
"""Commits of ch2 after which the tail of the log has moved."""
LOOKS_EACH_S: Final = 1.0
"""Time in which ch1 looks at the log once (`TransactionLog::runUpdatingThread`)."""
BEFORE_LOOK_S: Final = 0.25
AFTER_S: Final = 0.5
TIMEOUT_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class Reading:
    """Rows that one transaction counted, while the other committed and after that."""

    snapshot: int
    first: int
    second: int

    @property
    def is_torn(self) -> bool:
        """Return whether it saw a part of the other transaction, or more of it later."""
        return self.first != self.second or self.first not in (0, ROWS)


def session(cluster: Cluster, node: str) -> ClickHouse:
    """Return a connection with a session of its own, in which transactions go on."""
    connection = connect(cluster, node, timeout_s=TIMEOUT_S)
    connection.keep_session()
    connection.numbers("SELECT 1")
    return connection


class Committing:
    """Commits on a server, one transaction after the other, until it is left."""

    def __init__(self, cluster: Cluster, node: str, table: str) -> None:
        """Create it."""
        self.commits = 0
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._commit, args=(cluster, node, table))

    def __enter__(self) -> "Committing":
        """Start."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self._left.set()
        self._thread.join()

    def _commit(self, cluster: Cluster, node: str, table: str) -> None:
        connection = session(cluster, node)
        while not self._left.is_set():
            connection.command("BEGIN TRANSACTION")
            connection.command(f"INSERT INTO {table} VALUES (1)")
            connection.command("COMMIT")
            self.commits += 1
        connection.close()


def wait(condition: Callable[[], bool]) -> None:
    """Wait for a condition. Raises TimeoutError."""
    until = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError("it did not come true")
        time.sleep(0.003)


def latest(connection: ClickHouse) -> int:
    """Return the latest snapshot of a server."""
    return connection.numbers("SELECT transactionLatestSnapshot()")[0]


def read(connection: ClickHouse, table: str, after_s: float, committed: threading.Event) -> Reading:
    """Count the rows in a transaction that begins after a while, and again after the COMMIT."""
    time.sleep(after_s)
    count = f"SELECT count() FROM {table}"
    connection.command("BEGIN TRANSACTION")
    (snapshot,) = connection.numbers("SELECT tupleElement(transactionID(), 1)")
    (first,) = connection.numbers(count)
    committed.wait()
    time.sleep(AFTER_S)
    (second,) = connection.numbers(count)
    connection.command("COMMIT")
    return Reading(snapshot, first, second)


def make_table(cluster: Cluster, node: str, database: str, table: str) -> None:
    """Make the table of a try on a server."""
    maker = connect(cluster, node, timeout_s=TIMEOUT_S)
    maker.command(f"CREATE DATABASE {database}")
    maker.command(f"CREATE TABLE {table} (id Int64) ENGINE = MergeTree PARTITION BY id ORDER BY id")
    maker.close()


def attempt(cluster: Cluster, database: str, *, is_shared: bool) -> list[Reading]:
    """Return what the transactions of one try saw."""
    table = f"{database}.t"
    for node in ("ch1", "ch2"):
        make_table(cluster, node, database, table)
    open_one, large, watching = (session(cluster, "ch1") for _ in range(3))
    readers = [session(cluster, "ch1") for _ in range(READERS)]
    open_one.command("BEGIN TRANSACTION")
    committed = threading.Event()
    with Committing(cluster, "ch2", table) as other, ThreadPoolExecutor(READERS) as pool:
        wait(lambda: other.commits >= TAIL_COMMITS)
        large.command("BEGIN TRANSACTION")
        for first in range(0, ROWS, INSERTED):
            large.command(
                f"INSERT INTO {table} SETTINGS max_partitions_per_insert_block = 0 "
                f"SELECT number FROM numbers({first}, {INSERTED})"
            )
        if is_shared:
            before = latest(watching)
            wait(lambda: latest(watching) != before)
            time.sleep(LOOKS_EACH_S - BEFORE_LOOK_S)
        seen = [
            pool.submit(read, reader, table, at * APART_S, committed)
            for at, reader in enumerate(readers)
        ]
        try:
            large.command("COMMIT")
        finally:
            committed.set()
        readings = [one.result() for one in seen]
    for connection in (open_one, large, watching, *readers):
        connection.close()
    return readings


def row(readings: Sequence[Reading]) -> str:
    """Return the cells of a try: how many transactions saw all, none and a part, and one of the
    last."""
    torn = [one for one in readings if one.is_torn]
    whole = sum(one.first == ROWS for one in readings if not one.is_torn)
    shown = "" if not torn else (
        f"snapshot {torn[0].snapshot}: {torn[0].first:,}, then {torn[0].second:,}"
    )  # fmt: skip
    return f"{whole} | {len(readings) - whole - len(torn)} | {len(torn)} | {shown}"


def main() -> None:
    """Make the tries on one cluster, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--clickhouse", default=ImageChoice().clickhouse)
    parser.add_argument("--store", required=True)
    parser.add_argument("--tries", type=int, default=3)
    parser.add_argument("--own-paths", action="store_true")
    options = parser.parse_args()
    settings = Settings(shared_transactions=not options.own_paths)
    with bench_cluster(options.store, options.clickhouse, replicas=2, settings=settings) as cluster:
        path = "own" if options.own_paths else "one"
        for number in range(options.tries):
            found = attempt(cluster, f"snapshots_{number}", is_shared=not options.own_paths)
            print(f"| {options.clickhouse} | {path} | {number + 1} | {row(found)} |", flush=True)


if __name__ == "__main__":
    main()

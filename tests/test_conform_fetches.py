"""Sources of fetched parts: servers' logs, joined with ZooKeeper's transactions."""

import pytest

from harness.conform.entries import PartName
from harness.conform.fetches import Fetch, FetchSources, fetch_sources, read_fetches
from harness.conform.txnlog import Change, ChangeKind, Txn

ROOT = "/harness/t/1"
OLD = (
    "2026.11.24 14:14:03.230276 [ 4 ] {} <Debug> db.t (StorageReplicatedMergeTree): Fetching part "
    "1_1_1_0 from /harness/t/1/replicas/ch2"
)
NEW = (
    "2026.11.24 14:14:03.230276 [ 616 ] {} <Debug> db.t (d33b122e): Fetching part 1_1_1_0 from "
    "default:/harness/t/1/replicas/ch2"
)
AT_MS = 1_795_529_643_230


@pytest.mark.parametrize("line", [OLD, NEW])
def test_lines_of_both_versions_are_read(line: str) -> None:
    lines = [line, "2026.11.24 14:14:03.3 Fetched part", line.replace("/t/1/", "/other/1/")]
    part = PartName.named("1_1_1_0")
    assert list(read_fetches(ROOT, "ch1", lines)) == [Fetch(AT_MS, "ch1", part, "ch2")]


def txn(time_ms: int, *changes: tuple[str, bytes], session: int = 1, ends: bool = False) -> Txn:
    made = tuple(Change(ChangeKind.CREATE, f"{ROOT}/replicas/{p}", d) for p, d in changes)
    return Txn(time_ms, session, time_ms, made, ends_session=ends)


def fetch(time_ms: int, source: str, part: str = "1_1_1_0") -> Fetch:
    return Fetch(time_ms, "ch1", PartName.named(part), source)


def test_the_source_is_an_active_replica_that_had_the_part() -> None:
    txns = (
        txn(1, ("ch2/is_active", b""), ("ch2/parts/1_1_3_1", b""), ("ch2/log_pointer", b"5")),
        txn(2, ("ch3/is_active", b""), session=2),
        txn(9, ("ch3/parts/1_1_1_0", b""), ("ch3/log_pointer", b"7"), session=2),
        txn(20_000, session=1, ends=True),
    )
    found = fetch_sources(ROOT, txns, [fetch(5, "ch2"), fetch(5, "ch3"), fetch(30_000, "ch2")])
    assert found == FetchSources(
        fetches=3, from_holder=1, strays=[fetch(5, "ch3"), fetch(30_000, "ch2")]
    )
    # From 9 on both could give it, and ch3 has read more of the log.
    found = fetch_sources(ROOT, txns, [fetch(10, "ch2"), fetch(11, "ch3"), fetch(12, "ch3")])
    assert (found.from_holder, found.choices, found.most_advanced) == (3, 3, 2)
    assert found.text == (
        "3 fetches, 3 of them from an active replica that had the part; 3 had a choice, of which 2 "
        "took the most advanced replica"
    )

"""Trees of ZooKeeper's servers at rest: what is read, what is stored, and what is judged."""

import struct
import zlib
from collections.abc import Sequence

import pytest

from checkers.look import encode
from checkers.trees import Missing, ServerTree, TreeDifference, TreeReport, Trees, runs_of
from harness.conform import keeper_disk
from harness.conform.ensemble import pack
from harness.conform.keeper_disk import KeeperDisk, committed, read_disk
from harness.conform.keeper_tree import KeeperNode, KeeperTree
from harness.conform.txnlog import Change, ChangeKind, Txn
from harness.core.errors import HarnessError
from harness.core.history import History
from harness.core.op import NEMESIS, Kind, Op
from harness.core.verdict import Status
from harness.run.keeper_trees import forgotten, untruncated

EPOCH = 1 << 32


def txn(zxid: int, *changes: Change, session: int = 7, ends: bool = False) -> Txn:
    """Return a transaction."""
    return Txn(zxid, session, 0, changes, ends_session=ends)


def made(path: str, data: bytes = b"", *, ephemeral: bool = False) -> Change:
    """Return a creation."""
    return Change(ChangeKind.CREATE, path, data, ephemeral)


def disk(*zxids: int, snapshots: Sequence[int] = ()) -> KeeperDisk:
    """Return what a server has stored that logged these transactions in this order."""
    return KeeperDisk(tuple(txn(zxid) for zxid in zxids), tuple(snapshots), b"")


@pytest.mark.parametrize(
    ("own", "missing"),
    [
        (disk(1, 2, 3, 4), []),
        (disk(1, 2), []),
        (disk(1, 4), [2, 3]),
        (disk(1, 4, snapshots=[3]), []),
        (disk(1, 4, snapshots=[2]), [3]),
        (disk(1, 4, snapshots=[5]), [2, 3]),
        (disk(1, 4, 2, 3), []),
        (disk(3, 4), []),
        (disk(), []),
    ],
    ids=[
        "whole",
        "a server that is behind",
        "a hole",
        "a snapshot of all that is missing",
        "a snapshot of a part of it",
        "a snapshot of what came after the hole",
        "in another order",
        "begun with what the leader sent as a snapshot",
        "nothing",
    ],
)
def test_a_hole_is_what_neither_log_nor_snapshot_has(own: KeeperDisk, missing: list[int]) -> None:
    assert own.missing([1, 2, 3, 4]) == missing


def test_what_a_deposed_leader_alone_wrote_is_not_committed() -> None:
    other = EPOCH + 1
    disks = [disk(1, 2, 3), disk(1, 2, other), disk(2, other)]
    assert committed(disks, size=3) == [1, 2, other]


def test_a_restart_applies_the_records_in_the_order_of_the_file() -> None:
    deleted = Change(ChangeKind.DELETE, "/a")
    late = Change(ChangeKind.SET, "/a", b"late")
    in_order = [txn(1, made("/a", b"x")), txn(2, deleted), txn(3, made("/a", b"y"))]
    swapped = [in_order[0], in_order[2], in_order[1]]
    session = [txn(4, made("/e", ephemeral=True), session=9), txn(5, session=9, ends=True)]
    tree, later = KeeperDisk((*in_order, *session), (), b"").tree(until=3)
    assert {path: node.data for path, node in tree.items()} == {"/a": zlib.crc32(b"y")}
    assert later == {"/e"}
    assert not KeeperDisk(tuple(swapped), (), b"").tree(until=9)[0]
    tree, _ = KeeperDisk((*in_order, *session, txn(6, late)), (), b"").tree(until=6)
    assert {path: node.data for path, node in tree.items()} == {"/a": zlib.crc32(b"late")}


def snapshot(**nodes: bytes) -> bytes:
    """Return a snapshot with a session, a list of access control entries, and these nodes."""

    def sized(data: bytes) -> bytes:
        return struct.pack(">i", len(data)) + data

    head = struct.pack(">iiq", 0x5A4B534E, 2, -1) + struct.pack(">iqi", 1, 7, 30_000)
    lists = struct.pack(">iqii", 1, 1, 1, 31) + sized(b"world") + sized(b"anyone")
    stored = b"".join(
        sized(path.encode()) + sized(data) + struct.pack(">q8x8x16x12xqq", 1, 0, 0)
        for path, data in (("", b""), *((f"/{name}", data) for name, data in nodes.items()))
    )
    return head + lists + stored + sized(b"/")


def test_more_than_the_budget_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = pack({"snapshot.2": snapshot(a=b"x") + bytes(1_000)})
    monkeypatch.setattr(keeper_disk, "BYTES_MAX", len(snapshot(a=b"x")))
    assert read_disk(packed, "zk1").snapshots == (2,)
    monkeypatch.setattr(keeper_disk, "BYTES_MAX", 10)
    with pytest.raises(HarnessError, match="zk1: over 10 bytes of log and snapshot"):
        read_disk(packed, "zk1")


def test_a_snapshot_is_where_a_restart_begins() -> None:
    packed = pack({"snapshot.2": snapshot(old=b"1"), "snapshot.a": snapshot(a=b"x")})
    found = read_disk(packed, "zk1")
    assert found.snapshots == (2, 10)
    tree, _ = found.tree(until=10)
    assert {path: node.data for path, node in tree.items()} == {
        "/": zlib.crc32(b""),
        "/a": zlib.crc32(b"x"),
    }
    assert found.last == 10


@pytest.mark.parametrize("content", [b"", b"ZKSN", snapshot(a=b"x")[:-9], b"\0" * 64])
def test_a_snapshot_that_is_none_is_one_error(content: bytes) -> None:
    found = read_disk(pack({"snapshot.a": content}), "zk1")
    if not content:
        assert found.tree(until=10) == ({}, set())
        return
    with pytest.raises(HarnessError, match="a snapshot that"):
        found.tree(until=10)


HOLE = ServerTree(3, 5, missing=[Missing(EPOCH + 2, 2)])
WELL = ServerTree(3, 5)


@pytest.mark.parametrize(
    ("report", "status", "words"),
    [
        (TreeReport({"zk1": WELL, "zk2": WELL}), Status.VALID, "2 servers show the same 3 nodes"),
        (TreeReport({"zk1": WELL}), Status.UNKNOWN, "no two servers were read"),
        (TreeReport({"zk1": WELL, "zk2": WELL}, unread={"zk3": "dead"}), Status.UNKNOWN, "zk3"),
        (TreeReport({"zk1": WELL, "zk2": WELL}, moving=["/a"]), Status.UNKNOWN, "/a went on"),
        (TreeReport({"zk1": WELL, "zk2": HOLE}), Status.INVALID, "1 hole"),
        (
            TreeReport(
                {"zk1": WELL, "zk2": WELL}, [TreeDifference("/a", {"zk1": "1", "zk2": "2"})]
            ),
            Status.INVALID,
            "1 differs",
        ),
        (
            TreeReport({"zk1": WELL, "zk2": ServerTree(3, 5, unlogged=True)}),
            Status.INVALID,
            "1 unlogged",
        ),
        (
            TreeReport({"zk1": WELL, "zk2": ServerTree(3, 5, stored_otherwise=["/a"])}),
            Status.INVALID,
            "1 stored-otherwise",
        ),
        (
            TreeReport({"zk1": WELL, "zk2": ServerTree(3, 5, untruncated=["/a"])}),
            Status.INVALID,
            "1 untruncated",
        ),
    ],
    ids=[
        "equal",
        "one",
        "unread",
        "moving",
        "hole",
        "differs",
        "unlogged",
        "stored otherwise",
        "untruncated",
    ],
)
def test_trees_are_judged(report: TreeReport, status: Status, words: str) -> None:
    value = encode(report)
    ops = [
        Op(index=n, process=NEMESIS, kind=kind, f="trees", time_ns=n, value=own)
        for n, (kind, own) in enumerate([(Kind.INVOKE, None), (Kind.OK, value)])
    ]
    verdict = Trees().check(History(ops))
    assert (verdict.status, words in verdict.summary) == (status, True), verdict.summary


def test_neighbours_are_one_run() -> None:
    assert runs_of([1, 2, 3, 7]) == [Missing(1, 3), Missing(7, 1)]


def test_a_node_that_was_cut_off_a_log_and_not_off_a_snapshot() -> None:
    node, own = KeeperNode(0, 3, 3, 0, 0, 0, 0, 0), KeeperNode(0, 1, 1, 0, 0, 0, 0, 0)
    trees = {
        "zk1": KeeperTree({"/a": own}, EPOCH + 1),
        "zk2": KeeperTree({"/a": own, "/t": node}, EPOCH + 1),
    }
    cut = {"zk1": disk(1, 2, EPOCH + 1), "zk2": disk(1, 2, EPOCH + 1)}
    logged = {"zk1": disk(1, 2, EPOCH + 1), "zk2": disk(1, 2, 3, EPOCH + 1)}
    behind = {"zk1": disk(1, 2, EPOCH + 1), "zk2": disk(1, 2)}
    assert untruncated("zk2", trees, cut) == ["/t"]
    assert untruncated("zk1", trees, cut) == []
    assert untruncated("zk2", trees, logged) == []
    assert untruncated("zk2", trees, behind) == []


def test_a_node_that_one_log_alone_has_and_no_server_shows() -> None:
    shared, last = [txn(1, made("/a"))], [txn(EPOCH + 1)]
    own = [txn(2, made("/t"))]
    removed = [txn(EPOCH + 2, Change(ChangeKind.DELETE, "/t"))]
    trees = {node: KeeperTree({}, EPOCH + 1) for node in ("zk1", "zk2")}

    def disks(*more: Txn) -> dict[str, KeeperDisk]:
        first = KeeperDisk((*shared, *last, *more), (), b"")
        return {"zk1": first, "zk2": KeeperDisk((*shared, *own, *last, *more), (), b"")}

    assert forgotten("zk2", trees, disks()) == ["/t"]
    assert forgotten("zk1", trees, disks()) == []
    assert forgotten("zk2", trees, disks(*removed)) == []

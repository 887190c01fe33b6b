"""What a ZooKeeper server has on its disk: its snapshots, its log in the order of the file, and the
tree that it would have after a restart.

A server that starts reads its newest snapshot, and applies the records of its log that come after
it, in the order of the file, whatever their numbers. The format of a snapshot is that of ZooKeeper
3.4 to 3.9 (org.apache.zookeeper.server.persistence.FileSnap).
"""

import tarfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Final

from harness.conform.ensemble import LOG, merged, number_in_name, numbered
from harness.conform.jute import Jute, JuteError
from harness.conform.txnlog import ChangeKind, Txn, read_txns
from harness.core.errors import HarnessError

SNAPSHOT: Final = "snapshot."
"""Prefix of the names of snapshots; the number of the last transaction that began before follows,
in hexadecimal."""
_MAGIC: Final = 0x5A4B534E  # "ZKSN"
BYTES_MAX: Final = 1 << 24
"""Size of a server's log and newest snapshot, without the zeros at the end, from which they are not
read. Three servers of 91,000 records each take 150 MB and 10 s of CPU."""


@dataclass(frozen=True, slots=True)
class StoredNode:
    """A node on a disk."""

    data: int
    """CRC-32 of its data."""
    session: int
    """The session that it ends with; 0 if it outlives all."""


@dataclass(frozen=True, slots=True)
class KeeperDisk:
    """What one server has stored."""

    records: tuple[Txn, ...]
    """Its log, in the order of the files."""
    snapshots: tuple[int, ...]
    """Numbers of its snapshots, ascending."""
    newest: bytes
    """Content of the newest of them; empty without one."""

    @property
    def last(self) -> int:
        """Return the number of the last transaction that it has stored."""
        return max([0, *self.snapshots[-1:], *(txn.zxid for txn in self.records)])

    def missing(self, committed: Iterable[int]) -> list[int]:
        """Return those of the committed transactions, which are in order, that its log lacks before
        a later record, and that no snapshot between them has."""
        own = sorted({txn.zxid for txn in self.records})
        found, at = [], 0
        for zxid in committed:
            while at < len(own) and own[at] < zxid:
                at += 1
            if at == len(own):
                break
            has = own[at] == zxid or any(zxid <= one < own[at] for one in self.snapshots)
            # Before its first record a server has no log, but the tree that it was sent.
            if not has and at:
                found.append(zxid)
        return found

    def tree(self, until: int) -> tuple[dict[str, StoredNode], set[str]]:
        """Return the tree of the transactions up to `until`, as a server has it that restarts, and
        the paths that later ones change. Raises HarnessError."""
        start = self.snapshots[-1] if self.snapshots else 0
        tree = dict(_nodes(self.newest)) if self.newest else {}
        later: set[str] = set()
        for txn in self.records:
            if txn.zxid <= until:
                if txn.zxid > start:
                    _apply(tree, txn)
                continue
            later |= {change.path for change in txn.changes}
            if txn.ends_session:
                later |= _of_session(tree, txn.session)
        return tree, later


def read_disk(packed: bytes, name: str) -> KeeperDisk:
    """Return what an archive of a server's files `version-2/*` has. Raises HarnessError, which
    names it, also if there is more than `BYTES_MAX`."""
    left = BYTES_MAX
    try:
        with tarfile.open(fileobj=BytesIO(packed)) as archive:
            files = {Path(one.name): one for one in archive.getmembers() if one.isfile()}

            def content(file: Path) -> bytes:
                nonlocal left
                found = archive.extractfile(files[file])
                data = found.read() if found else b""
                left -= len(data.rstrip(b"\0"))
                if left < 0:
                    raise HarnessError(f"{name}: over {BYTES_MAX:,} bytes of log and snapshot")
                return data

            snapshots = numbered(files, SNAPSHOT)
            newest = content(snapshots[-1]) if snapshots else b""
            records = [
                txn
                for log in numbered(files, LOG)
                for txn in read_txns(content(log), f"{name}:{log}")
            ]
            return KeeperDisk(tuple(records), tuple(map(number_in_name, snapshots)), newest)
    except (OSError, tarfile.TarError, EOFError, ValueError) as error:
        raise HarnessError(f"{name}: cannot be read: {error}") from error


def committed(disks: Sequence[KeeperDisk], size: int) -> list[int]:
    """Return the numbers of the transactions that `size` servers have agreed on, by their logs.
    Raises HarnessError if two servers differ about one."""
    logs = [{txn.zxid: txn for txn in disk.records}.values() for disk in disks]
    return [txn.zxid for txn in merged(logs, size).txns]


def _apply(tree: dict[str, StoredNode], txn: Txn) -> None:
    """Make the changes that can be made, as a server does that reads its log."""
    for change in txn.changes:
        before = tree.get(change.path)
        data = zlib.crc32(change.data)
        if change.kind is ChangeKind.DELETE:
            tree.pop(change.path, None)
        elif change.kind is ChangeKind.CREATE and before is None:
            tree[change.path] = StoredNode(data, txn.session if change.ephemeral else 0)
        elif change.kind is ChangeKind.SET and before is not None:
            tree[change.path] = StoredNode(data, before.session)
    if txn.ends_session:
        for path in _of_session(tree, txn.session):
            del tree[path]


def _of_session(tree: dict[str, StoredNode], session: int) -> set[str]:
    return {path for path, node in tree.items() if node.session == session}


def _nodes(snapshot: bytes) -> Iterator[tuple[str, StoredNode]]:
    """Yield the nodes of a snapshot. Raises HarnessError."""
    file = Jute(snapshot)
    try:
        magic, version, _ = file.int32(), file.int32(), file.int64()
        if magic != _MAGIC or version != 2:
            raise HarnessError("a snapshot that is none of ZooKeeper, version 2")
        for _ in range(file.int32()):
            file.int64(), file.int32()  # a session and its timeout
        for _ in range(file.int32()):
            file.int64()  # a list of access control entries
            for _ in range(file.int32()):
                file.int32(), file.text(), file.text()
        while (path := file.text()) != "/":
            data = file.buffer()
            file.raw(8 + 8 + 8 + 8 + 8 + 4 + 4 + 4)  # acl, czxid, mzxid, two times, three versions
            session = file.int64()
            file.raw(8)  # pzxid
            yield path or "/", StoredNode(zlib.crc32(data), session)
    except JuteError as error:
        raise HarnessError(f"a snapshot that cannot be read: {error}") from error

"""Reads ZooKeeper's transaction log: every change of its tree, in the order in which it took
effect.

The format is that of ZooKeeper 3.4 to 3.9 (org.apache.zookeeper.server.persistence.FileTxnLog and
zookeeper.jute): a header, then for each transaction an Adler-32 checksum, a length, the transaction
and the letter B; then zeros, because the file is allocated ahead.
"""

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from harness.conform.jute import Jute, JuteError
from harness.core.errors import HarnessError

_HEADER: Final = struct.Struct(">qiqqi")
"""Header of a transaction: session, number in it, zxid, time in ms, kind."""
_MAGIC: Final = 0x5A4B4C47  # "ZKLG"
_END: Final = ord("B")
_CREATE: Final = frozenset({1, 15, 19, 21})  # create, create2, createContainer, createTTL
_WITHOUT_EPHEMERAL: Final = frozenset({19, 21})
_DELETE: Final = frozenset({2, 20})
_SET_DATA: Final = 5
_CLOSE_SESSION: Final = -11
_MULTI: Final = 14
_FAILED: Final = -1
_LOCKS: Final = b"/zero_copy_"
"""Text in the paths of the locks of zero-copy replication, which lie outside their table's."""


class ChangeKind(Enum):
    """Kind of a change to a node."""

    CREATE = "create"
    DELETE = "delete"
    SET = "set"


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one node."""

    kind: ChangeKind
    path: str
    data: bytes = b""
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class Txn:
    """One transaction, whose changes took effect together."""

    zxid: int
    session: int
    time_ms: int
    """Wall-clock time of the leader."""
    changes: tuple[Change, ...]
    ends_session: bool
    """True if the transaction ends the session and deletes its ephemeral nodes."""


class ChecksumError(HarnessError):
    """A record does not have its checksum."""


def read_txns(data: bytes, name: str, about: str = "") -> Iterator[Txn]:
    """Yield the transactions of a log file in order, including those without effect.

    A file whose last transaction was cut off by a kill ends before it. Raises HarnessError, naming
    the file and the position, for anything else that is no log. With `about`, a path, only the
    transactions that contain it, concern locks of zero-copy replication or end a session are
    parsed; others come without their changes, which takes a tenth of the time.
    """
    start = _start(data, name)
    if start is not None:
        for at, _, record in _records(data, start, name):
            yield _read(record, about, f"{name}: the transaction at byte {at}")


class LogTail:
    """A log file that is read while it grows."""

    def __init__(self, name: str, about: str = "") -> None:
        self.name = name
        self.offset = 0
        """Number of bytes whose transactions were read."""
        self.torn_at: int | None = None
        """Where the last read had a record of which the server had written only some pages."""
        self._about = about

    def feed(self, data: bytes) -> list[Txn]:
        """Return the transactions that `data`, the file's bytes from `offset` on, has whole. Raises
        HarnessError as `read_txns` does, for a wrong checksum only if the read before this one had
        it too: a read beside a write may return its end without its beginning."""
        start = 0
        if self.offset == 0:
            found = _start(data, self.name)
            if found is None:
                return []
            start = found
        txns = []
        base, self.offset = self.offset, self.offset + start
        torn_before, self.torn_at = self.torn_at, None
        try:
            for at, end, record in _records(data, start, self.name):
                where = f"{self.name}: the transaction at byte {base + at}"
                txns.append(_read(record, self._about, where))
                self.offset = base + end
        except ChecksumError:
            if self.offset == torn_before:
                raise
            self.torn_at = self.offset
        return txns


def _start(data: bytes, name: str) -> int | None:
    """Return where the transactions of a file begin; None if its header is not written yet."""
    file = Jute(data)
    try:
        magic, version, _ = file.int32(), file.int32(), file.int64()
    except JuteError:
        return None
    if not any(data[:8]):
        return None
    if magic != _MAGIC or version != 2:
        raise HarnessError(f"{name}: is not a transaction log of ZooKeeper, version 2")
    return len(data) - file.left


def _records(data: bytes, start: int, name: str) -> Iterator[tuple[int, int, bytes]]:
    """Yield begin, end and content of each whole transaction from byte `start` on."""
    file = Jute(data, start)
    while file.left:
        at = len(data) - file.left
        try:
            checksum, record = file.int64(), file.buffer()
            if not record:
                return
            end = file.flag()
        except JuteError:
            return  # cut off, or without its trailing zeros
        if zlib.adler32(record) != checksum or not end:
            if not any(data[at + 12 + len(record) :]):
                return
            raise ChecksumError(f"{name}: the transaction at byte {at} has a wrong checksum")
        yield at, len(data) - file.left, record


def _read(record: bytes, about: str, where: str) -> Txn:
    named = about.encode() in record or _LOCKS in record
    if not named and _HEADER.unpack_from(record)[-1] != _CLOSE_SESSION:
        session, _, zxid, time_ms, _ = _HEADER.unpack_from(record)
        return Txn(zxid, session, time_ms, (), ends_session=False)
    try:
        return _txn(Jute(record))
    except JuteError as error:
        raise HarnessError(f"{where}: {error}") from error


def _txn(record: Jute) -> Txn:
    session, _, zxid, time_ms, kind = (
        record.int64(), record.int32(), record.int64(), record.int64(), record.int32()
    )  # fmt: skip
    return Txn(zxid, session, time_ms, tuple(_changes(kind, record)), kind == _CLOSE_SESSION)


def _changes(kind: int, record: Jute) -> Sequence[Change]:
    if kind == _MULTI:
        parts = [(record.int32(), record.buffer()) for _ in range(record.int32())]
        if any(part == _FAILED for part, _ in parts):
            return ()
        return [change for part, body in parts for change in _changes(part, Jute(body))]
    if kind in _CREATE:
        path, data = record.text(), record.buffer()
        for _ in range(record.int32()):
            record.int32(), record.text(), record.text()  # an access control entry
        ephemeral = kind not in _WITHOUT_EPHEMERAL and record.flag()
        return [Change(ChangeKind.CREATE, path, data, ephemeral)]
    if kind in _DELETE:
        return [Change(ChangeKind.DELETE, record.text())]
    if kind == _SET_DATA:
        return [Change(ChangeKind.SET, record.text(), record.buffer())]
    return ()

"""Merges the transaction logs of an ensemble's servers into one order.

A transaction's number, the zxid, is an epoch and a counter. ZooKeeper orders transactions by their
numbers, and the counters of an epoch have no gaps. What a deposed leader alone wrote did not
happen, and what a server received as a snapshot is not in its log. So each epoch ends with the last
transaction that a majority of the servers has, and up to there nothing may be missing.
"""

import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import groupby
from pathlib import Path
from typing import Final

from harness.conform.txnlog import Txn, read_txns
from harness.core.errors import HarnessError

_COUNTER_BITS: Final = 32
_HEAD_BYTES: Final = 1 << 16
"""Bytes of a log file that are read for its first transaction."""
BYTES_MAX: Final = 1 << 30
"""Maximum size of a server's log files that are read; each is allocated ahead, to 64 MiB."""
LOG: Final = "log."
"""Prefix of the names of log files; the first transaction's number follows."""


@dataclass(frozen=True, slots=True)
class Ensemble:
    """The transactions that the servers' logs contain together."""

    txns: tuple[Txn, ...]
    """All transactions, in the order in which they took effect."""
    gaps: tuple[str, ...]
    """A sentence for each missing piece. With a gap no conclusion is certain."""
    dropped: int
    """Number of transactions at the end of an epoch that only a minority has."""


def read_archive(path: Path, about: str = "") -> tuple[Txn, ...]:
    """Return a server's transactions from an archive such as a run stores, as `read_txns` does.
    Raises HarnessError."""
    try:
        return read_packed(path.read_bytes(), str(path), about)
    except OSError as error:
        raise HarnessError(f"{path}: cannot be read: {error}") from error


def read_packed(packed: bytes, name: str, about: str = "") -> tuple[Txn, ...]:
    """Return a server's transactions from the content of an archive, as `read_txns` does. Raises
    HarnessError, which names it."""

    def files() -> Iterator[tuple[str, bytes]]:
        with tarfile.open(fileobj=BytesIO(packed)) as archive:
            members = {m.name: m for m in archive if m.isfile()}
            logs = numbered(map(Path, members), LOG)
            _require_size(name, sum(members[str(file)].size for file in logs))
            for file in logs:
                content = archive.extractfile(members[str(file)])
                yield f"{name}:{file}", content.read() if content else b""

    return _ordered(files(), name, about)


def read_directory(path: Path, since_ms: int = 0, about: str = "") -> tuple[Txn, ...]:
    """Return a server's transactions from the directory of its log files, as `read_txns` does,
    without files that ended before `since_ms`, wall-clock time. Raises HarnessError, which names
    it."""

    def files() -> Iterator[tuple[str, bytes]]:
        logs = numbered(path.iterdir(), LOG)
        begins = [_begin_ms(file) for file in logs]
        later = [at for at, begin in enumerate(begins) if begin is not None and begin > since_ms]
        first = max(0, later[0] - 1) if later else max(0, len(logs) - 1)
        _require_size(str(path), sum(file.stat().st_size for file in logs[first:]))
        for file in logs[first:]:
            yield str(file), file.read_bytes()

    return _ordered(files(), str(path), about)


def _require_size(name: str, size: int) -> None:
    if size > BYTES_MAX:
        raise HarnessError(
            f"{name}: {size:,} bytes of log files; expected at most {BYTES_MAX:,}: remove files of "
            "times that are not needed"
        )


def numbered(paths: Iterable[Path], prefix: str) -> list[Path]:
    """Return the files among paths that are named by a prefix and a transaction's number, such as
    LOG, in order."""
    named = [path for path in paths if path.name.startswith(prefix)]
    return sorted(named, key=number_in_name)


def number_in_name(path: Path) -> int:
    """Return the number of a transaction that a file's name ends with, in hexadecimal."""
    return int(path.name.rpartition(".")[2], 16)


def _begin_ms(file: Path) -> int | None:
    """Return the wall-clock time of a file's first transaction; None if it has no whole one."""
    with file.open("rb") as log:
        head = log.read(_HEAD_BYTES)
    first = next(read_txns(head, str(file)), None)
    return None if first is None else first.time_ms


def _ordered(files: Iterator[tuple[str, bytes]], name: str, about: str) -> tuple[Txn, ...]:
    """Return the transactions of log files in order, each once."""
    found: dict[int, Txn] = {}
    try:
        for file, data in files:
            found |= {txn.zxid: txn for txn in read_txns(data, file, about)}
    except (OSError, tarfile.TarError, EOFError, ValueError) as error:
        raise HarnessError(f"{name}: cannot be read: {error}") from error
    return tuple(found[zxid] for zxid in sorted(found))


def pack(logs: Mapping[str, bytes]) -> bytes:
    """Return an archive of log files, given by name, as a run stores it."""
    out = BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, data in logs.items():
            info = tarfile.TarInfo(f"version-2/{name}")
            info.size = len(data)
            archive.addfile(info, BytesIO(data))
    return out.getvalue()


def merged(servers: Sequence[Iterable[Txn]], size: int, after: int = 0) -> Ensemble:
    """Return the transactions after number `after` in their common order. `size` is the number of
    servers in the ensemble, some of which may have no log here. Raises HarnessError if two servers
    differ about one zxid."""
    merge = Merge(size, after)
    for txns in servers:
        merge.add(txns)
    kept = merge.take(last=True)
    return Ensemble(tuple(kept), tuple(merge.gaps), merge.dropped)


class Merge:
    """Merges the logs of an ensemble's servers while they grow."""

    def __init__(self, size: int, after: int = 0) -> None:
        self._size = size
        self._after = after
        """Number of the last transaction that was taken; earlier ones are ignored."""
        self._pending: dict[int, Txn] = {}
        self._having: Counter[int] = Counter()
        self._newest = after >> _COUNTER_BITS
        """The newest epoch at the last `take`."""
        self.gaps: list[str] = []
        self.dropped = 0

    def add(self, txns: Iterable[Txn]) -> None:
        """Add what one server's log has gained. Raises HarnessError if two servers differ."""
        for txn in txns:
            if txn.zxid <= self._after:
                continue
            known = self._pending.setdefault(txn.zxid, txn)
            if known != txn:
                raise HarnessError(
                    f"zxid {txn.zxid:#x}: two servers have different transactions of this number"
                )
            self._having[txn.zxid] += 1

    def take(self, *, last: bool = False) -> list[Txn]:
        """Return the transactions that are certain and were not taken, in order.

        A missing one is waited for, and a new epoch until every server was read once more after it
        had begun, for until then a server may add to the old one. With `last` nothing is waited
        for: what is missing is a gap.
        """
        taken: list[Txn] = []
        newest = self._newest
        self._newest = max([newest, *(zxid >> _COUNTER_BITS for zxid in self._pending)])
        for epoch, group in groupby(sorted(self._pending), key=lambda zxid: zxid >> _COUNTER_BITS):
            zxids = list(group)
            most = [zxid for zxid in zxids if self._having[zxid] * 2 > self._size]
            closed = last or epoch < newest
            certain = [zxid for zxid in zxids if most and zxid <= most[-1]]
            for zxid in certain:
                first = (epoch << _COUNTER_BITS) + 1
                expected = max(self._after + 1, first)
                if zxid != expected:
                    if not closed:
                        return taken
                    self.gaps.append(
                        f"{zxid - expected} transactions from {expected:#x} are in no log"
                    )
                taken.append(self._pending.pop(zxid))
                self._after = zxid
            if not closed:
                return taken
            for zxid in zxids[len(certain) :]:
                del self._pending[zxid]
                self.dropped += 1
        return taken

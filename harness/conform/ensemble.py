"""Merges the transaction logs of an ensemble's servers into one order.

A transaction's number, the zxid, is an epoch and a counter. ZooKeeper orders transactions by their
numbers, and the counters of an epoch have no gaps. What a deposed leader alone wrote did not
happen, and what a server received as a snapshot is not in its log. So each epoch ends with the last
transaction that a majority of the servers has, and up to there nothing may be missing.
"""

import tarfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import groupby
from pathlib import Path
from typing import Final

from harness.conform.txnlog import Txn, read_txns
from harness.core.errors import HarnessError

_COUNTER_BITS: Final = 32


@dataclass(frozen=True, slots=True)
class Ensemble:
    """The transactions that the servers' logs contain together."""

    txns: tuple[Txn, ...]
    """All transactions, in the order in which they took effect."""
    gaps: tuple[str, ...]
    """A sentence for each missing piece. With a gap no conclusion is certain."""
    dropped: int
    """Number of transactions at the end of an epoch that only a minority has."""


def read_archive(path: Path) -> tuple[Txn, ...]:
    """Return a server's transactions from the archive that a run stores. Raises HarnessError."""
    try:
        return read_packed(path.read_bytes(), str(path))
    except OSError as error:
        raise HarnessError(f"{path}: cannot be read: {error}") from error


def read_packed(packed: bytes, name: str, about: str = "") -> tuple[Txn, ...]:
    """Return a server's transactions from the content of an archive, as `read_txns` does. Raises
    HarnessError, which names it."""
    found: dict[int, Txn] = {}
    try:
        with tarfile.open(fileobj=BytesIO(packed)) as archive:
            files = sorted(
                (m for m in archive if m.isfile() and Path(m.name).name.startswith("log.")),
                key=lambda m: int(Path(m.name).suffix[1:], 16),
            )
            for member in files:
                content = archive.extractfile(member)
                data = content.read() if content else b""
                found |= {txn.zxid: txn for txn in read_txns(data, f"{name}:{member.name}", about)}
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


def merged(servers: Sequence[Iterable[Txn]], size: int) -> Ensemble:
    """Return the transactions in their common order. `size` is the number of servers in the
    ensemble, some of which may have no log here. Raises HarnessError if two servers differ about
    one zxid."""
    by_zxid: dict[int, Txn] = {}
    having: Counter[int] = Counter()
    for txns in servers:
        for txn in txns:
            known = by_zxid.setdefault(txn.zxid, txn)
            if known != txn:
                raise HarnessError(
                    f"zxid {txn.zxid:#x}: two servers have different transactions of this number"
                )
            having[txn.zxid] += 1
    kept: list[Txn] = []
    gaps: list[str] = []
    for epoch, group in groupby(sorted(by_zxid), key=lambda zxid: zxid >> _COUNTER_BITS):
        zxids = list(group)
        most = [zxid for zxid in zxids if having[zxid] * 2 > size]
        if not most:
            continue
        certain = [zxid for zxid in zxids if zxid <= most[-1]]
        expected = (epoch << _COUNTER_BITS) + 1
        for zxid in certain:
            if zxid != expected:
                gaps.append(f"{zxid - expected} transactions from {expected:#x} are in no log")
            expected = zxid + 1
        kept += (by_zxid[zxid] for zxid in certain)
    return Ensemble(tuple(kept), tuple(gaps), len(by_zxid) - len(kept))

"""One order of transactions out of the logs of an ensemble's servers.

A transaction's number, the zxid, is an epoch and a counter: ZooKeeper's order is that of the
numbers, and the counters of an epoch have no gaps. What a deposed leader wrote and nobody else
has did not happen; what a server got as a snapshot is not in its log. So of every epoch what
counts ends with the last transaction that most servers have, and up to there nothing may be
missing.
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
    """What the servers' logs say together."""

    txns: tuple[Txn, ...]
    """In the order in which they took effect."""
    gaps: tuple[str, ...]
    """What is missing, a sentence each: with one of these no conclusion is whole."""
    dropped: int
    """Transactions that only a minority has at the end of an epoch."""


def read_archive(path: Path) -> tuple[Txn, ...]:
    """A server's transactions, from the archive that a run keeps. Raises HarnessError."""
    found: dict[int, Txn] = {}
    try:
        with tarfile.open(path) as archive:
            files = sorted(
                (m for m in archive if m.isfile() and Path(m.name).name.startswith("log.")),
                key=lambda m: int(Path(m.name).suffix[1:], 16),
            )
            for member in files:
                content = archive.extractfile(member)
                data = content.read() if content else b""
                found |= {txn.zxid: txn for txn in read_txns(data, f"{path}:{member.name}")}
    except (OSError, tarfile.TarError, EOFError, ValueError) as error:
        raise HarnessError(f"{path}: cannot be read: {error}") from error
    return tuple(found[zxid] for zxid in sorted(found))


def pack(logs: Mapping[str, bytes]) -> bytes:
    """An archive as a run keeps it, of log files by name."""
    out = BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, data in logs.items():
            info = tarfile.TarInfo(f"version-2/{name}")
            info.size = len(data)
            archive.addfile(info, BytesIO(data))
    return out.getvalue()


def merged(servers: Sequence[Iterable[Txn]], size: int) -> Ensemble:
    """Their common order; `size` is the number of servers of the ensemble, of which some may
    have no log here. Raises HarnessError when two differ about one number."""
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

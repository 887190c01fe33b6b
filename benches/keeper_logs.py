"""Transaction logs of ZooKeeper servers whose records are out of order, in the runs of a store.

    python -m benches.keeper_logs STORE...

A server that starts applies the records of its log in the order of the file, whatever their
numbers, and its leader sends it only what comes after the highest of them. So if it dies when a
record has just been written, and its tree by the file's order is then not the tree by the order of
the numbers, it stays wrong. For each log that is out of order: how many records there are, how many
of them are behind later ones, and after how many a death would have left a wrong tree.
"""

import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from harness.conform.keeper_disk import read_disk
from harness.conform.txnlog import Change, ChangeKind, Txn


def apply(tree: dict[str, bytes], changes: Sequence[Change]) -> None:
    """Make the changes that can be made, as a server does that reads its log."""
    for change in changes:
        if change.kind is ChangeKind.DELETE:
            tree.pop(change.path, None)
        elif change.kind is ChangeKind.CREATE:
            tree.setdefault(change.path, change.data)
        elif change.path in tree:
            tree[change.path] = change.data


def wrong_after(txns: Sequence[Txn]) -> int:
    """Return after how many records the tree by their order is not that by their numbers."""
    ordered = sorted({txn.zxid: txn for txn in txns}.values(), key=lambda txn: txn.zxid)
    by_file: dict[str, bytes] = {}
    by_number: dict[str, bytes] = {}
    highest, taken, wrong = 0, 0, 0
    for txn in txns:
        apply(by_file, txn.changes)
        highest = max(highest, txn.zxid)
        while taken < len(ordered) and ordered[taken].zxid <= highest:
            apply(by_number, ordered[taken].changes)
            taken += 1
        wrong += by_file != by_number
    return wrong


def main() -> None:
    """Print the logs that are out of order, and how many logs there are."""
    archives = [
        found for store in sys.argv[1:] for found in Path(store).glob("*/2*/logs/*/txnlog.tar.gz")
    ]
    for archive in sorted(archives):
        txns = read_disk(archive.read_bytes(), str(archive)).records
        behind = sum(later.zxid <= earlier.zxid for earlier, later in pairwise(txns))
        if behind:
            _, cell, run, _, node, _ = archive.parts[-6:]
            print(
                f"{cell}/{run} {node}: {len(txns):,} records, {behind:,} behind later ones; "
                f"a death after {wrong_after(txns):,} of them leaves a wrong tree"
            )
    print(f"{len(archives)} logs")


if __name__ == "__main__":
    main()

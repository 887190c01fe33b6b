"""Lines of the servers' logs about the parts that inserts made, on every replica.

A server logs the id of the block that an insert wrote, ZooKeeper's transaction log has the part's
name by that id, and whatever a replica logs of the part names it.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Final

from harness.conform.ensemble import read_archive
from harness.conform.txnlog import ChangeKind
from harness.core.errors import HarnessError
from harness.report.node_logs import line_around

_WROTE: Final = re.compile(r"> harness_(\S+)\.\w+ .*Wrote block with ID '([^']+)'")
"""ReplicatedMergeTreeSink.cpp of 25.8, ReplicatedMergeTreeBlockOutputStream.cpp of 18.16."""
_INSERTED: Final = re.compile(rb"_(\d+)_\1_0(?!\w)")
"""End of the name of a part of one block that was never merged."""
_WORD: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_BLOCKS: Final = "/blocks/"


@dataclass(frozen=True, slots=True)
class LoggedPart:
    """A part of a table."""

    token: str
    """What follows `harness_` in the table's database, and `/harness/` in ZooKeeper."""
    name: str


def parts_of_queries(
    logs: Path, lines: Mapping[str, Iterable[str]]
) -> Mapping[str, Sequence[LoggedPart]]:
    """Return the parts of the blocks that each query wrote, by the lines that servers logged of it.
    Blocks without an id, and runs without ZooKeeper's log, have none."""
    blocks = {
        query: [(found[1], found[2]) for found in map(_WROTE.search, of_query) if found]
        for query, of_query in lines.items()
    }
    names = _names(logs, {block for several in blocks.values() for block in several})
    return {
        query: [part for block in dict.fromkeys(several) for part in names.get(block, ())]
        for query, several in blocks.items()
        if several
    }


def _names(
    logs: Path, blocks: Collection[tuple[str, str]]
) -> Mapping[tuple[str, str], Collection[LoggedPart]]:
    """Return the parts of blocks, each given by token and id, from the transaction logs, until one
    has all of them. A block that comes again after its id was forgotten has several."""
    found: dict[tuple[str, str], dict[LoggedPart, None]] = {}
    for archive in sorted(logs.glob("*/txnlog.tar.gz")):
        if len(found) == len(blocks):
            break
        try:
            txns = read_archive(archive, _BLOCKS)
        except HarnessError:
            continue  # conformance says what is wrong with it
        for change in (change for txn in txns for change in txn.changes):
            head, _, block = change.path.partition(_BLOCKS)
            token = head.removeprefix("/harness/").partition("/")[0]
            # A server creates the node without a part, too, to see whether the block was there.
            if change.kind is ChangeKind.CREATE and change.data and (token, block) in blocks:
                part = LoggedPart(token, change.data.decode(errors="replace"))
                found.setdefault((token, block), {})[part] = None
    return found


def lines_of_parts(
    file: Path, wanted: Collection[LoggedPart]
) -> Mapping[LoggedPart, Sequence[str]]:
    """Return the lines of a server's log that name each part."""
    by_name: dict[bytes, list[LoggedPart]] = defaultdict(list)
    for part in wanted:
        by_name[part.name.encode()].append(part)
    found: dict[LoggedPart, list[str]] = defaultdict(list)
    with file.open("rb") as raw, mmap(raw.fileno(), 0, access=ACCESS_READ) as text:
        for match in _INSERTED.finditer(text):
            start = match.start()
            while start and text[start - 1] in _WORD:
                start -= 1
            for part in by_name.get(text[start : match.end()], ()):
                line = line_around(text, start)[0]
                lines = found[part]
                if f"harness_{part.token}." in line and line not in lines[-1:]:
                    lines.append(line)
    return found

"""Checks that no inserted block is ever seen in part.

Each row says how many rows its block has. A part appears by a rename, so that a replica has a block
as a whole or not at all.

Violated: a replica shows a number of rows of a block that is no multiple of the block's size
("partial"). Doubtful: no block of more than one row was seen. Twice its size is another checker's
matter, so that this is right here:
    insert 1 of 3 rows → info     insert 1 of 3 rows → ok     rows → 6 of 3
"""

from collections.abc import Iterator
from typing import Annotated, TypeAlias

import msgspec

from checkers.conclusion import Findings, anomaly
from checkers.look import decode
from checkers.phrasing import during, number, on_key, seconds, where
from harness.core.history import History
from harness.core.op import Op
from harness.core.verdict import Anomaly, Verdict

ROWS = ("rows", "final-rows")
Block: TypeAlias = tuple[int, int, Annotated[int, msgspec.Meta(ge=1)]]
"""A value, the number of its rows that a replica has, and the number that its block has."""


class BlocksOfReplica(msgspec.Struct, frozen=True):
    """Look at the blocks of a key on a replica."""

    blocks: list[Block]


class WholeBlocks:
    """Judges the calls "rows" and "final-rows"."""

    name = "whole-blocks"

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs blocks of more than one row that were seen."""
        found = Findings(self.name, kinds=["partial"])
        seen = big = 0
        for invoke, end in history.answered(*ROWS):
            blocks = decode(end, BlocksOfReplica).blocks
            seen += len(blocks)
            big += sum([size > 1 for _, _, size in blocks])
            for block in [block for block in blocks if block[1] % block[2]]:
                found.add_anomalies("partial", _witness(history, invoke, end, block))
        if not big:
            found.add_doubt("no block of more than one row was seen")
        partial = number(found.counts["partial"], "block")
        return found.verdict(
            checked=seen,
            broken=f"{partial} seen in part (of {seen:,} seen)",
            held=f"{number(big, 'block')} of many rows seen whole (of {seen:,})",
            figures={"blocks_seen": seen, "big": big},
        )


def _witness(history: History, invoke: Op, end: Op, block: Block) -> Iterator[Anomaly]:
    value, rows, size = block
    yield anomaly(
        "partial",
        f"value {value}{on_key(invoke)} has {rows:,} of its {size:,} rows in op "
        f"#{end.index} {end.f}{where(end)} at {seconds(end.time_ns)}"
        f"{during(history, end.time_ns)}",
        *(invoke, end),
        key=invoke.key,
        value=value,
        time_ns=end.time_ns,
    )

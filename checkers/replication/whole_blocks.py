"""Checks that no inserted block is ever seen in part."""

from collections.abc import Sequence
from typing import Annotated, TypeAlias

import msgspec

from checkers.conclusion import conclude
from checkers.phrasing import FEW, during, number, on_key, seconds, where
from harness.core.errors import HistoryError
from harness.core.history import History
from harness.core.op import Op
from harness.core.verdict import Anomaly, Verdict

ROWS = ("rows", "final-rows")
Block: TypeAlias = tuple[int, int, Annotated[int, msgspec.Meta(ge=1)]]
"""A value, the number of its rows that a replica has, and the number that its block has."""


class _ReplicaBlocks(msgspec.Struct):
    blocks: list[Block]


class WholeBlocks:
    """Judges the calls "rows" and "final-rows", whose value is {"blocks": [[value, rows, size]]}:
    how many rows of a block a replica has, and how many the block says that it has.

    A part appears by a rename, so a block is there whole or not at all; twice its size is
    another checker's matter.
    """

    name = "whole-blocks"

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs blocks of more than one row that were seen."""
        partial: list[Anomaly] = []
        seen = big = 0
        for invoke, end in history.answered(*ROWS):
            blocks = _blocks(end)
            seen += len(blocks)
            big += sum([size > 1 for _, _, size in blocks])
            for value, rows, size in [block for block in blocks if block[1] % block[2]]:
                partial.append(_anomaly(history, invoke, end, value, rows, size))
        status = conclude(partial, checked=big)
        summary = f"{number(big, 'block')} of many rows seen whole (of {seen:,})"
        if partial:
            summary = f"{number(len(partial), 'block')} seen in part (of {seen:,} seen)"
        return Verdict(
            checker=self.name,
            status=status,
            summary=summary if big or partial else "no block of more than one row was seen",
            checked=seen,
            anomalies=tuple(partial[:FEW]),
            figures={"blocks_seen": seen, "big": big, "anomalies": {"partial": len(partial)}},
        )


def _blocks(end: Op) -> Sequence[Block]:
    try:
        return msgspec.convert(end.value, _ReplicaBlocks).blocks
    except msgspec.ValidationError as error:
        raise HistoryError(f"op #{end.index}: an ok {end.f} has no blocks: {error}") from error


def _anomaly(history: History, invoke: Op, end: Op, value: int, rows: int, size: int) -> Anomaly:
    return Anomaly(
        kind="partial",
        text=(
            f"value {value}{on_key(invoke)} has {rows:,} of its {size:,} rows in op "
            f"#{end.index} {end.f}{where(end)} at {seconds(end.time_ns)}"
            f"{during(history, end.time_ns)}"
        ),
        ops=(invoke.index, end.index),
        key=invoke.key,
        value=value,
        time_ns=end.time_ns,
    )

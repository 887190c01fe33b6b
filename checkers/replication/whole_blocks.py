"""Checks that no inserted block is ever seen in part."""

from collections.abc import Iterable, Mapping

from checkers.conclusion import conclude
from checkers.phrasing import FEW, during, number, on_key, seconds, where
from harness.core.errors import HistoryError
from harness.core.history import History, Pair
from harness.core.op import Kind
from harness.core.verdict import Anomaly, Verdict

ROWS = frozenset({"rows", "final-rows"})


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
        for pair in history.pairs:
            if pair.invoke.f not in ROWS or pair.kind is not Kind.OK:
                continue
            for value, rows, size in _blocks(pair):
                seen += 1
                big += size > 1
                if rows % size:
                    partial.append(_anomaly(history, pair, value, rows, size))
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


def _blocks(pair: Pair) -> Iterable[tuple[int, int, int]]:
    end = pair.end
    assert end is not None, "an ok has an end"
    blocks = end.value.get("blocks") if isinstance(end.value, Mapping) else None
    if not isinstance(blocks, list):
        raise HistoryError(f"op #{end.index}: an ok {end.f} has value {end.value!r}, no blocks")
    for value, rows, size in blocks:
        yield int(value), int(rows), int(size)


def _anomaly(history: History, pair: Pair, value: int, rows: int, size: int) -> Anomaly:
    assert pair.end is not None, "an ok has an end"
    return Anomaly(
        kind="partial",
        text=(
            f"value {value}{on_key(pair.invoke)} has {rows:,} of its {size:,} rows in op "
            f"#{pair.end.index} {pair.end.f}{where(pair.end)} at {seconds(pair.end.time_ns)}"
            f"{during(history, pair.end.time_ns)}"
        ),
        ops=(pair.invoke.index, pair.end.index),
        key=pair.invoke.key,
        value=value,
        time_ns=pair.end.time_ns,
    )

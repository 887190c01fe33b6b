"""Checks that merges keep the rows of partitions that were filled once and then only merged.

A call "fill" or "optimize" that was ok names the number of rows of a partition into which nothing
else inserts. At rest each replica shows its active parts with their rows.

Violated, at rest: the active parts of such a partition on some replica have fewer rows than it was
filled with ("rows-lost"), or more ("rows-doubled"). Rows that a fault took from the only disk that
had to have them are no longer promised. Doubtful: a cluster that was not at rest, and a run in
which no filled partition had a merged part.

That replicas have equal parts says nothing about that, because all execute the same merge:
    fill 7 with 100 rows → ok     at rest 7_0_4_1 has 90 rows on ch1 and on ch2
"""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from checkers.conclusion import Findings
from checkers.look import decode
from checkers.phrasing import number
from checkers.quiescence import quiescence_of
from checkers.replication.parts import Part, parts_at_rest
from checkers.taken import not_promised, taken_of
from harness.core.history import History
from harness.core.verdict import Verdict

FILL: Final = "fill"
FILLS: Final = (FILL, "optimize")


class FilledPartition(msgspec.Struct, frozen=True):
    """Answer to a call that filled a partition, into which nothing else inserts."""

    partition: int | UnsetType = UNSET
    rows: int | UnsetType = UNSET


class MergedRows:
    """Judges the calls "fill" and "optimize"."""

    name = "merged-rows"

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs rest, and a filled partition that was merged."""
        filled, taken = _filled(history), _taken(history)
        seen, rested = parts_at_rest(history), quiescence_of(history).reached
        found = Findings(self.name)
        merged, gone = 0, dict[str, str]()
        op, states = seen if seen and rested else (None, {})
        for node, state in sorted(states.items()):
            if state is None or op is None:
                continue  # It did not show its parts, which is another checker's doubt.
            rows = dict.fromkeys(filled, 0)
            for name, said in state.items():
                part = Part.of(name)
                if part.partition in rows and isinstance(said, Sequence):
                    rows[part.partition] += int(said[0])
                    merged += part.level > 0
            for partition, has in rows.items():
                had = filled[partition]
                if has < had and partition in taken:
                    gone[partition] = taken[partition]
                    continue
                if has != had:
                    text = (
                        f"partition {partition} was filled with {had:,} rows, and has {has:,} on "
                        f"{node} at rest"
                    )
                    found.add_anomaly("rows-lost" if has < had else "rows-doubled", text, op)
        if not rested:
            found.add_doubt("not at rest")
        if not filled or not merged:
            found.add_doubt("no partition was filled and merged")
        return found.verdict(
            checked=len(filled) - len(gone),
            held=f"{number(len(filled) - len(gone), 'partition')} kept their rows over merges",
            nothing="every filled partition lost rows to a fault",
            after=not_promised([*gone.values()]),
            figures={"partitions": len(filled), "merged_parts": merged},
        )


def _filled(history: History) -> dict[str, int]:
    """Return the number of rows of each partition that was filled."""
    out: dict[str, int] = {}
    for _, end in history.answered(*FILLS):
        filled = decode(end, FilledPartition)
        if filled.rows is not UNSET:
            out[str(filled.partition)] = filled.rows
    return out


def _taken(history: History) -> dict[str, str]:
    """Return the partitions whose rows a fault may have taken from the replica that filled them,
    with the name of the fault. Others need not have fetched them before."""
    taken = taken_of(history)
    out: dict[str, str] = {}
    for call, end in history.answered(*FILLS) if taken else ():
        reason = taken.reason([end.node], call.time_ns, end.time_ns)
        if reason:
            out[str(decode(end, FilledPartition).partition)] = reason
    return out

"""Checks that merges keep the rows of partitions that were filled once and then only merged."""

from collections.abc import Sequence
from typing import Final

from checkers.conclusion import conclude, count_kinds, mapping_of
from checkers.phrasing import FEW, number
from checkers.quiescence import quiescence_of
from checkers.replication.parts import Part, parts_at_rest
from harness.core.history import History
from harness.core.op import Op
from harness.core.verdict import Anomaly, Verdict

FILL: Final = "fill"
FILLS: Final = (FILL, "optimize")


class MergedRows:
    """Judges the calls "fill" and "optimize": an ok's value has a "partition", into which nothing
    else inserts, and the number of its "rows".

    INVALID at rest: a replica whose active parts of a partition have fewer rows ("rows-lost") or
    more ("rows-doubled"). That replicas have equal parts says nothing about that: all execute the
    same merge.
    """

    name = "merged-rows"

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs rest, and a filled partition that was merged."""
        filled = _filled(history)
        seen, rested = parts_at_rest(history), quiescence_of(history).reached
        broken: list[Anomaly] = []
        merged = 0
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
            broken += [
                _anomaly(op, node, partition, filled[partition], found)
                for partition, found in rows.items()
                if found != filled[partition]
            ]
        doubts = [] if rested else ["not at rest"]
        if not filled or not merged:
            doubts.append("no partition was filled and merged")
        kept = f"{number(len(filled), 'partition')} kept their rows over merges"
        return Verdict(
            checker=self.name,
            status=conclude(broken, doubts=doubts),
            summary=broken[0].text if broken else "; ".join(doubts) or kept,
            checked=len(filled),
            anomalies=tuple(broken[:FEW]),
            figures={
                "partitions": len(filled),
                "merged_parts": merged,
                "anomalies": {**count_kinds(broken)},
            },
        )


def _filled(history: History) -> dict[str, int]:
    """Return the number of rows of each partition that was filled."""
    out: dict[str, int] = {}
    for _, end in history.answered(*FILLS):
        value = mapping_of(end)
        if "rows" in value:
            out[str(value["partition"])] = int(str(value["rows"]))
    return out


def _anomaly(op: Op, node: str, partition: str, filled: int, found: int) -> Anomaly:
    return Anomaly(
        kind="rows-lost" if found < filled else "rows-doubled",
        text=(
            f"partition {partition} was filled with {filled:,} rows, and has {found:,} on {node} "
            "at rest"
        ),
        ops=(op.index,),
        time_ns=op.time_ns,
    )

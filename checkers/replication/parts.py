"""Checks that replicas at rest have the same parts with the same content.

At rest each replica shows its active parts, each with its rows and a hash of them.

Violated: two active parts of one replica share a block, at rest or not ("intersecting"); at rest,
two replicas have different active parts, or parts of one name and different content ("diverged").
Doubtful: a cluster that was not at rest, a replica that did not show its parts, fewer than two that
did, no parts at all, and a part of one insert that only a replica has which has yet to check parts
(see `checkers.quiescence`), for its insert may never have been committed:
    insert → info     at rest ch1, with a part to check, has 0_7_7_0     ch2 does not have it
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

from msgspec import UNSET

from checkers.conclusion import Findings, unjudged
from checkers.phrasing import listed, number, seconds
from checkers.quiescence import quiescence_of, states_at_rest
from harness.core.history import History
from harness.core.op import Op
from harness.core.verdict import Verdict

_NAME = re.compile(r"(?P<partition>[^_]+)_(?P<min>\d+)_(?P<max>\d+)_(?P<level>\d+)(_\d+)?$")


@dataclass(frozen=True, slots=True)
class Part:
    """A part by its name: "0_3_9_2" has blocks 3 to 9 of partition 0, merged twice."""

    name: str
    partition: str
    first: int
    last: int
    level: int

    @staticmethod
    @lru_cache(10_000)  # looks name the same parts again and again
    def of(name: str) -> "Part":
        """Parse the name of a part. Raises ValueError."""
        found = _NAME.match(name)
        if found is None:
            raise ValueError(f"part {name!r}: expected PARTITION_MIN_MAX_LEVEL")
        numbers = (int(found[field]) for field in ("min", "max", "level"))
        return Part(name, found["partition"], *numbers)

    def intersects(self, other: "Part") -> bool:
        """Return whether both parts have some block."""
        same = self.partition == other.partition
        return same and self.first <= other.last and other.first <= self.last

    def covers(self, other: "Part") -> bool:
        """Return whether this part has all blocks of the other one. A part covers itself."""
        same = self.partition == other.partition
        return same and self.first <= other.first and other.last <= self.last


class Parts:
    """Reads the replicas' states that the run wrote at rest ("quiesce", "replicas", "active": for
    each part its rows and a hash of them)."""

    name = "parts"

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs rest, and the parts of at least two replicas."""
        rest = quiescence_of(history)
        seen = parts_at_rest(history)
        if seen is None:
            return unjudged(self.name, "nobody looked")
        op, states = seen
        found = Findings(self.name, counted=False)
        found.doubts += [f"{n} did not show its parts" for n, state in states.items() if not state]
        known = {node: state for node, state in states.items() if state is not None}
        if not rest.reached:
            found.add_doubt(f"not at rest: {listed(rest.pending or ('the run does not say',))}")
        if len(known) < 2:
            found.add_doubt(f"{number(len(known), 'replica')} showed parts, at least 2 expected")
        unsure = uncommitted(known, rest.to_check)
        found.doubts += [f"part {part} is on {node} only, to be checked" for node, part in unsure]
        settled = {
            node: {part: said for part, said in state.items() if (node, part) not in unsure}
            for node, state in known.items()
        }
        _judge_overlaps(found, op, known)
        if rest.reached:
            _judge_difference(found, op, settled)
        parts = {name for state in known.values() for name in state}
        if not parts:
            found.add_doubt("there were no parts")
        return found.verdict(
            checked=len(parts),
            held=f"{number(len(parts), 'part')} equal on {number(len(known), 'replica')}",
            figures={
                "replicas": len(known),
                "parts": len(parts),
                "merged": sum(Part.of(name).level > 0 for name in parts),
                "doubts": list(found.doubts),
            },
        )


def parts_at_rest(history: History) -> tuple[Op, dict[str, Mapping[str, object] | None]] | None:
    """Return the last look at rest and each replica's parts; None for a replica that showed
    none."""
    seen = states_at_rest(history)
    if seen is None:
        return None
    op, states = seen
    return op, {n: None if s.active is UNSET else s.active for n, s in states.items()}


def _judge_overlaps(found: Findings, op: Op, states: Mapping[str, Mapping[str, object]]) -> None:
    for node, state in sorted(states.items()):
        for a, b in sorted(_overlaps(map(Part.of, state))):
            text = f"{node} has {a} and {b}, which share blocks"
            found.add_anomaly("intersecting", text, op)


def _overlaps(parts: Iterable[Part]) -> Iterable[tuple[str, str]]:
    """Yield the names, ascending, of each two parts that have some block in common."""
    begun: list[Part] = []
    for part in sorted(parts, key=lambda part: (part.partition, part.first)):
        begun = [other for other in begun if other.intersects(part)]
        for other in begun:
            yield min(other.name, part.name), max(other.name, part.name)
        begun.append(part)


def uncommitted(
    states: Mapping[str, Mapping[str, object]], to_check: Mapping[str, int]
) -> Sequence[tuple[str, str]]:
    """Return the replicas with parts to check that have a part of a single insert, which no other
    has, with that part: its insert may never have been committed."""
    held = Counter(part for state in states.values() for part in state)
    return [
        (node, part)
        for node, state in sorted(states.items())
        for part in sorted(state)
        if to_check.get(node) and held[part] == 1 and Part.of(part).level == 0
    ]


def _judge_difference(found: Findings, op: Op, states: Mapping[str, Mapping[str, object]]) -> None:
    for (a, left), (b, right) in combinations(sorted(states.items()), 2):
        for part in sorted(left.keys() | right.keys()):
            if left.get(part) == right.get(part):
                continue
            if part in left and part in right:
                what = f"part {part} is {left[part]} on {a} and {right[part]} on {b}"
            else:
                what = f"part {part} is on {a if part in left else b} and not on "
                what += b if part in left else a
            found.add_anomaly("diverged", f"{what}, at rest at {seconds(op.time_ns)}", op)

"""Checks that a retry of a block that the table remembers never inserts its rows twice.

A retry of a value is the identical block, or one with the same token, which the server recognizes
by its id in ZooKeeper's /blocks. Tries that were refused are none. Of a value with n tries, the
*copies* are the most that can have been inserted: the longest sequence of its tries in which each
may have come after the window of the one before.

Violated: a read returns a value more often than its copies ("duplicate"). Doubtful: fewer than
`MIN_RETRIED` values that have fewer copies than tries, because only these test anything. Whether an
acknowledged value is there at all is judged by `set-full`.

A table remembers the last `replicated_deduplication_window` blocks, and of these the ones that are
at most `replicated_deduplication_window_seconds` older than the latest. After that the cleanup
thread may have removed the first try (ReplicatedMergeTreeCleanupThread, `clearOldBlocks`), and a
retry may be a new block. A history does not record how many blocks are newer. The checker counts
every insert that may have been committed between the two tries, and the longest time that may have
passed, so it reports only retries of blocks that the table must have remembered.

It would be simpler to allow no value twice. With a window of one block this is right:
    insert 1 → ok     insert 2 → ok     insert 1 → ok     read → 1 2 1
"""

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from math import inf
from typing import Any, TypeAlias

from checkers.conclusion import Findings, anomaly
from checkers.phrasing import during, number, on_key, read_answered, seconds, where
from checkers.quiescence import quiescence_of
from checkers.sets.key_sets import INSERT, AnsweredRead, KeySet, insert_value, key_sets
from harness.core.history import History, Pair
from harness.core.op import Kind
from harness.core.rows import Decoded, Pairs
from harness.core.verdict import Anomaly, Verdict

MIN_RETRIED = 10
"""Minimum number of retried values for a conclusion."""
Span: TypeAlias = tuple[float, float]
"""Interval in ns in which a try may have been committed."""


@dataclass(frozen=True, slots=True)
class Retried:
    """A value and its tries, of which at least two may have taken effect."""

    key: int | None
    value: int
    tries: Sequence[Pair]

    @property
    def elsewhere(self) -> bool:
        """Return whether a try was on another replica."""
        return len({pair.invoke.node for pair in self.tries}) > 1


class Retries(Decoded[Retried]):
    """The values that were tried again, in order of their first tries."""

    block = 512

    def __init__(self, history: History) -> None:
        self.calls = history.calls(INSERT, kinds=(Kind.OK, Kind.INFO))
        """All inserts that may have taken effect."""
        super().__init__(kept=self.calls.kept)
        places, ends = history.columns.repeated(self.calls.places)
        self.tries = Pairs(history.rows, array("I", places))
        """The tries of these values, value by value."""
        self._ends = array("I", ends)

    def __len__(self) -> int:
        return len(self._ends)

    def _some(self, places: range) -> Sequence[Retried]:
        bounds = [(self._ends[at - 1] if at else 0, self._ends[at]) for at in places]
        begin = bounds[0][0] if bounds else 0
        pairs = self.tries[begin : bounds[-1][1]] if bounds else ()
        groups = (pairs[low - begin : high - begin] for low, high in bounds)
        return [Retried(g[0].invoke.key, insert_value(g[0].invoke), g) for g in groups]

    def _one(self, place: int) -> Retried:
        return self._some(range(place, place + 1))[0]


class Window:
    """Counts the blocks that may have been committed between two tries of one block.

    A try of unknown outcome may be committed at any later time, so a few of them would leave
    nothing to judge. But a value that was acknowledged and occurs once at rest was committed by the
    end of the acknowledged try; its other tries had no effect after that.
    """

    def __init__(self, history: History, retries: Retries, blocks: int, age_s: float = inf) -> None:
        """Create a window; `blocks` is the number of blocks that the table remembers, `age_s` the
        age up to which it does."""
        self.blocks = blocks
        self.age_ns = age_s * 1e9
        self._once = _OnceAtRest(history)
        spans = [span for one in retries for span in _spans(one, self._once)]
        self._begins, self._ends = _times(retries, spans)

    def _between(self, tries: Retried, spans: Sequence[Span], one: Pair, other: Pair) -> int:
        """Return the maximum number of inserts committed between two tries of a value: of other
        values, and other tries of this one, which have these spans."""
        low = min(one.invoke.time_ns, other.invoke.time_ns)
        high = max(_end_ns(one), _end_ns(other))
        every = bisect_right(self._begins, high) - bisect_left(self._ends, low)
        counted = [s for s in spans if s[0] <= high and s[1] >= low]
        more = [p for p in tries.tries if p.invoke.time_ns <= high and _end_ns(p) >= low]
        return every - len(counted) + len(more) - 2  # without the two themselves

    def copies(self, tries: Retried) -> int:
        """Return the maximum number of copies of a value with these tries."""
        longest: list[int] = []
        spans = _spans(tries, self._once)
        for at, one in enumerate(tries.tries):
            before = (
                longest[i]
                for i in range(at)
                if self._between(tries, spans, tries.tries[i], one) >= self.blocks
                or _apart_ns(tries.tries[i], one) > self.age_ns
            )
            longest.append(1 + max(before, default=0))
        return max(longest, default=1)


class Dedup:
    """Checker: no read has a value more often than the window explains."""

    name = "dedup"

    def __init__(self, window: int = 1_000_000, window_s: float | None = None) -> None:
        self.window = window
        self.age_s = inf if window_s is None else window_s

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs retries of blocks that the table must have remembered."""
        doubled_values = {key.key: of for key in key_sets(history) if (of := _doubled(key))}
        retries = Retries(history)
        window = Window(history, retries, self.window, self.age_s)
        # A value may occur twice only if two of its tries are further apart than the window.
        allowed: dict[tuple[int | None, int], tuple[int, int]] = {}
        retried = beyond = after_ok = after_info = elsewhere = 0
        for at, one in enumerate(retries):
            copies = window.copies(one)
            beyond += copies > 1
            if one.value in doubled_values.get(one.key, ()):
                allowed[one.key, one.value] = at, copies
            if copies < len(one.tries):
                retried += 1
                after_ok += any(p.kind is Kind.OK for p in one.tries[:-1])
                after_info += any(p.kind is Kind.INFO for p in one.tries[:-1])
                elsewhere += one.elsewhere
        doubled: list[Anomaly] = []
        excused = 0
        for key in key_sets(history) if allowed else ():
            for value, times in doubled_values.get(key.key, {}).items():
                at, copies = allowed.get((key.key, value), (0, 0))
                if 0 < copies < times:
                    doubled.append(_duplicate(history, key, retries[at], times))
                excused += times <= copies
        doubled.sort(key=lambda one: (len(one.ops), one.time_ns))
        found = Findings(self.name, kinds=["duplicate"])
        found.add_anomalies("duplicate", doubled, len(doubled))
        held = (
            f"{number(retried, 'value')} tried again, {elsewhere:,} of them on another "
            f"replica, {after_info:,} after an unknown outcome"
        )
        if retried < MIN_RETRIED:
            found.add_doubt(f"{held}; at least {MIN_RETRIED} expected")
        twice = f"; {beyond:,} tried again beyond the window, {excused:,} of them twice in a read"
        return found.verdict(
            checked=retried,
            broken=f"{number(len(doubled), 'value')} twice in a read, of {held}",
            held=held,
            after=twice if beyond else "",
            figures={
                "retried": retried,
                "elsewhere": elsewhere,
                "after_ok": after_ok,
                "after_info": after_info,
                "beyond_window": beyond,
                "doubled_beyond_window": excused,
            },
        )


class _OnceAtRest:
    """The values that were tried again and that every replica has exactly once."""

    def __init__(self, history: History) -> None:
        rest = quiescence_of(history)
        keys = key_sets(history) if rest.reached else ()
        self._keys = {
            key.key: key
            for key in keys
            if set(rest.nodes) <= {read.invoke.node for read in key.finals}
        }
        self._known: dict[int | None, AbstractSet[int]] = {}

    def has(self, one: Retried) -> bool:
        """Return whether every replica has the value exactly once."""
        if one.key not in self._known:
            self._known[one.key] = self._once(one.key)
        return one.value in self._known[one.key]

    def _once(self, of: int | None) -> AbstractSet[int]:
        key = self._keys.get(of)
        if key is None or not key.finals:
            return frozenset()
        values = key.found.values()
        once = {values[bit] for bit in key.found.repeated()}
        for read in key.finals:
            once &= {value for value, times in Counter(read.values).items() if times == 1}
        return once


def _spans(one: Retried, once: _OnceAtRest) -> list[Span]:
    """Return the interval in which each try may have been committed."""
    spans = [(float(pair.invoke.time_ns), _end_ns(pair)) for pair in one.tries]
    acknowledged = min(end for _, end in spans)
    if acknowledged == inf or not once.has(one):
        return spans
    return [(begin, min(end, acknowledged)) for begin, end in spans if begin <= acknowledged]


def _times(retries: Retries, spans: Sequence[Span]) -> tuple[Any, Any]:
    """Return the times at which all tries began, and those at which they ended, ascending; those of
    values that were tried again are `spans`."""
    import numpy as np  # slow to load, and other commands do not need it

    once = ~np.isin(retries.calls.places, retries.tries.places)
    own = np.asarray(spans, dtype=np.float64).reshape(-1, 2)
    begins, ends = (np.asarray(times)[once] for times in retries.calls.spans)
    return np.sort(np.append(begins, own[:, 0])), np.sort(np.append(ends, own[:, 1]))


def _doubled(key: KeySet) -> dict[int, int]:
    """Return the values that some read returned several times, with the maximum count."""
    found: dict[int, int] = {}
    for read in _with_duplicates(key):
        for value, times in Counter(read.values).items():
            if times > 1:
                found[value] = max(times, found.get(value, 0))
    return found


def _with_duplicates(key: KeySet) -> Iterator[AnsweredRead]:
    places = range(key.found.reads_count())
    return (key.read(place) for place in places if key.found.read(place)[2])


def _apart_ns(one: Pair, other: Pair) -> float:
    """Return the maximum time between the commits of two tries."""
    low = min(one.invoke.time_ns, other.invoke.time_ns)
    return max(_end_ns(one), _end_ns(other)) - low


def _end_ns(pair: Pair) -> float:
    """Return the latest time at which the try may have taken effect."""
    return pair.end.time_ns if pair.end is not None and pair.kind is Kind.OK else inf


def _duplicate(history: History, key: KeySet, one: Retried, times: int) -> Anomaly:
    read = next(r for r in _with_duplicates(key) if r.values.count(one.value) == times)
    before = [pair for pair in one.tries if pair.invoke.index < read.end.index]
    found = f"with {one.value} {number(times, 'time')}"
    return anomaly(
        "duplicate",
        f"value {one.value}{on_key(read.invoke)} was returned {times} times by op "
        f"#{read.end.index} {read.end.f}{where(read.end)} at {seconds(read.end.time_ns)}, "
        f"after {len(before)} tries of the block{during(history, read.end.time_ns)}",
        *before,
        read.invoke,
        read.end,
        key=key.key,
        value=one.value,
        time_ns=read.end.time_ns,
        steps=(
            *(_try_step(history, pair) for pair in before),
            read_answered(history, read.invoke, read.end, found),
        ),
    )


def _try_step(history: History, pair: Pair) -> str:
    invoke, end = pair.invoke, pair.end
    how = "never ended" if end is None else f"ended {end.kind.value} at {seconds(end.time_ns)}"
    began = f"op #{invoke.index} insert {invoke.value}{where(invoke)} at {seconds(invoke.time_ns)}"
    return f"{began} {how}{during(history, invoke.time_ns)}"

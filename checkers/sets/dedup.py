"""Checks that a retry of a block that the table remembers never inserts its rows twice.

A table remembers the last `replicated_deduplication_window` blocks, and of these the ones that are
at most `replicated_deduplication_window_seconds` older than the latest. After that the cleanup
thread may have removed the first try (ReplicatedMergeTreeCleanupThread, `clearOldBlocks`), and a
retry may be a new block. A history does not record how many blocks are newer. The checker counts
every insert that may have been committed between the two tries, and the longest time that may have
passed, so it reports only retries of blocks that the table must have remembered.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import dataclass
from math import inf

from checkers.conclusion import conclude
from checkers.phrasing import FEW, during, number, on_key, read_answered, seconds, where
from checkers.quiescence import quiescence_of
from checkers.sets.key_sets import INSERT, KeySet, insert_value, key_sets
from harness.core.history import History, Pair
from harness.core.op import Kind
from harness.core.verdict import Anomaly, Verdict

MIN_RETRIED = 10
"""Minimum number of retried values for a conclusion."""


@dataclass(frozen=True, slots=True)
class Retried:
    """A value and its tries, of which at least two may have taken effect."""

    key: int | None
    value: int
    tries: tuple[Pair, ...]

    @property
    def elsewhere(self) -> bool:
        """Return whether a try was on another replica."""
        return len({pair.invoke.node for pair in self.tries}) > 1


class Window:
    """Counts the blocks that may have been committed between two tries of one block.

    A try of unknown outcome may be committed at any later time, so a few of them would leave
    nothing to judge. But a value that was acknowledged and occurs once at rest was committed by the
    end of the acknowledged try; its other tries had no effect after that.
    """

    def __init__(self, history: History, blocks: int, age_s: float = inf) -> None:
        """Create a window; `blocks` is the number of blocks that the table remembers, `age_s` the
        age up to which it does."""
        self.blocks = blocks
        self.age_ns = age_s * 1e9
        self._once = _once_at_rest(history)
        spans = [span for one in _tried(history) for span in _spans(one, self._once)]
        self._begins = sorted(begin for begin, _ in spans)
        self._ends = sorted(end for _, end in spans)

    def between(self, tries: Retried, one: Pair, other: Pair) -> int:
        """Return the maximum number of inserts committed between two tries of a value: of other
        values, and other tries of this one."""
        low = min(one.invoke.time_ns, other.invoke.time_ns)
        high = max(_end_ns(one), _end_ns(other))
        every = bisect_right(self._begins, high) - bisect_left(self._ends, low)
        counted = [s for s in _spans(tries, self._once) if s[0] <= high and s[1] >= low]
        more = [p for p in tries.tries if p.invoke.time_ns <= high and _end_ns(p) >= low]
        return every - len(counted) + len(more) - 2  # without the two themselves

    def copies(self, tries: Retried) -> int:
        """Return the maximum number of copies of a value with these tries."""
        longest: list[int] = []
        for at, one in enumerate(tries.tries):
            before = (
                longest[i]
                for i in range(at)
                if self.between(tries, tries.tries[i], one) >= self.blocks
                or _apart_ns(tries.tries[i], one) > self.age_ns
            )
            longest.append(1 + max(before, default=0))
        return max(longest, default=1)


class Dedup:
    """Checker: no read has a value more often than the window explains. A retry is the identical
    block, or one with the same token, which the server recognizes by its id in ZooKeeper's /blocks.
    Whether an acknowledged value is there at all is judged by `set-full`."""

    name = "dedup"

    def __init__(self, window: int = 1_000_000, window_s: float | None = None) -> None:
        self.window = window
        self.age_s = inf if window_s is None else window_s

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs retries of blocks that the table must have remembered."""
        window = Window(history, self.window, self.age_s)
        every = _retried(history)
        # A value may occur twice only if two of its tries are further apart than the window.
        allowed = {(one.key, one.value): window.copies(one) for one in every}
        retried = [one for one in every if allowed[one.key, one.value] < len(one.tries)]
        known = {(one.key, one.value): one for one in every}
        beyond = sum(count > 1 for count in allowed.values())
        doubled: list[Anomaly] = []
        excused = 0
        for key in key_sets(history):
            for value, times in _doubled(key).items():
                if (key.key, value) not in known:
                    continue
                if times <= allowed[key.key, value]:
                    excused += 1
                    continue
                doubled.append(_anomaly(history, key, known[key.key, value], times))
        doubled.sort(key=lambda anomaly: (len(anomaly.ops), anomaly.time_ns))
        after_ok = sum(any(p.kind is Kind.OK for p in one.tries[:-1]) for one in retried)
        after_info = sum(any(p.kind is Kind.INFO for p in one.tries[:-1]) for one in retried)
        elsewhere = sum(one.elsewhere for one in retried)
        enough = len(retried) >= MIN_RETRIED
        summary = (
            f"{number(len(retried), 'value')} tried again, {elsewhere:,} of them on another "
            f"replica, {after_info:,} after an unknown outcome"
        )
        if doubled:
            summary = f"{number(len(doubled), 'value')} twice in a read, of {summary}"
        elif not enough:
            summary += f"; at least {MIN_RETRIED} expected"
        if beyond:
            summary += (
                f"; {beyond:,} tried again beyond the window, {excused:,} of them twice in a read"
            )
        return Verdict(
            checker=self.name,
            status=conclude(doubled, checked=enough),
            summary=summary,
            checked=len(retried),
            anomalies=tuple(doubled[:FEW]),
            figures={
                "retried": len(retried),
                "elsewhere": elsewhere,
                "after_ok": after_ok,
                "after_info": after_info,
                "beyond_window": beyond,
                "doubled_beyond_window": excused,
                "anomalies": {"duplicate": len(doubled)},
            },
        )


def _tried(history: History) -> list[Retried]:
    """Return every value with those of its tries that may have taken effect."""
    tries: dict[tuple[int | None, int], list[Pair]] = {}
    for pair in history.pairs:
        if pair.invoke.f == INSERT and pair.kind is not Kind.FAIL:
            key = (pair.invoke.key, insert_value(pair.invoke))
            tries.setdefault(key, []).append(pair)
    return [Retried(*key, tuple(pairs)) for key, pairs in tries.items()]


def _retried(history: History) -> list[Retried]:
    return [one for one in _tried(history) if len(one.tries) > 1]


def _once_at_rest(history: History) -> frozenset[tuple[int | None, int]]:
    """Return the values that every replica has exactly once, by key."""
    rest = quiescence_of(history)
    found: set[tuple[int | None, int]] = set()
    for key in key_sets(history) if rest.reached else ():
        if set(rest.nodes) <= {read.invoke.node for read in key.finals}:
            counts = [Counter(read.values) for read in key.finals]
            found |= {(key.key, v) for v in counts[0] if all(own[v] == 1 for own in counts)}
    return frozenset(found)


def _spans(one: Retried, once: frozenset[tuple[int | None, int]]) -> list[tuple[float, float]]:
    """Return the interval in which each try may have been committed."""
    spans = [(float(pair.invoke.time_ns), _end_ns(pair)) for pair in one.tries]
    acknowledged = min(end for _, end in spans)
    if (one.key, one.value) not in once or acknowledged == inf:
        return spans
    return [(begin, min(end, acknowledged)) for begin, end in spans if begin <= acknowledged]


def _doubled(key: KeySet) -> dict[int, int]:
    """Return the values that some read returned several times, with the maximum count."""
    found: dict[int, int] = {}
    for read in key.reads:
        if read.duplicated:
            for value, times in Counter(read.values).items():
                if times > 1:
                    found[value] = max(times, found.get(value, 0))
    return found


def _apart_ns(one: Pair, other: Pair) -> float:
    """Return the maximum time between the commits of two tries."""
    low = min(one.invoke.time_ns, other.invoke.time_ns)
    return max(_end_ns(one), _end_ns(other)) - low


def _end_ns(pair: Pair) -> float:
    """Return the latest time at which the try may have taken effect."""
    return pair.end.time_ns if pair.end is not None and pair.kind is Kind.OK else inf


def _anomaly(history: History, key: KeySet, one: Retried, times: int) -> Anomaly:
    read = next(r for r in key.reads if r.values.count(one.value) == times)
    before = [pair for pair in one.tries if pair.invoke.index < read.end.index]
    ops = {op.index for pair in before for op in (pair.invoke, pair.end) if op is not None}
    found = f"with {one.value} {number(times, 'time')}"
    return Anomaly(
        kind="duplicate",
        text=(
            f"value {one.value}{on_key(read.invoke)} was returned {times} times by op "
            f"#{read.end.index} {read.end.f}{where(read.end)} at {seconds(read.end.time_ns)}, "
            f"after {len(before)} tries of the block{during(history, read.end.time_ns)}"
        ),
        ops=tuple(sorted(ops | {read.invoke.index, read.end.index})),
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

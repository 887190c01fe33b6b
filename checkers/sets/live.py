"""Counts anomalies during the run, op by op, for the display.

The terms are those of `set-full`: after the last op, `stale_reads`, `missed` and `duplicated` equal
that checker's figures.
"""

from dataclasses import dataclass, field

from checkers.sets.key_sets import INSERT, READS, insert_value, read_values
from harness.core.op import NEMESIS, Kind, Op, Process


class _Positions:
    """Assigns each value of one key a bit, in the order in which values first appear."""

    def __init__(self) -> None:
        self._bits: dict[int, int] = {}
        self._last: tuple[int, ...] = ()
        self._last_set: frozenset[int] = frozenset()
        self._last_mask = 0

    def bit(self, value: int) -> int:
        """Return the mask with only this value's bit."""
        found = self._bits.get(value)
        if found is None:
            found = self._bits[value] = 1 << len(self._bits)
        return found

    def mask(self, values: tuple[int, ...]) -> int:
        """Return the mask of the set of `values`, without their multiplicity.

        Successive reads of a key differ little, so only what changed since the last call is
        looked up: 300 values cost some 10 us in place of 40.
        """
        if values != self._last:
            seen = frozenset(values)
            for value in sorted(seen ^ self._last_set):
                self._last_mask ^= self.bit(value)
            self._last, self._last_set = values, seen
        return self._last_mask


@dataclass(slots=True)
class _Key:
    positions: _Positions = field(default_factory=_Positions)
    acknowledged: int = 0
    """Values acknowledged before `newest_ns`."""
    newest: int = 0
    """Values acknowledged at `newest_ns`: concurrent with a read invoked at that time."""
    newest_ns: int = -1
    missed: int = 0
    doubled: set[int] = field(default_factory=set)

    def acknowledge(self, bit: int, time_ns: int) -> None:
        if time_ns > self.newest_ns:
            self.acknowledged |= self.newest
            self.newest, self.newest_ns = 0, time_ns
        self.newest |= bit

    def before(self, time_ns: int) -> int:
        return self.acknowledged | self.newest if time_ns > self.newest_ns else self.acknowledged


class LiveAnomalies:
    """Counts anomalies from every op of the history, in order.

    An op costs some microseconds, and a read of hundreds of values some ten. Not thread-safe.
    """

    def __init__(self) -> None:
        self.stale_reads = 0
        """Number of reads that lack a value acknowledged before they were invoked."""
        self.first_ns: int | None = None
        """Time at which the first read ended that lacks such a value or returned a value twice."""
        self._keys: dict[int | None, _Key] = {}
        self._calls: dict[Process, tuple[Op, int]] = {}

    @property
    def missed(self) -> int:
        """Return the number of values that such reads lacked, each counted once."""
        return sum(key.missed.bit_count() for key in self._keys.values())

    @property
    def duplicated(self) -> int:
        """Return the number of values that some read returned more than once, each counted once."""
        return sum(len(key.doubled) for key in self._keys.values())

    def feed(self, op: Op) -> None:
        """Count the next op. Ops of the nemesis, and other calls, change nothing."""
        process = op.process
        if op.kind is Kind.INVOKE:
            if process != NEMESIS and (op.f == INSERT or op.f in READS):
                key = self._keys.get(op.key)
                if key is None:
                    key = self._keys[op.key] = _Key()
                self._calls[process] = (op, key.before(op.time_ns))
            return
        call = self._calls.pop(process, None)
        if call is None or op.kind is not Kind.OK:
            return
        invoke, due = call
        key = self._keys[invoke.key]
        if invoke.f == INSERT:
            key.acknowledge(key.positions.bit(insert_value(invoke)), op.time_ns)
        else:
            self._read(key, due, op)

    def _read(self, key: _Key, due: int, end: Op) -> None:
        values = read_values(end)
        mask = key.positions.mask(values)
        lacks = due & ~mask
        twice = len(values) != mask.bit_count()
        if (lacks or twice) and self.first_ns is None:
            self.first_ns = end.time_ns
        if lacks:
            self.stale_reads += 1
            key.missed |= lacks
        if twice:
            seen: set[int] = set()
            for value in values:
                if value in seen:
                    key.doubled.add(value)
                seen.add(value)

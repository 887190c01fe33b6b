"""A time axis on which milliseconds and minutes can both be seen."""

import itertools
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from math import log10
from typing import Final

MARGIN: Final = 4.0
"""Free space on either side, in per cent of the width."""
LEAST_DECADES: Final = 1.5
"""Decades that every gap counts besides its own, so that none vanishes."""


@dataclass(frozen=True, slots=True)
class Axis:
    """Marks in order of time; the width of a gap grows with the logarithm of its length.

    Order and simultaneity are kept exactly, lengths are not to scale.
    """

    marks: tuple[tuple[int, float], ...]
    """Time in ns and position in per cent of each mark."""

    @staticmethod
    def through(times_ns: Iterable[int]) -> "Axis":
        """Return an axis with a mark at each of these times."""
        times = sorted(set(times_ns))
        assert times, "an axis needs a time"
        gaps = [LEAST_DECADES + log10(1 + (b - a) / 1e3) for a, b in itertools.pairwise(times)]
        whole = sum(gaps) or 1.0
        at = MARGIN if gaps else 50.0
        marks = [(times[0], at)]
        for time, gap in zip(times[1:], gaps, strict=True):
            at += gap / whole * (100 - 2 * MARGIN)
            marks.append((time, at))
        return Axis(tuple(marks))

    def at(self, time_ns: int) -> float:
        """Return the position of a time in per cent; outside the marks, that of the nearest one."""
        times = [time for time, _ in self.marks]
        i = bisect_right(times, time_ns)
        if i == 0:
            return self.marks[0][1]
        if i == len(times):
            return self.marks[-1][1]
        (t0, x0), (t1, x1) = self.marks[i - 1], self.marks[i]
        return x0 + (x1 - x0) * (time_ns - t0) / (t1 - t0)

    def gaps(self) -> tuple[tuple[float, float, int], ...]:
        """Return where each gap begins and ends, in per cent, and its length in ns."""
        pairs = zip(self.marks, self.marks[1:], strict=False)
        return tuple((x0, x1, t1 - t0) for (t0, x0), (t1, x1) in pairs)

    def labelled(self, apart: float) -> tuple[tuple[int, float], ...]:
        """Return the marks that are at least `apart` per cent behind the one before."""
        out: list[tuple[int, float]] = []
        for mark in self.marks:
            if not out or mark[1] - out[-1][1] >= apart:
                out.append(mark)
        return tuple(out)

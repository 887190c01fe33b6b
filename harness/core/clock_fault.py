"""What is wrong with a clock, and whether readings of the clock show it.

It is the one meaning of these faults, for real and for simulated servers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from harness.core.op import Json

SECOND: Final = 1_000_000_000
SEEN_NS: Final = SECOND // 2
"""Error that counts as seen, beyond the uncertainty of a reading."""
RIGHT_NS: Final = 3 * SECOND
"""Uncertainty of a reading at which it no longer shows that a clock is right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockFault:
    """How a clock is wrong. The rate applies to the wall clock, to the monotonic clock and to every
    wait of the server; the others to the wall clock alone."""

    offset_s: float = 0.0
    """What is added to the wall clock; with a period, in every second period only."""
    period_s: float = 0.0
    rate: float = 1.0
    """Speed of the clock; 0 stops the wall clock."""

    def __str__(self) -> str:
        if self.period_s:
            return f"{self.offset_s:+g} s and back every {self.period_s:g} s"
        if self.rate == 0:
            return "stopped"
        return f"at {self.rate:.3g} of its speed" if self.rate != 1 else f"{self.offset_s:+g} s"

    def planned(self) -> dict[str, Json]:
        """Return the fault as words of a plan."""
        return {"offset_s": self.offset_s, "period_s": self.period_s, "rate": self.rate}

    @staticmethod
    def of(plan: Mapping[str, Json], otherwise: "ClockFault") -> "ClockFault":
        """Return the fault that a plan has, or another."""
        if not plan.keys() & otherwise.planned().keys():
            return otherwise
        words = {name: plan.get(name, value) for name, value in ClockFault().planned().items()}
        return ClockFault(**{name: float(str(value)) for name, value in words.items()})


VARIANTS: Final[Mapping[str, tuple[str, tuple[ClockFault, ...]]]] = {
    "clock-skew": (
        "the clock of a ZooKeeper server runs at a third of its speed, its timers too",
        (ClockFault(rate=1 / 3),),
    ),
    "clock-drift": (
        "the clock of a server runs at a third, half, twice or three times its speed, its timers "
        "too",
        tuple(ClockFault(rate=rate) for rate in (1 / 3, 1 / 2, 2.0, 3.0)),
    ),
    "clock-jump": (
        "the wall clock of a server jumps by 10 s, a minute or an hour, ahead or back",
        tuple(ClockFault(offset_s=s) for s in (10.0, -10.0, 60.0, -60.0, 3600.0, -3600.0)),
    ),
    "clock-strobe": (
        "the wall clock of a server jumps by 10 s and back again, five times a second",
        tuple(ClockFault(offset_s=s, period_s=0.2) for s in (10.0, -10.0)),
    ),
    "clock-stop": ("the wall clock of a server stands still", (ClockFault(rate=0.0),)),
}
"""Description of each nemesis, and the faults that it draws among."""


@dataclass(frozen=True, slots=True)
class ClockReading:
    """Error of a server's wall clock at a moment: between two limits, for an answer takes time and
    has a resolution."""

    at_ns: int
    """When it was asked, on a clock that is right."""
    least_ns: int
    most_ns: int

    @property
    def width_ns(self) -> int:
        """Return the uncertainty."""
        return self.most_ns - self.least_ns


def shows(fault: ClockFault, readings: Sequence[ClockReading]) -> str | None:
    """Return why these readings do not show a fault, all taken since it began; None if they do."""
    if not readings:
        return "its clock has not answered"
    if fault.period_s:
        offset_ns = round(fault.offset_s * SECOND)
        kinds = {near for r in readings for near in (0, offset_ns) if _near(r, near)}
        return None if len(kinds) == 2 else f"its clock shows {_text(readings[-1])} only"
    if fault.rate != 1:
        return _drifts(fault.rate, readings[0], readings[-1])
    last = readings[-1]
    if _near(last, round(fault.offset_s * SECOND)) and not last.least_ns <= 0 <= last.most_ns:
        return None
    return f"its clock shows {_text(last)}"


def wrong(reading: ClockReading) -> str | None:
    """Return how a reading shows that a clock is wrong, or that nobody knows; None if right."""
    if not _near(reading, 0):
        return f"its clock shows {_text(reading)}"
    if reading.width_ns > RIGHT_NS:
        return f"its clock was read with an uncertainty of {reading.width_ns / SECOND:.1f} s"
    return None


def _drifts(rate: float, first: ClockReading, last: ClockReading) -> str | None:
    """Return why a clock does not drift from the first reading to the last at this rate."""
    expected = (rate - 1) * (last.at_ns - first.at_ns)
    least = last.least_ns - first.most_ns
    most = last.most_ns - first.least_ns
    slack = SEEN_NS + abs(expected) / 4
    if least - slack <= expected <= most + slack and (least > SEEN_NS or most < -SEEN_NS):
        return None
    return (
        f"in {(last.at_ns - first.at_ns) / SECOND:.1f} s its clock went wrong by "
        f"{least / SECOND:.1f} to {most / SECOND:.1f} s"
    )


def _near(reading: ClockReading, error_ns: int) -> bool:
    return reading.least_ns - SEEN_NS <= error_ns <= reading.most_ns + SEEN_NS


def _text(reading: ClockReading) -> str:
    return f"an error of {reading.least_ns / SECOND:+.1f} to {reading.most_ns / SECOND:+.1f} s"

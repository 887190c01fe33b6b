"""Progress in words: how many are done, the rate, and the time that is left."""

from dataclasses import dataclass, field

from harness.core.clock import Clock, WallClock


@dataclass(slots=True)
class Pace:
    """Rate of something that is counted, on the wall clock."""

    noun: str
    """What is counted, in the plural: "runs"."""
    total: int | None = None
    seconds: float | None = None
    """Time budget; None if the total alone ends it."""
    before: int = 0
    """Number that was done before the clock began."""
    clock: Clock = field(default_factory=WallClock)

    def text(self, done: int) -> str:
        """Return "3 of 6 runs, 12 a minute, 15 s left"."""
        of = f" of {self.total:,}" if self.total is not None else ""
        return ", ".join([f"{done:,}{of} {self.noun}", *self.rest(done)])

    def rest(self, done: int) -> list[str]:
        """Return "12 a minute" and "15 s left", as far as they are known."""
        passed_s = self.clock.now_ns() / 1e9
        parts = []
        per_s = (done - self.before) / passed_s if passed_s > 0 else 0.0
        if per_s:
            parts.append(rate(per_s))
        ends = [] if self.seconds is None else [max(0.0, self.seconds - passed_s)]
        if self.total is not None and per_s:
            ends.append(max(0.0, (self.total - done) / per_s))
        if ends:
            parts.append(f"{span(min(ends))} left")
        return parts


def rate(per_s: float) -> str:
    """Return "3.1 a second", "12 a minute" or "4.5 an hour"."""
    for unit, of in (("a second", 1), ("a minute", 60)):
        if per_s * of >= 1:
            return f"{per_s * of:,.3g} {unit}" if per_s * of < 1000 else f"{per_s * of:,.0f} {unit}"
    return f"{per_s * 3600:.3g} an hour"


def span(seconds: float) -> str:
    """Return "15 s", "4 min" or "2 h 10 min"."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"

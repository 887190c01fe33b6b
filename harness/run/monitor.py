"""What a display may know of a run that goes on. Written by the run, read from any thread."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from checkers.live import LiveAnomalies
from harness.core.clock import Clock, WallClock
from harness.core.lines import decoded
from harness.core.op import Op
from harness.run.live import Live
from harness.run.stop import Stop


class Phase(StrEnum):
    """A run goes through these, in this order."""

    SET_UP = "set up"
    FAULTS = "faults"
    HEAL = "heal"
    QUIESCE = "quiesce"
    FINAL_READS = "final reads"
    JUDGE = "judge"
    CLEAN_UP = "clean up"


@dataclass
class Monitor:
    """One run's present."""

    title: str
    """What is run against what, a line."""
    time_limit_s: float
    clock: Clock = field(default_factory=WallClock)
    """Of the run, from the beginning of its faults."""
    phase: Phase = Phase.SET_UP
    note: str = ""
    """What is waited for: "pending: ch2 has 3 queue entries"."""
    live: Live = field(default_factory=Live)
    anomalies: LiveAnomalies | None = field(default_factory=LiveAnomalies)
    """None: of this workload none are counted."""
    stop: Stop | None = None
    """The wish to end the run, once there is one."""
    listeners: list[Callable[[Phase, str], None]] = field(default_factory=list)
    """Told of every phase and note."""
    seconds: dict[Phase, float] = field(default_factory=dict)
    """That each phase took which is over, on the wall clock."""
    _wall: Clock = field(default_factory=WallClock)
    _entered_ns: int = 0

    def enter(self, phase: Phase, note: str = "") -> None:
        """The run goes on to a phase, or to something else to wait for within it."""
        now_ns = self._wall.now_ns()
        spent_s = (now_ns - self._entered_ns) / 1e9
        self.seconds[self.phase] = self.seconds.get(self.phase, 0.0) + spent_s
        self._entered_ns = now_ns
        self.phase, self.note = phase, note
        for listener in self.listeners:
            listener(phase, note)

    def saw(self, op: Op) -> None:
        """Every op of the history, in order, once."""
        if self.anomalies is not None:
            self.anomalies.feed(op)

    def saw_lines(self, lines: bytes) -> None:
        """The same of ops that are lines of the journal."""
        if self.anomalies is not None:
            for line in lines.splitlines():
                self.anomalies.feed(decoded(line))

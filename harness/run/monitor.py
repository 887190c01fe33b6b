"""State of a run in progress for a display. The run writes it, any thread may read it."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum

from checkers.sets.live import LiveAnomalies
from harness.core.clock import Clock, WallClock
from harness.core.lines import decoded
from harness.core.op import Op
from harness.run.live import Live
from harness.run.stop import Stop


class Phase(StrEnum):
    """Phases of a run, in order."""

    SET_UP = "set up"
    FAULTS = "faults"
    HEAL = "heal"
    QUIESCE = "quiesce"
    FINAL_READS = "final reads"
    JUDGE = "judge"
    CLEAN_UP = "clean up"


@dataclass
class Monitor:
    """Current state of one run."""

    title: str
    """Workload, nemesis and seed, as one line."""
    time_limit_s: float
    clock: Clock = field(default_factory=WallClock)
    """Clock of the run, which starts with its faults."""
    phase: Phase = Phase.SET_UP
    note: str = ""
    """Reason for waiting, such as "pending: ch2 has 3 queue entries"."""
    live: Live = field(default_factory=Live)
    anomalies: LiveAnomalies | None = field(default_factory=LiveAnomalies)
    """Live anomalies; None if they are not counted for the workload."""
    stop: Stop | None = None
    """Request to stop the run; None before there is one."""
    listeners: list[Callable[[Phase, str], None]] = field(default_factory=list)
    """Functions that are called at every phase and note."""
    seconds: dict[Phase, float] = field(default_factory=dict)
    """Seconds of each completed phase, on the wall clock."""
    _wall: Clock = field(default_factory=WallClock)
    _entered_ns: int = 0

    def enter(self, phase: Phase, note: str = "") -> None:
        """Note that the run enters a phase, or waits for something else within it."""
        now_ns = self._wall.now_ns()
        spent_s = (now_ns - self._entered_ns) / 1e9
        self.seconds[self.phase] = self.seconds.get(self.phase, 0.0) + spent_s
        self._entered_ns = now_ns
        self.phase, self.note = phase, note
        for listener in self.listeners:
            listener(phase, note)

    def saw(self, op: Op) -> None:
        """Count an op of the history; called for every op, in order."""
        self.live.saw(op)
        if self.anomalies is not None:
            self.anomalies.feed(op)

    def saw_lines(self, lines: bytes) -> None:
        """Count ops that are lines of the journal."""
        if self.anomalies is not None:
            for line in lines.splitlines():
                self.anomalies.feed(decoded(line))


Show = Callable[["Monitor"], AbstractContextManager[None]]
"""Shows a run while the block runs."""


@contextmanager
def show_nothing(monitor: Monitor) -> Iterator[None]:
    """Show nothing while the block runs."""
    monitor.anomalies = None  # nobody would see them
    yield

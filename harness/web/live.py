"""A run that goes on, seen through its journal."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from checkers.key_sets import READS
from checkers.live import LiveAnomalies
from harness.core.lines import decoded
from harness.core.op import Json, Kind, Op
from harness.run.live import Live

RATE_NS: Final = 5_000_000_000
"""Over which the rate is measured."""


@dataclass(slots=True)
class Tail:
    """Reads on where it stopped. Not for two threads at once."""

    journal: Path
    stale_is_wrong: bool
    """Whether a read that misses an acknowledged value breaks the promise."""
    _offset: int = 0
    _live: Live = field(default_factory=Live)
    _anomalies: LiveAnomalies = field(default_factory=LiveAnomalies)
    _recent: deque[int] = field(default_factory=deque)
    """When calls ended, of the last RATE_NS."""
    _last_ns: int = 0
    _last_f: str = ""
    _broken: str = ""

    def read(self) -> Mapping[str, Json]:
        """Everything up to now: counts by operation and outcome, faults in force, anomalies."""
        if not self._broken:
            self._follow()
        figures = self._live.read()
        return {
            "time_s": self._last_ns / 1e9,
            "last": self._last_f,
            "in_flight": figures.in_flight,
            "per_s": len(self._recent) / max(min(self._last_ns, RATE_NS) / 1e9, 1e-3),
            "ended": [[f, kind.value, count] for (f, kind), count in sorted(figures.ended.items())],
            "faults": list(figures.faults),
            "injected": figures.injected,
            "stale_reads": self._anomalies.stale_reads,
            "missed": self._anomalies.missed,
            "duplicated": self._anomalies.duplicated,
            "broken": self._broken,
        }

    def _follow(self) -> None:
        try:
            with self.journal.open("rb") as file:
                file.seek(self._offset)
                fresh = file.read()
        except OSError:
            return  # it has not begun
        # A line that is being written is read next time.
        whole = fresh[: fresh.rfind(b"\n") + 1]
        for line in whole.splitlines():
            try:
                op = decoded(line)
            except ValueError as error:
                self._broken = f"the journal has a line that is not an op: {error}"
                return
            self._live.saw(op)
            if self.stale_is_wrong:
                self._feed(op)
            self._last_ns, self._last_f = op.time_ns, op.f
            if op.kind is not Kind.INVOKE:
                self._recent.append(op.time_ns)
        self._offset += len(whole)
        while self._recent and self._recent[0] < self._last_ns - RATE_NS:
            self._recent.popleft()

    def _feed(self, op: Op) -> None:
        """Of workloads that read something else than sets nothing is counted."""
        if op.f in READS and op.kind is Kind.OK and not isinstance(op.value, tuple):
            self.stale_is_wrong = False
            return
        self._anomalies.feed(op)

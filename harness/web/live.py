"""Figures of a live run, read from its journal."""

import os
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Final

from checkers.sets.key_sets import READS
from checkers.sets.live import LiveAnomalies
from harness.core.bounded_json import open_regular
from harness.core.lines import decoded
from harness.core.op import Json, Kind, Op
from harness.run.live import Live

RATE_NS: Final = 5_000_000_000
"""Length of the window over which the rate is measured."""
READ_BYTES_MAX: Final = 8 * 1024 * 1024
"""Maximum bytes of the journal read at a time: 62 MB delayed every other page by 0.9 s."""


@dataclass(slots=True)
class Tail:
    """Incremental reader of a journal."""

    journal: Path
    stale_is_wrong: bool
    """True if a read that misses an acknowledged value breaks the promise."""
    _offset: int = 0
    _live: Live = field(default_factory=Live)
    _anomalies: LiveAnomalies = field(default_factory=LiveAnomalies)
    _recent: deque[tuple[int, str]] = field(default_factory=deque)
    """Time and operation of the calls that ended in the last RATE_NS."""
    _last_ns: int = 0
    _last_f: str = ""
    _broken: str = ""
    _behind: bool = False
    _lock: Lock = field(default_factory=Lock)

    def read(self) -> Mapping[str, Json]:
        """Return counts by operation and outcome, faults in force and anomalies up to now. One call
        reads at most READ_BYTES_MAX; "behind" says that more is to be read."""
        with self._lock:
            if not self._broken:
                self._follow()
            return self._figures()

    def _figures(self) -> Mapping[str, Json]:
        figures = self._live.read()
        span_s = max(min(self._last_ns, RATE_NS) / 1e9, 1e-3)
        first_ns = self._anomalies.first_ns
        recent = Counter(f for _, f in self._recent)
        return {
            "time_s": self._last_ns / 1e9,
            "last": self._last_f,
            "in_flight": figures.in_flight,
            "per_s": len(self._recent) / span_s,
            "per_s_by_f": {f: count / span_s for f, count in recent.items()},
            "ended": [[f, kind.value, count] for (f, kind), count in sorted(figures.ended.items())],
            "faults": list(figures.faults),
            "injected": figures.injected,
            "stale_reads": self._anomalies.stale_reads,
            "missed": self._anomalies.missed,
            "duplicated": self._anomalies.duplicated,
            "first_s": None if first_ns is None else first_ns / 1e9,
            "broken": self._broken,
            "behind": self._behind,
        }

    def _follow(self) -> None:
        try:
            with open_regular(self.journal) as file:
                file.seek(self._offset)
                fresh = file.read(READ_BYTES_MAX)
                size = os.fstat(file.fileno()).st_size
        except OSError:
            return  # the run has not begun
        except ValueError as error:
            self._broken = f"the journal cannot be read: {error}"
            return
        self._behind = size > self._offset + len(fresh)
        # The last line may be incomplete; it is read next time.
        whole = fresh[: fresh.rfind(b"\n") + 1]
        if not whole and self._behind:
            self._broken = f"the journal has a line of more than {READ_BYTES_MAX:,} bytes"
            return
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
                self._recent.append((op.time_ns, op.f))
        self._offset += len(whole)
        while self._recent and self._recent[0][0] < self._last_ns - RATE_NS:
            self._recent.popleft()

    def _feed(self, op: Op) -> None:
        """Count the anomalies of an op; stop counting if the workload does not read sets."""
        if op.f in READS and op.kind is Kind.OK and not isinstance(op.value, tuple):
            self.stale_is_wrong = False
            return
        self._anomalies.feed(op)

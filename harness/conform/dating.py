"""Dates transactions, even those of a leader whose clock was set wrong.

ZooKeeper dates a transaction by the clock of its leader. Whoever follows the log knows between
which two moments a transaction was written, to a few seconds. A clock that jumped is wrong by
exactly what it was set to, and by 10 s at least, so that one of the known errors fits these moments
and the others do not.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from harness.core.clock_fault import VARIANTS

ERRORS_MS: Final = (
    0,
    *sorted({round(f.offset_s * 1e3) for _, faults in VARIANTS.values() for f in faults} - {0}),
)
"""By how much a leader's clock may be ahead; 0 comes first."""
LATE_MS: Final = 3_000
"""Time after which a transaction that was written is read at the latest, beside two looks."""
EARLY_MS: Final = 500
"""How much later than the end of the look a transaction may be dated: clocks of one machine."""
_LOOKS: Final = 2
"""A transaction of a new epoch is taken at the second look after it was written."""


@dataclass
class Dating:
    """The moments at which a log was looked at, and how well they date its transactions."""

    corrected: int = 0
    """Transactions whose date was wrong, and was put right."""
    uncertain: int = 0
    """Transactions whose date fits no error, or several."""
    _looks: deque[int] = field(default_factory=lambda: deque(maxlen=_LOOKS + 1))

    def look(self, now_ms: int) -> None:
        """Note that the log is looked at, at this wall-clock time of a clock that is right."""
        self._looks.append(now_ms)

    def true_ms(self, dated_ms: int) -> int:
        """Return when a transaction of this date was written that the last look took; its date if
        that is uncertain."""
        since, until = self._looks[0] - LATE_MS, self._looks[-1] + EARLY_MS
        fits = [error for error in ERRORS_MS if since <= dated_ms - error <= until]
        if len(fits) != 1:
            self.uncertain += 1
            return dated_ms
        self.corrected += fits[0] != 0
        return dated_ms - fits[0]

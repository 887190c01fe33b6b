"""Dates transactions, even those of a leader whose clock was set wrong.

ZooKeeper dates a transaction by the clock of its leader. Whoever follows the log knows between
which two moments a transaction was written, to a few seconds. A clock that jumped is wrong by
exactly what it was set to, and by 10 s at least, so that one of the known errors fits these moments
and the others do not.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from harness.core.clock_fault import VARIANTS

ERRORS_MS: Final = (
    0,
    *sorted({round(f.offset_s * 1e3) for _, faults in VARIANTS.values() for f in faults} - {0}),
)
"""By how much a leader's clock may be ahead; 0 comes first."""
LATE_MS: Final = 1_000
"""Time after which a server has written a transaction at the latest that its leader has dated."""
EARLY_MS: Final = 200
"""How much later than it was read a transaction may be dated: clocks of one machine."""


@dataclass
class Dating:
    """When transactions were read first, and how well this dates them."""

    corrected: int = 0
    """Transactions whose date was wrong, and was put right."""
    uncertain: int = 0
    """Transactions whose date fits no error, or several."""
    _reads_ms: dict[str, int] = field(default_factory=dict)
    """When the last read of each server's log began, by a clock that is right."""
    _periods: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Between which two times each transaction was written, by its number."""

    def read(self, server: str, begin_ms: int, end_ms: int, zxids: Iterable[int]) -> None:
        """Note that a server's log was read between two times, and had gained transactions."""
        since_ms = self._reads_ms.get(server, begin_ms)
        self._reads_ms[server] = begin_ms
        for zxid in zxids:
            self._periods.setdefault(zxid, (since_ms - LATE_MS, end_ms + EARLY_MS))

    def true_ms(self, zxid: int, dated_ms: int) -> int:
        """Return when a transaction of this date was written; its date if that is uncertain."""
        since, until = self._periods.pop(zxid, (0, 0))
        fits = [error for error in ERRORS_MS if since <= dated_ms - error <= until]
        if len(fits) != 1:
            self.uncertain += 1
            return dated_ms
        self.corrected += fits[0] != 0
        return dated_ms - fits[0]

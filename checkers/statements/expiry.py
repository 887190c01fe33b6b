"""When merges may remove a row because of a TTL, and when one of all parts must have removed it.

The client asks the replica for its time, and inserts the row with a time that is so many seconds
later. Merges compare that time with the clock of the replica that has chosen them, in whole
seconds (`TTLDeleteAlgorithm` and `MergeFromLogEntryTask` of 25.8). All clocks are taken for right
up to `CLOCK_ERROR_NS`; where a fault has made one wrong, a row may be removed at any time, and
need not be.
"""

from math import inf
from typing import Final, NamedTuple

from checkers.statements.calls import StatementCall
from harness.core import clock_fault
from harness.core.history import History, Pair

SECOND_NS: Final = 1_000_000_000
CLOCK_ERROR_NS: Final = 2 * SECOND_NS
"""Time by which a row may be removed too early or too late: whole seconds, twice rounded down, and
what two servers' clocks differ by."""


class Expiry(NamedTuple):
    """When a row expires, in ns since the run began."""

    may_ns: float
    """Merges may remove it from then on."""
    must_ns: float
    """A merge of all parts that begins later removes it."""


AT_ONCE: Final = Expiry(-inf, -inf)
"""Expiry of a row that had expired when it was inserted."""


def expiry_of(pair: Pair, call: StatementCall, *, clocks_wrong: bool) -> Expiry:
    """Return when the row of an insert expires."""
    if not call.expires_s:
        return AT_ONCE
    if clocks_wrong:
        return Expiry(-inf, inf)
    after_ns = call.expires_s * SECOND_NS
    end_ns = inf if pair.end is None else pair.end.time_ns
    return Expiry(
        pair.invoke.time_ns + after_ns - CLOCK_ERROR_NS, end_ns + after_ns + CLOCK_ERROR_NS
    )


def are_clocks_wrong(history: History) -> bool:
    """Return whether a fault of the run made clocks wrong."""
    return any(op.f in clock_fault.VARIANTS for op in history.nemesis)

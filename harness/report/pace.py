"""The rate at which clients called, beside the one that was asked for."""

from typing import Final

from checkers.phrasing import number
from harness.core.history import History
from harness.core.op import NEMESIS

REACHED: Final = 0.9
"""Share of the rate that counts as reached."""
BUSY: Final = 0.8
"""Share of their time above which clients were the limit."""


def shortfall(history: History, rate: float | None, clients: int) -> str:
    """Return how far the calls of `clients` clients stayed behind a rate, in calls a second, and
    why; "" if they reached it or none was asked for. Final reads are no part of the rate."""
    pairs = [
        pair
        for pair in history.pairs
        if pair.invoke.process != NEMESIS and not pair.invoke.f.startswith("final-")
    ]
    if rate is None or len(pairs) < 2:
        return ""
    begin_ns, last_ns = pairs[0].invoke.time_ns, pairs[-1].invoke.time_ns
    reached = (len(pairs) - 1) / max(last_ns - begin_ns, 1) * 1e9
    if reached >= REACHED * rate:
        return ""
    ends = [last_ns if pair.end is None else min(pair.end.time_ns, last_ns) for pair in pairs]
    waited_ns = sum(max(end - p.invoke.time_ns, 0) for end, p in zip(ends, pairs, strict=True))
    busy = waited_ns / max(last_ns - begin_ns, 1) / clients
    who = number(clients, "client")
    why = (
        f"its {who} waited for answers {busy:.0%} of the time; --concurrency makes more"
        if busy >= BUSY
        else f"its {who} waited for answers only {busy:.0%} of the time, so that the workload "
        "itself paused"
    )
    return f"{reached:.0f} calls a second of the {rate:g} that --rate asks for: {why}"

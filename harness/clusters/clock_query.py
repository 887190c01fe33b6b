"""Queries that ask a ClickHouse server, real or simulated, for its time."""

from collections.abc import Callable
from typing import Final

_HAS_NOW64: Final = "SELECT count() FROM system.functions WHERE name = 'now64'"
_NOW64: Final = ("SELECT toUnixTimestamp64Micro(now64(6))", 1_000)
_NOW: Final = ("SELECT toUnixTimestamp(now())", 1_000_000_000)


def read_clock(ask: Callable[[str], int]) -> tuple[int, int]:
    """Return the server's time in ns since 1970, rounded down, and its resolution. `ask` returns
    the number that a query selects.

    Servers before 20.8 have no now64.
    """
    text, unit_ns = _NOW64 if ask(_HAS_NOW64) else _NOW
    return ask(text) * unit_ns, unit_ns

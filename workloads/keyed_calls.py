"""Calls on a few keys at a time, which workloads on registers and their like share."""

from collections.abc import Callable
from typing import Final

from checkers.zookeeper.multi import CAS
from harness.core.op import Call
from harness.core.protocols import Generator
from harness.core.seed import Seed
from harness.generators.choose import per_key

ENDLESS: Final = 1_000_000_000
"""Number of calls that no run makes."""
CAS_REACH: Final = 4
"""Number of the latest values of which a cas expects one, so that some match and some do not."""


def calls_on_keys(
    seed: Seed, make: Callable[[int], Generator], *, keys: int, ops_per_key: int = ENDLESS
) -> Generator:
    """Return the calls of `make(key)` on `keys` keys at a time; after `ops_per_key` calls a new key
    takes the place of one. Without that number the keys stay the same."""
    return per_key(seed.child("keys"), make, keys=keys, ops_per_key=ops_per_key)


def register_call(own: Seed, number: int, *, with_cas: bool) -> Call:
    """Return a read, a write of this number or, `with_cas`, a cas from a late number to it."""
    kind = own.below(number, 3 if with_cas else 2)
    if kind == 0:
        return Call(f="read")
    if kind == 1 or number == 0:
        return Call(f="write", value=number)
    expected = max(0, number - 1 - own.below(-1 - number, CAS_REACH))
    return Call(f=CAS, value=(expected, number))

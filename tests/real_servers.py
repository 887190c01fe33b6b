"""What tests on real servers share."""

import time
from collections.abc import Callable

from harness.core.topology import Topology

THREE = Topology.of()


def await_(seen: Callable[[], bool], what: str, within_s: float = 30) -> None:
    """Returns when it is seen; fails when it never is."""
    deadline = time.monotonic() + within_s
    while not seen():
        assert time.monotonic() < deadline, f"not within {within_s} s: {what}"
        time.sleep(0.1)

"""Failpoints of the database servers of a cluster."""

from collections.abc import Callable, Iterable

from harness.clusters import replica
from harness.clusters.parallel import on_each
from harness.core.capabilities import HasFailpoints
from harness.core.protocols import Endpoint


class Failpoints(HasFailpoints):
    """Failpoints, each armed until it is disarmed, has triggered (once, unless it lasts), or the
    server is restarted."""

    def __init__(self, endpoint: Callable[[str], Endpoint]) -> None:
        self._endpoint = endpoint

    def arm(self, nodes: Iterable[str], point: str) -> bool:
        known = on_each(nodes, lambda n: replica.enable_failpoint(self._endpoint(n), point))
        return all(known.values())

    def disarm(self, nodes: Iterable[str], point: str) -> None:
        on_each(nodes, lambda node: replica.disable_failpoint(self._endpoint(node), point))

    def armed(self, node: str, point: str) -> bool | None:
        """Return whether system.fail_points (since 2026) lists it as enabled."""
        return replica.failpoint_enabled(self._endpoint(node), point)

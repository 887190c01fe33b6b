"""The calls after the cluster has come to rest."""

from collections.abc import Iterable, Sequence

from harness.core.op import Call
from harness.core.protocols import Generator
from harness.generators.order import phases, until_ok
from harness.generators.workers import each_node

TRIES = 20
"""Half a second apart; a replica that answers none of them is not at rest."""


def everywhere(calls: Iterable[Call], nodes: Sequence[str], *, rounds: int = 1) -> Generator:
    """Each call on each node until it is answered, in so many rounds."""
    one = each_node(until_ok(tuple(calls), tries=TRIES), nodes)
    return phases(*(one,) * rounds)

"""Asking one server whether it is alive, whether it can serve, and what it is."""

from collections.abc import Callable

from harness.clusters import keeper, replica
from harness.core.errors import ClusterError
from harness.core.protocols import Endpoint
from harness.core.topology import Node, Role


def is_alive(node: Node, endpoint: Endpoint) -> str | None:
    """Why the server does not answer on its own port, sessions and quorums aside; None when it
    does."""
    ask = replica.is_alive if node.role is Role.CLICKHOUSE else keeper.is_alive
    return ask(endpoint)


def why_unready(node: Node, endpoint: Endpoint, refusal: Callable[[str], str | None]) -> str | None:
    """Why the server cannot serve now, such as "zk2 has no leader"; None when it can.

    `refusal(node)` says why a replica's tables take no inserts, and may raise ClusterError.
    """
    if node.role is Role.ZOOKEEPER:
        state = keeper.state(endpoint)
        if state is None:
            return f"{node.name} does not answer"
        return None if state.mode else f"{node.name} has no leader"
    dead = replica.is_alive(endpoint)
    if dead:
        return f"{node.name} does not answer: {dead}"
    session = replica.has_session(endpoint)
    if session:
        return f"{node.name} has no ZooKeeper session: {session}"
    try:
        refused = refusal(node.name)
    except ClusterError as error:
        return f"{node.name} does not answer: {error}"
    return refused and f"{node.name} {refused}"


def version_of(node: Node, endpoint: Endpoint) -> str | None:
    """What it says it runs; None when it does not say."""
    if node.role is Role.ZOOKEEPER:
        state = keeper.state(endpoint)
        return (state.version or None) if state else None
    try:
        return str(replica.query(endpoint, "SELECT version()")[0][0])
    except ClusterError:
        return None

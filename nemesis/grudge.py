"""Grudges: pure functions from the shape of a partition to the directed links that it drops.

The word is Jepsen's: a node's grudge is the set of nodes whose packets it drops. A grudge contains
only links that its function was given, which are those of some link classes.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from harness.core.op import Json
from harness.core.topology import Link


def complete(links: Iterable[Link], components: Sequence[Collection[str]]) -> frozenset[Link]:
    """Return every link from one component to another, in both directions.

    Components are disjoint. A node in none of them keeps all its links.
    """
    home = {node: at for at, nodes in enumerate(components) for node in nodes}
    assert len(home) == sum(map(len, components)), "components overlap"
    return frozenset(
        [
            link
            for link in links
            if link.source in home
            and link.target in home
            and home[link.source] != home[link.target]
        ]
    )


def bridge(
    links: Iterable[Link], middle: str, sides: tuple[Sequence[str], Sequence[str]]
) -> frozenset[Link]:
    """Return the links between two sides. The node in the middle keeps its links to all nodes."""
    assert middle not in (*sides[0], *sides[1]), "the bridge belongs to no side"
    return complete(links, sides)


def ring_reach(size: int) -> int:
    """Return the number of neighbours on each side with which a node of a ring sees a majority.

    A cut is symmetric, so a node sees an odd number of nodes, 2 x reach + 1. To see an even
    majority it would need a link that is open in one direction only, which TCP cannot use.
    """
    majority = size // 2 + 1
    return majority // 2


def ring(links: Iterable[Link], order: Sequence[str]) -> frozenset[Link]:
    """Return the links to drop so that each node sees a majority and no two see the same one.

    `order` is the ring. A node counts itself, and keeps the `ring_reach` nearest nodes on either
    side. With fewer than four nodes nothing is dropped.
    """
    at = {node: i for i, node in enumerate(order)}
    size, reach = len(order), ring_reach(len(order))

    def apart(link: Link) -> bool:
        if link.source not in at or link.target not in at:
            return False
        steps = abs(at[link.source] - at[link.target])
        return min(steps, size - steps) > reach

    return frozenset(filter(apart, links))


def deaf(links: Iterable[Link], node: str) -> frozenset[Link]:
    """Return the links to the node: it hears nobody, and everybody hears it."""
    return frozenset([link for link in links if link.target == node])


def mute(links: Iterable[Link], node: str) -> frozenset[Link]:
    """Return the links from the node: nobody hears it, and it hears everybody."""
    return frozenset([link for link in links if link.source == node])


def to_json(links: Iterable[Link]) -> dict[str, Json]:
    """Return links as {node: [nodes that it does not hear]}, both in order of name."""
    heard: dict[str, list[str]] = {}
    for link in sorted(links):
        heard.setdefault(link.target, []).append(link.source)
    return {target: list(heard[target]) for target in sorted(heard)}


def from_json(grudge: Mapping[str, Json]) -> frozenset[Link]:
    """Return the links of a grudge; the inverse of `to_json`."""
    links: list[Link] = []
    for target, sources in grudge.items():
        assert isinstance(sources, list), "a grudge maps a node to a list of nodes"
        links.extend(Link(source, target) for source in sources)
    return frozenset(links)

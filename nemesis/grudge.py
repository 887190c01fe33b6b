"""Who no longer hears whom: from a shape to the set of directed links to drop. Pure.

The word is Jepsen's. A node's grudge is the set of nodes whose packets it does not hear. Only
links that are given are ever in a grudge: those of some classes.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from harness.core.op import Json
from harness.core.topology import Link


def complete(links: Iterable[Link], components: Sequence[Collection[str]]) -> frozenset[Link]:
    """Every link from one component to another, in both directions.

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
    """The two sides do not hear each other; the node in the middle hears, and is heard by, all."""
    assert middle not in (*sides[0], *sides[1]), "the bridge belongs to no side"
    return complete(links, sides)


def ring_reach(size: int) -> int:
    """How many neighbours on each side a node of a ring of `size` must hear to see a majority.

    A cut is symmetric, so a view has an odd number of nodes, 2 x reach + 1. Hearing an even
    majority would need a link that is open one way only, and TCP uses no such link.
    """
    majority = size // 2 + 1
    return majority // 2


def ring(links: Iterable[Link], order: Sequence[str]) -> frozenset[Link]:
    """Each node hears a majority, itself included, and no two hear the same one.

    `order` is the ring. A node keeps its `ring_reach` nearest on either side. With fewer than
    four nodes nothing is dropped.
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
    """The node hears nobody; everybody hears it."""
    return frozenset([link for link in links if link.target == node])


def mute(links: Iterable[Link], node: str) -> frozenset[Link]:
    """Nobody hears the node; it hears everybody."""
    return frozenset([link for link in links if link.source == node])


def to_json(links: Iterable[Link]) -> dict[str, Json]:
    """{node: [nodes that it does not hear]}, both in order of name."""
    heard: dict[str, list[str]] = {}
    for link in sorted(links):
        heard.setdefault(link.target, []).append(link.source)
    return {target: list(heard[target]) for target in sorted(heard)}


def from_json(grudge: Mapping[str, Json]) -> frozenset[Link]:
    """The reverse of `to_json`."""
    links: list[Link] = []
    for target, sources in grudge.items():
        assert isinstance(sources, list), "a grudge maps a node to a list of nodes"
        links.extend(Link(source, target) for source in sources)
    return frozenset(links)

"""Packets between servers: delayed, in order on each link, held back where a link is cut.

Connections are TCP's. A packet that is lost, or cut off, is sent again: it comes late, not never,
and no later packet of that link overtakes it. What ends a connection is a timeout of its ends.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from harness.core.topology import Link, LinkClass, Topology
from harness.sim.world import MS, Process, World

DELAY_NS: Final = 200_000
"""Between two servers of one machine room, median."""
RETRANSMIT_NS: Final = 200 * MS
"""TCP's least time until it sends again (Linux: TCP_RTO_MIN)."""
RETRANSMIT_NS_MAX: Final = 3_000 * MS


NEVER_NS: Final = 1 << 62


class _Wire:
    """One direction between two nodes."""

    __slots__ = (
        "cut",
        "cut_ns",
        "delay_ns",
        "free_ns",
        "held",
        "kind",
        "loss",
        "opens_ns",
        "world",
    )

    def __init__(self, world: World, kind: LinkClass) -> None:
        self.world = world
        self.kind = kind
        self.delay_ns = DELAY_NS
        """Median."""
        self.cut = False
        self.cut_ns = 0
        self.free_ns = 0
        """When the last packet arrives: none overtakes it."""
        self.opens_ns = 0
        """After a cut: when what was held arrives, and nothing before it."""
        self.held: list[tuple[Process | None, Callable[..., object], tuple[Any, ...]]] = []
        self.loss = 0
        """Of a thousand packets."""

    def hold(self, of: Process | None, act: Callable[..., object], args: tuple[Any, ...]) -> None:
        """Keeps a packet until the cut ends, and what was held before it has come."""
        if self.cut:
            self.held.append((of, act, args))
        else:
            self.world.through(self, self.opens_ns, of, act, args)


class Network:
    """Every directed link."""

    def __init__(self, world: World, topology: Topology) -> None:
        self._world = world
        self._wires = {
            (link.source, link.target): _Wire(world, topology.link_class(link))
            for link in topology.links()
        }

    def send(
        self,
        source: str,
        target: str,
        to: Process | None,
        act: Callable[..., object],
        *args: Any,
        took_ns: int = 0,
    ) -> None:
        """Calls `act` at the target, in the life of its process `to`, when the packet arrives;
        `took_ns` passes before it is sent."""
        world = self._world
        if source == target:
            world.after(took_ns, act, *args, of=to)
            return
        wire = self._wires[source, target]
        at = world.now_ns + took_ns + world.around(wire.delay_ns)
        if wire.loss and world.below(1000) < wire.loss:
            at += RETRANSMIT_NS
        if at < wire.free_ns:
            at = wire.free_ns
        wire.free_ns = at
        world.through(wire, at, to, act, args)

    def cut(self, links: Iterable[Link]) -> None:
        """Drops every packet of these links, from now on and what is under way."""
        for link in links:
            wire = self._wires[link.source, link.target]
            if not wire.cut:
                wire.cut, wire.cut_ns = True, self._world.now_ns
                wire.opens_ns = NEVER_NS

    def mend(self) -> None:
        """Ends every cut. What was held comes when its sender tries again."""
        world = self._world
        for wire in self._wires.values():
            if not wire.cut:
                continue
            wire.cut = False
            wire.opens_ns = world.now_ns
            held, wire.held = wire.held, []
            if held:
                wait = min(max(RETRANSMIT_NS, world.now_ns - wire.cut_ns), RETRANSMIT_NS_MAX)
                wire.opens_ns = world.now_ns + world.below(wait)
                # What is under way is put off until then, and what is sent now comes after it.
                wire.free_ns = max(wire.free_ns, wire.opens_ns + 1)
                for to, act, args in held:
                    world.through(wire, wire.opens_ns, to, act, args)

    def lose(self, links: Iterable[Link], per_thousand: int) -> None:
        """So many of a thousand packets are lost; 0 ends that."""
        for link in links:
            self._wires[link.source, link.target].loss = per_thousand

    def loses(self, link: Link) -> bool:
        """Whether some of its packets are lost."""
        return self._wires[link.source, link.target].loss > 0

    def alive(self, source: str, target: str) -> bool:
        """Whether packets pass."""
        return not self._wires[source, target].cut

"""Cluster that records its calls, for tests of the nemesis' own logic.

It is not a model of a database. The order in which the nemesis heals, what it does when the cluster
raises, and what a call does that outlives its heal cannot be tested at will on real servers. That
faults take effect and heal on real servers is tested by test_nemesis_containers.py.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.core.connections import QueryChannel, ZooKeeper
from harness.core.engines import Engines
from harness.core.op import NEMESIS, Done, Json, Kind, Op
from harness.core.parts import HasParts
from harness.core.protocols import Cluster, Endpoint
from harness.core.runtime import WallTime
from harness.core.seed import Seed
from harness.core.topology import Link, Topology
from nemesis.catalogue import parse_nemesis
from nemesis.composed import Composed
from nemesis.grudge import complete, to_json
from nemesis.options import FaultOptions

THREE = Topology.of()
NODES = ("ch1", "ch2", "ch3", "zk1", "zk2", "zk3")


class Bare(HasParts):
    """Cluster without any capability."""

    name = "bare"
    topology = THREE
    runtime = WallTime()
    readings = ()

    def up(self) -> None: ...
    def down(self) -> None: ...
    def close(self) -> None: ...
    def ping(self) -> None: ...
    def endpoint(self, node: str) -> Endpoint:
        raise NotImplementedError

    def query_channel(self, node: str, timeout_s: float) -> QueryChannel:
        raise NotImplementedError

    def zookeeper(self, keepers: Sequence[str], timeout_s: float = 3.0) -> ZooKeeper:
        raise NotImplementedError

    def protocol_trace(self, now_ns: int) -> None: ...

    engines = Engines()

    def versions(self) -> Mapping[str, str]:
        return {}

    def unready(self) -> list[str]:
        return []

    def collect(self, directory: Path) -> None: ...


class Record(Bare):
    """Cluster that records and executes its calls, and raises or hangs if a test wants it to."""

    name = "record"

    def __init__(self) -> None:
        super().__init__()
        self.did: list[str] = []
        self.dropped: set[Link] = set()
        self.dead: set[str] = set()
        self.frozen: set[str] = set()
        self.lagging: set[str] = set()
        self.points: set[tuple[str, str]] = set()
        """Armed failpoints as pairs of node and point."""
        self.known = True
        """True if servers know failpoints."""
        self.leads: str | None = "zk2"
        self.during: dict[str, Callable[[], None]] = {}
        """Functions to run at the start of a call, by the call's name."""

    @classmethod
    def has(cls, capability: type) -> bool:
        return issubclass(cls, capability)

    def part(self, capability: type) -> Any:
        """Return the cluster, which is its own part."""
        return self if self.has(capability) else super().part(capability)

    def _called(self, what: str, nodes: Iterable[str] = ()) -> set[str]:
        given = set(nodes)
        self.did.append(" ".join((what, *sorted(given))))
        self.during.get(what, lambda: None)()
        return given

    def cut(self, links: Iterable[Link]) -> None:
        self._called("cut")
        self.dropped |= set(links)

    def mend(self) -> None:
        self._called("mend")
        self.dropped.clear()

    def reachable(self, links: Iterable[Link]) -> dict[Link, bool]:
        return {link: link not in self.dropped for link in links}

    def kill(self, nodes: Iterable[str]) -> None:
        self.dead |= self._called("kill", nodes)
        self.frozen -= self.dead

    def start(self, nodes: Iterable[str], answers: bool = True) -> None:
        self.dead -= self._called("start" if answers else "start-unanswered", nodes)

    def running(self, node: str) -> bool:
        return node not in self.dead

    def restart(self, nodes: Iterable[str], answers: bool = True) -> None:
        self._called("restart" if answers else "restart-unanswered", nodes)

    def pause(self, nodes: Iterable[str]) -> None:
        self.frozen |= self._called("pause", nodes)

    def resume(self, nodes: Iterable[str]) -> None:
        self.frozen -= self._called("resume", nodes)

    def paused(self, node: str) -> bool:
        return node in self.frozen

    def leader(self) -> str | None:
        self.during.get("leader", lambda: None)()
        return self.leads

    def table_leader(self) -> str | None:
        return "ch3"

    def serving(self) -> frozenset[str]:
        return frozenset(THREE.keepers) - self.dead - self.frozen

    def arm(self, nodes: Iterable[str], point: str) -> bool:
        if self.known:
            self.points |= {(node, point) for node in self._called(f"arm {point}", nodes)}
        return self.known

    def disarm(self, nodes: Iterable[str], point: str) -> None:
        self.points -= {(node, point) for node in self._called(f"disarm {point}", nodes)}

    def armed(self, node: str, point: str) -> bool | None:
        return (node, point) in self.points

    def stop_fetches(self, nodes: Iterable[str]) -> None:
        self.lagging |= self._called("stop", nodes)

    def start_fetches(self, nodes: Iterable[str]) -> None:
        self.lagging -= self._called("fetch", nodes)

    def fetching(self, node: str) -> bool:
        return node not in self.lagging

    @property
    def whole(self) -> bool:
        return not (self.dropped or self.dead or self.frozen or self.lagging or self.points)


def nemesis(text: str) -> Composed:
    options = FaultOptions(seen_within_s=0.2, heal_within_s=0.5)
    return parse_nemesis(text, THREE, Seed(3), options)


def op(f: str, edge: str = "begin", fault: int = 1, **plan: Any) -> Op:
    value = {"fault": fault, "edge": edge, "name": f, **plan}
    return Op(index=0, process=NEMESIS, kind=Kind.INVOKE, f=f, time_ns=0, value=value)


ALONE = complete(THREE.links(), [["ch1"], NODES[1:]])
CUT = op("partition", grudge=to_json(ALONE), text="{ch1 | ch2 ch3 zk1 zk2 zk3}")
KILL = op("kill", nodes=["ch2", "zk1"])
PAUSE = op("pause", nodes=["ch3"])
LAG = op("stop-fetches", nodes=["ch1"])
ALL = "partition,kill,pause,restart,stop-fetches"


def explode(error: BaseException) -> Callable[[], None]:
    def raise_it() -> None:
        raise error

    return raise_it


def call(
    cluster: Cluster, nemesis: Composed, edge: str, nodes: str | tuple[str, ...], name: str = ""
) -> Done:
    """Begin or end the only family of a nemesis on a node or several; it must succeed."""
    (f,) = nemesis.fs
    chosen = [nodes] if isinstance(nodes, str) else [*nodes]
    value: dict[str, Json] = {"fault": 1, "edge": edge, "name": name or f, "nodes": chosen}
    op = Op(index=0, process=NEMESIS, kind=Kind.INVOKE, f=f, time_ns=0, value=value)
    done = nemesis.invoke(cluster, op)
    assert done.kind is Kind.OK, done.error
    return done

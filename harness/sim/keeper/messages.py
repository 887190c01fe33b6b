"""What ZooKeeper servers keep and say to each other."""

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from harness.sim.keeper.tree import Change, Operation, Tree
from harness.sim.network import Network
from harness.sim.record import Record
from harness.sim.world import MS, Process, World

TICK_NS: Final = 500 * MS
"""zoo.cfg: tickTime."""
SYNC_LIMIT: Final = 4
"""Ticks of silence after which a leader or a follower is given up."""
FSYNC_NS: Final = 1 * MS
"""Until a proposal is on the disk, median."""
SESSIONS: Final = "/zookeeper/sessions"
"""Where the open sessions are kept, so that every leader knows them."""

Zxid = tuple[int, int]
"""Epoch and counter."""


class Request(NamedTuple):
    """A client's write, on its way to the leader."""

    origin: str
    """The server that the client is connected to."""
    session: int
    xid: int
    kind: str
    """multi, open (a session), close (a session), sync."""
    operations: tuple[Operation, ...]


class Txn(NamedTuple):
    """An entry of the log: what a request came to."""

    zxid: Zxid
    origin: str
    session: int
    xid: int
    changes: tuple[Change, ...]
    answer: Any
    """Of a multi, a list; a KeeperError when the request was refused."""
    time_ns: int


@dataclass(slots=True)
class Disk:
    """What a server keeps over its lives."""

    log: list[Txn] = field(default_factory=list)
    accepted: int = 0
    """The highest epoch that it promised to follow."""
    tree: Tree = field(default_factory=Tree)
    applied: int = 0
    """How many entries of the log, all of them committed, the tree has."""

    @property
    def last(self) -> Zxid:
        """Of the log's last entry."""
        return self.log[-1].zxid if self.log else (0, 0)


class Listener(Protocol):
    """The client's end of a connection."""

    process: Process
    node: str

    def answered(self, xid: int, answer: Any) -> None:
        """A request's answer; a KeeperError when it failed."""
        ...

    def fired(self, watch: int) -> None:
        """A watch's event."""
        ...

    def broken(self) -> None:
        """The server closed the connection."""
        ...


@dataclass(slots=True)
class Ensemble:
    """What its servers share: the network, and who they are."""

    world: World
    network: Network
    names: tuple[str, ...]
    bugs: frozenset[str]
    record: Record = field(default_factory=Record)
    sessions: int = 0
    """How many were opened."""

    def fresh_session(self) -> int:
        """A number that no other session has."""
        self.sessions += 1
        return self.sessions

    @property
    def majority(self) -> int:
        """More than half of them."""
        return 1 if "keeper-minority" in self.bugs else len(self.names) // 2 + 1

"""One replica of a table: its parts, its session with ZooKeeper, its tasks.

Source: StorageReplicatedMergeTree and ReplicatedMergeTreeRestartingThread of 18.16.1.
"""

from typing import TYPE_CHECKING, Final

from harness.sim.errors import ServerError
from harness.sim.keeper.session import KeeperSession
from harness.sim.keeper.tree import NODE_EXISTS, Absent, Create, KeeperError, Operation, Put, Remove
from harness.sim.table import cleanup, merge
from harness.sim.table.clone import clone_if_lost
from harness.sim.table.entries import GET, Entry, Mutation
from harness.sim.table.fetch import update_quorum
from harness.sim.table.missing import Missing
from harness.sim.table.parts import Cover, Info, Part, info_of
from harness.sim.table.queue import Queue
from harness.sim.table.schema import Schema
from harness.sim.table.select import parts_listed
from harness.sim.table.settings import TableSettings
from harness.sim.world import SECOND, Future, Lock

if TYPE_CHECKING:
    from harness.sim.server import Server

CHECK_NS: Final = SECOND
"""zookeeper_session_expiration_check_period of the harness' configuration."""
RETRY_NS: Final = 10 * SECOND
"""From a start that failed to the next (retry_period_ms)."""
WORKERS: Final = 3
"""Threads of the pool for each table."""


class TableDisk:
    """What a replica keeps of a table over its lives."""

    def __init__(self, name: str, path: str, schema: Schema, settings: TableSettings) -> None:
        self.name = name
        self.path = path
        self.schema = schema
        self.settings = settings
        self.parts: dict[str, Part] = {}


class Table:
    """In one life of its server."""

    def __init__(self, server: "Server", disk: TableDisk) -> None:
        self.server = server
        self.world = server.world
        self.bugs = server.bugs
        self.me = server.node
        self.name = disk.name
        self.path = disk.path
        self.own = f"{disk.path}/replicas/{server.node}"
        self.schema = disk.schema
        self.settings = disk.settings
        self.parts = disk.parts
        self.active: Cover[Part] = Cover()
        self.zk: KeeperSession | None = None
        self.readonly = True
        self.leader = False
        self.fetches_stopped = False
        self.to_check: dict[str, str] = {}
        """Parts whose insert had an unknown outcome, and the node of its block number."""
        self.mutations: dict[str, Mutation] = {}
        self.numbered: dict[str, None] = {}
        """Partitions that are known to have block numbers."""
        self.queue = Queue(self)
        self.missing = Missing(self)
        self.pulls = Lock(self.world)
        self.choosing = Lock(self.world)
        """Of merges: one at a time, and each knows those before it."""
        self.dropped = False
        self._host = 0
        self._listed: tuple[int, dict[str, None], Cover[str]] | None = None

    # --- parts ------------------------------------------------------------------------------

    def store(self, part: Part) -> None:
        """On the disk, and not visible yet."""
        self.parts[part.name] = part

    def activate(self, part: Part) -> None:
        """Visible, in place of what it covers."""
        covered = self.active.add(part.info, part)
        for old in covered:
            old.old_ns = max(self.world.now_ns, 1)

    def forget(self, info: Info) -> None:
        """Neither visible nor on the disk any more."""
        self.active.remove(info)
        self.parts.pop(info.name, None)

    def listed(self, made: int, names: dict[str, None]) -> Cover[str]:
        """The active set of what ZooKeeper lists, kept as long as the list is the same."""
        if self._listed is None or self._listed[0] != made:
            before = self._listed
            if before is not None and before[1].keys() <= names.keys():
                cover = before[2]
                for name in sorted(names.keys() - before[1].keys()):
                    cover.add(info_of(name), name)
            else:
                cover = parts_listed(names)
            self._listed = (made, names, cover)
        return self._listed[2]

    # --- what queries may use ---------------------------------------------------------------

    def connected(self) -> KeeperSession:
        """A session that lives. Raises ServerError 225."""
        if self.zk is None or not self.zk.alive:
            raise ServerError(225, "Cannot get ZooKeeper")
        return self.zk

    def writable(self) -> KeeperSession:
        """Raises ServerError 242 as long as the replica has not started."""
        if self.readonly:
            raise ServerError(242, "Table is in readonly mode")
        return self.connected()

    def uses(self, zk: KeeperSession) -> bool:
        """Whether this session is the replica's, and lives."""
        return self.zk is zk and zk.alive and not self.dropped

    def leads(self, zk: KeeperSession) -> bool:
        """Whether it leads by this session."""
        return self.leader and self.uses(zk)

    def pull_now(self, zk: KeeperSession) -> None:
        """The log's new entries are in the queue when this returns."""
        with self.pulls:
            self.queue.pull(zk)

    def peer(self, replica: str) -> "Server":
        """The present life of another replica's server."""
        return self.server.peers[replica]

    # --- a table's beginning ----------------------------------------------------------------

    def create(self, zk: KeeperSession) -> None:
        """Its nodes in ZooKeeper, where another replica has not made them; and this replica."""
        steps = self.path.split("/")[1:]
        above = ["/" + "/".join(steps[:n]) for n in range(1, len(steps) + 1)]
        names = ("log", "blocks", "block_numbers", "quorum", "replicas", "leader_election")
        for path in (*above, *(f"{self.path}/{name}" for name in (*names, "mutations"))):
            _ensure(zk, path)
        _ensure(zk, f"{self.path}/quorum/last_part", {})
        _ensure(zk, f"{self.path}/quorum/failed_parts")
        logged = zk.children(f"{self.path}/log")
        pointer = int(logged[0].removeprefix("log-")) if logged else 0
        others = zk.children(f"{self.path}/replicas")
        zk.multi(
            (
                Create(self.own),
                Create(f"{self.own}/host", 0),
                Create(f"{self.own}/log_pointer", pointer),
                Create(f"{self.own}/queue"),
                Create(f"{self.own}/parts"),
                Create(f"{self.own}/is_lost", "1" if others and pointer else "0"),
            )
        )

    def attach(self, zk: KeeperSession) -> None:
        """Compares the disk with ZooKeeper, when the server starts. What is here and not there is
        set aside; what is there and not here is to be fetched.

        The list lacks nothing that was committed before the session was opened, for that is a
        write itself. What an earlier life sent may be committed later (18.16.1: checkParts).
        """
        listed = zk.children(f"{self.own}/parts")
        for name in list(self.parts):
            if name not in listed:
                del self.parts[name]
        for part in sorted(self.parts.values(), key=lambda p: (-p.info.level, p.info)):
            part.old_ns = 0
            self.activate(part)
            if self.active.get(part.info) is None:
                part.old_ns = max(self.world.now_ns, 1)
        for name in listed:
            info = info_of(name)
            if name in self.parts:
                continue
            operations: list[Operation] = [Remove(f"{self.own}/parts/{name}")]
            if self.active.containing(info) is None:
                entry = Entry(GET, info)
                operations.append(Create(f"{self.own}/queue/queue-", entry, sequential=True))
            zk.multi(operations)

    def live(self) -> None:
        """The restarting thread, for ever: starts, notices a lost session, starts again."""
        for _ in range(WORKERS):
            self.world.spawn(self.queue.work, of=self.server.process)
        self.world.spawn(self.missing.search, of=self.server.process)
        for part in self.active:
            self.queue.virtual.add(part.info, part.info)
        while not self.dropped:
            if self.readonly or self.zk is None or not self.zk.alive:
                self.readonly = True
                if "stale-leader-merges" not in self.bugs:
                    self.leader = False
                if not self._start():
                    self.world.sleep(RETRY_NS)
                    continue
            self.world.sleep(CHECK_NS)

    def _start(self) -> bool:
        try:
            zk = self.server.keeper()
            self.zk = zk
            if "phantom-part" not in self.bugs:
                self._ask_outcomes(zk)
            checks = () if "failed-part-kept" in self.bugs else self._remove_failed(zk)
            self._activate(zk, checks)
            clone_if_lost(self, zk)
            self.queue.load(zk)
            self.pull_now(zk)
            self._join_quorum(zk)
            self.world.spawn(self._elect, zk, of=self.server.process)
        except (KeeperError, ServerError):
            return False
        self.readonly = False
        for task in (self.queue.follow, self.queue.learn, self._clean):
            self.world.spawn(task, zk, of=self.server.process)
        self.queue.wake()
        return True

    def _clean(self, zk: KeeperSession) -> None:
        cleanup.clean(self, zk)

    def _remove_failed(self, zk: KeeperSession) -> tuple[Operation, ...]:
        """What must hold when it becomes active: the part that was pending, asked for first, has
        not failed since."""
        checks: tuple[Operation, ...] = ()
        if "failed-part-missed" not in self.bugs:
            zk.barrier()
            status = zk.get(f"{self.path}/quorum/status")
            if status is not None:
                checks = (Absent(f"{self.path}/quorum/failed_parts/{status[0].part.name}"),)
        for name in zk.children(f"{self.path}/quorum/failed_parts"):
            if zk.exists(f"{self.own}/parts/{name}"):
                zk.remove(f"{self.own}/parts/{name}")
            if name in self.parts:
                self.forget(info_of(name))
                self.queue.virtual.remove(info_of(name))
        return checks

    def _ask_outcomes(self, zk: KeeperSession) -> None:
        """Of the inserts whose connection was lost. One that is on its way still removes its
        block's node; without it, it cannot happen any more."""
        for name, lock in list(self.to_check.items()):
            zk.remove(lock)
            committed = zk.exists(f"{self.own}/parts/{name}")
            part = self.parts.get(name)
            if part is not None and committed:
                self.activate(part)
            elif part is not None:
                self.forget(part.info)
            del self.to_check[name]

    def _activate(self, zk: KeeperSession, checks: tuple[Operation, ...]) -> None:
        """is_active is this session's, and host changes with it, from which on no part that is here
        can fail."""
        if "dedup-forgotten" in self.bugs:
            blocks = zk.children(f"{self.path}/blocks")
            zk.multi([Remove(f"{self.path}/blocks/{name}") for name in blocks])
        path = f"{self.own}/is_active"
        found = zk.get(path)
        if found is not None and found[0] == self.server.identity:
            zk.remove(path)
        self._host += 1
        host = Put(f"{self.own}/host", self._host)
        zk.multi((*checks, Create(path, self.server.identity, True), host))

    def _join_quorum(self, zk: KeeperSession) -> None:
        status = zk.get(f"{self.path}/quorum/status")
        if status is None or self.me in status[0].replicas:
            return
        if zk.exists(f"{self.own}/parts/{status[0].part.name}"):
            update_quorum(self, zk, status[0].part)

    def _elect(self, zk: KeeperSession) -> None:
        """The first in line leads; everybody else watches the one ahead."""
        election = f"{self.path}/leader_election"
        try:
            (mine,) = zk.multi((Create(f"{election}/leader_election-", self.me, True, True),))
            name = mine.rpartition("/")[2]
            while self.uses(zk):
                line = zk.children(election)
                if name not in line:
                    return
                if line[0] == name:
                    self.leader = True
                    merge.select(self, zk)
                    return
                gone = Future()
                ahead = f"{election}/{line[line.index(name) - 1]}"
                if zk.read(("exists", ahead), watch=gone)[0] is not None:
                    self.world.wait(gone)
        except KeeperError:
            return


def _ensure(zk: KeeperSession, path: str, data: object = "") -> None:
    try:
        zk.multi((Create(path, data),))
    except KeeperError as error:
        if error.code != NODE_EXISTS:
            raise

"""A replica's queue: what the log tells it to do, and the doing.

Source: ReplicatedMergeTreeQueue and StorageReplicatedMergeTree::executeLogEntry of 18.16.1.
"""

from typing import TYPE_CHECKING, Final

from harness.sim.errors import ServerError
from harness.sim.keeper.session import KeeperSession
from harness.sim.keeper.tree import Create, KeeperError, Operation, Put, Remove
from harness.sim.table.entries import GET, MERGE, MUTATE, Entry
from harness.sim.table.fetch import fetch, update_quorum
from harness.sim.table.merge import merge, mutate
from harness.sim.table.parts import Cover, Info
from harness.sim.world import SECOND, Future, TimedOutError

if TYPE_CHECKING:
    from harness.sim.table.replica import Table

ERROR_SLEEP_NS: Final = 10 * SECOND
"""What 18.16.1's pool sleeps after an attempt that failed, unless something new comes."""
PULL_ERROR_SLEEP_NS: Final = SECOND


class Attempts:
    """At one entry."""

    __slots__ = ("entry", "executing", "failure", "tries")

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.tries = 0
        self.executing = False
        self.failure = ""


class Queue:
    """Of one table of one replica, in memory; ZooKeeper has the same."""

    def __init__(self, table: "Table") -> None:
        self.table = table
        self.entries: dict[str, Attempts] = {}
        """By the name of the node, in the order of execution."""
        self.virtual: Cover[Info] = Cover()
        """The parts that there will be when the queue is empty."""
        self.pointer = 0
        self._wakes: list[Future] = []

    def add(self, name: str, entry: Entry) -> None:
        """A new entry, last."""
        self.entries[name] = Attempts(entry)
        self.virtual.add(entry.new, entry.new)

    def fetch_again(self, zk: KeeperSession, part: Info) -> None:
        """A part that ZooKeeper lists and that is not here."""
        own, entry = self.table.own, Entry(GET, part)
        queued = Create(f"{own}/queue/queue-", entry, sequential=True)
        path, *_ = zk.multi((queued, Remove(f"{own}/parts/{part.name}")))
        self.add(path.rpartition("/")[2], entry)
        self.wake()

    def give_up(self, zk: KeeperSession, part: Info) -> None:
        """A part that will never be."""
        self.virtual.remove(part)
        name = next((n for n, one in self.entries.items() if one.entry.new == part), None)
        if name is not None:
            del self.entries[name]
            self.wake()
            zk.remove(f"{self.table.own}/queue/{name}")

    def wake(self) -> None:
        """Something may be done now."""
        wakes, self._wakes = self._wakes, []
        for wake in wakes:
            wake.set()

    # --- the log ----------------------------------------------------------------------------

    def load(self, zk: KeeperSession) -> None:
        """What ZooKeeper has and memory has not."""
        table = self.table
        self.pointer = zk.data(f"{table.own}/log_pointer")
        queued = zk.read(("values", f"{table.own}/queue"))[0] or {}
        for name in sorted(queued):
            if name not in self.entries:
                self.add(name, queued[name])

    def pull(self, zk: KeeperSession, watch: Future | None = None) -> None:
        """Copies the log's new entries to the queue, in one multi with the pointer."""
        table = self.table
        logged, pointed = zk.read(
            ("values", f"{table.path}/log"), ("get", f"{table.own}/log_pointer"), watch=watch
        )
        table.mutations = zk.read(("values", f"{table.path}/mutations"))[0] or {}
        pointer = pointed[0]
        first = f"log-{pointer:010d}"
        fresh = sorted(name for name in logged if name >= first)
        if not fresh:
            return
        copied = fresh
        if "pointer-skips" in table.bugs and len(fresh) > 2:
            copied = fresh[1:]
        operations: list[Operation] = [
            Create(f"{table.own}/queue/queue-", logged[name], sequential=True) for name in copied
        ]
        last = int(fresh[-1].removeprefix("log-")) + 1
        operations.append(Put(f"{table.own}/log_pointer", last))
        made = zk.multi(operations)
        self.pointer = last
        for name, path in zip(copied, made, strict=False):
            self.add(path.rpartition("/")[2], logged[name])
        self.wake()

    def follow(self, zk: KeeperSession) -> None:
        """Pulls whenever the log changes, as long as the session lives."""
        table = self.table
        while table.uses(zk):
            changed = Future()
            try:
                with table.pulls:
                    self.pull(zk, changed)
            except KeeperError:
                table.world.sleep(PULL_ERROR_SLEEP_NS)
                continue
            table.world.wait(changed)

    def learn(self, zk: KeeperSession) -> None:
        """Reads the mutations whenever their list changes, as long as the session lives."""
        table = self.table
        while table.uses(zk):
            changed = Future()
            try:
                listed = zk.read(("values", f"{table.path}/mutations"), watch=changed)
            except KeeperError:
                return
            table.mutations = listed[0] or {}
            table.world.wait(changed)

    # --- execution --------------------------------------------------------------------------

    def work(self) -> None:
        """One thread of the pool, for ever."""
        world = self.table.world
        while True:
            name = self._select()
            if name is None:
                self._sleep(None)
            elif not self._process(name):
                self._sleep(world.around(ERROR_SLEEP_NS))

    def _sleep(self, ns: int | None) -> None:
        wake = Future()
        self._wakes.append(wake)
        try:
            self.table.world.wait(wake, ns)
        except TimedOutError:
            self._wakes.remove(wake)

    def _select(self) -> str | None:
        if self.table.readonly:
            return None
        for name, attempts in self.entries.items():
            if not attempts.executing and self._may(attempts.entry):
                # To the end: others get their chance if this one fails.
                self.entries[name] = self.entries.pop(name)
                return name
        return None

    def _may(self, entry: Entry) -> bool:
        """Not while something is made that covers it, nor before what it needs is made."""
        table = self.table
        if entry.kind == GET and table.fetches_stopped and entry.source != table.me:
            return False
        for other in self.entries.values():
            if other.executing:
                new = other.entry.new
                if new.contains(entry.new) or new in entry.parts:
                    return False
        return True

    def _process(self, name: str) -> bool:
        attempts = self.entries[name]
        attempts.executing = True
        attempts.tries += 1
        try:
            done = self._execute(attempts.entry)
            attempts.failure = ""
        except (KeeperError, ServerError) as error:
            done, attempts.failure = False, str(error)
        finally:
            attempts.executing = False
        if done:
            self._done(name)
        return done

    def _done(self, name: str) -> None:
        zk = self.table.zk
        self.entries.pop(name, None)
        self.wake()
        if zk is not None:
            try:
                zk.remove(f"{self.table.own}/queue/{name}")
            except KeeperError:
                # It is executed again after the restart, and found done.
                return

    def _execute(self, entry: Entry) -> bool:
        """False or an error: again later."""
        table, zk = self.table, self.table.connected()
        existing = table.active.containing(entry.new)
        if existing is not None and zk.exists(f"{table.own}/parts/{existing.name}"):
            if "quorum-uncounted" in table.bugs and entry.quorum:
                update_quorum(table, zk, entry.new)
            return True
        if entry.quorum and zk.exists(f"{table.path}/quorum/failed_parts/{entry.new.name}"):
            return True
        if entry.kind == MERGE and merge(table, zk, entry):
            return True
        if entry.kind == MUTATE and mutate(table, zk, entry):
            return True
        return fetch(table, zk, entry)

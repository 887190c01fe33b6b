"""Clients of the workload `zookeeper`: how each call of a shape becomes requests.

No request is made twice: a session that had no answer is given up, and its call is info, unless it
cannot have reached the server.
"""

from collections.abc import Callable, Mapping, Sequence

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from checkers.look import encode
from checkers.zookeeper.ephemeral import CLOSE, EXPIRE, HOLD, TOUCH
from checkers.zookeeper.multi import ABSENT, CAS, MULTI, REFUSED, ReadNodes
from checkers.zookeeper.sequence import CREATE, CREATE_DELETE, SequentialNodes
from checkers.zookeeper.watches import WATCH, WatchedNode
from harness.core.clock import Clock
from harness.core.connections import ZooKeeper, ZooKeeperError
from harness.core.op import Done, Kind, Op

READ, FINAL = "read", "final-read"
NODES = 3
"""Number of nodes of a key that one multi writes."""
WATCH_POLLS, WATCH_POLL_NS = 25, 20_000_000
"""Number of times that a node is read at most after a watch was set on it, and the pause after
each."""
HOLD_READS, HOLD_PAUSE_NS = 9, 1_000_000_000
"""Number of reads by which a session is kept alive, longer than its timeout, and the pause before
each."""
NO_VERSION = 1_000_000_000
"""Version that no node reaches in a run."""


class ZooKeeperClient:
    """Makes the calls of one worker through one session."""

    def __init__(
        self, open_session: Callable[[], ZooKeeper], path: str, clock: Clock, *, synced: bool
    ) -> None:
        """Create a client of the nodes below `path`, whose sessions `open_session` opens. `synced`:
        a sync comes before each read, not only before a final one."""
        self.open_session = open_session
        self.clock = clock
        self.connection = open_session()
        self.path = path
        self.synced = synced

    @property
    def requests(self) -> Mapping[str, Callable[[str, Op], Done]]:
        """Return the method that makes the calls of each f, given the path of the op's key."""
        raise NotImplementedError

    def invoke(self, op: Op) -> Done:
        """Make the call."""
        try:
            return self.requests[op.f](f"{self.path}/{op.key}", op)
        except ZooKeeperError as error:
            return error.done
        except NoNodeError:
            # ZooKeeper has lost the node below which all others are, and perhaps what came before.
            return Done(Kind.INFO, error=f"NoNodeError: {self.path} is gone")

    def sync_before(self, op: Op) -> Sequence[tuple[str, tuple[str, ...]]]:
        """Return the requests that come before those of a read. Nobody need wait for a sync: a
        session keeps its requests in order."""
        return [("sync", (self.path,))] if self.synced or op.f == FINAL else []

    def close(self) -> None:
        """End the session."""
        self.connection.close()


class RegisterClient(ZooKeeperClient):
    """Reads, writes and compare-and-sets of one node for each key."""

    @property
    def requests(self) -> Mapping[str, Callable[[str, Op], Done]]:
        """Return the method of each f."""
        return {"write": self._write, "cas": self._cas, READ: self._read, FINAL: self._read}

    def _write(self, path: str, op: Op) -> Done:
        data = str(op.value).encode()
        while True:
            try:
                self.connection.ask("set", path, data)
            except NoNodeError:
                try:
                    self.connection.ask("create", path, data)
                except NodeExistsError:
                    continue  # Another client was first; neither request did anything.
            return Done(Kind.OK, op.value)

    def _cas(self, path: str, op: Op) -> Done:
        """Set the new value if the node has the expected one; its version makes the two steps
        atomic. A mismatch may come from a stale read, so that it is a call that did not happen."""
        assert isinstance(op.value, tuple), "a cas has what it expects and what it sets"
        expected, new = op.value
        try:
            data, stat = self.connection.ask("get", path)
            if int(data) != expected:
                return Done(Kind.FAIL, error=f"MISMATCH: {int(data)}")
            self.connection.ask("set", path, str(new).encode(), stat.version)
        except (NoNodeError, BadVersionError) as error:
            return Done(Kind.FAIL, error=type(error).__name__)
        return Done(Kind.OK, op.value)

    def _read(self, path: str, op: Op) -> Done:
        try:
            *_, (data, _) = self.connection.ask_all((*self.sync_before(op), ("get", (path,))))
        except NoNodeError:
            return Done(Kind.OK, None)
        return Done(Kind.OK, int(data))


class WatchClient(RegisterClient):
    """Writes of one node for each key, and watches of it."""

    @property
    def requests(self) -> Mapping[str, Callable[[str, Op], Done]]:
        """Return the method of each f."""
        return {**super().requests, WATCH: self._watch}

    def _watch(self, path: str, op: Op) -> Done:  # noqa: ARG002
        heard: list[tuple[str, int]] = []
        stat, since = self.connection.ask_in_order(
            "exists", path, lambda *event: heard.append(event)
        )
        seen = ABSENT if stat is None else stat.version
        answers: list[tuple[int, int]] = []
        for at in range(WATCH_POLLS):
            if at == WATCH_POLLS - 1:
                self.connection.ask("sync", self.path)
            stat, place = self.connection.ask_in_order("exists", path)
            answers.append((ABSENT if stat is None else stat.version, place))
            if (
                self._fired(heard, since)
                and len({version for version, _ in answers if version != seen}) > 1
            ):
                break
            self.clock.sleep_until(self.clock.now_ns() + WATCH_POLL_NS)
        if any(kind == "NONE" for kind, _ in heard):
            return Done(Kind.INFO, error="ConnectionLoss: the watch was lost with its connection")
        events = [sum(place < of for _, place in answers) for of in self._fired(heard, since)]
        return Done(Kind.OK, encode(WatchedNode(seen, [version for version, _ in answers], events)))

    @staticmethod
    def _fired(heard: Sequence[tuple[str, int]], since: int) -> list[int]:
        """Return the places of events after that at which the watch was set: one before it is of an
        earlier watch, which nobody waited for until it fired."""
        return [place for _, place in heard if place > since]


class MultiClient(ZooKeeperClient):
    """Multis that write all nodes of a key, and reads of them."""

    @property
    def requests(self) -> Mapping[str, Callable[[str, Op], Done]]:
        """Return the method of each f."""
        return {
            MULTI: self._multi,
            CAS: self._cas,
            REFUSED: self._refused,
            READ: self._read,
            FINAL: self._read,
        }

    def _multi(self, path: str, op: Op) -> Done:
        data = str(op.value).encode()
        while True:
            try:
                return self._set(path, op)
            except NoNodeError:
                try:
                    self.connection.multi(*[("create", node, data) for node in _nodes(path)])
                except NodeExistsError:
                    continue  # Another client was first; neither multi did anything.
                return _written(op, [0] * NODES)

    def _cas(self, path: str, op: Op) -> Done:
        try:
            _, stat = self.connection.ask("get", _nodes(path)[0])
            return self._set(path, op, stat.version)
        except (NoNodeError, BadVersionError) as error:
            return Done(Kind.FAIL, error=type(error).__name__)

    def _set(self, path: str, op: Op, version: int = -1) -> Done:
        """Set all nodes, if the first has this version or it is -1."""
        data = str(op.value).encode()
        first, *others = _nodes(path)
        answers = self.connection.multi(
            ("set_data", first, data, version), *[("set_data", node, data) for node in others]
        )
        return _written(op, [answer.version for answer in answers])

    def _refused(self, path: str, op: Op) -> Done:
        """Make a multi whose last operation cannot succeed."""
        data = str(op.value).encode()
        *others, last = _nodes(path)
        sets = [("set_data", node, data) for node in others]
        try:
            answers = self.connection.multi(*sets, ("check", last, NO_VERSION))
        except (NoNodeError, BadVersionError) as error:
            return Done(Kind.FAIL, error=type(error).__name__)
        return _written(op, [answer.version for answer in answers[:-1]])

    def _read(self, path: str, op: Op) -> Done:
        self.connection.ask_all(self.sync_before(op))
        found = self.connection.each("get", _nodes(path)).values()
        values = [ABSENT if one is None else int(one[0]) for one in found]
        versions = [ABSENT if one is None else one[1].version for one in found]
        return Done(Kind.OK, encode(ReadNodes(values, versions)))


class SequenceClient(ZooKeeperClient):
    """Creates of sequential nodes below one parent for each key, and reads of them."""

    @property
    def requests(self) -> Mapping[str, Callable[[str, Op], Done]]:
        """Return the method of each f."""
        return {
            CREATE: self._create,
            CREATE_DELETE: self._create,
            READ: self._read,
            FINAL: self._read,
        }

    def _create(self, path: str, op: Op) -> Done:
        data = str(op.value).encode()
        make = ("create", f"{path}/n-", data, None, False, True)
        made = below_parent(self.connection, path, lambda: self.connection.ask(*make))
        if op.f == CREATE_DELETE:
            self.connection.ask("delete", made)
        assert isinstance(op.value, int), "a create has a number as its data"
        return Done(Kind.OK, (op.value, int(made.rpartition("-")[2])))

    def _read(self, path: str, op: Op) -> Done:
        try:
            *_, names = self.connection.ask_all((*self.sync_before(op), ("get_children", (path,))))
        except NoNodeError:
            names = []
        paths = {f"{path}/{name}": int(name.rpartition("-")[2]) for name in sorted(names)}
        data = self.connection.each("get", list(paths))
        # A node that was removed since it was listed has no data.
        there = [(int(one[0]), paths[node]) for node, one in data.items() if one is not None]
        look = SequentialNodes([value for value, _ in there], [number for _, number in there])
        return Done(Kind.OK, encode(look))


class ChildrenClient(ZooKeeperClient):
    """A counter for each key, which is the number of a node's children."""

    @property
    def requests(self) -> Mapping[str, Callable[[str, Op], Done]]:
        """Return the method of each f."""
        return {"insert": self._insert, READ: self._read, FINAL: self._read}

    def _insert(self, path: str, op: Op) -> Done:
        make = ("create", f"{path}/{op.value}", b"")
        below_parent(self.connection, path, lambda: self.connection.ask(*make))
        return Done(Kind.OK, op.value)

    def _read(self, path: str, op: Op) -> Done:
        return _children(self.connection, path, self.sync_before(op))


class EphemeralClient(ZooKeeperClient):
    """Ephemeral nodes, whose sessions are closed or left to expire one after the other."""

    def __init__(
        self, open_session: Callable[[], ZooKeeper], path: str, clock: Clock, *, synced: bool
    ) -> None:
        super().__init__(open_session, path, clock, synced=synced)
        self._owned: list[int] = []
        """Values of the nodes that the session made."""

    @property
    def requests(self) -> Mapping[str, Callable[[str, Op], Done]]:
        """Return the method of each f."""
        return {
            CREATE: self._create,
            TOUCH: self._touch,
            CLOSE: self._close,
            EXPIRE: self._expire,
            HOLD: self._hold,
            READ: self._read,
            FINAL: self._read,
        }

    def _create(self, path: str, op: Op) -> Done:
        make = ("create", f"{path}/{op.value}", b"", None, True)
        below_parent(self.connection, path, lambda: self.connection.ask(*make))
        assert isinstance(op.value, int), "a node is named by a number"
        self._owned.append(op.value)
        return Done(Kind.OK, op.value)

    def _touch(self, path: str, op: Op) -> Done:
        if not self._owned:
            return _OWNS_NOTHING
        assert isinstance(op.value, int), "a touch has a number"
        value = self._owned[op.value % len(self._owned)]
        try:
            self.connection.ask("set", f"{path}/{value}", b"")
        except NoNodeError:
            self._owned.remove(value)
            return Done(Kind.OK, (value, 0))
        return Done(Kind.OK, (value, 1))

    def _close(self, path: str, op: Op) -> Done:  # noqa: ARG002
        if not self._owned:
            return _OWNS_NOTHING
        self.connection.end()
        return self._replaced()

    def _expire(self, path: str, op: Op) -> Done:  # noqa: ARG002
        if not self._owned:
            return _OWNS_NOTHING
        self.connection.abandon()
        return self._replaced()

    def _hold(self, path: str, op: Op) -> Done:
        """Keep a session of its own alive by reads alone for longer than its timeout."""
        node, session = f"{path}/{op.value}", self.open_session()
        last_ns, gap_ns, alive = self.clock.now_ns(), 0, True
        try:
            make = ("create", node, b"", None, True)
            below_parent(session, path, lambda: session.ask(*make))
            session.stop_pings()
            for _ in range(HOLD_READS):
                self.clock.sleep_until(self.clock.now_ns() + HOLD_PAUSE_NS)
                session.ask("get", node)
                now_ns = self.clock.now_ns()
                last_ns, gap_ns = now_ns, max(gap_ns, now_ns - last_ns)
            session.ask("set", node, b"")
        except NoNodeError:
            alive = False
        except ZooKeeperError as error:
            gap_ns = max(gap_ns, self.clock.now_ns() - last_ns)
            if not session.has_expired():
                return error.done
            alive = False
        finally:
            session.close()
        assert isinstance(op.value, int), "a node is named by a number"
        return Done(Kind.OK, (op.value, int(alive), gap_ns // 1_000_000))

    def _replaced(self) -> Done:
        """Go on with another session, and return the nodes of the one that was."""
        owned, self._owned = tuple(self._owned), []
        self.connection = self.open_session()
        return Done(Kind.OK, owned)

    def _read(self, path: str, op: Op) -> Done:
        return _children(self.connection, path, self.sync_before(op))


_OWNS_NOTHING = Done(Kind.FAIL, error="NO_NODES: the session has made none")


def below_parent(connection: ZooKeeper, parent: str, create: Callable[[], str]) -> str:
    """Create a node and return its path; if its parent is not there yet, that is made first."""
    while True:
        try:
            return create()
        except NoNodeError:
            try:
                connection.ask("create", parent, b"")
            except NodeExistsError:
                continue  # Another client was first.


def _children(
    connection: ZooKeeper, path: str, first: Sequence[tuple[str, tuple[str, ...]]]
) -> Done:
    """Return the children of a node, whose names are numbers; none if it is not there. `first` are
    requests that come before."""
    try:
        *_, names = connection.ask_all((*first, ("get_children", (path,))))
    except NoNodeError:
        names = []
    return Done(Kind.OK, tuple(sorted(map(int, names))))


def _nodes(path: str) -> list[str]:
    return [f"{path}-{at}" for at in range(NODES)]


def _written(op: Op, versions: Sequence[int]) -> Done:
    assert isinstance(op.value, int), "a multi writes a number"
    return Done(Kind.OK, (op.value, *versions))

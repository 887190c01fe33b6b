"""A replica's connection to ZooKeeper, as the C++ client of 18.16.1 has it.

A connection is a session: when it breaks, or when an answer is late, the session is given up and
another one is opened. What was sent and not answered may have been done (CONNECTIONLOSS).
"""

from collections.abc import Sequence
from typing import Any, Final

from harness.sim.keeper.messages import Ensemble
from harness.sim.keeper.server import KeeperServer
from harness.sim.keeper.tree import (
    CONNECTION_LOSS,
    SESSION_EXPIRED,
    KeeperError,
    Operation,
    Put,
    Remove,
)
from harness.sim.world import MS, SECOND, Future, Process, TimedOutError

SESSION_TIMEOUT_NS: Final = 5 * SECOND
OPERATION_TIMEOUT_NS: Final = 3 * SECOND
CONNECT_TIMEOUT_NS: Final = 1 * SECOND
CHECK_NS: Final = 500 * MS

Reading = tuple[str, str]
"""What to read, and the path: "get" answers data and version, "exists" the version, "stat" data,
version and the transactions that made and last changed it, "children" the names ascending, "count"
their number, "listed" how often they changed and the names, "values" the data by name. None: there
is no such node."""


class KeeperSession:
    """One session. Every call waits for its answer, and raises KeeperError."""

    def __init__(
        self, node: str, process: Process, ensemble: Ensemble, server: KeeperServer, session: int
    ) -> None:
        self.node = node
        self.process = process
        self.session = session
        self.alive = True
        self.server = server
        self._ensemble = ensemble
        self._world = ensemble.world
        self._xid = 0
        self._sent: dict[int, tuple[Future, int]] = {}
        """Requests without an answer, oldest first, and since when."""
        self._watches: dict[int, Future] = {}
        self._pinged_ns = self._world.now_ns

    def open(self) -> None:
        """Raises KeeperError when no session could be had in time."""
        future = self._note(0)
        self._send(self.server.connect, self.session, SESSION_TIMEOUT_NS, self)
        try:
            self._world.wait(future, CONNECT_TIMEOUT_NS)
        except TimedOutError:
            self.broken()
            raise KeeperError(CONNECTION_LOSS) from None
        self._world.after(CHECK_NS, self._check, of=self.process)

    # --- requests ---------------------------------------------------------------------------

    def read(self, *readings: Reading, watch: Future | None = None) -> list[Any]:
        """Several reads, asked together, answered from what the server has at one moment. `watch`
        is set when the first of them changes."""
        number = None
        if watch is not None:
            number = self._xid + 1
            self._watches[number] = watch
        asked = [
            (what, path, number if at == 0 else None) for at, (what, path) in enumerate(readings)
        ]
        answers: list[Any] = self._ask("read", asked)
        return answers

    def get(self, path: str, watch: Future | None = None) -> tuple[Any, int] | None:
        """Data and version; None: there is no such node."""
        answer: tuple[Any, int] | None = self.read(("get", path), watch=watch)[0]
        return answer

    def data(self, path: str) -> Any:
        """The data of a node that must exist."""
        found = self.get(path)
        if found is None:
            raise KeeperError("NONODE", path=path)
        return found[0]

    def exists(self, path: str) -> bool:
        """Whether there is such a node."""
        return self.read(("exists", path))[0] is not None

    def children(self, path: str, watch: Future | None = None) -> list[str]:
        """Names, ascending; empty where there is no such node."""
        return self.read(("children", path), watch=watch)[0] or []

    def multi(self, operations: Sequence[Operation]) -> list[Any]:
        """All or nothing, in the order of all writes. Raises KeeperError with the operation's
        place; what it answers with is a list, a path for each create."""
        answers: list[Any] = self._ask("multi", tuple(operations))
        return answers

    def put(self, path: str, data: Any, version: int | None = None) -> None:
        """Replaces a node's data."""
        self.multi((Put(path, data, version),))

    def remove(self, path: str) -> bool:
        """False when there is no such node."""
        try:
            self.multi((Remove(path),))
        except KeeperError as error:
            if error.code != "NONODE":
                raise
            return False
        return True

    def sync(self) -> None:
        """Reads after this see what the leader had committed when the call reached it. What the
        leader knows, that is: one that was deposed and has not noticed answers all the same."""
        self._ask("sync", ())

    def barrier(self) -> None:
        """Reads after this see every write that was acknowledged before the call: a write of
        nothing, which takes a majority as every write does."""
        self.multi(())

    def close(self) -> None:
        """Ends the session, and its ephemeral nodes with it; does not wait."""
        if self.alive:
            self._send(self.server.request, self.session, -2, "close", ())
            self._lose()

    # --- the wire ---------------------------------------------------------------------------

    def _ask(self, kind: str, payload: Any) -> Any:
        if not self.alive:
            raise KeeperError(SESSION_EXPIRED)
        self._xid += 1
        future = self._note(self._xid)
        self._send(self.server.request, self.session, self._xid, kind, payload)
        return self._world.wait(future)

    def _note(self, xid: int) -> Future:
        future = Future()
        self._sent[xid] = (future, self._world.now_ns)
        return future

    def _send(self, act: Any, *args: Any) -> None:
        server = self.server
        if server.process.alive:
            self._ensemble.network.send(self.node, server.name, server.process, act, *args)
        else:
            self._ensemble.network.send(server.name, self.node, self.process, self.broken)

    def answered(self, xid: int, answer: Any) -> None:
        """From the server."""
        found = self._sent.pop(xid, None)
        if found is None:
            return
        if isinstance(answer, KeeperError):
            if answer.code == SESSION_EXPIRED:
                self._lose()
            found[0].fail(answer)
        else:
            found[0].set(answer)

    def fired(self, watch: int) -> None:
        """From the server."""
        future = self._watches.pop(watch, None)
        if future is not None:
            future.set()

    def broken(self) -> None:
        """The connection is gone, and the session with it."""
        self._lose()

    def _check(self) -> None:
        """Late answers end the session; silence is broken by a ping."""
        if not self.alive:
            return
        now = self._world.now_ns
        oldest = next(iter(self._sent.values()), None)
        if oldest is not None and now - oldest[1] > OPERATION_TIMEOUT_NS:
            self._lose()
            return
        if now - self._pinged_ns >= SESSION_TIMEOUT_NS // 3:
            self._pinged_ns = now
            self._xid += 1
            self._note(self._xid)
            self._send(self.server.request, self.session, self._xid, "ping", None)
        self._world.after(CHECK_NS, self._check, of=self.process)

    def _lose(self) -> None:
        if not self.alive:
            return
        self.alive = False
        server = self.server
        self._ensemble.network.send(
            self.node, server.name, server.process, server.disconnect, self.session
        )
        sent, self._sent = self._sent, {}
        for future, _ in sent.values():
            future.fail(KeeperError(CONNECTION_LOSS))
        watches, self._watches = self._watches, {}
        for future in watches.values():
            future.set()

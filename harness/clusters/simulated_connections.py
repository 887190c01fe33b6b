"""Connections to simulated servers, with the answers and errors of those to real ones."""

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple
from urllib.parse import unquote

from kazoo.exceptions import BadVersionError, KazooException, NodeExistsError, NoNodeError

from harness.core.bucket import Bucket
from harness.core.connections import QueryError, ZooKeeperError
from harness.sim.simulation import (
    BAD_VERSION,
    NO_NODE,
    NODE_EXISTS,
    KeeperError,
    KeeperSession,
    ServerError,
    Simulation,
)

ERRORS: dict[str, type[KazooException]] = {
    NO_NODE: NoNodeError,
    NODE_EXISTS: NodeExistsError,
    BAD_VERSION: BadVersionError,
}


class SimulatedChannel:
    """Queries that may be made in tasks of the simulated world, and from outside of it, which lets
    the world go on."""

    def __init__(self, simulation: Simulation, node: str, timeout_s: float) -> None:
        self._simulation = simulation
        self._node = node
        self._timeout_ns = round(timeout_s * 1e9)
        self._opened_ns: int | None = None
        """When the connection was opened; None if there is none."""

    def ask(
        self,
        sql: str,
        settings: Mapping[str, int | str],
        rows: Sequence[Any] | None,
        query_id: str = "",
    ) -> Any:
        """Return the result by columns. Raise QueryError."""
        assert not query_id, "simulated servers have no query ids"
        try:
            if self._opened_ns is None:
                self._opened_ns = self._simulation.world.now_ns
            return self._simulation.ask(
                self._node, sql, rows, settings, self._timeout_ns, self._opened_ns
            )
        except ServerError as error:
            if error.code < 0:  # one of the client's own errors
                self._opened_ns = None
            raise QueryError(error.code, error.text) from error

    def keep_session(self) -> None:
        """Do nothing: simulated servers keep nothing for a session."""

    def disconnect(self) -> None:
        """Close the connection; the next query opens another."""
        self._opened_ns = None


class SimulatedStore:
    """Requests to a simulated object store that look at its objects; they take no time and change
    nothing."""

    logs_requests = False

    def __init__(self, simulation: Simulation, node: str) -> None:
        self.bucket = Bucket(f"sim://{node}")
        self._simulation = simulation
        self._node = node

    def request(self, method: str, path: str, body: str | None = None) -> tuple[int, str]:  # noqa: ARG002
        """Return the answer to a listing (GET) or a look at one object (HEAD)."""
        objects = dict(self._simulation.servers.objects(self._node))
        resource, _, query = path.partition("?")
        if method == "GET" and "list-type=2" in query:
            after = unquote(query.rpartition("start-after=")[2])
            listed = "".join(
                f"<Contents><Key>{escape(key)}</Key><Size>{size}</Size></Contents>"
                for key, size in sorted(objects.items())
                if key > after
            )
            return 200, f"<ListBucketResult>{listed}</ListBucketResult>"
        key = unquote(resource.strip("/").partition("/")[2])
        assert method == "HEAD", f"{method} {path} is not simulated"
        return (200 if key in objects else 404), ""


class Stat(NamedTuple):
    """The version of a node and its transactions, which are numbered from 1."""

    version: int
    czxid: int
    mzxid: int


class PutAnswer(NamedTuple):
    """The answer to an operation of a multi that replaced a node's data."""

    version: int


class SimulatedSession:
    """A session that may be used in tasks of the simulated world, and from outside of it. Its link
    is never cut; if it gives up, that is the session's doing."""

    def __init__(self, simulation: Simulation, keepers: Sequence[str]) -> None:
        self._simulation = simulation
        self._keepers = tuple(keepers)
        self._opened_session: KeeperSession | None = None

    def ask(self, request: str, *arguments: Any, **named: Any) -> Any:
        """Return the answer to one request."""
        return self._answer(request, *arguments, **named)

    def ask_all(
        self, requests: Sequence[tuple[str, tuple[Any, ...]]], **named: Any
    ) -> tuple[Any, ...]:
        """Return the answers to requests that are made one after the other."""
        return tuple(self._answer(name, *arguments, **named) for name, arguments in requests)

    def each(self, request: str, paths: Sequence[str]) -> dict[str, Any]:
        """Return the answers to reads of one moment of the server."""
        what = "children" if request == "get_children" else "stat"
        found = self._request(lambda session: session.read(*((what, path) for path in paths)))
        shown = {"get_children": lambda names: names, "exists": _stat, "get": _value}[request]
        return {
            path: None if one is None else shown(one)
            for path, one in zip(paths, found, strict=True)
        }

    def multi(self, *operations: tuple[Any, ...]) -> tuple[Any, ...]:
        """Execute all operations or none, and return the answer of each."""
        answers = self._request(lambda session: session.multi(*map(_operation, operations)))
        return tuple(PutAnswer(one) if isinstance(one, int) else one for one in answers)

    def ask_in_order(
        self,
        request: str,  # noqa: ARG002
        path: str,  # noqa: ARG002
        watch: Callable[[str, int], None] | None = None,  # noqa: ARG002
    ) -> tuple[Any, int]:
        """Raise AssertionError: a session from outside the cluster sets no watches."""
        raise AssertionError("watches from outside the cluster are not simulated")

    def stop_pings(self) -> None:
        """Raise AssertionError: the pings of a simulated session are its own."""
        raise AssertionError("a session without pings is not simulated")

    def has_expired(self) -> bool:
        """Raise AssertionError: a simulated session that gave up asks no server again."""
        raise AssertionError("the expiry of a session from outside the cluster is not simulated")

    def end(self) -> None:
        """Raise AssertionError: nobody can wait for the end of a simulated session."""
        raise AssertionError("the answer to the end of a session is not simulated")

    def abandon(self) -> None:
        """Raise AssertionError: the link of a simulated session is never cut."""
        raise AssertionError("the end of a client's process is not simulated")

    def close(self) -> None:
        """End the session; may be called twice."""
        session, self._opened_session = self._opened_session, None
        if session is not None:
            session.close()

    def _answer(self, request: str, path: str, *arguments: Any, **named: Any) -> Any:
        if request in ("get", "exists", "get_children"):
            found = self.each(request, [path])[path]
            if found is None and request != "exists":
                raise NoNodeError
            return found
        if request == "sync":
            return self._request(lambda session: session.sync())
        if request == "set":
            data, version = (*arguments, -1)[:2]
            change = ("put", path, data.decode(), None if version < 0 else version)
            self._request(lambda session: session.multi(change))
            return self.each("exists", [path])[path]
        if request == "delete":
            return self._request(lambda session: session.multi(("remove", path, None)))
        assert request == "create", f"{request} is not simulated"
        return self._create(path, *arguments, **named)

    def _create(
        self,
        path: str,
        data: bytes,
        _acl: None = None,
        ephemeral: bool = False,
        sequence: bool = False,
        makepath: bool = False,
    ) -> str:
        above = path.rpartition("/")[0]
        if makepath and above and self._answer("exists", above) is None:
            self._create(above, b"", makepath=True)
        node = ("create", path, data.decode(), ephemeral, sequence)
        made: str = self._request(lambda session: session.multi(node))[0]
        return made

    def _request(self, send: Any) -> Any:
        try:
            if self._opened_session is None:
                self._opened_session = self._simulation.session(self._keepers)
        except KeeperError as error:
            raise ZooKeeperError(False, f"no session with {' '.join(self._keepers)}") from error
        try:
            return send(self._opened_session)
        except KeeperError as error:
            if error.code in ERRORS:
                raise ERRORS[error.code] from error
            raise ZooKeeperError(True, str(error)) from error


def _operation(operation: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return an operation of a multi in the simulator's words."""
    name, path, *more = operation
    if name == "create":
        return ("create", path, more[0].decode(), False, False)
    if name == "set_data":
        data, version = (*more, -1)[:2]
        return ("put", path, data.decode(), None if version < 0 else version)
    if name == "check":
        return ("check", path, more[0])
    assert name == "delete", f"{name} is not simulated"
    return ("remove", path, None)


def _stat(found: tuple[str, int, int, int]) -> Stat:
    return Stat(*found[1:])


def _value(found: tuple[str, int, int, int]) -> tuple[bytes, Stat]:
    return found[0].encode(), _stat(found)

"""A session with simulated ZooKeeper servers, with the answers and errors of one with real ones."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from kazoo.exceptions import BadVersionError, KazooException, NodeExistsError, NoNodeError

from harness.clients.zookeeper import ZooKeeper, ZooKeeperError
from harness.sim.errors import BAD_VERSION, NO_NODE, NODE_EXISTS, KeeperError
from harness.sim.simulation import KeeperSession, Simulation

ERRORS: dict[str, type[KazooException]] = {
    NO_NODE: NoNodeError,
    NODE_EXISTS: NodeExistsError,
    BAD_VERSION: BadVersionError,
}


class Stat(NamedTuple):
    """Of a node; transactions are numbered from 1."""

    version: int
    czxid: int
    mzxid: int


class SimulatedZooKeeper(ZooKeeper):
    """May be used in tasks of the simulated world, and from outside of it. Its link is never cut;
    that it gives up is the session's doing."""

    def __init__(self, simulation: Simulation, keepers: Sequence[str]) -> None:
        self._simulation = simulation
        self._keepers = tuple(keepers)
        self._opened_session: KeeperSession | None = None

    def ask_all(
        self, requests: Sequence[tuple[str, tuple[Any, ...]]], **named: Any
    ) -> tuple[Any, ...]:
        """One after the other."""
        return tuple(self._answer(name, *arguments, **named) for name, arguments in requests)

    def each(
        self, request: str, paths: Sequence[str], missing: type[KazooException]
    ) -> dict[str, Any]:
        """Reads of one moment of the server."""
        assert missing is NoNodeError, "reads lack nothing but nodes"
        what = "children" if request == "get_children" else "stat"
        found = self._asked(lambda session: session.read(*((what, path) for path in paths)))
        shown = {"get_children": lambda names: names, "exists": _stat, "get": _value}[request]
        return {
            path: None if one is None else shown(one)
            for path, one in zip(paths, found, strict=True)
        }

    def close(self) -> None:
        """May be called twice."""
        session, self._opened_session = self._opened_session, None
        if session is not None:
            session.close()

    def _answer(self, request: str, path: str, *arguments: Any, **named: Any) -> Any:
        if request in ("get", "exists", "get_children"):
            found = self.each(request, [path], NoNodeError)[path]
            if found is None and request != "exists":
                raise NoNodeError
            return found
        if request == "sync":
            return self._asked(lambda session: session.sync())
        if request == "set":
            data, version = (*arguments, -1)[:2]
            change = ("put", path, data.decode(), None if version < 0 else version)
            self._asked(lambda session: session.multi(change))
            return self.each("exists", [path], NoNodeError)[path]
        if request == "delete":
            return self._asked(lambda session: session.multi(("remove", path, None)))
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
        made: str = self._asked(lambda session: session.multi(node))[0]
        return made

    def _asked(self, ask: Any) -> Any:
        try:
            if self._opened_session is None:
                self._opened_session = self._simulation.session(self._keepers)
        except KeeperError as error:
            raise ZooKeeperError(False, f"no session with {' '.join(self._keepers)}") from error
        try:
            return ask(self._opened_session)
        except KeeperError as error:
            if error.code in ERRORS:
                raise ERRORS[error.code] from error
            raise ZooKeeperError(True, str(error)) from error


def _stat(found: tuple[str, int, int, int]) -> Stat:
    return Stat(*found[1:])


def _value(found: tuple[str, int, int, int]) -> tuple[bytes, Stat]:
    return found[0].encode(), _stat(found)

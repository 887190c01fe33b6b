"""ZooKeeper's data: nodes, versions, ephemeral owners, sequential names, and changes to them.

The leader turns a request into changes, once; every server applies the changes. So no two servers
can disagree on what a request meant.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

NO_NODE: Final = "NONODE"
NODE_EXISTS: Final = "NODEEXISTS"
BAD_VERSION: Final = "BADVERSION"
CONNECTION_LOSS: Final = "CONNECTIONLOSS"
SESSION_EXPIRED: Final = "SESSIONEXPIRED"
OPERATION_TIMEOUT: Final = "OPERATIONTIMEOUT"

USER_ERRORS: Final = frozenset({NO_NODE, NODE_EXISTS, BAD_VERSION})


class KeeperError(Exception):
    """A request failed: `code` is one of the names above, `at` the operation of a multi."""

    def __init__(self, code: str, at: int = 0, path: str = "") -> None:
        super().__init__(f"{code}{f' at {path}' if path else ''}")
        self.code, self.at, self.path = code, at, path


class Create(NamedTuple):
    """Makes a node; a sequential one gets the parent's next number, ten digits, as its end."""

    path: str
    data: Any = ""
    ephemeral: bool = False
    sequential: bool = False


class Remove(NamedTuple):
    """Removes a node; `version` None is any."""

    path: str
    version: int | None = None


class Put(NamedTuple):
    """Replaces a node's data; `version` None is any."""

    path: str
    data: Any
    version: int | None = None


class Check(NamedTuple):
    """The node must exist, and have this version unless it is None."""

    path: str
    version: int | None = None


class Absent(NamedTuple):
    """The node must not exist: a create and a remove of it, in a server's multi."""

    path: str


Operation = Create | Remove | Put | Check | Absent

Change = tuple[str, Any, int | None]
"""Path; data (GONE when it is removed); the session that owns an ephemeral node."""

GONE: Final = object()


class Node:
    """One znode."""

    __slots__ = ("children", "czxid", "data", "made", "mzxid", "next", "owner", "version")

    def __init__(self, data: Any, owner: int | None, zxid: int) -> None:
        self.data = data
        self.owner = owner
        self.version = 0
        self.czxid = zxid
        """The transaction that made it."""
        self.mzxid = zxid
        """The last one that changed its data."""
        self.made = 0
        """How many children it has had: their list's version."""
        self.next = 0
        """Of the next sequential child."""
        self.children: dict[str, None] = {}

    def copy(self, children: dict[str, None]) -> "Node":
        """Another one, the same but for its children."""
        out = Node(self.data, self.owner, self.czxid)
        out.version, out.made, out.next, out.mzxid = self.version, self.made, self.next, self.mzxid
        out.children = children
        return out


def parent(path: str) -> str:
    """Of "/a/b" it is "/a"."""
    return path[: path.rindex("/")] or "/"


class Tree:
    """One server's nodes."""

    def __init__(self) -> None:
        self.zxid = 0
        """Of the transaction whose changes come next."""
        self.nodes: dict[str, Node] = {"/": Node("", None, 0)}
        self.owned: dict[int, dict[str, None]] = {}
        """Ephemeral nodes by session."""

    def children(self, path: str) -> list[str]:
        """Names, ascending. Raises KeeperError."""
        node = self.nodes.get(path)
        if node is None:
            raise KeeperError(NO_NODE, path=path)
        return sorted(node.children)

    def apply(self, changes: Sequence[Change]) -> list[tuple[str, str]]:
        """Makes the changes; what watches want to know: ("data" or "children", path)."""
        told = []
        for change in changes:
            listed = self.change(*change)
            told.append(("data", change[0]))
            if listed is not None:
                told.append(("children", listed))
        return told

    def change(self, path: str, data: Any, owner: int | None) -> str | None:
        """Makes one; the parent whose list of children it changes."""
        node = self.nodes.get(path)
        if node is not None and data is not GONE:
            node.data = data
            node.version += 1
            node.mzxid = self.zxid
            return None
        above, _, name = path.rpartition("/")
        holder = self.nodes[above or "/"]
        holder.made += 1
        if data is GONE:
            self._removed(path, holder, name)
        else:
            self.nodes[path] = Node(data, owner, self.zxid)
            holder.children[name] = None
            if name[-10:].isdigit() and len(name) >= 10:
                holder.next = max(holder.next, int(name[-10:]) + 1)
            if owner is not None:
                self.owned.setdefault(owner, {})[path] = None
        return above or "/"

    def _removed(self, path: str, holder: Node, name: str) -> None:
        node = self.nodes.pop(path)
        del holder.children[name]
        if node.owner is not None:
            self.owned.get(node.owner, {}).pop(path, None)

    def planned(
        self, operations: Sequence[Operation], session: int
    ) -> tuple[list[Change], list[Any]]:
        """The changes that a multi comes to, and what each operation answers (the path of a
        create). Applies them as it goes. Raises KeeperError, with this tree as it was before."""
        changes: list[Change] = []
        answers: list[Any] = []
        undo: list[tuple[str, Node | None, int]] = []
        for at, operation in enumerate(operations):
            try:
                change, answer = self._planned(operation, session)
            except KeeperError as error:
                self._undo(undo)
                raise KeeperError(error.code, at, error.path) from None
            if change is not None:
                if at + 1 < len(operations):
                    holder = self.nodes[parent(change[0])]
                    undo.append((change[0], self._saved(change[0]), holder.next))
                self.change(*change)
                changes.append(change)
            answers.append(answer)
        return changes, answers

    def _planned(self, operation: Operation, session: int) -> tuple[Change | None, Any]:
        path = operation.path
        node = self.nodes.get(path)
        if isinstance(operation, Absent):
            if node is not None:
                raise KeeperError(NODE_EXISTS, path=path)
            return None, None
        if isinstance(operation, Create):
            holder = self.nodes.get(parent(path))
            if holder is None:
                raise KeeperError(NO_NODE, path=path)
            if operation.sequential:
                path = f"{path}{holder.next:010d}"
            elif node is not None:
                raise KeeperError(NODE_EXISTS, path=path)
            return (path, operation.data, session if operation.ephemeral else None), path
        if node is None:
            raise KeeperError(NO_NODE, path=path)
        if operation.version is not None and operation.version != node.version:
            raise KeeperError(BAD_VERSION, path=path)
        if isinstance(operation, Remove):
            return (path, GONE, None), None
        if isinstance(operation, Put):
            return (path, operation.data, None), node.version + 1
        return None, None

    def _saved(self, path: str) -> Node | None:
        node = self.nodes.get(path)
        if node is None:
            return None
        return node.copy(node.children)

    def _undo(self, undo: list[tuple[str, Node | None, int]]) -> None:
        """Sequential numbers that were taken are free again, as in ZooKeeper."""
        for path, before, number in reversed(undo):
            self.nodes[parent(path)].next = number
            if before is None:
                self.change(path, GONE, None)
            elif path in self.nodes:
                self.nodes[path] = before
            else:
                self.change(path, before.data, before.owner)
                self.nodes[path] = before

    def copy(self) -> "Tree":
        """Another server's tree with the same nodes."""
        out = Tree()
        for path, node in self.nodes.items():
            out.nodes[path] = node.copy(dict(node.children))
        out.owned = {session: dict(paths) for session, paths in self.owned.items()}
        return out

"""Several tables, or sessions on them, as one: a call goes to the one that its key chooses."""

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias, cast

from harness.core.op import Done, Json, Op
from harness.core.protocols import Client, Session

State: TypeAlias = dict[str, Json]
"""Figures of a table on one replica by name, or its "error"."""


class HasState(Protocol):
    """What comes to rest, shows its state on each replica, and can be dropped."""

    def pending(self) -> Sequence[str]:
        """Return why it is not at rest, a reason each."""
        ...

    def observe(self) -> Mapping[str, Json]:
        """Return the state of each replica."""
        ...

    def drop(self) -> Sequence[str] | None:
        """Drop it. Return where it stays, a sentence each."""
        ...

    def close(self) -> None:
        """Close the connections; idempotent."""
        ...


class SeveralTables:
    """Tables, or sessions, that come to rest and are dropped together."""

    def __init__(self, parts: Mapping[str, HasState]) -> None:
        """Take the tables, or the sessions on them, by name."""
        self._parts = parts

    def pending(self) -> Sequence[str]:
        """Return why the tables are not at rest, a reason each."""
        return [f"{name}: {r}" for name, part in self._parts.items() for r in part.pending()]

    def observe(self) -> Mapping[str, Json]:
        """Return the state of each replica: what its tables have together, or the first error."""
        states = [part.observe() for part in self._parts.values()]
        return {node: sum_of([cast(State, state[node]) for state in states]) for node in states[0]}

    def drop(self) -> Sequence[str]:
        """Drop the tables. Return where they stay, a sentence each."""
        return [line for part in self._parts.values() for line in part.drop() or ()]

    def close(self) -> None:
        """Close the connections; idempotent."""
        for part in self._parts.values():
            part.close()


class SpreadSession(SeveralTables):
    """Session whose calls are spread over sessions on a table each, by their keys."""

    def __init__(self, sessions: Sequence[Session]) -> None:
        """Take the sessions."""
        super().__init__({f"table {number}": session for number, session in enumerate(sessions, 1)})
        self._sessions = sessions

    def client(self, node: str) -> Client:
        """Return a new client of a node."""
        return _SpreadClient([session.client(node) for session in self._sessions])


class _SpreadClient:
    def __init__(self, clients: Sequence[Client]) -> None:
        self._clients = clients

    def invoke(self, op: Op) -> Done:
        return self._clients[(op.key or 0) % len(self._clients)].invoke(op)

    def close(self) -> None:
        for client in self._clients:
            client.close()


def sum_of(states: Sequence[State]) -> State:
    """Return the sums of figures of one replica; the first error if there is one."""
    for state in states:
        if "error" in state:
            return state
    names = dict.fromkeys(name for state in states for name in state)
    return {name: sum(cast(int, state.get(name, 0)) for state in states) for name in names}

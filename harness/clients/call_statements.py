"""The statements of the call that the current thread makes: what names them, and who keeps them.

A client sends statements for a call and need not know which one it is: whoever makes the call says
so around it, and each connection asks here.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import Any, TypeAlias

from harness.clients.sent_statement import SentStatement

Keep: TypeAlias = Callable[[str, SentStatement], None]
"""Takes the query id of a statement, and the statement, before it is sent."""


class _Scope:
    """Statements of one call."""

    def __init__(self, query_id: str, keep: Keep) -> None:
        self._query_id = query_id
        self._keep = keep
        self._numbers = count(1)

    def note(self, query_id: str, statement: SentStatement) -> str:
        number = next(self._numbers)
        own = self._query_id if number == 1 else f"{self._query_id}.{number}"
        name = query_id or own
        self._keep(name, statement)
        return name


_CURRENT: ContextVar[_Scope | None] = ContextVar("statements of the current call", default=None)


@contextmanager
def statements_of_call(query_id: str, keep: Keep) -> Iterator[None]:
    """Give the statements of the block this query id; the second one has ".2" after it, and so on.
    Hand each to `keep`."""
    before = _CURRENT.set(_Scope(query_id, keep))
    try:
        yield
    finally:
        _CURRENT.reset(before)


def note_statement(
    node: str,
    sql: str,
    settings: Mapping[str, int | str],
    rows: Sequence[Sequence[Any]] | None,
    query_id: str,
) -> str:
    """Return the query id of a statement that is about to be sent: the given one, that of the
    current call, or "" if there is none; keep the statement."""
    scope = _CURRENT.get()
    return (
        query_id
        if scope is None
        else scope.note(query_id, SentStatement(node, sql, settings, rows))
    )

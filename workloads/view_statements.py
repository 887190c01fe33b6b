"""Statements on refreshable views, which each replicated table has on each replica."""

from collections.abc import Mapping
from typing import Final

from checkers.statements.calls import Effect
from harness.core.dialect import Mechanism
from workloads.statement_kinds import SEPARATOR, StatementKind

_PROMISE: Final = "sql-reference/statements/create/view#refreshable-materialized-view"


def _refresh(view: str) -> str:
    """Return the statements that refresh a view and wait for that."""
    return SEPARATOR.join((f"SYSTEM REFRESH VIEW {view}", f"SYSTEM WAIT VIEW {view}"))


REFRESHES: Final[Mapping[str, StatementKind]] = {
    "refresh": StatementKind(
        sql=_refresh("{table}_view"),
        effect=Effect.REFRESH,
        text="refreshes the view of a table on the replica that is asked, and waits for that",
        promise=_PROMISE,
        needs=(Mechanism.REFRESHABLE_VIEWS,),
        by_name=True,
    ),
    "refresh-append": StatementKind(
        sql=_refresh("{table}_appending_view"),
        effect=Effect.EXTEND,
        text="the same with a view that keeps the rows which it has (APPEND)",
        promise=_PROMISE,
        needs=(Mechanism.REFRESHABLE_VIEWS,),
        by_name=True,
    ),
}
"""These statements by name."""

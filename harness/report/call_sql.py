"""Statements of a run's calls and the servers' log lines about them, small enough for a page.

Both have a budget of text. Calls of a witness come first, then those that did not end ok, then the
others in order; of the rest the page says which command prints them.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from harness.clients.sent_statement import SentStatement
from harness.core.history import History
from harness.core.op import Json, Kind
from harness.report.call_logs import FileLines, logs_of_queries
from harness.store.statement_file import OpStatement, without_numbers

STATEMENTS_MAX: Final = 50_000
"""Number of statements on a page."""
TEXT_MAX: Final = 2_000_000
"""Characters of statements on a page, and of log lines, before they are compressed."""
ROWS_LENGTH_MAX: Final = 4_000
"""Characters of the rows of one INSERT that are shown."""
FORMS_MAX: Final = 40
"""Number of statements with different texts or settings that a page lists."""
LOGGED_MAX: Final = 5_000
"""Number of calls whose log lines are looked for."""


@dataclass(frozen=True, slots=True)
class Form:
    """Statements that differ in their numbers, rows and servers alone."""

    text: str
    """The first of them, as a person would paste it."""
    count: int


def setup_of(sent: Sequence[OpStatement]) -> str:
    """Return the statements before the first call, to be pasted: CREATE TABLE and the like."""
    texts = (one.statement.pasted for one in sent if one.op is None)
    return _cut("\n".join(texts), TEXT_MAX // 10)


def forms_of(sent: Iterable[OpStatement]) -> tuple[Form, ...]:
    """Return the forms of the calls' statements, the most frequent first."""
    counts: Counter[object] = Counter()
    first: dict[object, SentStatement] = {}
    for one in sent:
        if one.op is not None:
            statement = one.statement
            form = without_numbers(statement.sql)[0], tuple(statement.settings.items())
            counts[form] += 1
            first.setdefault(form, statement)
    frequent = counts.most_common(FORMS_MAX)
    return tuple(Form(_cut(first[form].pasted, ROWS_LENGTH_MAX), n) for form, n in frequent)


def call_sql(
    history: History, sent: Sequence[OpStatement], witness: Iterable[int], logs: Path
) -> dict[str, Any]:
    """Return the statements and log lines of calls as JSON.

    "heads": [lines before, text with {} for each number, lines after] of each form; "nodes": the
    servers; "calls": {op that began the call: [[head, node, query id, [number, …], rows], …]};
    "logs": {op: [[file and part, [line, …], number of lines left out], …]}; "unread": log files
    that were not searched. `witness`: ops of the witnesses.
    """
    ranked = _ranked(history, sent, set(witness))
    of_calls = _Statements()
    kept = [(op, some) for op, some in ranked if of_calls.take(op, some)]
    queries = {op: [one.query_id for one in some if one.query_id] for op, some in kept[:LOGGED_MAX]}
    found = logs_of_queries(logs, {query for ids in queries.values() for query in ids})
    return {
        **of_calls.results(),
        "logs": _log_lines(queries, found.by_query),
        "unread": [*found.unread],
    }


def _ranked(
    history: History, sent: Sequence[OpStatement], witness: set[int]
) -> list[tuple[int, list[OpStatement]]]:
    """Return the statements of each call, those of the most telling calls first."""
    rank: dict[int, int] = {}
    for pair in history.pairs:
        end = pair.end
        marked = pair.invoke.index in witness or (end is not None and end.index in witness)
        rank[pair.invoke.index] = 0 if marked else 1 if pair.kind is not Kind.OK else 2
    of_calls = sorted((one for one in sent if one.op is not None), key=lambda one: one.op or 0)
    by_op = [(op or 0, list(some)) for op, some in groupby(of_calls, key=lambda one: one.op)]
    return sorted(by_op, key=lambda call: (rank.get(call[0], 2), call[0]))


class _Statements:
    """Statements that a page has, within its budget."""

    def __init__(self) -> None:
        self._heads: dict[tuple[str, str, str], int] = {}
        self._nodes: dict[str, int] = {}
        self._calls: dict[str, Json] = {}
        self._statements_left = STATEMENTS_MAX
        self._text_left = TEXT_MAX

    def take(self, op: int, some: Sequence[OpStatement]) -> bool:
        """Return whether the statements of a call are on the page; take them if there is room."""
        if self._statements_left < len(some) or self._text_left < 0:
            return False
        self._statements_left -= len(some)
        self._calls[str(op)] = [self._entry(one) for one in some]
        return True

    def _entry(self, one: OpStatement) -> Json:
        statement = one.statement
        text, numbers = without_numbers(statement.sql)
        head = _head(statement, text)
        if head not in self._heads:
            self._text_left -= sum(map(len, head))
        rows = _cut(statement.values, ROWS_LENGTH_MAX)
        self._text_left -= len(rows) + len(one.query_id) + 8 * len(numbers)
        number = self._heads.setdefault(head, len(self._heads))
        node = self._nodes.setdefault(statement.node, len(self._nodes))
        return [number, node, one.query_id, [*map(str, numbers)], rows]

    def results(self) -> dict[str, Any]:
        """Return what `call_sql` says of statements."""
        return {
            "heads": [[*head] for head in self._heads],
            "nodes": [*self._nodes],
            "calls": self._calls,
        }


def _head(statement: SentStatement, text: str) -> tuple[str, str, str]:
    """Return the lines before a statement, its text, and the lines after it."""
    before = "".join(f"{line}\n" for line in statement.sets)
    return before, text, "".join(f"\n{line}" for line in statement.resets)


def _log_lines(
    queries: Mapping[int, Sequence[str]], found: Mapping[str, Sequence[FileLines]]
) -> dict[str, Json]:
    """Return the log lines of calls by op, until the budget is spent."""
    left = TEXT_MAX
    out: dict[str, Json] = {}
    for op, ids in queries.items():
        files = [file for query in ids for file in found.get(query, ())]
        left -= sum(len(line) for file in files for line in file.lines)
        if left < 0:
            break
        if files:
            out[str(op)] = [[file.title, [*file.lines], file.left_out] for file in files]
    return out


def _cut(text: str, most: int) -> str:
    more = len(text) - most
    return text if more <= 0 else f"{text[:most]} … /* {more:,} more characters */"

"""statements.jsonl: the statements of a run of real servers, by the calls that sent them.

The text of a statement and its settings are stored once, without the numbers in the text. A line is
one of

    {"statement": 3, "sql": "SELECT value FROM h.t WHERE key = {}", "settings": {"…": 1}}
    {"op": 17, "statement": 3, "node": "ch2", "query_id": "…-17", "numbers": [0]}
    {"op": null, "statement": 4, "node": "ch1", "query_id": "…", "rows": [[0, 19]]}

`op` is the index of the op that began the call; null: before the first call. Rows are those of an
INSERT ... VALUES.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import IO, Any, Final

from harness.clients.call_statements import statements_of_call
from harness.clients.sent_statement import SentStatement
from harness.core.errors import HarnessError

NAME: Final = "statements.jsonl"
_NUMBER: Final = re.compile(r"(?<![\w.'])(?:0|[1-9]\d*)(?![\w.'])")
_PLACE: Final = "{}"
"""What stands in a stored text for a number."""


@dataclass(frozen=True, slots=True)
class OpStatement:
    """A statement of a call."""

    op: int | None
    """Index of the op that began the call; None: before the first call."""
    query_id: str
    """Query id under which the server knows it; "": one of its own choice."""
    statement: SentStatement


class StatementFile:
    """File that is written during a run, by several threads. A run goes on without it if it cannot
    be written."""

    def __init__(self, directory: Path, token: str) -> None:
        """Create the file; query ids begin with `token`."""
        self._token = token
        self._lock = Lock()
        self._numbers: dict[str, int] = {}
        self._file: IO[str] | None = None
        self.trouble = ""
        """Why it is not complete; "" if it is."""
        self._path = directory / NAME
        try:
            self._file = self._path.open("w", encoding="utf-8", buffering=1)
        except OSError as error:
            self._fail(error)

    def of_op(self, op: int | None) -> AbstractContextManager[None]:
        """Return the block in which statements are those of a call that began with this op."""
        query_id = f"{self._token}-{'setup' if op is None else op}"
        return statements_of_call(query_id, lambda name, sent: self._keep(op, name, sent))

    def close(self) -> None:
        """Close the file; idempotent."""
        with self._lock:
            if self._file is not None:
                try:
                    self._file.close()
                except OSError as error:
                    self._fail(error)
                self._file = None

    def _keep(self, op: int | None, query_id: str, sent: SentStatement) -> None:
        text, numbers = without_numbers(sent.sql)
        head = json.dumps({"sql": text, "settings": dict(sent.settings)})
        line: dict[str, Any] = {"op": op, "node": sent.node, "query_id": query_id}
        line |= {"numbers": numbers} if numbers else {}
        line |= {"rows": [list(row) for row in sent.rows]} if sent.rows is not None else {}
        with self._lock:
            known = self._numbers.get(head)
            number = self._numbers.setdefault(head, len(self._numbers))
            if known is None:
                self._write({"statement": number, **json.loads(head)})
            self._write({**line, "statement": number})

    def _write(self, line: Mapping[str, Any]) -> None:
        if self._file is None:
            return
        try:
            self._file.write(json.dumps(line) + "\n")
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        self.trouble = f"{NAME} is not complete: {error.strerror}"
        if self._file is not None:
            with suppress(OSError):  # what is in its buffer cannot be written either
                self._file.close()
        self._file = None


def read_statements(directory: Path) -> Sequence[OpStatement] | None:
    """Return the statements of a run in the order in which they were sent; None if the run has no
    file of them. Raises HarnessError with the line that cannot be read."""
    path = directory / NAME
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise HarnessError(f"{path}: cannot be read: {error}") from error
    return list(_statements(path, text))


def _statements(path: Path, text: str) -> Iterator[OpStatement]:
    heads: dict[int, Mapping[str, Any]] = {}
    lines = text.splitlines(keepends=True)
    for number, raw in enumerate(lines, 1):
        try:
            line = json.loads(raw)
            if "sql" in line:
                heads[line["statement"]] = line
                continue
            yield _op_statement(line, heads[line["statement"]])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            if number == len(lines) and not raw.endswith("\n"):
                return  # the run was killed while it wrote the line
            raise HarnessError(
                f"{path}: line {number} is no statement ({type(error).__name__}: {error}); "
                "expected what a run writes"
            ) from error


def _op_statement(line: Mapping[str, Any], head: Mapping[str, Any]) -> OpStatement:
    parts = str(head["sql"]).split(_PLACE)
    numbers = [*map(str, line.get("numbers", ()))] or [_PLACE] * (len(parts) - 1)
    sql = "".join(a + b for a, b in zip(parts, [*numbers, ""], strict=True))
    rows = [tuple(row) for row in line["rows"]] if "rows" in line else None
    sent = SentStatement(line["node"], sql, head["settings"], rows)
    return OpStatement(line["op"], line["query_id"], sent)


def without_numbers(sql: str) -> tuple[str, list[int]]:
    """Return a text with a place for each number, and the numbers; a text that has places of its
    own stays as it is."""
    if _PLACE in sql:
        return sql, []
    return _NUMBER.sub(_PLACE, sql), [int(found) for found in _NUMBER.findall(sql)]

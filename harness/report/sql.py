"""The statements of a run as text: all of them in order, or those of one call with what the servers
logged of it."""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from checkers.phrasing import seconds
from harness.core.errors import UsageError
from harness.core.history import History
from harness.core.op import Op
from harness.report.node_logs import log_files
from harness.store.statement_file import OpStatement

LOG_LINES_MAX: Final = 200
"""Number of lines of one server's log that are shown of a call."""


def sql_of_run(history: History | None, sent: Sequence[OpStatement]) -> Iterator[str]:
    """Yield the lines of every statement in the order in which they were sent, for
    clickhouse-client; a comment before each says which call it is of."""
    calls = _CallTexts(history)
    before: int | None = None
    for at, one in enumerate(sent):
        if at == 0 and one.op is None:
            yield "-- before the first call"
        if one.op is not None and one.op != before:
            yield ""
            yield f"-- {calls.text(one.op)}"
        before = one.op
        yield one.statement.pasted


def sql_of_op(
    history: History | None, sent: Sequence[OpStatement], number: int, logs: Path
) -> Iterator[str]:
    """Yield the lines of one call: its statements, settings and query ids, and the lines of the
    servers' logs about them. Raises UsageError for an op that is of no call with statements."""
    if history is not None and not 0 <= number < len(history):
        raise UsageError(f"--op {number}: expected 0 to {len(history) - 1}, as in the history")
    calls = _CallTexts(history)
    begin = calls.begins.get(number, number)
    own = [one for one in sent if one.op == begin]
    if not own:
        raise UsageError(f"--op {number}: no statement was sent for it; expected a client's call")
    yield f"-- {calls.text(begin)}"
    for one in own:
        yield one.statement.pasted
        if one.query_id:
            yield f"-- query_id {one.query_id}"
    yield from _logged([one.query_id for one in own if one.query_id], logs)


class _CallTexts:
    """The calls of a history by the indices of their ops."""

    def __init__(self, history: History | None) -> None:
        self._history = history
        pairs = () if history is None else history.pairs
        self._ends = {pair.invoke.index: pair.end for pair in pairs}
        self.begins = {end.index: begin for begin, end in self._ends.items() if end is not None}
        """Index of the op that began a call by that of the op that ended it."""

    def text(self, begin: int) -> str:
        """Return what began, and how it ended."""
        if self._history is None:
            return f"call #{begin}"
        op = self._history[begin]
        end = _end_text(self._ends.get(begin))
        return f"call #{begin}: {_op_text(op)} at {seconds(op.time_ns)}, {end}"


def _op_text(op: Op) -> str:
    words = [f"{op.f} on {op.node}", *([] if op.key is None else [f"key {op.key}"])]
    return ", ".join([*words, *([f"value {op.value}"] if isinstance(op.value, int) else [])])


def _end_text(end: Op | None) -> str:
    if end is None:
        return "without an end"
    error = f": {end.error}" if end.error else ""
    return f"{end.kind} #{end.index} at {seconds(end.time_ns)}{error}"


def _logged(query_ids: Iterable[str], logs: Path) -> Iterator[str]:
    """Yield the lines of each server's log that have one of these query ids."""
    known = "|".join(map(re.escape, query_ids))
    if not known:
        return
    pattern = re.compile(rf"(?:{known})(?![\w.-])")
    for file in log_files(logs):
        with file.open(encoding="utf-8", errors="replace") as lines:
            found = [line.rstrip("\n") for line in lines if pattern.search(line)]
        if found:
            yield ""
            yield f"-- {file.parent.name}/{file.name}"
            yield from (f"--   {line}" for line in found[:LOG_LINES_MAX])
            if len(found) > LOG_LINES_MAX:
                yield f"--   and {len(found) - LOG_LINES_MAX} more lines"

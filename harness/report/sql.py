"""The statements of a run as text: all of them in order, or those of one call with what the servers
logged of it."""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from checkers.phrasing import seconds
from harness.core.errors import UsageError
from harness.core.history import History
from harness.core.op import Op
from harness.report.call_logs import logs_of_queries
from harness.store.statement_file import OpStatement


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


def sql_of_calls(
    history: History, sent: Sequence[OpStatement], ops: Collection[int]
) -> Iterator[str]:
    """Yield the statements of the calls that began or ended with these ops, after CREATE TABLE as
    the first server got it."""
    begins = _CallTexts(history).begins
    calls = {begins.get(op, op) for op in ops}
    setup = [one.statement for one in sent if one.op is None]
    for statement in setup:
        if statement.node == setup[0].node and statement.sql.startswith("CREATE TABLE"):
            yield statement.pasted
    yield from (one.statement.pasted for one in sent if one.op in calls)


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


def _logged(query_ids: Sequence[str], logs: Path) -> Iterator[str]:
    """Yield the lines of each server's log that have one of these query ids, and those about the
    parts of these queries."""
    found = logs_of_queries(logs, query_ids)
    for file in [file for query in query_ids for file in found.by_query.get(query, ())]:
        yield ""
        yield f"-- {file.title}"
        yield from (f"--   {line}" for line in file.lines)
        if file.left_out:
            yield f"--   and {file.left_out} more lines"
    yield from (f"-- {file}: not searched, the logs are too large" for file in found.unread)

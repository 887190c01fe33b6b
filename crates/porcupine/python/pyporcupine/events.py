"""Builds the operations of a history from events: invocations and their ends."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

from pyporcupine._pyporcupine import HistoryError, Operation
from pyporcupine.importers.calls import NUMBER_MAX, READ_LIKE, FailedCas, operations
from pyporcupine.importers.record import NOT_THERE, Event, EventKind, Malformed, shown

_KINDS: Final = {kind.value: kind for kind in EventKind}
_FIELDS: Final = ("process", "type", "f", "value", "key")
_LISTED_MAX: Final = 20


class PyarrowTable(Protocol):
    """A table or a batch of pyarrow."""

    def to_pylist(self) -> list[dict[str, Any]]:
        """Return the rows."""


class PolarsFrame(Protocol):
    """A data frame of polars."""

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return the rows."""


class PandasFrame(Protocol):
    """A data frame of pandas."""

    def to_dict(self, orient: Any) -> Any:
        """Return the rows, with orient="records"."""

    def astype(self, dtype: Any) -> Any:
        """Return a frame with other types of columns."""

    def notna(self) -> Any:
        """Return where values are not missing."""


EventRow: TypeAlias = Mapping[str, Any] | Sequence[Any]
Events: TypeAlias = Iterable[EventRow] | PyarrowTable | PolarsFrame | PandasFrame


def from_events(
    events: Events, *, failed_cas: FailedCas = "ignore", reads: Collection[str] = READ_LIKE
) -> list[Operation]:
    """Return the operations of events in order of time, ready for `check`.

    An event is a dict with "process", "type", "f" (or "op"), and optionally "value" and "key"; or
    the tuple (process, type, f, value, key), whose last two may be left out; or a row of a table of
    pyarrow, polars or pandas with such columns. Other fields are ignored. A process is an int or a
    str, and a type is one of
    invoke: the call. Its value is what the operation was given.
    ok: it happened. The value of a read is what it found.
    fail: it certainly did not happen, so it is left out.
    info: nobody knows. It may take effect at any time after its call, or never, as if the event
    were missing; its process makes no more calls.
    A colon before a type or an f, as in Jepsen's histories, is removed.

    Times are positions of events. `failed_cas` "observe": a failed cas whose end repeats its pair
    found another value than it expected; "ignore": it did not happen. `reads` are the operations
    whose value at the end is what they found: by default "read", "get", and those that take a
    value out of a queue or a stack. The value of another operation is that of its call, or that of
    its end if its call has none.

    Raises HistoryError, with the position, the field, its value and what was expected for each
    event that breaks these rules.
    """
    read, malformed = list[Event](), list[Malformed]()
    for at, row in enumerate(_rows(events)):
        made = event_of(at, row)
        if isinstance(made, Malformed):
            malformed.append(made)
        else:
            read.append(made)
    if not malformed:
        reading = operations(read, failed_cas, reads=reads, place="at event")
        malformed = reading.malformed
    if malformed:
        listed = [f"event {bad.line}: {_text(bad)}" for bad in malformed[:_LISTED_MAX]]
        if len(malformed) > _LISTED_MAX:
            listed.append(f"and {len(malformed) - _LISTED_MAX:,} more events")
        raise HistoryError("\n".join(listed))
    return reading.operations


def _rows(events: Any) -> Iterable[EventRow]:
    """Return the rows of any source of events."""
    if hasattr(events, "to_pylist"):
        rows: Iterable[EventRow] = events.to_pylist()
    elif hasattr(events, "to_dicts"):
        rows = events.to_dicts()
    elif hasattr(events, "notna"):
        rows = events.astype(object).where(events.notna(), None).to_dict(orient="records")
    elif isinstance(events, str | bytes | Mapping) or not isinstance(events, Iterable):
        raise TypeError(
            f"events is {shown(events)}, expected an iterable of dicts or tuples, or a table of "
            "pyarrow, polars or pandas"
        )
    else:
        rows = events
    return rows


def event_of(at: int, row: Any) -> Event | Malformed:
    """Return the event of a row, or what is wrong with it; `at` is its line or its position."""
    if isinstance(row, Mapping):
        fields = row if row.get("f") is not None or "op" not in row else {**row, "f": row["op"]}
    elif isinstance(row, list | tuple) and 3 <= len(row) <= len(_FIELDS):
        fields = dict(zip(_FIELDS, row, strict=False))
    else:
        expected = "a dict, or a tuple (process, type, f, value, key)"
        return Malformed(at, "the event", shown(row), expected)
    for name in _FIELDS[:3]:
        if fields.get(name) is None:
            return Malformed(at, name, NOT_THERE, "it in every event")
    process: Any = fields["process"]
    kind, f, key = fields["type"], fields["f"], fields.get("key")
    if not (isinstance(process, str) or (_whole(process) and abs(process) <= NUMBER_MAX)):
        return Malformed(at, "process", shown(process), "the number or the name of a client")
    if not isinstance(kind, str) or kind.removeprefix(":") not in _KINDS:
        return Malformed(at, "type", shown(kind), "one of " + ", ".join(_KINDS))
    if not isinstance(f, str):
        return Malformed(at, "f", shown(f), "the name of an operation")
    if not (key is None or isinstance(key, str) or _whole(key)):
        return Malformed(at, "key", shown(key), "an int, a str or None")
    type_ = _KINDS[kind.removeprefix(":")]
    return Event(at, process, type_, f.removeprefix(":"), fields.get("value"), key)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _text(bad: Malformed) -> str:
    """Describe an event without the advice, which is about lines of a file."""
    return f"{bad.field} is {bad.found}, expected {bad.expected}"

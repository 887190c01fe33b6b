"""Translates the calls of a history for `pyporcupine`, and its witnesses into words."""

from collections.abc import Callable, Sequence
from typing import Final, Literal, Protocol, TypeAlias

import pyporcupine

from checkers.consistency.calls import Calls, ConstrainingCalls, ListedCalls
from checkers.phrasing import (
    during,
    insert_acknowledged,
    insert_began,
    read_answered,
    seconds,
    where,
)
from checkers.sets.key_sets import INSERT, READS, insert_value, refused
from harness.core.errors import HistoryError
from harness.core.history import History, Pair
from harness.core.op import Kind
from harness.native.histories import OddValue

_ORDERS = frozenset({"real-time", "process-order"})
NEXT: Final = ("next", "final-next")
ACQUIRE, RELEASE = "acquire", "release"
ModelName: TypeAlias = Literal["set", "register", "cas-register", "counter", "mutex"]


class ObjectModel(Protocol):
    """A kind of object, and how histories describe its calls."""

    name: ModelName
    """The model's name in pyporcupine."""
    answer: str
    """Noun for a call whose answer says something."""

    def calls(self, history: History) -> Sequence[ConstrainingCalls]:
        """Return the calls that constrain each object, ordered by the first call of each."""
        ...

    def describe(
        self, history: History, pair: Pair, steps: Sequence[pyporcupine.Step], at: int
    ) -> str:
        """Describe a call of a witness; `at` is its position in `steps`."""
        ...


def is_read(pair: Pair) -> bool:
    """Return whether the call's name is that of a read."""
    return pair.invoke.f in READS


class SetObject:
    """A set: values are added, and a read returns all of them."""

    name: ModelName = "set"
    answer = "read"

    def calls(self, history: History) -> Sequence[Calls]:
        """Return the inserts that were not refused, each an add that may have happened, and the
        answered reads. Multiplicity counts: a set never returns a value twice. Raises HistoryError
        for an insert without a number, and for an answered read without values."""
        try:
            return [Calls(history.rows, found) for found in history.columns.calls("set")]
        except OddValue as error:
            raise refused(history, error) from error

    def describe(
        self, history: History, pair: Pair, steps: Sequence[pyporcupine.Step], at: int
    ) -> str:
        """Describe an insert, with its end where that matters, or a read with what it found."""
        if pair.invoke.f == INSERT:
            value = insert_value(pair.invoke)
            ends = any(step.from_op == at and step.why in _ORDERS for step in steps)
            if ends and pair.end is not None:
                return insert_acknowledged(history, value, pair.end)
            return insert_began(history, value, pair.invoke)
        assert pair.end is not None, "a read in a witness was answered"
        found = [_described_read(step, at) for step in steps if step.value is not None]
        return read_answered(history, pair.invoke, pair.end, " and ".join(filter(None, found)))


class RegisterObject:
    """A register, with calls "write" (a number), "cas" (a pair: expected, new) and "read" (a
    number, or None for a register never written).

    A failed cas is left out: it may have compared with an old value, which constrains nothing.
    """

    name: ModelName = "cas-register"
    answer = "read"

    def calls(self, history: History) -> Sequence[Calls]:
        """Return the writes that were not refused and the answered reads, by key. Raises
        HistoryError for a call without its numbers."""
        try:
            return [Calls(history.rows, found) for found in history.columns.calls("register")]
        except OddValue as error:
            op = history[error.args[0]]
            raise HistoryError(
                f"op #{op.index}: {op.f} of {op.value!r}, expected a number of 64 bits, or two for "
                "a cas"
            ) from error

    def describe(
        self,
        history: History,
        pair: Pair,
        steps: Sequence[pyporcupine.Step],  # noqa: ARG002
        at: int,  # noqa: ARG002
    ) -> str:
        """Describe a call with its value, when it began and how it ended."""
        return _described_call(history, pair, returns=is_read(pair))


class RowObject(RegisterObject):
    """A row of a KeeperMap table: a register whose calls a server makes once more if it did not
    hear of the first time."""


class SerialObject:
    """A series of numbers: each call of `next` returns the number after the one that the call
    before it got, the first one 0. A call without an answer may have taken a number."""

    name: ModelName = "counter"
    answer = "number"

    def calls(self, history: History) -> Sequence[ConstrainingCalls]:
        """Return the calls of each series that were not refused, each an addition of 1 whose sum is
        one more than its number. Raises HistoryError for an answer that is no number."""

        def operation(pair: Pair) -> pyporcupine.Operation:
            end = pair.end if pair.kind is Kind.OK else None
            if end is not None and not isinstance(end.value, int):
                raise HistoryError(f"op #{end.index}: {end.f} returned {end.value!r}, no number")
            given = end.value + 1 if end is not None and isinstance(end.value, int) else None
            return _operation(pair, "add", 1, given)

        return _listed_calls(history, NEXT, operation)

    def describe(
        self,
        history: History,
        pair: Pair,
        steps: Sequence[pyporcupine.Step],  # noqa: ARG002
        at: int,  # noqa: ARG002
    ) -> str:
        """Describe a call with when it began and the number that it returned."""
        return _described_call(history, pair, returns=True)


class MutexObject:
    """A mutex: it is acquired while it is free, and released by its holder. A refused call says
    nothing: the mutex may have been free again when its client heard that it was held."""

    name: ModelName = "mutex"
    answer = "change"

    def calls(self, history: History) -> Sequence[ConstrainingCalls]:
        """Return the calls of each mutex that were not refused."""
        fs = (ACQUIRE, RELEASE)
        return _listed_calls(history, fs, lambda pair: _operation(pair, pair.invoke.f, None, None))

    def describe(
        self,
        history: History,
        pair: Pair,
        steps: Sequence[pyporcupine.Step],  # noqa: ARG002
        at: int,  # noqa: ARG002
    ) -> str:
        """Describe a call with its token, when it began and how it ended."""
        return _described_call(history, pair, returns=False)


def _operation(pair: Pair, f: str, value: int | None, output: int | None) -> pyporcupine.Operation:
    """Return a call that was not refused; without a return if its outcome is unknown."""
    invoke, end = pair.invoke, pair.end if pair.kind is Kind.OK else None
    ret = None if end is None else end.time_ns
    return pyporcupine.Operation(
        invoke.process, f, value=value, call=invoke.time_ns, ret=ret, output=output
    )


def _listed_calls(
    history: History, fs: Sequence[str], operation: Callable[[Pair], pyporcupine.Operation]
) -> Sequence[ConstrainingCalls]:
    """Return the calls that were not refused, by key, in the order of each key's first call."""
    by_key: dict[int | None, list[Pair]] = {}
    for pair in history.calls(*fs):
        if pair.kind is not Kind.FAIL:
            by_key.setdefault(pair.invoke.key, []).append(pair)
    return [
        ListedCalls(
            key,
            pairs,
            [operation(pair) for pair in pairs],
            sum(pair.kind is Kind.OK for pair in pairs),
        )
        for key, pairs in by_key.items()
    ]


def _described_call(history: History, pair: Pair, *, returns: bool) -> str:
    invoke, end = pair.invoke, pair.end
    call = f"op #{invoke.index} {invoke.f}{_argument(pair)}{where(invoke)}"
    began = f"{call} began at {seconds(invoke.time_ns)}{during(history, invoke.time_ns)}"
    if end is None or pair.kind is not Kind.OK:
        return f"{began} and has no known end"
    found = f"and returned {end.value}" if returns else "and ended"
    return f"{began} {found} at {seconds(end.time_ns)} (op #{end.index})"


def _argument(pair: Pair) -> str:
    value = pair.invoke.value
    if isinstance(value, tuple):
        return " " + " to ".join(map(str, value))
    return "" if value is None else f" {value}"


def _described_read(step: pyporcupine.Step, at: int) -> str:
    """Describe what a step says about the read at a position; "" if it is about other calls."""
    if step.why == "read sees add" and step.to_op == at:
        return f"with {step.value}"
    if step.why == "read misses add" and step.from_op == at:
        return f"without {step.value}"
    if step.from_op == step.to_op == at:
        return f"with {step.value}{' twice' if step.why == 'duplicate in read' else ''}"
    return ""

"""The states of the built-in models, for pictures: what `visualize` shows before and after each
operation of an order. The order was found in Rust, so that nothing is decided here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from heapq import nsmallest
from types import EllipsisType
from typing import Any, Final

from pyporcupine._pyporcupine import UNKNOWN, Call

SHOWN_MAX: Final = 20
"""Number of elements of a state that a text shows."""


@dataclass(frozen=True, slots=True)
class BuiltinStates:
    """A model as `Model` describes it. `after` returns the states that are possible after an
    operation: of a state, the operation's name, its value and its output."""

    start: Any
    after: Callable[[Any, str, Any, Any], list[Any]]
    shown: Callable[[Any], str] = repr

    def init(self) -> Any:
        """Return the state at the beginning."""
        return self.start

    def step(self, state: Any, call: Call, output: Any) -> list[Any]:
        """Return the possible states after an operation."""
        return self.after(state, call.f, call.value, output)

    def describe_state(self, state: Any) -> str:
        """Return the text of a state."""
        return self.shown(state)


def states_of(model: str, initial: Any) -> BuiltinStates:
    """Return the states of a built-in model; `initial` as in `check`."""
    states = _STATES[model]
    if isinstance(initial, EllipsisType):
        return states
    if model == MULTI_REGISTER:
        return BuiltinStates(states.start, states.after, _registers(initial))
    return BuiltinStates(initial, states.after, states.shown)


def _register(state: Any, f: str, value: Any, output: Any) -> list[Any]:
    if f in ("write", "put"):
        return [value]
    if f == "append":
        return [f"{state}{value}"]
    if f == "cas":
        expected, new = value
        # As in the core, True is not 1.
        is_set = repr(state) == repr(expected) if output is UNKNOWN else output
        return [new if is_set else state]
    return [state]


def _set(state: frozenset[Any], f: str, value: Any, _output: Any) -> list[Any]:
    return [state | {value} if f == "add" else state]


def _log(state: tuple[Any, ...], f: str, value: Any, _output: Any) -> list[Any]:
    return [(*state, value) if f == "append" else state]


def _counter(state: int, f: str, value: Any, _output: Any) -> list[Any]:
    return [state + value if f == "add" else state]


def _ends(state: tuple[Any, ...], f: str, value: Any, _output: Any) -> list[Any]:
    """The front of a FIFO queue and of a deque is the first element, the top of a stack the
    last."""
    if f in ("enqueue", "push", "push-back"):
        return [(*state, value)]
    if f == "push-front":
        return [(value, *state)]
    return [state[:-1] if f in ("pop", "pop-back") else state[1:]]


def _bag(state: tuple[Any, ...], f: str, value: Any, output: Any) -> list[Any]:
    if f in ("enqueue", "insert"):
        return [tuple(sorted((*state, value), key=_rank))]
    taken = (
        output if output is not UNKNOWN else state[0] if f == "delete-min" and state else UNKNOWN
    )
    if taken is not UNKNOWN:
        return [_without(state, taken)] if taken is not None else [state]
    return [_without(state, one) for one in dict.fromkeys(state)] or [state]


def _without(state: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    at = state.index(value) if value in state else len(state)
    return state[:at] + state[at + 1 :]


def _mutex(_state: str, f: str, _value: Any, _output: Any) -> list[Any]:
    return ["held" if f == "acquire" else "free"]


def _transaction(state: frozenset[Any], _f: str, value: Any, output: Any) -> list[Any]:
    steps = value if output is UNKNOWN or output is None else output
    written = {register: to for f, register, to in steps if f == "write"}
    return [frozenset((dict(state) | written).items())]


def _rank(value: Any) -> tuple[bool, Any]:
    return isinstance(value, str), value


def _elements(brackets: str) -> Callable[[Any], str]:
    def shown(state: tuple[Any, ...] | frozenset[Any]) -> str:
        if isinstance(state, tuple):
            first = list(state[:SHOWN_MAX])
        else:
            first = nsmallest(SHOWN_MAX, state, key=_rank)
        texts = [repr(one) for one in first]
        if len(state) > SHOWN_MAX:
            texts.append(f"… ({len(state):,} in all)")
        return f"{brackets[0]}{', '.join(texts)}{brackets[1]}"

    return shown


def _registers(initial: Any) -> Callable[[frozenset[Any]], str]:
    def shown(state: frozenset[Any]) -> str:
        written = sorted(state, key=lambda pair: _rank(pair[0]))
        texts = [f"{register!r}: {value!r}" for register, value in written[:SHOWN_MAX]]
        if len(written) > SHOWN_MAX:
            texts.append(f"… ({len(written):,} in all)")
        return f"{{{', '.join([*texts, f'others: {initial!r}'])}}}"

    return shown


MULTI_REGISTER: Final = "multi-register"
_STATES: Final[Mapping[str, BuiltinStates]] = {
    "register": BuiltinStates(None, _register),
    "cas-register": BuiltinStates(None, _register),
    "key-value": BuiltinStates("", _register),
    "set": BuiltinStates(frozenset(), _set, _elements("{}")),
    "append-log": BuiltinStates((), _log, _elements("[]")),
    "counter": BuiltinStates(0, _counter),
    "queue": BuiltinStates((), _bag, _elements("{}")),
    "priority-queue": BuiltinStates((), _bag, _elements("[]")),
    "fifo-queue": BuiltinStates((), _ends, _elements("[]")),
    "stack": BuiltinStates((), _ends, _elements("[]")),
    "deque": BuiltinStates((), _ends, _elements("[]")),
    "mutex": BuiltinStates("free", _mutex, str),
    MULTI_REGISTER: BuiltinStates(frozenset(), _transaction, _registers(0)),
}

"""What `check` takes besides a list of operations and the name of a model."""

from collections.abc import Hashable
from typing import Any, Protocol, TypeVar

from pyporcupine._pyporcupine import Call

State = TypeVar("State", bound=Hashable)


class Model(Protocol[State]):
    """A model written in Python. The search is the same as for built-in models. The GIL is held
    only during a step, and each step is called once per state, call and output.

    States are compared by `==` and `hash`, so they must be immutable: tuples, frozensets or frozen
    dataclasses. A step takes microseconds; that of a built-in model takes nanoseconds.

    A model may also have
    `partition(history) -> Mapping[key, positions]`: the operations that are judged together, each
    position once; without it, those of equal key.
    `describe(operation) -> str`: the text of an operation in a picture;
    `describe_state(state) -> str`: the text of a state there, in place of its repr.
    """

    def init(self) -> State:
        """Return the initial state, which must not be None."""

    def step(self, state: State, call: Call, output: Any, /) -> State | list[State] | None:
        """Return the state after a call that returned `output` in `state`, a list of all possible
        states, or None if that is impossible. If `output is UNKNOWN`, the call never returned:
        return the states for every output that it may have had. The case that it did not happen
        need not be included."""


class ArrowColumns(Protocol):
    """Any source of Arrow columns: a table of pyarrow, a data frame of polars or pandas.

    The columns are read in place: process, call (ints), ret (ints and nulls), f (texts), and as
    the model needs them key, value, output, and expected (what a cas compares with, if value is
    only the new value). call and ret may be timestamps, durations or floats; every column may be a
    dictionary. Positions are row numbers.
    """

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...

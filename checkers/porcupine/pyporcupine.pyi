"""Decides whether concurrent histories are linearizable or sequentially consistent."""

from collections.abc import Hashable, Iterable, Sequence
from os import PathLike
from types import EllipsisType
from typing import Any, Final, Literal, NoReturn, Protocol, TypeVar, final

__version__: str
MEMORY_MB: Final[float]
"""A quarter of the memory of the machine, or of the container that this runs in."""

class HistoryError(ValueError):
    """A row of a history breaks the rules of histories; the text names the row and the field."""

@final
class Operation:
    """One call and how it ended.

    `call` and `ret` are times on one clock, in any unit; an operation precedes another when its
    `ret` is less than the other's `call`, and equal times are concurrent. `ret` None: it never
    returned, so it may take effect at any time after its call, or never. An operation that
    certainly did not happen is left out of the history.

    A process has one operation in flight; one that never returned stays in flight for good.
    Operations with different keys are about different objects.

    What `f`, `value` and `output` are is the model's; see `check`.
    """

    def __new__(
        cls,
        process: int,
        f: str,
        key: int | str | None = None,
        value: Any = None,
        *,
        call: int,
        ret: int | None = None,
        output: Any = None,
    ) -> Operation: ...
    @property
    def process(self) -> int: ...
    @property
    def f(self) -> str: ...
    @property
    def key(self) -> int | str | None: ...
    @property
    def value(self) -> Any: ...
    @property
    def call(self) -> int: ...
    @property
    def ret(self) -> int | None: ...
    @property
    def output(self) -> Any: ...

@final
class Step:
    """`from_op` must come before `to_op`, because `why`; both are positions in the history.

    The steps of a cycle follow each other and the last leads back to the first. A step about one
    operation has from_op == to_op.
    """

    @property
    def from_op(self) -> int: ...
    @property
    def to_op(self) -> int: ...
    @property
    def why(
        self,
    ) -> Literal[
        "real-time",
        "process-order",
        "read sees add",
        "read misses add",
        "read never-added value",
        "duplicate in read",
        "read sees write",
        "read never-written value",
        "same value",
        "cannot be placed",
    ]:
        """same value: both are about one value, which was written once, so that nothing about
        another value comes between them."""

    @property
    def value(self) -> int | None:
        """set: the value that is seen, missed, doubled or was never added."""

@final
class ObjectResult:
    """What is concluded of one key. To test it for truth raises TypeError: compare `status`."""

    def __bool__(self) -> NoReturn: ...
    @property
    def key(self) -> int | str | None: ...
    @property
    def status(self) -> Literal["VALID", "INVALID", "UNKNOWN"]: ...
    @property
    def reason(self) -> str:
        """One clause for people."""

    @property
    def operations(self) -> int:
        """How many of the history are on this key."""

    @property
    def witness(self) -> list[int]:
        """Positions of the operations that already violate, ascending; empty unless INVALID.

        set: with the reads restricted to the values that the witness's adds add, the witness is
        illegal, and no longer so when any of its operations is dropped; or it is the one read
        that is illegal by itself.
        append-log whose values are all different: the same, with "append" for "add".
        The others: the witness alone is illegal, and no longer so when any of its operations is
        dropped, together with those that the rest could then not bring about in any order: reads
        of what nobody wrote. Of a fifo-queue whose values are all different, what takes a value
        out goes with what put it in; of another queue, so many of what put it in as the history
        took out again. Of a model written in Python, what an operation needs are
        the ints and texts of its output, and what it sets are those of its value.
        """

    @property
    def explanation(self) -> list[Step]: ...
    @property
    def linearization(self) -> list[int]:
        """Positions in an order that explains the operations; where it is INVALID, a longest one
        that explains all that returned before the operation `stuck`. Empty unless asked for, and of
        a set that is not sequentially consistent."""

    @property
    def alternatives(self) -> list[list[int]]:
        """Where it is INVALID and a linearization was asked for: others that explain all that
        returned before `stuck`, each with an operation in flight that those before it lack."""

    @property
    def stuck(self) -> int | None:
        """Position of the operation that nothing explains together with all that returned before
        it, where the search or the linearization of a set found it."""

@final
class Result:
    """What is concluded of a history. To test it for truth raises TypeError: compare `status`, or
    call `raise_if_invalid`."""

    def __bool__(self) -> NoReturn: ...
    def raise_if_invalid(self) -> None:
        """Returns where the status is VALID. Raises InvalidError where it is INVALID, and
        UndecidedError where it is UNKNOWN, for that is not VALID."""

    @property
    def status(self) -> Literal["VALID", "INVALID", "UNKNOWN"]:
        """The worst of the objects': INVALID, then UNKNOWN, then VALID (also of no operations)."""

    @property
    def objects(self) -> list[ObjectResult]:
        """One a key, in the order in which the keys first appear."""

class InvalidError(Exception):
    """A history is INVALID; the text names the first keys, why, and their operations."""

class UndecidedError(Exception):
    """The status of a history is UNKNOWN; the text names the first keys, and what they lacked."""

class ModelError(RuntimeError):
    """A model written in Python raised (`__cause__`), or gave what no model may. The text names the
    row, the state, the call and the output that the model was asked about."""

@final
class Call:
    """What was called: all of an operation that a model may look at, except its output.

    `match call: case Call("write", value): …` takes it apart.
    """

    __match_args__: Final = ("f", "value", "key")
    def __new__(cls, f: str, value: Any = None, key: int | str | None = None) -> Call: ...
    @property
    def f(self) -> str: ...
    @property
    def value(self) -> Any: ...
    @property
    def key(self) -> int | str | None: ...

@final
class Unknown:
    """The type of UNKNOWN. To compare, to hash or to test it raises TypeError."""

UNKNOWN: Final[Unknown]
"""The output of a call that never returned, for a model written in Python to test by `is`."""

State = TypeVar("State", bound=Hashable)

class Model(Protocol[State]):
    """A model written in Python. The search is that of the models by name; the GIL is held for a
    step only, and each step is asked once for a state, a call and an output.

    States are told apart by `==` and `hash`, so they are never changed: tuples and frozensets, or
    frozen dataclasses. A step takes microseconds where that of a model by name takes nanoseconds.

    A model may also have
    `partition(history) -> Mapping[key, positions]`: which operations are judged together, each
    position once; without it, those of equal key.
    `describe(operation) -> str`: an operation in a picture.
    """

    def init(self) -> State:
        """The initial state; not None."""

    def step(self, state: State, call: Call, output: Any, /) -> State | list[State] | None:
        """The state after a call that returned `output` in `state`; a list of all that it may be;
        None where that is impossible. Where `output is UNKNOWN` the call never returned: the states
        after it for every output that it may have had. That it did not happen need not be said."""

class ArrowColumns(Protocol):
    """Anything that gives Arrow columns: a table of pyarrow, a data frame of polars or pandas.

    They are read in place. Columns: process, call (ints), ret (ints and nulls), f (texts), and as
    the model needs them key, value, output, and expected (what a cas compares with, where value
    is the new value only). Timestamps and durations are good for call and ret, dictionaries for
    all. Positions are row numbers.
    """

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...

def check(
    history: Sequence[Operation] | ArrowColumns,
    model: Literal[
        "set",
        "register",
        "cas-register",
        "key-value",
        "append-log",
        "counter",
        "queue",
        "fifo-queue",
        "mutex",
        "multi-register",
    ]
    | Model[Any],
    *,
    consistency: Literal["linearizable", "sequential"] = "linearizable",
    initial: int | str | bool | EllipsisType | None = ...,
    time_s: float | None = 60.0,
    memory_mb: float | None = MEMORY_MB,
    threads: int | None = None,
    witness: bool = True,
    linearization: bool = False,
) -> Result:
    """Decides a history, each key by itself.

    linearizable: there is an order of the operations, each between its call and its return, that
    the model explains. Linearizability is local (Herlihy & Wing 1990): the whole history
    is linearizable when each key is.
    sequential: there is an order that respects each process's own and that the model explains.
    This is decided for each key by itself, which is weaker than for all keys together.

    Models:
    set: a grow-only set, initially empty. "add": value, an int. "read": output, a list of ints:
    exactly the values added before it, each once. O(n log n + v) for n operations and v values in
    all reads together; see the crate's `set` for the proof.
    register: "write": value, an int, str or bool; "read": output. None is a value that only
    `initial` can be (it is, unless given). Where all written values differ, O(n log n) (Gibbons &
    Korach, "Testing shared memories", 1997); else the search.
    cas-register: and "cas": value, a pair (expected, new); output, whether it was
    set: a bool, or 1 and 0 in a column of ints.
    key-value: "put": value; "get": output. Initially "". A register each key; and "append": value,
    a str that is put at the end.
    append-log: "append": value, an int or str; "read": output, a list of all in order.
    counter: "add": value, an int, and output, the new sum, or None (not told); "read": output, the
    sum. Initially 0.
    queue: "enqueue": value, an int or str; "dequeue": output, some value that is there, or None
    (there was none). fifo-queue: the value that was enqueued first.
    multi-register: "txn": value, a list of ["read", register, None] and ["write", register, value];
    output, the same with what the reads found, or None (it is in value). They take effect at once.
    Every register begins with `initial`, 0; a read of None says nothing, unless that is None.
    mutex: "acquire" when it is free, "release" when it is held, by any process.
    Any other is written in Python: see Model. `time_s` ends it between two steps; `memory_mb`
    counts its states as far as tuples and frozensets show what they hold.
    The search (Wing & Gong 1993, Lowe 2017) walks through the calls and returns and keeps all
    configurations that explain what has returned; its memory does not grow with the history. The
    number of configurations is at worst exponential in the operations in flight at a time.

    `time_s` and `memory_mb` hold for all keys and threads together, beside what the history itself
    takes. None is no limit, and MEMORY_MB is a quarter of what the machine (or the container) has.
    A key past them is UNKNOWN. Decisions have four fifths of the time, and a key no more than half
    of what is left for it and those after it. Once a key is INVALID, the others have as much time
    again as it took until then, or a twentieth of the whole if that is more. A witness may not be
    the smallest where its time, a fifth of the whole for all keys, is over; the key stays INVALID.
    `threads` None: one a core; the keys are shared among them, each has its part of the memory, and
    the GIL is released.
    `witness` False: no witness, no explanation. `linearization`: fill that in, for which memory
    grows with the history.

    Raises HistoryError for a row that breaks the rules of histories; ModelError for a model that
    fails; ValueError and TypeError for other arguments.
    """

def visualize(
    history: Sequence[Operation] | ArrowColumns,
    model: Literal[
        "set",
        "register",
        "cas-register",
        "key-value",
        "append-log",
        "counter",
        "queue",
        "fifo-queue",
        "mutex",
        "multi-register",
    ]
    | Model[Any],
    *,
    path: str | PathLike[str],
    consistency: Literal["linearizable", "sequential"] = "linearizable",
    initial: int | str | bool | EllipsisType | None = ...,
    time_s: float | None = 10.0,
    memory_mb: float | None = 1000.0,
    threads: int | None = None,
    title: str = "History",
    unit: Literal["ns", "us", "ms", "s"] | None = None,
    bands: Iterable[tuple[int, int | None, str]] = (),
) -> Result:
    """Decides a history and draws it into one HTML file at `path`, which needs nothing else.

    Operations are intervals, a row for each client; points, joined in their order, show where they
    take effect; where a key is INVALID, the longest partial linearization, the operation that is
    stuck and the witness, and for an operation in flight under the pointer one that has it. Drag
    and wheel pan and zoom; a search finds values. `unit` is that of the times, `bands` are spans of
    time with a text (faults); a span that ends with None lasts.

    Time and memory are those of `check` with linearization, and O(n) for the file, some 50 bytes an
    operation beside its text. Drawing is proportional to what is in sight: 10,000 operations move
    without a delay that is seen.

    Returns what `check` does. Raises what it raises, and OSError.
    """

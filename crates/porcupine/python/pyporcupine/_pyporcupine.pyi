"""Written by distribution/stubs.py from crates porcupine."""

from collections.abc import Iterable, Sequence
from os import PathLike
from types import EllipsisType
from typing import Any, Final, Literal, NoReturn, final

from pyporcupine.protocols import ArrowColumns, Model

__version__: str

class HistoryError(ValueError):
    """A row of a history breaks the rules of histories. The text names the row and the field."""

class ModelError(RuntimeError):
    """A model written in Python raised an exception (`__cause__`) or returned an invalid value. The
    text names the row, the state, the call and the output about which the model was asked."""

class InvalidError(Exception):
    """A history is INVALID. The text names the first keys, the reasons, and the operations."""

class UndecidedError(Exception):
    """The status of a history is UNKNOWN. The text names the first keys and the limits that they
    reached."""

MEMORY_MB: Final[float]
"""A quarter of the memory of the machine or of the container."""
UNKNOWN: Final[Unknown]
"""The output of a call that never returned. Models written in Python test it by `is`."""

@final
class Call:
    """A call: everything about an operation that a model may see, except its output.

    `match call: case Call("write", value): …` destructures it."""
    @property
    def f(self) -> str: ...
    @property
    def value(self) -> Any: ...
    @property
    def key(self) -> int | str | None: ...
    __match_args__: Final = ("f", "value", "key")
    def __new__(cls, f: str, value: Any = None, key: int | str | None = None) -> Call: ...

@final
class Operation:
    """A call and its end.

    `call` and `ret` are times on one clock, in any unit: ints, or floats, which are never rounded.
    An operation precedes another if its `ret` is less than the other's `call`; equal times are
    concurrent. If `ret` is None, the
    operation never returned: it may take effect at any time after its call, or never. Omit an
    operation that certainly did not happen.

    A process has one operation in flight; one that never returned stays in flight for good.
    Operations with different keys concern different objects.

    The model defines `f`, `value` and `output`; see `check`."""
    @property
    def f(self) -> str: ...
    @property
    def key(self) -> int | str | None: ...
    @property
    def value(self) -> Any: ...
    @property
    def call(self) -> float: ...
    @property
    def ret(self) -> float | None: ...
    @property
    def output(self) -> Any: ...
    def __new__(
        cls,
        process: int | str,
        f: str,
        key: int | str | None = None,
        value: Any = None,
        *,
        call: float,
        ret: float | None = None,
        output: Any = None,
    ) -> Operation: ...
    @property
    def process(self) -> int | str: ...

@final
class Annotation:
    """A note on the time axis of a picture: what a log or a fault injector knew of a span of time.

    It is in the row of the client `process`, or in a row of its own, which the notes of equal `row`
    share. Without `end` it is a moment. `details` are shown once the note is pointed at."""
    @property
    def text(self) -> str: ...
    @property
    def start(self) -> float: ...
    @property
    def end(self) -> float | None: ...
    @property
    def row(self) -> str: ...
    @property
    def details(self) -> str: ...
    def __new__(
        cls,
        text: str,
        start: float,
        end: float | None = None,
        *,
        process: int | str | None = None,
        row: str | None = None,
        details: str = "",
    ) -> Annotation: ...
    @property
    def process(self) -> Any | None: ...

LEVELS: Final[tuple[str, ...]]
"""Names of the levels of isolation, each after those that it implies."""

@final
class Transaction:
    """A transaction: its micro-operations, and when it was called and returned.

    A micro-operation is a triple of its name, a key (an int or a str) and a value. list-append:
    ("append", key, element) and ("r", key, list), where None is the empty list. rw-register:
    ("w", key, value) and ("r", key, value), where None is no value. Elements and values are ints or
    texts.

    `call` and `ret` are times on one clock, in any unit, ints or floats. A transaction returned
    before another if its `ret` is less than the other's `call`. `outcome`: it committed ("ok"), it
    certainly had no effect ("fail"), or nobody knows ("info"): what it read says nothing, and its
    process makes no further calls. By default it is "ok" with `ret`, and "info" without."""
    @property
    def micro_ops(self) -> Sequence[Sequence[Any]]: ...
    @property
    def call(self) -> float: ...
    @property
    def ret(self) -> float | None: ...
    def __new__(
        cls,
        process: int | str,
        micro_ops: Sequence[Sequence[Any]],
        *,
        call: float,
        ret: float | None = None,
        outcome: Literal["ok", "info", "fail"] | None = None,
    ) -> Transaction: ...
    @property
    def process(self) -> int | str: ...
    @property
    def outcome(self) -> Literal["ok", "info", "fail"]: ...

@final
class Dependency:
    """`from_txn` precedes `to_txn` in every order that explains the history; both are positions.

    ww: the second wrote a later version of a key than the first; wr: it read what the first wrote;
    rw: the first read the key without what the second wrote; process: the second is the next of the
    same process; realtime: the first returned before the second was called."""
    @property
    def from_txn(self) -> int: ...
    @property
    def to_txn(self) -> int: ...
    @property
    def kind(self) -> Literal["ww", "wr", "rw", "process", "realtime"]: ...
    @property
    def why(self) -> str:
        """Such as "T2 read T1's append of 5 to key 34". T1 is the transaction at position 1."""

@final
class Anomaly:
    """An anomaly of a history, with one of its instances.

    Cycles of dependencies: G0 (only ww), G1c (ww and wr), G-single (one rw), G-nonadjacent
    (several rw, no two in a row), G2-item (rw after rw), G-causal (one rw, and back by wr),
    G-prefix (each rw after wr); the same with "-process" and "-realtime", if they need that order.
    Others: garbage, duplicate-elements, cyclic-versions, G1a (aborted
    read), G1b (intermediate read), dirty-update, incompatible-order, future-read, lost-update,
    internal."""
    @property
    def name(self) -> str: ...
    @property
    def count(self) -> int:
        """Number of instances; of cycles: of groups of transactions whose worst cycles they are."""
    @property
    def transactions(self) -> list[int]:
        """Positions of the transactions of one instance: those of a cycle in its order, others
        ascending."""
    @property
    def cycle(self) -> list[Dependency]:
        """The dependencies of a cycle, of which the last leads back to the first transaction."""
    @property
    def text(self) -> str:
        """The instance in sentences."""

@final
class TransactionsResult:
    """The verdict on a history of transactions. Testing it for truth raises TypeError; compare
    `status` or call `raise_if_invalid` instead."""
    @property
    def status(self) -> Literal["VALID", "INVALID", "UNKNOWN"]:
        """INVALID if an anomaly shows that the level forbids."""
    @property
    def reason(self) -> str:
        """A clause for human readers."""
    @property
    def anomalies(self) -> list[Anomaly]:
        """The anomalies, also those that the level allows, the worst first."""
    @property
    def violated(self) -> list[str]:
        """The weakest levels that the anomalies violate. The orders in time that the level does not
        respect were not looked at, nor, unless it is one of them, what causal and prefix
        consistency alone forbid."""
    @property
    def also_violated(self) -> list[str]:
        """The other levels, which are violated with them."""
    @property
    def witness(self) -> list[int]:
        """Positions of the transactions of a smallest part of the history that still shows the
        first anomaly that the level forbids; empty if the history is not INVALID, or if no part
        was found in time."""
    @property
    def witness_ops(self) -> list[list[int]]:
        """By transaction of the witness: the positions of the micro-operations that belong to it.
        The lists that they read count without the elements whose appends do not."""
    @property
    def transactions(self) -> int:
        """Number of transactions."""
    def raise_if_invalid(self) -> None:
        """Return if the status is VALID. Raises InvalidError if it is INVALID, and UndecidedError
        if it is UNKNOWN."""
    def __bool__(self) -> NoReturn: ...

INVARIANTS: Final[tuple[str, ...]]
"""Names of the invariants that `check_invariant` decides."""

@final
class Finding:
    """What breaks an invariant, or what is worth knowing beside it."""
    @property
    def name(self) -> str:
        """Such as "lost"."""
    @property
    def key(self) -> int | str | None:
        """The key of the operations."""
    @property
    def forbidden(self) -> bool:
        """Whether the invariant forbids it."""
    @property
    def count(self) -> int:
        """Number of instances."""
    @property
    def operations(self) -> list[int]:
        """Positions of operations that show the first few instances."""
    @property
    def text(self) -> str:
        """A clause that names the first few instances."""

@final
class InvariantResult:
    """The verdict on an invariant. Testing it for truth raises TypeError; compare `status` or call
    `raise_if_invalid` instead."""
    @property
    def status(self) -> Literal["VALID", "INVALID", "UNKNOWN"]:
        """The worst status of the keys: INVALID, then UNKNOWN, then VALID. UNKNOWN if there are no
        operations."""
    @property
    def reason(self) -> str:
        """A clause for human readers: the reason of the first key with this status."""
    @property
    def counts(self) -> dict[str, int]:
        """What was counted, over all keys: of each invariant its own figures."""
    @property
    def findings(self) -> list[Finding]:
        """What was found, key by key; what the invariant forbids first."""
    @property
    def keys(self) -> int:
        """Number of keys."""
    def raise_if_invalid(self) -> None:
        """Return if the status is VALID. Raises InvalidError if it is INVALID, and UndecidedError
        if it is UNKNOWN."""
    def __bool__(self) -> NoReturn: ...

@final
class Step:
    """`from_op` must come before `to_op`, because `why`; both are positions in the history.

    The steps of a cycle follow each other and the last leads back to the first. A step about one
    operation has from_op == to_op."""
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
        """same value: both operate on one value, which was written once, so no operation on another
        value comes between them."""
    @property
    def value(self) -> int | None:
        """set: the value that is seen, missed, duplicated or was never added."""

@final
class ObjectResult:
    """The verdict on one key. Testing it for truth raises TypeError; compare `status` instead."""
    @property
    def key(self) -> int | str | None: ...
    @property
    def status(self) -> Literal["VALID", "INVALID", "UNKNOWN"]: ...
    @property
    def reason(self) -> str:
        """A clause for human readers."""
    @property
    def witness(self) -> list[int]:
        """Positions of few operations that have no order by themselves, ascending; empty unless
        INVALID.

        They show the violation, but the proof of it is that all operations of the key have no
        order: a witness may leave out what undid one of its operations. If a mutex is acquired,
        released, acquired and acquired, it may be the first acquire and the last.

        set: with the reads restricted to the values that the witness's adds add, the witness is
        illegal, but no longer so if any of its operations is dropped; or it is the one read that
        is illegal by itself.
        append-log whose values are all different: the same, with "append" for "add".
        register and fifo-queue whose values are all different, linearizable: few operations that
        are illegal by themselves.
        Otherwise, linearizable: the witness contains an operation that cannot be placed. When it
        returns, the others have an order that explains them, but not with it, although it is
        possible after some of them in whatever order. No operation can be dropped without losing
        one of these.
        Otherwise, sequential: the witness is illegal, although each of its operations that returned
        is possible after some of the others in whatever order, and no operation can be dropped
        without losing one of these.
        Queues: nor does the witness leave a value in the queue more often than the history does. If
        a dequeue found nothing though some value was always there, the witness is that dequeue, and
        for each moment of it the enqueue and the dequeue of a value that was there: of its k-th
        enqueue, in order of return, and its k-th dequeue, in order of call.

        If no operations of the history, in whatever order, make an operation possible, the witness
        is that one, with few that provide what it found, if there are any. `reason` says so; it
        also says if no operations that make it possible were found."""
    @property
    def explanation(self) -> list[Step]: ...
    @property
    def linearization(self) -> list[int]:
        """Positions in an order that explains the operations. If the key is INVALID: a longest
        order that explains all that returned before the operation `stuck`. Empty unless requested,
        and for a set that is not sequentially consistent."""
    @property
    def alternatives(self) -> list[list[int]]:
        """If the key is INVALID and a linearization was requested: further orders that explain all
        that returned before `stuck`, each with an operation in flight that the previous ones
        lack."""
    @property
    def stuck(self) -> int | None:
        """Position of the operation that no order explains together with all that returned before
        it, if the search or the linearization of a set found it."""
    @property
    def operations(self) -> int:
        """Number of operations on this key."""
    def __bool__(self) -> NoReturn: ...

@final
class Result:
    """The verdict on a history. Testing it for truth raises TypeError; compare `status` or call
    `raise_if_invalid` instead."""
    @property
    def status(self) -> Literal["VALID", "INVALID", "UNKNOWN"]:
        """The worst status of the objects: INVALID, then UNKNOWN, then VALID. VALID if there are no
        operations."""
    @property
    def objects(self) -> list[ObjectResult]:
        """One result per key, in the order in which the keys first appear."""
    def raise_if_invalid(self) -> None:
        """Return if the status is VALID. Raises InvalidError if it is INVALID, and UndecidedError
        if it is UNKNOWN."""
    def __bool__(self) -> NoReturn: ...

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
        "stack",
        "priority-queue",
        "deque",
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
    """Decide a history, each key by itself.

    linearizable: the model allows some order of the operations in which each takes effect between
    its call and its return. Linearizability is local (Herlihy & Wing 1990): the whole history is
    linearizable if each key is.
    sequential: the model allows some order that respects the order of each process. This is
    decided for each key by itself, which is weaker than for all keys together.

    Models:
    set: a grow-only set, initially empty. "add": value, an int. "read": output, a list of ints:
    exactly the values added before it, each once. O(n log n + v) for n operations and v values in
    all reads together; see the crate's `set` for the proof.
    register: "write": value, an int, str or bool; "read": output. None is possible only as
    `initial`, whose default it is. If all written values differ, O(n log n) (Gibbons & Korach,
    "Testing shared memories", 1997); otherwise by search.
    cas-register: also "cas": value, a pair (expected, new); output, whether it was set: a bool, or
    1 and 0 in a column of ints.
    key-value: "put": value; "get": output. Initially "". One register per key; also "append":
    value, a str that is appended.
    append-log: "append": value, an int or str; "read": output, a list of all values in order.
    counter: "add": value, an int, and output, the new sum or None (unknown); "read": output, the
    sum. Initially 0. If all additions are equal, O(n log n).
    queue: "enqueue": value, an int or str; "dequeue": output, some value of the queue, or None (it
    was empty). fifo-queue: the value that was enqueued first. stack: "push", "pop".
    priority-queue: "insert": value, an int; "delete-min": output, the least. If all values differ,
    these are decided without a search. deque: "push-front", "push-back", "pop-front", "pop-back".
    multi-register: "txn": value, a list of ["read", register, None] and ["write", register, value];
    output, the same list with the values that the reads found, or None if value has them. The
    steps take effect at once. Every register begins with `initial`, 0 by default; a read of None
    says nothing, unless `initial` is None.
    mutex: "acquire" requires that it is free, "release" that it is held, by any process.
    Any other model is written in Python: see Model. `time_s` is checked between two steps;
    `memory_mb` counts its states as far as tuples and frozensets show their contents.
    The search (Wing & Gong 1993, Lowe 2017) walks through the calls and returns and keeps all
    configurations that explain what has returned; its memory does not grow with the history. The
    number of configurations is at worst exponential in the number of operations in flight.

    `time_s` and `memory_mb` limit all keys and threads together; the memory of the history itself
    does not count. None is no limit; MEMORY_MB is a quarter of the machine's or the container's
    memory. A key that exceeds a limit is UNKNOWN. Decisions get four fifths of the time, and a key
    at most half of the time that is left for it and later keys. Once a key is INVALID, the others
    get as much time again as has passed, but at least a twentieth of the whole. Witnesses get a
    fifth of the whole time for all keys; if it runs out, the key stays INVALID, but its witness may
    not be the smallest.
    `threads` None is one per core. Threads share the keys and divide the memory; the GIL is
    released.
    `witness` False: no witness and no explanation. `linearization`: return one, for which memory
    grows with the history.

    Raises HistoryError for a row that breaks the rules of histories, ModelError for a model that
    fails, ValueError and TypeError for other arguments."""

def check_invariant(
    history: Sequence[Operation] | ArrowColumns,
    invariant: Literal[
        "total-queue",
        "unique-ids",
        "counter-bounds",
        "bank",
        "set-full",
        "long-fork",
        "pn-counter",
        "kafka",
    ],
    *,
    initial: int | None = None,
    negative_balances: bool = False,
    linearizable: bool = False,
    time_s: float | None = 60.0,
    memory_mb: float | None = MEMORY_MB,
) -> InvariantResult:
    """Decide an invariant of a history: a rule that counts and compares, as the checkers of Jepsen
    do that have the same names (in jepsen.checker, and bank, kafka and long-fork of jepsen.tests;
    counter-bounds is its `counter`), and Maelstrom's pn-counter.

    `history` is a list of Operation, or Arrow columns, as for `check`. What certainly did not
    happen is left out of it. Operations with different keys are judged apart. An invariant is
    weaker than linearizability, and decided in O(n log n + v) for n operations and v values in
    reads.

    Invariants, with their operations (value -> output):
    total-queue: enqueue (any), dequeue (-> the value, None if it found nothing), drain (-> a
        list, after which the queue was empty). What was acknowledged comes out, and nothing else
        does. A value is lost if it did not, although the queue was seen empty in a call after its
        acknowledgement. A value that comes out twice is allowed, and reported. In Jepsen a value
        whose enqueue failed may come out; here it was left out, so it is unexpected.
    unique-ids: generate (-> the identifier). All differ.
    counter-bounds: add (int -> None, or the new sum), read (-> int). A read finds at least what
        had been added for certain before its call, and at most that with all additions called by
        its return; a negative addition that may have happened lowers the least. `initial` is the
        value before the first addition, otherwise 0; if another would explain all reads, the
        answer is UNKNOWN.
    bank: transfer (any), read (-> the balances: a list of ints or of pairs [account, balance], or
        a dict). The sum is `initial`, or without it that of most reads; no balance is below zero,
        unless `negative_balances`.
    set-full: add or broadcast (any), read (-> a list). An element that was known before the call
        of a read is in it or in a later one (otherwise lost), nothing else is, and each once. With
        `linearizable` it is also in all reads that are called once it is known (otherwise stale).
    long-fork: txn, read or write: [["w", key, 1]] or [["r", key, value], ...]. Each key is
        written once. No two reads of the same keys each found a key written that the other found
        without a value.
    pn-counter: add and read as for counter-bounds, final-read (-> int). The rule of counter-bounds
        for final reads alone: those made once nothing was added and the counter had time to
        converge. Maelstrom's is stricter where additions never returned: it asks for one of their
        sums.
    kafka: send (`[["send", key, value]]` -> `[["send", key, [offset, value]]]`), poll (`[["poll"]]`
        -> `[["poll", {key: [[offset, value], ...]}]]`), txn (several of these), assign, subscribe.
        An acknowledged value is polled once a later offset was (otherwise lost), what is polled was
        sent, an offset has one value, a value sent once has one offset, and a process sends and
        polls at ascending offsets and skips none of which anybody knows. Polls of different
        operations are compared unless the process has subscribed or been assigned since.

    The history is UNKNOWN if nothing was checked, if evidence is missing, as for a queue that
    nobody saw empty, or if a limit was reached.

    `time_s` and `memory_mb` limit the check, as those of `check` do; the memory of the history
    itself does not count. One thread does all; the GIL is released.

    Raises HistoryError for a row that breaks the rules of histories or that the invariant does not
    know, ValueError for other arguments."""

def check_transactions(
    history: Sequence[Transaction] | ArrowColumns,
    model: Literal["list-append", "rw-register"],
    *,
    micro_ops: ArrowColumns | None | None = None,
    consistency: str = "serializable",
    writes_follow_reads: bool = True,
    sequential_keys: bool = False,
    linearizable_keys: bool = False,
    time_s: float | None = 60.0,
    memory_mb: float | None = MEMORY_MB,
) -> TransactionsResult:
    """Decide whether a history of transactions satisfies a level of isolation, as Elle does
    (Kingsbury & Alvaro, "Elle: Inferring Isolation Anomalies from Experimental Observations",
    VLDB 2020).

    `history` is a list of Transaction, or Arrow columns: process (ints or texts), call and ret
    (ints; ret with nulls) and optionally outcome (texts: "ok", "info" or "fail"; without it, null
    in ret is "info"). `micro_ops` then has a row for each micro-operation, ascending by txn: txn
    (the row of its transaction), f, key (int or text), value (what it appends or writes: int or
    text) and read (list-append: what it read, a list of ints or texts). Null in read is the empty
    list; null in value of a read of rw-register is a register without a value.

    Models:
    list-append: keys hold lists, which begin empty. "append" adds an element that no other append
    to the key adds; "r" reads the whole list. The longest read of a key shows the order of its
    versions.
    rw-register: keys hold registers, which begin without a value. "w" writes a value that no
    other write to the key writes; "r" reads it. The initial value comes first. What else is known
    of the order of versions has to be stated:
    `writes_follow_reads`: what a transaction writes is later than what it read of the key before.
    `sequential_keys`: each process meets the versions of a key in their order.
    `linearizable_keys`: a transaction meets no earlier version of a key than those that returned
    before it was called.

    `consistency` is one of read-uncommitted, read-committed, causal, prefix, cursor-stability,
    consistent-view, snapshot-isolation, repeatable-read, serializable;
    strong-session-read-uncommitted, strong-session-read-committed, strong-session-causal,
    strong-session-prefix, strong-session-snapshot-isolation and strong-session-serializable,
    which also respect the order of each process; strong-read-uncommitted, strong-read-committed,
    strong-snapshot-isolation and strict-serializable, which respect real time.

    The history is INVALID if an anomaly shows that the level forbids. Each is proved by the
    transactions that it names. If all versions of the lists were read, a history without
    anomalies satisfies read-uncommitted, read-committed, causal, prefix, snapshot-isolation,
    serializable, and what respects time with these. If the order of two appends that nobody read
    is unknown, an anomaly of snapshot isolation may not show; and with registers, any anomaly that
    rests on an unknown order of versions. A transaction of unknown outcome counts once somebody
    read something that it wrote. The history is UNKNOWN if no transaction that committed read
    anything, or if a limit was reached before an anomaly was found.

    `time_s` and `memory_mb` limit the check, as those of `check` do; the memory of the history
    itself does not count. One thread does all; the GIL is released.

    Raises HistoryError for a row that breaks the rules of histories, ValueError and TypeError for
    other arguments."""

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
        "stack",
        "priority-queue",
        "deque",
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
    bands: Iterable[tuple[float, float | None, str]] | None = (),
    annotations: Iterable[Annotation] | None = (),
) -> Result:
    """Decide a history and draw it into one self-contained HTML file at `path`.

    Operations are intervals, with a row for each client. Points, connected in their order, show
    where operations take effect. If a key is INVALID, the page shows the longest partial
    linearization, the operation that is stuck and the witness; pointing at an operation in flight
    shows a linearization that has it. Drag to pan, use the wheel to zoom, search to find values.
    `unit` is the unit of the times. `bands` are time spans with a text, such as faults; one that
    ends with None has no end. `annotations` are notes in the row of a client, or in other rows.

    The page shows the state before and after each placed operation: of a model in Python as
    `describe_state(state)` describes it if the model has that method, else as Python shows it; of a
    model by name if the history has at most 5,000 operations.

    Time and memory are those of `check` with linearization, plus O(n) for the file, some 50 bytes
    per operation in addition to its text. Drawing takes time proportional to what is visible:
    10,000 operations move without a visible delay.

    Returns the same as `check`. Raises the same exceptions, and OSError."""

def visualize_transactions(
    history: Sequence[Transaction],
    model: Literal["list-append", "rw-register"],
    *,
    path: str | PathLike[str],
    consistency: str = "serializable",
    writes_follow_reads: bool = True,
    sequential_keys: bool = False,
    linearizable_keys: bool = False,
    time_s: float | None = 10.0,
    memory_mb: float | None = 1000.0,
    title: str = "History",
    unit: Literal["ns", "us", "ms", "s"] | None = None,
    bands: Iterable[tuple[float, float | None, str]] | None = (),
    annotations: Iterable[Annotation] | None = (),
) -> TransactionsResult:
    """Judge a list of transactions and draw it into one self-contained HTML file at `path`.

    Transactions are intervals, with a row for each client. The page lists the anomalies in
    sentences, those that the level forbids first. The dependencies of the chosen one are arrows
    from transaction to transaction. The witness, the smallest part of the history that still shows
    the first, is listed with the micro-operations that belong to it. Drag to pan, use the wheel to
    zoom, search to find values. `unit` is the unit of the times. `bands` are time spans with a
    text, such as faults; one that ends with None has no end. `annotations` are notes in the row of
    a client, or in other rows.

    Returns the same as `check_transactions`. Raises the same exceptions, and OSError."""

@final
class Unknown:
    """The type of UNKNOWN. Comparing, hashing or testing it raises TypeError."""
    def __bool__(self) -> NoReturn: ...

"""Written by distribution/stubs.py from crates histories, generators, simulator, interpreter."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, Self, final

from harness.native.interpreter import Host
from harness.native.simulator import ReplicaState

class FormError(ValueError):
    """A line does not have the form that the journal writes. It may still be a valid operation.
    args has the number of the line, from 1."""

class RuleError(ValueError):
    """An operation breaks the rules of histories. The text names the operation and the field."""

class OddValue(ValueError):
    """An insert whose value is not an integer, or a read whose value is not an array of integers,
    of 64 bits each. args has the operation's row."""

@final
class Columns:
    """The operations of a history in columns, one row each. Raises FormError and RuleError for
    lines that `harness.core.lines` would not write."""
    def __new__(cls, lines: bytes) -> Columns: ...
    def __len__(self) -> int: ...
    @property
    def size_bytes(self) -> int:
        """Memory that the operations take."""
    def lines(self) -> bytes:
        """Return the lines of all operations, as `harness.core.lines` writes them."""
    def line(self, row: int) -> bytes:
        """Return the line of an operation without its newline."""
    def lines_at(self, rows: Sequence[int]) -> bytes:
        """Return the lines of these rows, in their order."""
    def arrow(self) -> dict[str, list[bytes]]:
        """Return Arrow buffers by column name: validity bitmap, offsets if entries differ in size,
        data. The columns are process (int32, the nemesis is -1), node and f (int32, indices into
        `words`), kind (int32: invoke, ok, fail, info), key, value and time_ns (int64), values
        (lists of int64), detail and error (texts). Raises OddValue for a number that does not
        fit."""
    def words(self) -> list[tuple[str, list[str]]]:
        """Return the interned texts of the columns node and f."""
    def time_ns(self, row: int) -> int: ...
    def nemesis(self) -> list[int]:
        """Return the rows of the nemesis."""
    def objects(self) -> list[int]:
        """Return the rows whose value is an object."""
    def pairs(self, places: Sequence[int]) -> list[tuple[int, int | None]]:
        """Return the rows of invocation and end of the client calls at these places in order of
        invocation. The end is None if the call never ended."""
    def places(self, fs: Sequence[str], kinds: Sequence[str]) -> bytes:
        """Return the places of the client calls with one of these names and, if any is given, one
        of these kinds ("ok", "fail" or "info"), as 32-bit numbers."""
    def spans(self, places: Sequence[int]) -> tuple[bytes, bytes]:
        """Return the times in ns at which the calls at these places began, and those at which they
        may have ended, as 64-bit numbers: 2**63 - 1 for a call that is not ok."""
    def repeated(self, places: Sequence[int]) -> tuple[bytes, bytes]:
        """Return those of the calls at these places that name the same key and the same number as
        another of them, as 32-bit numbers: their places, group by group in order of the first call
        of each, and the number of places up to the end of each group."""
    def calls_count(self) -> int:
        """Return the number of client calls."""
    def keys(self) -> list[int]:
        """Return every key that a client named, ascending."""
    def nodes(self) -> list[str]:
        """Return every node that a client call names, in no particular order."""
    def called_between(self, begin_ns: int, end_ns: int) -> bool:
        """Whether some client call was in flight during the closed interval."""
    def tally(
        self, quantiles: Sequence[float]
    ) -> tuple[
        list[tuple[str, list[int], list[int], list[tuple[str, int]]]],
        list[tuple[str | None, str, list[int]]],
    ]:
        """Count the client calls. For each f: the numbers that ended ok, fail and info; the
        durations in ns of those that ended ok, at the quantiles by nearest rank (empty without an
        ok call); and how often each error code occurred, in order of the calls, where the code is
        the text before the first colon. For each node and f: the numbers that ended ok, fail and
        info."""
    def sets(self) -> list[Set]:
        """Return the set of each key that has inserts or reads, the missing key first, then
        ascending. Raises OddValue."""
    def calls(self, kind: Literal["set", "register"]) -> list[Calls]:
        """Return the calls that constrain each key's object of this kind, in the order in which
        keys are first called. Raises OddValue."""

@final
class ColumnsBuilder:
    """Makes the columns of a history from batches of Arrow buffers."""
    def __new__(
        cls, rows: int = 0, numbers: int = 0, raw: int = 0, *, whole: bool
    ) -> ColumnsBuilder:
        """Begin a history with memory for so many operations, numbers in lists, and bytes of
        objects, which then need not be copied as it grows. Unless it is `whole`, the operations
        are some of a history's, and keep their indices."""
    def append(
        self, rows: int, columns: dict[str, list[bytes]], words: dict[str, list[str]]
    ) -> int:
        """Append operations that are given as `Columns.arrow` returns them, with the texts of node,
        kind and f, and with their index, and return the bytes that all of them take so far. The
        columns node, key, value, values, detail and error may be missing, and count as null. Raises
        FormError for a row that lacks a field, and RuleError."""
    def finish(self) -> Columns:
        """Return the columns. Nothing may be appended afterwards. Raises RuleError."""

@final
class Set:
    """Everything that was asked of one key: the calls "insert", and the answered calls "read" and
    "final-read". An insert is identified by its bit; inserted values have the first bits, in order
    of their first attempt. A read is identified by its index in order of invocation."""
    @property
    def key(self) -> int | None: ...
    def values(self) -> list[int]:
        """Return the value of each bit. Values that were only read have a bit too."""
    def insert(self, place: int) -> tuple[int, int, str, int, int | None, int]:
        """Return of the insert at a place, in order of the first attempt: value, bit, kind ("ok" if
        acknowledged, "fail" if every attempt was refused, otherwise "info"), the row of the first
        attempt that was not refused (of the first attempt if every one was), the row of the first
        acknowledgement, and the number of attempts."""
    def place(self, value: int) -> int | None:
        """Return the place of the value's insert, None if nobody tried to insert it."""
    def ends(self) -> list[int]:
        """Return the numbers of inserts that are ok, fail and info."""
    def repeated(self) -> list[int]:
        """Return the inserts that were tried more than once."""
    def read(self, read: int) -> tuple[int, int, bool]:
        """Return the rows of invocation and end, and whether some value came more than once."""
    def reads_count(self) -> int:
        """Return the number of reads."""
    def finals(self) -> list[int]:
        """Return the reads called "final-read"."""
    def last_finals(self) -> list[tuple[str, int]]:
        """Return the last "final-read" of each node, nodes in order of their first one."""
    def same(self, reads: Sequence[int]) -> bool:
        """Whether the reads returned the same values, each value once."""
    def mask(self, read: int) -> bytes:
        """Return the bits of the values that a read returned, little-endian."""
    def examined(self, replicas: Sequence[str]) -> Findings:
        """Examine every value. `replicas` are the nodes from which a final read is expected."""
    def bounds(
        self, max_violations: int
    ) -> list[tuple[int, int, list[tuple[int, int, int | None]]]]:
        """Check monotonic reads, read your writes, monotonic writes and writes follow reads.
        Return for each: the number of reads of which something is demanded, the number that lack a
        demanded value, and the `max_violations` of these that ended first, each with the read, the
        first missing bit, and the first insert that demands it (for the latter two guarantees).
        Every value must have been tried only once."""

@final
class Calls:
    """The calls that constrain the set of one key, in order of invocation: inserts that may have
    happened, and answered reads."""
    @property
    def key(self) -> int | None: ...
    def __len__(self) -> int: ...
    def reads(self) -> int:
        """Return the number of reads."""
    def ties(self) -> bool:
        """Whether some process invoked a call at the very time at which its previous call and
        another call ended. No times can express that it follows only the former."""
    def rows(self) -> list[tuple[int, int | None]]:
        """Return the rows of invocation and end of each call."""
    def __arrow_c_stream__(self, requested_schema: Any | None = None) -> object:
        """Export one row per call with the columns that `pyporcupine` takes: process, f ("add" or
        "read"), value, call, ret, output. Reads have no value, and only reads have an output. ret
        is null if the call did not end ok.

        If a process invoked a call at the very time at which its previous call ended, and nothing
        else ended then, the call is one nanosecond later here: it then follows its predecessor and
        no other call."""

@final
class Findings:
    """What was found about the values of one key."""
    @property
    def stale_reads(self) -> int:
        """Number of reads that lack a value acknowledged before they were invoked."""
    @property
    def missed(self) -> list[tuple[int, int, int]]:
        """Acknowledged inserts that a later read lacks, lost ones included, with the first and the
        last such read; in order of the first one."""
    @property
    def lost(self) -> list[tuple[int, list[int]]]:
        """Acknowledged inserts that no final read has although every replica answered one after
        the acknowledgement, with those final reads."""
    @property
    def unaccounted(self) -> list[int]:
        """Acknowledged inserts that no final read has, while some replica answered none after the
        acknowledgement."""
    @property
    def never_read(self) -> int:
        """Number of unaccounted inserts that no read has at all."""
    @property
    def duplicates(self) -> list[tuple[int, int, int]]:
        """Bits whose value one read returned several times, the first such read, and how often it
        returned the value."""
    @property
    def phantoms(self) -> list[tuple[int, int]]:
        """Bits whose value a read returned although no insert can have caused it by the end of the
        first such read: nobody tried, every attempt was refused, or none had begun; with that
        read."""
    @property
    def appeared(self) -> int:
        """Number of inserts of unknown outcome that some read shows."""

@final
class Combinator:
    """A generator of harness/core/protocols.py in Rust. It is immutable; the generators that it
    holds may be written in Python. harness/generators documents each of them."""
    def op(self, context: Any) -> tuple[Any, Combinator]:
        """Return the step and the next generator. Raises UsageError for a call that no worker could
        ever take, and passes on the exceptions of a generator in Python."""
    def update(self, context: Any, event: Any) -> Self:
        """Return the generator after the end of a call; itself if nothing changes."""
    @property
    def listens(self) -> bool:
        """Whether events matter to the generator."""
    def unlimited(self) -> Combinator:
        """Return the generator that a time limit limits, in its current state. Raises TypeError for
        any other generator."""
    @staticmethod
    def numbered(make: Callable[[int], Any]) -> Combinator: ...
    @staticmethod
    def repeat(call: Any) -> Combinator: ...
    @staticmethod
    def sequence(calls: Sequence[Any]) -> Combinator: ...
    @staticmethod
    def until_ok(calls: Sequence[Any], tries: int, pause_ns: int) -> Combinator: ...
    @staticmethod
    def at_most_in_flight(
        make: Callable[[int], Any], most: int, pause_ns: int, seed: int, first_ns: int
    ) -> Combinator: ...
    @staticmethod
    def mix(seed: int, parts: Sequence[tuple[float, Any]]) -> Combinator: ...
    @staticmethod
    def per_key(
        seed: int, make: Callable[[int], Any], keys: int, ops_per_key: int
    ) -> Combinator: ...
    @staticmethod
    def key_rounds(generator: Any, seed: int, keys: int, ops_per_key: int) -> Combinator: ...
    @staticmethod
    def phases(parts: Sequence[Any]) -> Combinator: ...
    @staticmethod
    def cycle(make: Callable[[int], Any]) -> Combinator: ...
    @staticmethod
    def stop_when(is_awaited: Callable[[Any], bool], generator: Any) -> Combinator: ...
    @staticmethod
    def rate(generator: Any, mean_ns: float, seed: int, exponential: bool) -> Combinator: ...
    @staticmethod
    def time_limit(generator: Any, length_ns: int) -> Combinator: ...
    @staticmethod
    def while_answered(generator: Any, patience_ns: int) -> Combinator: ...
    @staticmethod
    def limit(generator: Any, ops: int) -> Combinator: ...
    @staticmethod
    def sleep(length_ns: int) -> Combinator: ...
    @staticmethod
    def rest_after_fail(generator: Any, pause_ns: int) -> Combinator: ...
    @staticmethod
    def on_clients(generator: Any) -> Combinator: ...
    @staticmethod
    def on_nemesis(generator: Any) -> Combinator: ...
    @staticmethod
    def together(parts: Sequence[Any]) -> Combinator: ...
    @staticmethod
    def reserve(parts: Sequence[tuple[int, Any]]) -> Combinator:
        """Each part has the number of its first worker, ascending from 0."""
    @staticmethod
    def each_node(generator: Any, nodes: Sequence[str]) -> Combinator:
        """If `nodes` is empty: all nodes that workers use at the first question."""
    @staticmethod
    def on_few_nodes(
        few: Any,
        others: Any,
        seed: int,
        nodes_max: int,
        turns: Sequence[tuple[int, int]],
        hanging_ns: int,
    ) -> Combinator:
        """`turns` are the kinds of turns: the number of calls, and the pause after each."""

@final
class Scheduler:
    """Schedules one history: which worker does what next, and the index of each operation.

    This is a state machine without threads, clocks or I/O: the caller passes the time and the calls
    that ended. It outlives generators, so that the phases of one run form one history. An info
    retires a client's process: the worker continues as process + number of clients. Two threads
    must not use it at the same time."""
    def __new__(cls, workers: Sequence[Any], sink: Callable[[Any], object]) -> Scheduler:
        """Create a scheduler. The first of `workers` is used first. `sink` receives every operation
        in the order of the history, except those that others record; its exceptions are passed on.
        """
    @property
    def workers(self) -> tuple[Any, ...]:
        """All workers by number, the nemesis first."""
    def call_of(self, number: int) -> Any | None:
        """Return the worker's call in flight."""
    @property
    def generator(self) -> Combinator:
        """The current generator in its current state."""
    def follow(self, generator: Any) -> None:
        """Take all further calls from this generator. The history continues."""
    def poll(self, now_ns: int, prefer: int | None = None) -> Any:
        """Begin the generator's next call, if it has one now: return Assigned, Pending or
        Exhausted. `prefer` is the number of the worker that asks: if it is free, the generator sees
        it first.

        Exhausted means that there are no more calls; some may still be in flight. Raises
        HarnessError if the generator waits for a call to end although none is in flight, if it
        waits for a time that has passed, or if it gives a call to a worker that is not free."""
    def begin(self, number: int, call: Any, now_ns: int) -> Any:
        """Record a call that no generator made, such as the healing after a run, in flight on a
        free worker. Return the operation."""
    def complete(self, number: int, done: Any, now_ns: int) -> Any:
        """Record the end of a worker's call and free the worker. An end without a value gets its
        call's value. Return the operation."""

@final
class Assigned:
    """A call that was assigned to a worker and is in flight from now on."""
    @property
    def op(self) -> Any: ...
    @property
    def worker(self) -> Any: ...

FETCH_NS: int
"""Median time of reading, sending and writing a small part."""

@final
class Disks:
    """The disks of a simulation's servers. For one thread only."""
    def __new__(cls, simulation: Simulation, fsync: str) -> Disks:
        """Access the disks, and let the servers sync what `fsync` says: default, inserts, all or
        never. Raises ValueError for another word."""
    def set_fault(self, name: str, fault: str, kind: str, delay_ms: int) -> None:
        """Begin a fault of a disk, in place of an earlier one of this name: full, readonly, slow,
        fail-reads, fail-writes or fail-sync. Raises ValueError for another kind."""
    def clear_fault(self, name: str, fault: str) -> None:
        """End a fault; no-op if it is not in force."""
    def state(self, name: str) -> tuple[list[tuple[str, int]], int, int, int]:
        """Return the number of requests that each fault in force applied to, the numbers of changes
        and pages that are not durable, and the number of flipped bits."""
    def probe(self, name: str) -> list[tuple[str, str, int]]:
        """Return what a "write", a "sync" and a "read" meet: the name of the error, "" for none,
        and the milliseconds that they take."""
    def mark(self, name: str) -> None:
        """Write two files and sync one of them. That fsync commits all changes of metadata."""
    def cut(self, name: str, torn: int | None) -> tuple[int, int, int, int, bool, bool]:
        """Kill a node and take from its disk what is not durable; a seed lets some survive. Return
        the numbers of changes, pages and files that were lost and of what survived, and whether of
        the two marked files the synced and the other one are whole."""
    def flip(
        self,
        name: str,
        below: Sequence[str],
        without: Sequence[str],
        endings: Sequence[str],
        seed: int,
    ) -> tuple[str, int, int, int, int] | None:
        """Flip a bit of a file that the seed chooses. Return file, offset, bit, and the byte as it
        should be read and as it is; None if there is no such file."""
    def restore_bits(self, name: str) -> None:
        """Flip the flipped bits of a disk back, unless their files are gone."""
    def sync(self) -> None:
        """Make everything durable on all disks."""

@final
class Machines:
    """What lies under the servers of a simulation. Resources have the names of the nemeses that
    take them away."""
    def __new__(cls, servers: Simulation) -> Machines: ...
    def skew(self, name: str, rate: float) -> None:
        """Set the clock rate of a server, for all its lives: that of its timers."""
    def set_wall(self, name: str, offset_ns: int, period_ns: int, rate: float) -> None:
        """Set a server's wall clock: what is added to it, in every second period only if there is
        one, and its speed."""
    def wall_ns(self, name: str) -> int:
        """Return what a server's wall clock shows."""
    def starve(self, name: str, resource: str) -> None:
        """Take a resource away from a server."""
    def feed(self, name: str, resource: str) -> None:
        """Give a resource back to a server; no-op if it does not lack it."""
    def lacks(self, name: str, resource: str) -> bool:
        """Return whether a server's machine lacks the resource."""
    def throttled(self, name: str) -> int:
        """Return the number of periods in which a server had used up its CPU time, and had more to
        do."""
    def killed(self, name: str) -> bool:
        """Return whether the last life of a server ended because it lacked memory."""
    def accepts(self, name: str) -> bool:
        """Return whether a server answers on a new connection."""

@final
class Members:
    """The disks, replicas and ensemble of a simulation, as faults of members change them.

    Calls with a `number` make it due when they have ended; `Simulation.answer` returns how. Disks
    belong to servers that do not run."""
    def __new__(cls, simulation: Simulation) -> Members:
        """Nothing is copied or noted yet."""
    def refers_to_store(self, name: str) -> bool:
        """Return whether tables of a replica have data in an object store."""
    def empty_disk(self, name: str, parts_only: bool) -> None:
        """Remove the parts of a replica's tables, or everything."""
    def files(self, name: str, parts_only: bool) -> int:
        """Return how many tables and parts a replica has, and one for a file of its own, or how
        many parts; of a ZooKeeper server, the number of entries of its log."""
    def back_up_disk(self, name: str) -> None:
        """Copy a disk in place of an older copy."""
    def restore_disk(self, name: str) -> bool:
        """Put the copy in place of the disk; return whether there is one."""
    def note_tables(self, name: str) -> list[str]:
        """Note the tables of a replica; return their names."""
    def noted_tables(self, name: str) -> list[str]: ...
    def missing_tables(self, name: str) -> list[str]:
        """Return the noted tables that a replica does not have."""
    def add_table(self, simulation: Simulation, number: int, name: str, table: str) -> None:
        """Create a noted table on a replica that runs."""
    def registered(self, name: str, table: str) -> bool | None:
        """Return whether ZooKeeper has a replica of a noted table; None if no server leads."""
    def followers(self) -> int | None:
        """Return how many servers follow ZooKeeper's leader and are no observers; None if none
        leads."""
    def tables_behind(self, name: str) -> list[tuple[str, bool, int]]:
        """Return for each table whether it is active, and how many parts it is to fetch or
        merge."""
    def ensemble(self) -> list[tuple[str, str]] | None:
        """Return the role of each member in the leader's configuration; None if none leads."""
    def reconfigure(
        self, simulation: Simulation, number: int, by: str, name: str, role: str
    ) -> None:
        """Ask the server `by` to make a server "participant" or "observer", or to remove it,
        for ""."""

@final
class Simulation:
    """The simulated servers by name, with the callers' requests by number.

    Events happen only in `step`. The caller has its own events and tasks, identified by numbers:
    they are due when `step` returns their number. For one thread only."""
    def __new__(
        cls,
        nodes: Sequence[tuple[str, str, Sequence[str]]],
        links: Sequence[tuple[str, str]],
        bugs: Sequence[str],
        mechanisms: Sequence[str],
        settings: dict[str, int],
        reading: str,
        rates: dict[str, float],
        seed: int,
    ) -> Simulation:
        """Create a cluster. `nodes` gives each name, whether it is a ZooKeeper server, and the
        ZooKeeper servers that a replica may use. `links` are in the topology's order. `settings`
        are those of tables that differ from the defaults. `reading` is the meaning of sequentially
        consistent selects. `rates` are the clock rates of some ZooKeeper servers; that of others is
        1. Raises ValueError for unknown names."""
    @property
    def now_ns(self) -> int: ...
    @property
    def events(self) -> int:
        """Number of events that have happened."""
    def after(self, delay_ns: int, number: int, task: bool) -> None:
        """Schedule the caller's task, or its event, which must not wait."""
    def step(self, until_ns: int) -> int | None:
        """Run the simulation; return the caller's next due number, or None if there is none until
        `until_ns`, which is then the current time."""
    def outside(self) -> None:
        """Record that none of the caller's tasks runs any more."""
    def up(self) -> None:
        """Start every server without waiting for it."""
    def kill(self, name: str) -> None:
        """Kill a node with SIGKILL; no-op if it does not run."""
    def stop(self, name: str) -> None:
        """Stop a node with SIGTERM."""
    def start(self, name: str) -> None:
        """Start a new life of a node; no-op if it runs."""
    def pause(self, name: str) -> None:
        """Pause a node with SIGSTOP."""
    def resume(self, name: str) -> None:
        """Resume a node with SIGCONT."""
    def running(self, name: str) -> bool:
        """Whether the node's process exists."""
    def paused(self, name: str) -> bool:
        """Whether the node is paused by SIGSTOP."""
    def tables_led(self, name: str) -> int:
        """Return how many tables the replica leads; 0 if it does not answer."""
    def answers(self, name: str) -> bool:
        """Whether the server answers queries, or the ZooKeeper server serves clients."""
    def leader(self) -> str | None:
        """Return the ZooKeeper server that leads in the newest epoch."""
    def unready(self) -> list[str]:
        """Return the reasons why the cluster cannot serve now."""
    def stop_fetches(self, names: Sequence[str]) -> None:
        """Stop the fetches of every existing table, until the server ends."""
    def start_fetches(self, names: Sequence[str]) -> None:
        """Start fetches again. May be called twice."""
    def fetching(self, name: str) -> bool:
        """Whether the node's tables fetch parts."""
    def fetch_ns(self, name: str, ns: int | None = None) -> int:
        """Return the median time of a replica's fetches in all its lives; `ns` sets it."""
    def objects(self, name: str) -> list[tuple[str, int]]:
        """Return the key and the size of each object of a store, in the order of the writes."""
    def transactions(self, name: str) -> bytes:
        """Return the log of a ZooKeeper server, as a file of ZooKeeper's."""
    def log_messages(self) -> None:
        """Log the messages of the replicas from now on."""
    def messages(self, ahead_ns: int) -> bytes:
        """Return the messages logged, as JSON: a list of node, kind ("read", "write", "fetch"),
        times of sending, effect and answer, number of transactions applied at the effect, whether
        it succeeded, and operations (name, path, data). What did not happen is null. The world's
        clock is `ahead_ns` ahead of the one in the output."""
    def cover(self) -> None:
        """Measure from now on what the run covers."""
    def coverage(self) -> tuple[bytes, tuple[int, int, int]]:
        """Return the elements that were covered, as ascending numbers of 32 bits, lowest byte
        first, and the distances: the greatest numbers of committed writes that a ZooKeeper server
        lacked when it answered a read, of entries of the log that an active replica had not copied,
        and of steps during which one quorum was pending."""
    def record(self, ahead_ns: int) -> bytes:
        """Return the protocol trace as JSON: what was committed, and the sessions that should have
        expired. The world's clock is `ahead_ns` ahead of the one in the output.

        ended    the quorum of PART was reached: how many it NEEDED, the HOLDERS of the part or of
                 one that covers it
        parallel the same of a parallel quorum
        last     last_part of PARTITION became block NUMBER
        places   the log's FIRST entry, {replica: [pointer, active, lost]}
        pointer  of REPLICA, FROM, TO, entries COPIED to its queue, whether it was LOST
        part     REPLICA announced NAME with a HASH of its rows
        merge    a merge into NAME was chosen BY a replica while LEADER was the leader
        session  a session expired after SILENT ms, with a timeout of ALLOWED ms

        A fact is a list: its name, the time in nanoseconds, then the other fields."""
    def replica(self, name: str, table: str) -> ReplicaState | None:
        """Return the replica of a table; None if the server does not have it in this life."""
    def cut(self, links: Sequence[tuple[str, str]]) -> None:
        """Cut links: packets under way and future ones do not arrive."""
    def mend(self) -> None:
        """End every cut. Held packets arrive when their sender retransmits."""
    def degrade(self, links: Sequence[tuple[str, str]], fault: str, amount: float) -> None:
        """Give links a fault of `harness.core.link_quality`; the amount 0 ends it."""
    def amount(self, source: str, target: str, fault: str) -> float:
        """Return the amount of a fault of a link; 0 if it does not have it."""
    def alive(self, source: str, target: str) -> bool:
        """Whether packets pass the link."""
    def ask(
        self,
        number: int,
        name: str,
        sql: str,
        rows: Sequence[Sequence[int | str | list[int]]] | None,
        settings: dict[str, int | str],
        timeout_ns: int,
        opened_ns: int = 0,
    ) -> None:
        """Send a query, an INSERT with its rows, on a connection that was opened then. The answer
        is a list of columns, each a tuple; empty if there are no rows."""
    def open_session(self, number: int, keepers: Sequence[str]) -> None:
        """Open a ZooKeeper session through one of these servers. The answer is its number."""
    def read(self, number: int, session: int, readings: Sequence[tuple[str, str]]) -> None:
        """Read several paths at one moment. The readings are "get" (data and version), "exists"
        (the version), "stat" (data, version and the transactions that created and last changed the
        node), "children" (the names, ascending), "count" (their number), "listed" (the version of
        the list, and the names) and "values" (the data by name). The answer has None for a node
        that does not exist."""
    def multi(self, number: int, session: int, operations: Sequence[tuple[Any, ...]]) -> None:
        """Execute all operations or none: ("create", path, data, ephemeral, sequential), ("remove",
        path, version), ("put", path, data, version), ("check", path, version), ("absent", path);
        version None matches any. The answer has a path, a version or None for each."""
    def sync(self, number: int, session: int) -> None:
        """Let later reads see what the leader had committed when this call reached it."""
    def close(self, session: int) -> None:
        """Close the session, which removes its ephemeral nodes, without waiting."""
    def answer(self, number: int) -> tuple[Any, tuple[int, str] | tuple[str, str] | None]:
        """Return the answer when the number is due, once; or instead the error: a ClickHouse
        server's code and text, or ZooKeeper's code and path."""

@final
class Interpreter:
    """Executes a generator's calls on a simulation's servers and writes the lines of their history.
    For one thread only."""
    def __new__(
        cls,
        simulation: Simulation,
        scheduler: Scheduler,
        statements: dict[str, tuple[bool, str, Sequence[dict[str, int | str]], int]],
        zero_ns: int,
    ) -> Interpreter:
        """Execute the calls of the scheduler's generator. `statements` gives for each f whether it
        is an INSERT of the call's key and value, the SQL (of a SELECT without the key), settings
        that successive values use in turn, and the timeout in nanoseconds. `zero_ns` is the
        simulation's time at the history's time 0."""
    @property
    def over(self) -> bool:
        """Whether nothing is in flight and nothing will be."""
    def exhaust(self) -> None:
        """Start no more calls."""
    def step(self, host: Host) -> int | None:
        """Run the simulation; return the caller's next due number, or None if the run is over or
        `lines` have waited for 20 ms. Raises as `Scheduler.poll` does, and passes on the host's
        exceptions."""
    def pump(self, host: Host) -> None:
        """Start every call that is due now. Raises as `step` does."""
    def end(self, host: Host, number: int, done: Any) -> None:
        """End a call of the host's; `pump` must follow. Passes on exceptions of generator and
        host."""
    def lines(self) -> bytes:
        """Return the history's lines since the last call."""
    def counts(self) -> tuple[int, list[tuple[str, str, int]]]:
        """Return, since the last call: the number of client calls that began, and the numbers that
        ended, by f and kind."""
    @property
    def keys(self) -> list[int]:
        """Every key that clients named, ascending."""

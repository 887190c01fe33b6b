"""Simulates ZooKeeper and ClickHouse servers on virtual time: one seed is one run."""

from collections.abc import Sequence
from typing import Any, Protocol, TypedDict, final

__version__: str
FETCH_NS: int
"""Of a small part, read, sent and written; median."""

class Replica(TypedDict):
    """Of a table, for tests and tools."""

    leader: bool
    readonly: bool
    connected: bool
    """Whether it has a session with ZooKeeper."""
    keeper: str | None
    """The ZooKeeper server of the session that its server has."""
    parts: list[str]
    """On the disk."""
    queue: list[tuple[str, str, int]]
    """Type, part and quorum of each entry."""

class Host(Protocol):
    """Makes the calls that are no statements."""

    def begin(self, place: tuple[int, int], who: tuple[int, int, str], call: Any, /) -> bytes:
        """A call begins: its op's index and time, the worker's number, its process and the node.
        Its end is told by `Interpreter.end` and `told`, then `pump`. Returns its line, and calls
        nothing of the interpreter's."""
    def call(self, f: str, value: int | None, key: int | None, /) -> Any:
        """The call that `begin` gets for one of a generator in Rust."""
    def retired(self, number: int, /) -> object:
        """The worker is another process from now on."""
    def op(self, line: bytes, /) -> Any:
        """The op of a line, for generators that look at it."""

@final
class Interpreter:
    """A generator's calls on a simulation's servers, and the lines of their history: the rules of
    harness/run/scheduler.py. For one thread only."""

    def __new__(
        cls,
        simulation: Simulation,
        generator: tuple[Any, ...],
        workers: Sequence[tuple[int, int, str]],
        roams: str,
        statements: dict[str, tuple[bool, str, Sequence[dict[str, int | str]], int]],
        outcomes: tuple[Sequence[tuple[int, str, str, str]], Sequence[tuple[int, str, str, str]]],
        place: tuple[int, int, int],
    ) -> Interpreter:
        """`generator`: in the words of harness/generators/steps.py, `compiled`. `workers`: number,
        process and node of each, the one free for longest first, the nemesis -1; `roams` is the
        node of those whose calls name theirs. `statements`: by call whether it is an INSERT of its
        key and value, the SQL (of a SELECT all but the key), settings that values take in turn, and
        the timeout in nanoseconds. `outcomes` of writes and of reads: code, name, kind, and a text
        that the message must contain. `place`: the index of the next op, the time of the last,
        and the simulation's time when the history's was 0."""
    @property
    def over(self) -> bool:
        """Nothing is in flight and nothing will come."""
    def exhaust(self) -> None:
        """No calls any more."""
    def step(self, host: Host) -> int | None:
        """Lets the servers go on. What is due next of the caller's; None: it is over, or `lines`
        have waited for 20 ms. Raises what generator and host raise, and HarnessError when the
        generator waits for nothing or names a worker that is not free."""
    def pump(self, host: Host) -> None:
        """Takes every call that there is now. Raises as `step` does."""
    def end(self, number: int, kind: str) -> tuple[int, int]:
        """The call of a worker that its host made has ended: index and time of the end."""
    def told(self, op: Any, line: bytes) -> None:
        """That end, for the generator, and its line. Raises what the generator raises."""
    def lines(self) -> bytes:
        """Since the last call."""
    def counts(self) -> tuple[int, list[tuple[str, str, int]]]:
        """Since the last call: how many calls of clients began; how many ended, by f and kind."""
    @property
    def keys(self) -> list[int]:
        """Every key that clients named, ascending."""
    @property
    def place(self) -> tuple[int, int, int]:
        """As it was given, now."""
    @property
    def workers(self) -> tuple[list[tuple[int, int, str]], list[tuple[int, int, str]]]:
        """The free, the one free for longest first, and the busy."""

@final
class Simulation:
    """Servers by name, and what is asked of them by the numbers of who asks.

    Nothing happens but in `step`. The caller has events and tasks of its own: what it gave a number
    is due when `step` returns that number. For one thread only.
    """

    def __new__(
        cls,
        nodes: Sequence[tuple[str, bool, Sequence[str]]],
        links: Sequence[tuple[str, str]],
        bugs: Sequence[str],
        settings: dict[str, int],
        reading: str,
        rates: dict[str, float],
        seed: int,
    ) -> Simulation:
        """`nodes`: each name, whether it is a ZooKeeper server, and those that a replica may use.
        `links` in the topology's order. `settings`: of tables, as far as they differ.
        `reading`: what a sequentially consistent select means. `rates`: how fast the clocks of some
        ZooKeeper servers go; 1 unless given. Raises ValueError for names that are none."""
    # Time.
    @property
    def now_ns(self) -> int: ...
    @property
    def events(self) -> int:
        """How many have happened."""
    def after(self, delay_ns: int, number: int, task: bool) -> None:
        """The caller's own is due then: a task, or an event, which must not wait."""
    def step(self, until_ns: int) -> int | None:
        """What is due next of the caller's; None: nothing until then, which is now."""
    def outside(self) -> None:
        """None of the caller's tasks runs any more: what is called is outside of them."""
    # Processes.
    def up(self) -> None:
        """Starts every server; does not wait."""
    def kill(self, name: str) -> None:
        """SIGKILL; of what does not run, nothing happens."""
    def stop(self, name: str) -> None:
        """SIGTERM."""
    def start(self, name: str) -> None:
        """A new life; of what runs, nothing happens."""
    def pause(self, name: str) -> None:
        """SIGSTOP."""
    def resume(self, name: str) -> None:
        """SIGCONT."""
    def running(self, name: str) -> bool:
        """Whether the process exists."""
    def paused(self, name: str) -> bool:
        """Whether it is stopped by SIGSTOP."""
    def answers(self, name: str) -> bool:
        """Whether the server would answer a query, or a ZooKeeper server serves clients."""
    # What is known of them.
    def leader(self) -> str | None:
        """The ZooKeeper server of the newest epoch that leads."""
    def unready(self) -> list[str]:
        """Why the cluster cannot serve now."""
    def stop_fetches(self, names: Sequence[str]) -> None:
        """Of every table that exists, until the server ends."""
    def start_fetches(self, names: Sequence[str]) -> None:
        """May be called twice."""
    def fetching(self, name: str) -> bool:
        """Whether its tables fetch."""
    def fetch_ns(self, name: str, ns: int | None = None) -> int:
        """The median time of a replica's fetches, over all its lives; `ns` sets it."""
    def skew(self, name: str, rate: float) -> None:
        """How fast the clock of a ZooKeeper server goes from now on, over all its lives."""
    def record(self, ahead_ns: int) -> bytes:
        """Everything of note that was committed, and the sessions that should have ended, as JSON,
        on a clock that the world's is so much ahead of:

        ended    quorum of PART ended, so many NEEDED, HOLDERS had it
        last     last_part of PARTITION became block NUMBER
        places   the log's FIRST entry, {replica: [pointer, active, lost]}
        pointer  of REPLICA, FROM, TO, entries COPIED to its queue, whether it was LOST
        part     REPLICA announced NAME with a HASH of its rows
        merge    NAME was chosen BY a replica while LEADER was first in line
        session  ended after so many ms SILENT of so many ALLOWED

        A fact is a list, its name first, then the time in nanoseconds."""
    def replica(self, name: str, table: str) -> Replica | None:
        """Of a table; None: the server does not have it in this life."""
    # The network, whose links are pairs of source and target.
    def cut(self, links: Sequence[tuple[str, str]]) -> None:
        """Drops every packet of these links, from now on and what is under way."""
    def mend(self) -> None:
        """Ends every cut. What was held comes when its sender tries again."""
    def lose(self, links: Sequence[tuple[str, str]], per_thousand: int) -> None:
        """So many of a thousand packets are lost; 0 ends that."""
    def loses(self, source: str, target: str) -> bool:
        """Whether some of its packets are lost."""
    def alive(self, source: str, target: str) -> bool:
        """Whether packets pass."""
    # What is asked from outside is a task's: its number is due when there is an answer.
    def ask(
        self,
        number: int,
        name: str,
        sql: str,
        rows: Sequence[Sequence[int | str]] | None,
        settings: dict[str, int | str],
        timeout_ns: int,
    ) -> None:
        """A query, an INSERT with its rows. The answer: a list of columns, each a tuple; no columns
        where there is no row."""
    def open_session(self, number: int, keepers: Sequence[str]) -> None:
        """A ZooKeeper session through one of these servers. The answer: the session's number."""
    def read(self, number: int, session: int, readings: Sequence[tuple[str, str]]) -> None:
        """Several reads of one moment, each what and of which path: "get" answers data and version,
        "exists" the version, "stat" data, version and the transactions that made and last changed
        it, "children" the names ascending, "count" their number, "listed" how often they changed
        and the names, "values" the data by name. None: there is no such node."""
    def multi(self, number: int, session: int, operations: Sequence[tuple[Any, ...]]) -> None:
        """All or nothing: ("create", path, data, ephemeral, sequential), ("remove", path, version),
        ("put", path, data, version), ("check", path, version), ("absent", path); version None is
        any. The answer: for each a path, a version or None."""
    def sync(self, number: int, session: int) -> None:
        """Reads after this see what the leader had committed when the call reached it."""
    def close(self, session: int) -> None:
        """Ends the session, and its ephemeral nodes with it; does not wait."""
    def answer(self, number: int) -> tuple[Any, tuple[int, str] | tuple[str, str] | None]:
        """Once, when the number is due: the answer, or why there is none: a ClickHouse server's
        code and text, or ZooKeeper's code and path."""

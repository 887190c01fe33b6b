"""The interpreter for simulated servers: their events, calls and faults on one virtual time.

`Interpreter` makes the calls that are one statement. All others are made here, each in a task of
the simulated world: while it waits, the world goes on, and other calls with it.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial

from harness.clients.clickhouse import DatabaseError, failed_read, failed_write
from harness.clients.statement import TimedStatement
from harness.core.clock import Clock
from harness.core.errors import PLUGIN_ERRORS
from harness.core.lines import decoded, encoded
from harness.core.op import NEMESIS, Done, Kind, Op
from harness.core.outcomes import Outcome
from harness.core.protocols import Client, Generator
from harness.native.generators import Scheduler
from harness.native.interpreter import Interpreter
from harness.run.call_ends import HarnessIssues, check_call, checked_end
from harness.run.live import Live
from harness.sim.world import World


def run_tasks(
    scheduler: Scheduler,
    generator: Generator,
    *,
    world: World,
    client: Callable[[str], Client],
    statements: Mapping[str, TimedStatement],
    nemesis: Callable[[Op], Done] | None,
    clock: Clock,
    stop: threading.Event,
    issues: HarnessIssues,
    live: Live,
    write: Callable[[bytes, Sequence[int]], None],
    outcomes: tuple[Outcome, ...],
) -> None:
    """Run a generator until it is exhausted and every call has ended, or `stop` is set.

    `statements` are the calls that need no client. `write` gets the history's lines, at least every
    0.1 s, and every key that clients have named; `live` counts them. Every call ends: clients give
    up, and faults wait for their effect for a limited time, on the world's clock. `clock` is the
    run's. `outcomes` are those of the servers' writes by their errors.
    """
    scheduler.follow(generator)
    run = _SimulatedRun(
        scheduler, world, client, statements, nemesis, clock, issues, live, write, outcomes
    )
    run.go(stop)


def _failed(outcomes: tuple[Outcome, ...], is_write: bool, code: int, text: str) -> Done:
    error = DatabaseError(code, text, outcomes)
    return failed_write(error) if is_write else failed_read(error)


class _SimulatedRun:
    """The host of the interpreter in Rust: makes the calls that are no statements."""

    def __init__(
        self,
        scheduler: Scheduler,
        world: World,
        client: Callable[[str], Client],
        statements: Mapping[str, TimedStatement],
        nemesis: Callable[[Op], Done] | None,
        clock: Clock,
        issues: HarnessIssues,
        live: Live,
        write: Callable[[bytes, Sequence[int]], None],
        outcomes: tuple[Outcome, ...],
    ) -> None:
        # Most statements that fail are refused in the same words.
        self._failed = lru_cache(maxsize=1024)(partial(_failed, outcomes))
        self._world = world
        self._open = client
        self._nemesis = nemesis
        self._issues = issues
        self._live = live
        self._write = write
        self._clients: dict[int, Client] = {}
        self._nodes = {worker.number: worker.node for worker in scheduler.workers}
        self._interpreter = Interpreter(
            world.servers,
            scheduler,
            {
                f: (
                    one.is_write,
                    one.sql,
                    [{str(k): v for k, v in s.items()} for s in one.settings],
                    round(timeout_s * 1e9),
                )
                for f, (one, timeout_s) in statements.items()
            },
            self._world.now_ns - clock.now_ns(),
        )

    def go(self, stop: threading.Event) -> None:
        """Let the world go on until the run is over."""
        interpreter = self._interpreter
        try:
            while not interpreter.over:
                if stop.is_set():
                    interpreter.exhaust()
                number = interpreter.step(self)
                if number is None:
                    self._flush()
                else:
                    self._world.do(number)
        finally:
            self._world.outside()
            self._flush()

    def _flush(self) -> None:
        lines = self._interpreter.lines()
        if lines:
            self._write(lines, self._interpreter.keys)
            begun, ended = self._interpreter.counts()
            counts = {(f, Kind(kind)): count for f, kind, count in ended}
            self._live.count(begun, counts)

    # --- the interpreter's host -----------------------------------------------------------------

    def begin(self, number: int, op: Op) -> bytes:
        """Begin a call in a task of its own. Return its line."""
        check_call(op)
        self._world.spawn(partial(self._call, number, op))
        return encoded(op)

    def ended(self, op: Op) -> bytes:
        """Return the line of the end of a call that was made here."""
        if op.process == NEMESIS:
            self._live.saw(op)
        return encoded(op)

    def failed(self, is_write: bool, code: int, text: str) -> Done:
        """Return how a statement ended that failed."""
        return self._failed(is_write, code, text)

    def retired(self, number: int) -> None:
        """Close the worker's client: its next call belongs to another process, which has its own
        client."""
        client = self._clients.pop(number, None)
        if client is not None:
            client.close()

    def op(self, line: bytes) -> Op:
        """Return the op of a line, for generators that look at it."""
        return decoded(line)

    # --- calls ----------------------------------------------------------------------------------

    def _call(self, number: int, call: Op) -> None:
        try:
            done = self._done(number, call)
        except PLUGIN_ERRORS as error:
            done = self._issues.bug(error)
        self._interpreter.end(self, number, done)
        if done.kind is Kind.INFO:
            self.retired(number)
        self._interpreter.pump(self)

    def _done(self, number: int, call: Op) -> Done:
        if call.process == NEMESIS:
            if self._nemesis is None:
                return Done(Kind.INFO, error=f"no nemesis takes {call.f}")
            return checked_end(self._nemesis(call), call)
        client = self._clients.get(number)
        if client is None:
            client = self._clients[number] = self._open(self._nodes[number])
        return checked_end(client.invoke(call), call, client)

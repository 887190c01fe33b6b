"""The interpreter for simulated servers: their events, calls and faults on one virtual time.

`pysimulator.Interpreter` has the scheduler's rules, and makes the calls that are one statement. All
others are made here, each a task of the simulated world: while it waits the world goes on, and
other calls with it.
"""

import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from pysimulator import Interpreter

from harness.clients.statement import Statement
from harness.clusters.sim_cluster import SimCluster
from harness.core.clock import Clock
from harness.core.lines import decoded, encoded
from harness.core.op import NEMESIS, Call, Done, Kind, Op
from harness.core.outcomes import READ_OUTCOMES, Outcome
from harness.core.protocols import ANY_NODE, Client, Generator, Worker
from harness.generators.steps import compiled
from harness.run.limits import Trouble
from harness.run.scheduler import NEMESIS_NUMBER, Place, Scheduler
from harness.sim.dialect import DIALECT


def _rows(outcomes: Sequence[Outcome]) -> list[tuple[int, str, str, str]]:
    return [(row.code, row.name, row.kind.value, row.text) for row in outcomes]


_OUTCOMES: Final = _rows(DIALECT.write_outcomes), _rows(READ_OUTCOMES)


def run_tasks(
    scheduler: Scheduler,
    generator: Generator,
    *,
    cluster: SimCluster,
    client: Callable[[str], Client],
    statements: Mapping[str, Statement],
    nemesis: Callable[[Op], Done] | None,
    clock: Clock,
    stop: threading.Event,
    trouble: Trouble,
    write: Callable[[bytes, Sequence[int]], None],
) -> None:
    """Runs a generator until it is exhausted and every call has ended, or `stop` is set.

    `statements`: the calls that need no client. `write` gets the history's lines, at least every
    0.1 s, and every key that clients have named. Every call ends: clients give up, and faults wait
    for their effect only so long, on the world's time. `clock` is the run's.
    """
    run = _Run(scheduler, generator, cluster, client, statements, nemesis, clock, trouble, write)
    run.go(stop)


class _Run:
    """What the interpreter does not do itself."""

    def __init__(
        self,
        scheduler: Scheduler,
        generator: Generator,
        cluster: SimCluster,
        client: Callable[[str], Client],
        statements: Mapping[str, Statement],
        nemesis: Callable[[Op], Done] | None,
        clock: Clock,
        trouble: Trouble,
        write: Callable[[bytes, Sequence[int]], None],
    ) -> None:
        self._scheduler = scheduler
        self._world = cluster.simulation.world
        self._open = client
        self._nemesis = nemesis
        self._trouble = trouble
        self._write = write
        self._clients: dict[int, Client] = {}
        place = scheduler.lend()
        self._workers = {worker.number: worker for worker in place.free}
        self._interpreter = Interpreter(
            cluster.simulation.servers,
            compiled(generator),
            [(worker.number, worker.process, worker.node) for worker in place.free],
            ANY_NODE,
            {
                f: (
                    one.is_write,
                    one.sql,
                    [dict(s) for s in one.settings],
                    round(one.timeout_s * 1e9),
                )
                for f, one in statements.items()
            },
            _OUTCOMES,
            (place.index, place.time_ns, self._world.now_ns - clock.now_ns()),
        )

    def go(self, stop: threading.Event) -> None:
        """Lets the world go on until it is over."""
        interpreter = self._interpreter
        try:
            while not interpreter.over:
                if stop.is_set():
                    interpreter.exhaust()
                number = interpreter.step(self)
                if number is None:
                    self._tell()
                else:
                    self._world.do(number)
        finally:
            self._world.outside()
            self._tell()
            index, time_ns, _ = interpreter.place
            free, busy = interpreter.workers
            self._scheduler.take_back(
                Place(
                    index,
                    time_ns,
                    tuple([Worker(*worker) for worker in free]),
                    tuple([Worker(*worker) for worker in busy]),
                )
            )

    def _tell(self) -> None:
        lines = self._interpreter.lines()
        if lines:
            self._write(lines, self._interpreter.keys)
            begun, ended = self._interpreter.counts()
            counts = {(f, Kind(kind)): count for f, kind, count in ended}
            self._scheduler.live.count(begun, counts)

    # --- what the interpreter asks for ----------------------------------------------------------

    def begin(self, place: tuple[int, int], who: tuple[int, int, str], call: Call) -> bytes:
        """A call that is to be made here: its op's index and time; the worker's number, its process
        and the node. Returns the op's line."""
        (index, time_ns), (number, process, node) = place, who
        is_fault = number == NEMESIS_NUMBER
        assert node != ANY_NODE, f"call {call.f} of a worker that roams names no node"
        op = Op(
            index=index,
            process=NEMESIS if is_fault else process,
            kind=Kind.INVOKE,
            f=call.f,
            time_ns=time_ns,
            value=call.value,
            key=call.key,
            node=call.node if is_fault else node,
        )
        self._world.spawn(partial(self._call, number, op))
        return encoded(op)

    def call(self, f: str, value: int | None, key: int | None) -> Call:
        """One that a generator in Rust wants done."""
        return Call(f=f, value=value, key=key)

    def retired(self, number: int) -> None:
        """The worker's next call is another process's, which has a client of its own."""
        client = self._clients.pop(number, None)
        if client is not None:
            client.close()

    def op(self, line: bytes) -> Op:
        """What the interpreter wrote, for generators that look at it."""
        return decoded(line)

    # --- calls ----------------------------------------------------------------------------------

    def _call(self, number: int, call: Op) -> None:
        try:
            done = self._done(number, call)
        except Exception as error:
            self._trouble.bugs += 1
            told = "".join(traceback.format_exception(error))
            self._trouble.first = self._trouble.first or told
            done = Done(Kind.INFO, error=f"{type(error).__name__}: {error}")
        self._end(number, call, done)
        if done.kind is Kind.INFO:
            self.retired(number)
        self._interpreter.pump(self)

    def _end(self, number: int, call: Op, done: Done) -> None:
        assert done.kind is not Kind.INVOKE, "a call ends as ok, fail or info"
        index, time_ns = self._interpreter.end(number, done.kind)
        op = Op(
            index=index,
            process=call.process,
            kind=done.kind,
            f=call.f,
            time_ns=time_ns,
            value=call.value if done.value is None else done.value,
            key=call.key,
            node=call.node,
            error=done.error,
        )
        if number == NEMESIS_NUMBER:
            self._scheduler.live.saw(op)
        self._interpreter.told(op, encoded(op))

    def _done(self, number: int, call: Op) -> Done:
        if number == NEMESIS_NUMBER:
            if self._nemesis is None:
                return Done(Kind.INFO, error=f"no nemesis takes {call.f}")
            return self._nemesis(call)
        client = self._clients.get(number)
        if client is None:
            client = self._clients[number] = self._open(self._workers[number].node)
        return client.invoke(call)

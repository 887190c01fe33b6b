"""run_threads: worker threads on the wall clock make valid histories, and always come to an end."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from generators_play import NODES, cuts, read, write

from harness.core.clock import WallClock
from harness.core.errors import HarnessError
from harness.core.history import History
from harness.core.op import NEMESIS, Call, Done, Kind, Op
from harness.core.protocols import Client, Generator, Pending
from harness.core.seed import Seed
from harness.generators import (
    each_node,
    limit,
    numbered,
    on_clients,
    on_nemesis,
    once,
    phases,
    rate,
    repeat,
    sequence,
    sleep,
    time_limit,
    together,
)
from harness.native.generators import Scheduler
from harness.run.interpreter import HarnessIssues, Limits, run_threads, workers_on


@dataclass
class World:
    """Clients that do what a function says, and a record of who opened and closed what."""

    act: Callable[[Op], Done] = lambda _: Done(Kind.OK)
    opened: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)

    def client(self, node: str) -> Client:
        self.opened.append(node)
        return WorldClient(self, node)


@dataclass
class WorldClient:
    world: World
    node: str
    busy: bool = False

    def invoke(self, op: Op) -> Done:
        assert not self.busy, "a client is used by one worker at a time"
        assert op.node == self.node
        self.busy = True
        try:
            return self.world.act(op)
        finally:
            self.busy = False

    def close(self) -> None:
        self.world.closed.append(self.node)


@dataclass
class Run:
    """One history; `threads` may be called again and again, as a run's phases do."""

    world: World = field(default_factory=World)
    workers: int = 3
    nemesis: Callable[[Op], Done] | None = None
    limits: Limits = field(default_factory=Limits)
    ops: list[Op] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)
    clock: WallClock = field(default_factory=WallClock)

    def __post_init__(self) -> None:
        self.scheduler = Scheduler(workers_on(NODES, self.workers), self.sink)

    def sink(self, op: Op) -> None:
        self.ops.append(op)

    def threads(self, generator: Generator) -> HarnessIssues:
        return run_threads(
            self.scheduler,
            generator,
            client=self.world.client,
            nemesis=self.nemesis,
            clock=self.clock,
            stop=self.stop,
            limits=self.limits,
        )

    @property
    def history(self) -> History:
        """Return the history, which validates the ops."""
        return History(self.ops)


def nap(seconds: float) -> Callable[[Op], Done]:
    def act(_: Op) -> Done:
        time.sleep(seconds)
        return Done(Kind.OK)

    return act


def test_many_workers_make_a_valid_history_with_an_end_for_every_call() -> None:
    run = Run(workers=12)
    issues = run.threads(limit(numbered(write), 3000))
    assert [p.invoke.value for p in run.history.pairs] == list(range(3000))
    assert {pair.kind for pair in run.history.pairs} == {Kind.OK}
    assert issues == HarnessIssues()


def test_worker_i_is_on_node_i_modulo_the_nodes() -> None:
    run = Run(workers=7, world=World(nap(0.002)))
    run.threads(limit(repeat(read()), 100))
    nodes = {op.process: op.node for op in run.history}
    assert nodes == {i: NODES[i % 3] for i in range(7)}


def test_workers_on_extra_nodes_take_part_in_final_reads() -> None:
    run = Run()
    run.scheduler = Scheduler(workers_on(["ch1"], 2, extra=["ch2", "ch3"]), run.sink)
    run.threads(each_node(once(read())))
    assert sorted(op.node or "" for op in run.ops if op.kind is Kind.INVOKE) == list(NODES)


def test_calls_of_different_workers_overlap() -> None:
    run = Run(world=World(nap(0.1)))
    run.threads(limit(repeat(read()), 3))
    assert [op.kind for op in run.ops[:3]] == [Kind.INVOKE] * 3
    assert run.clock.now_ns() < 0.25e9


def test_an_end_without_a_value_has_its_calls() -> None:
    run = Run(world=World(lambda op: Done(Kind.OK, (1, 2)) if op.f == "read" else Done(Kind.OK)))
    run.threads(sequence([write(7), read()]))
    assert {(p.invoke.f, p.end.value) for p in run.history.pairs if p.end} == {
        ("write", 7),
        ("read", (1, 2)),
    }


def test_an_info_retires_the_process_and_its_client() -> None:
    outcomes = iter([Done(Kind.INFO, error="-1 CONNECTION_LOST"), Done(Kind.OK), Done(Kind.FAIL)])
    run = Run(world=World(lambda _: next(outcomes)), workers=1)
    run.threads(limit(repeat(write()), 3))
    assert [op.process for op in run.ops] == [0, 0, 1, 1, 1, 1], "process + number of workers"
    assert run.world.opened == ["ch1", "ch1"]
    assert run.world.closed == ["ch1", "ch1"]


def test_every_client_is_closed_at_the_end() -> None:
    run = Run(world=World(nap(0.002)), workers=5)
    run.threads(limit(repeat(read()), 50))
    assert sorted(run.world.opened) == sorted(run.world.closed) != []


def test_a_clients_exception_is_an_info_and_is_not_hidden() -> None:
    def act(op: Op) -> Done:
        if op.value in (1, 3):
            raise KeyError(f"bug {op.value}")
        if op.value == 4:
            raise SystemExit(0)
        return Done(Kind.OK)

    run = Run(world=World(act), workers=1)
    issues = run.threads(limit(numbered(write), 5))
    kinds = [pair.kind for pair in run.history.pairs]
    assert kinds == [Kind.OK, Kind.INFO, Kind.OK, Kind.INFO, Kind.INFO]
    ends = [pair.end.error for pair in run.history.pairs if pair.end]
    assert ends == [None, "KeyError: 'bug 1'", None, "KeyError: 'bug 3'", "SystemExit: 0"]
    assert issues.bugs == 3
    assert "bug 1" in issues.first
    assert "in act" in issues.first, "the traceback of the first"


def test_an_end_that_is_no_end_is_a_bug_of_the_client() -> None:
    run = Run(world=World(lambda _: Done(Kind.INVOKE)), workers=1)
    issues = run.threads(once(read()))
    assert run.history.pairs[0].kind is Kind.INFO
    assert issues.bugs == 1
    assert "expected a Done that is ok, fail or info" in issues.first


def test_a_client_that_cannot_be_opened_is_an_info() -> None:
    run = Run(workers=1)

    def refuse(node: str) -> Client:
        raise OSError(f"no route to {node}")

    run.world.client = refuse
    issues = run.threads(once(read()))
    assert run.ops[-1].error == "OSError: no route to ch1"
    assert issues.bugs == 1


def test_faults_run_beside_operations() -> None:
    def nemesis(op: Op) -> Done:
        time.sleep(0.02)
        return Done(Kind.OK, op.value)

    schedule = cuts(0.05, 0.05)
    run = Run(nemesis=nemesis, world=World(nap(0.005)))
    run.threads(time_limit(together(on_clients(repeat(read())), on_nemesis(schedule)), 0.5))
    first = run.history.faults[0]
    assert first.text == "{ch1 | ch2 ch3}"
    assert len(run.history.faults) >= 3
    assert first.end_ns is not None
    during = [p for p in run.history.pairs if first.begin_ns < p.invoke.time_ns < first.end_ns]
    assert len(during) > 5


def test_the_nemesis_has_its_turn_while_every_client_hangs() -> None:
    mended = threading.Event()

    def stuck(_: Op) -> Done:
        assert mended.wait(10)
        return Done(Kind.OK)

    def nemesis(_: Op) -> Done:
        mended.set()
        return Done(Kind.OK)

    schedule = phases(sleep(0.2), once(Call(f="mend", nemesis=True)))
    run = Run(nemesis=nemesis, world=World(stuck))
    run.threads(together(on_clients(limit(repeat(read()), 9)), on_nemesis(schedule)))
    mend = run.history.nemesis[0]
    assert 0.2e9 <= mend.time_ns < 0.4e9
    assert all(pair.kind is Kind.OK for pair in run.history.pairs)


def test_without_a_nemesis_a_fault_is_info() -> None:
    run = Run()
    run.threads(on_nemesis(once(Call(f="kill", nemesis=True))))
    assert [(op.process, op.kind, op.error) for op in run.ops] == [
        (NEMESIS, Kind.INVOKE, None),
        (NEMESIS, Kind.INFO, "no nemesis takes kill"),
    ]


def test_a_rate_is_not_exceeded_on_the_wall_clock() -> None:
    run = Run(workers=6)
    run.threads(limit(rate(repeat(read()), 400, Seed(1)), 800))
    begun = [pair.invoke.time_ns for pair in run.history.pairs]
    assert len(begun) == 800
    assert max(begun) - min(begun) > 2 * 10**9 * 0.85  # a busy machine only takes longer


@pytest.mark.parametrize("latency_s", [0, 0.004])
def test_idle_workers_take_turns(latency_s: float) -> None:
    run = Run(workers=6, world=World(nap(latency_s)))
    run.threads(limit(rate(repeat(read()), 400, Seed(1)), 600))
    shares = Counter(pair.invoke.process for pair in run.history.pairs)
    assert min(shares.values()) > 70


def test_phases_wait_for_every_worker() -> None:
    run = Run(world=World(nap(0.01)), workers=6)
    run.threads(phases(limit(repeat(write()), 20), limit(repeat(read()), 20)))
    last_write = max(op.index for op in run.ops if op.f == "write")
    first_read = min(op.index for op in run.ops if op.f == "read")
    assert last_write < first_read


def test_one_history_goes_through_several_generators() -> None:
    outcomes = iter([Done(Kind.INFO)] + [Done(Kind.OK)] * 9)
    run = Run(world=World(lambda _: next(outcomes)), workers=1)
    run.threads(sequence([write(1)]))
    heal = run.scheduler.begin(-1, Call(f="heal", nemesis=True), run.clock.now_ns())
    run.scheduler.complete(-1, Done(Kind.OK), run.clock.now_ns())
    run.threads(sequence([read()]))
    assert heal.process == NEMESIS
    assert [op.process for op in run.history] == [0, 0, NEMESIS, NEMESIS, 1, 1]


def test_stop_ends_a_run_at_once() -> None:
    run = Run(world=World(nap(0.01)))
    threading.Timer(0.2, run.stop.set).start()
    run.threads(repeat(read()))
    assert run.clock.now_ns() < 1e9
    assert all(pair.kind is Kind.OK for pair in run.history.pairs), "calls in flight could end"


def test_stop_wakes_those_who_sleep() -> None:
    run = Run()
    threading.Timer(0.1, run.stop.set).start()
    run.threads(sleep(3600))
    assert run.clock.now_ns() < 1e9


def test_a_call_that_hangs_does_not_keep_a_stopped_run_from_ending() -> None:
    release = threading.Event()

    def act(op: Op) -> Done:
        if op.node == "ch2":
            release.wait(30)
        time.sleep(0.005)
        return Done(Kind.OK)

    run = Run(world=World(act), limits=Limits(stop_s=0.3))
    threading.Timer(0.2, run.stop.set).start()
    issues = run.threads(repeat(read()))
    assert run.clock.now_ns() < 1.5e9
    late = "no end when the run was over"
    assert [(op.node, op.process, why) for op, why in issues.abandoned] == [("ch2", 1, late)]
    ended = len(run.ops)
    hung = [pair for pair in run.history.pairs if pair.invoke.node == "ch2"]
    assert [pair.end.error for pair in hung if pair.end] == [f"HARNESS: {late}"]
    # What the thread says when it comes back at last is dropped, and its client is closed.
    closed = len(run.world.closed)
    release.set()
    until = time.monotonic() + 5
    while len(run.world.closed) == closed and time.monotonic() < until:
        time.sleep(0.01)
    assert run.world.closed[closed:] == ["ch2"]
    assert len(run.ops) == ended


def test_a_call_that_hangs_in_mid_run_is_ended_and_the_worker_goes_on() -> None:
    release = threading.Event()

    def act(op: Op) -> Done:
        if op.value == 0:
            release.wait(30)
        return Done(Kind.OK)

    run = Run(world=World(act), workers=1, limits=Limits(call_s=0.2))
    issues = run.threads(limit(numbered(write), 4))
    release.set()
    assert [(p.invoke.process, p.kind) for p in run.history.pairs] == [
        (0, Kind.INFO),
        (1, Kind.OK),
        (1, Kind.OK),
        (1, Kind.OK),
    ]
    assert run.ops[1].error == "HARNESS: no end after 0.2 s"
    assert [(op.value, why) for op, why in issues.abandoned] == [(0, "no end after 0.2 s")]


def test_calls_in_flight_at_the_end_have_their_grace() -> None:
    run = Run(world=World(nap(0.3)), limits=Limits(grace_s=5))
    run.threads(time_limit(repeat(read()), 0.1))
    assert [pair.kind for pair in run.history.pairs] == [Kind.OK] * 3

    impatient = Run(world=World(nap(0.5)), limits=Limits(grace_s=0.1))
    impatient.threads(time_limit(repeat(read()), 0.1))
    assert [pair.kind for pair in impatient.history.pairs] == [Kind.INFO] * 3


def test_a_fault_in_flight_is_waited_for_longer_than_a_call() -> None:
    def slow(_: Op) -> Done:
        time.sleep(0.4)
        return Done(Kind.OK)

    run = Run(nemesis=slow, limits=Limits(grace_s=0.05, stop_s=0.05))
    run.threads(on_nemesis(once(Call(f="kill", nemesis=True))))
    assert run.ops[-1].kind is Kind.OK, "healing must not race a fault that goes on"


def test_what_the_sink_raises_ends_the_run_and_is_raised() -> None:
    run = Run(world=World(nap(0.001)))
    full = HarnessError("no space left")

    def sink(op: Op) -> None:
        if len(run.ops) > 50:
            raise full
        run.ops.append(op)

    run.scheduler = Scheduler(workers_on(NODES, 3), sink)
    with pytest.raises(HarnessError, match="no space left"):
        run.threads(repeat(read()))
    assert run.clock.now_ns() < 3e9


def test_what_a_generator_raises_ends_the_run_and_is_raised() -> None:
    def make(number: int) -> Call:
        if number == 10:
            raise ValueError("a bug in a workload")
        return read()

    run = Run()
    with pytest.raises(ValueError, match="a bug in a workload"):
        run.threads(numbered(make))
    assert all(pair.end for pair in run.history.pairs)


def test_an_interrupt_ends_the_run_with_a_whole_history(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(world=World(nap(30)))
    looks = 0

    def interrupt() -> bool:
        nonlocal looks
        looks += 1
        if looks == 5:
            raise KeyboardInterrupt
        return False

    monkeypatch.setattr(run.stop, "is_set", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run.threads(limit(repeat(read()), 3))
    assert [pair.kind for pair in run.history.pairs] == [Kind.INFO] * 3
    assert all(pair.end for pair in run.history.pairs)


def test_a_generator_that_waits_for_nothing_is_named() -> None:
    class Stuck:
        def op(self, context):
            return Pending(), self

        def update(self, context, event):
            return self

    with pytest.raises(HarnessError, match="it would wait for ever; see its Stuck"):
        Run().threads(Stuck())

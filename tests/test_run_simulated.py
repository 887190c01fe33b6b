"""The interpreter for simulated servers: the scheduler's rules, and in Rust what clients say."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from generators_play import NODES, Flaky, cuts, main_job, read, run_virtual, write
from sim_play import play

from harness.clients.statement import TimedStatement
from harness.clients.table_session import TableSession
from harness.clusters.sim_cluster import SimCluster
from harness.core.errors import HarnessError
from harness.core.lines import decoded
from harness.core.op import NEMESIS, Call, Done, Kind, Op
from harness.core.protocols import ANY_NODE, Client, Context, Generator, Ready, Step, Worker
from harness.core.seed import Seed
from harness.core.topology import Topology
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
    sleep,
    time_limit,
    together,
    until_ok,
)
from harness.generators.steps import PENDING
from harness.native.generators import Scheduler
from harness.run import simulated
from harness.run.interpreter import HarnessIssues, workers_on
from harness.run.live import Live
from workloads.quorum_set import QuorumSetOptions, set_calls
from workloads.quorum_set import _QuorumSetSession as QuorumSetSession

SECOND = 1_000_000_000


# --- the same in Rust and in Python -----------------------------------------------------------


def no_statements(_: TableSession) -> Mapping[str, TimedStatement]:
    return {}


@pytest.mark.parametrize(
    ("nemesis", "options"),
    [
        ("partition,kill", {"rate": 60.0, "read": "linearizable"}),
        ("partition-keeper-follower", {"time_limit_s": 4, "read": "server"}),
        ("pause,restart", {"rate": 100.0, "keys": 3, "ops_per_key": 40, "writers": 2}),
        ("none", {"rate": 200.0, "insert": "plain", "read": "plain"}),
        ("kill-zookeeper,loss", {"name": "dedup", "rate": 60.0}),
        ("partition", {"name": "phantom", "rate": 60.0}),
        ("partition", {"name": "block-numbers", "rate": 60.0}),
        ("partition", {"name": "unknown-insert", "rate": 60.0}),
        ("kill-clickhouse-one", {"name": "truncation", "rate": 60.0}),
        ("partition", {"name": "availability", "rate": 60.0}),
        ("partition", {"name": "merges", "rate": 60.0, "own_rows": 100}),
    ],
)
def test_a_run_is_the_same_with_clients_in_python(
    monkeypatch: pytest.MonkeyPatch, nemesis: str, options: dict[str, Any]
) -> None:
    often: dict[str, Any] = {"interval_s": 1, "duration_s": 1, **options}
    in_rust = play(11, nemesis, **often)
    begun: list[object] = []
    begin = simulated._SimulatedRun.begin

    def counted(run: simulated._SimulatedRun, *call: Any) -> bytes:
        begun.append(call)
        return begin(run, *call)

    monkeypatch.setattr(simulated._SimulatedRun, "begin", counted)
    for session in (TableSession, QuorumSetSession):
        monkeypatch.setattr(session, "statements", no_statements)
    in_python = play(11, nemesis, **often)
    assert in_rust.journal.count(b"\n") > 200
    assert len(begun) == in_python.journal.count(b'"kind":"invoke"') - 2, "all but heal and quiesce"
    assert in_python.journal == in_rust.journal
    assert in_python.cluster.simulation.world.events == in_rust.cluster.simulation.world.events


@dataclass(frozen=True)
class AsPython:
    """Another generator, in a class of Python that the interpreter calls back."""

    generator: Generator

    def op(self, context: Context) -> tuple[Step, Generator]:
        step, after = self.generator.op(context)
        return step, AsPython(after)

    def update(self, context: Context, event: Op) -> Generator:
        return AsPython(self.generator.update(context, event))


def set_job(seed: Seed) -> Generator:
    """Return the generator of a run of quorum-set."""
    calls = rate(on_clients(set_calls(QuorumSetOptions(keys=2), seed)), 300, seed.child("rate"))
    return time_limit(together(calls, on_nemesis(cuts(1, 1))), 10)


def final_job(_: Seed) -> Generator:
    """Return the generator of a workload's final reads."""
    calls = tuple([read(key=key) for key in range(150)])
    everywhere = each_node(until_ok(calls, tries=3), NODES)
    clients = phases(everywhere, until_ok([write(1), write(2)], tries=2), everywhere)
    return time_limit(together(on_clients(clients), on_nemesis(cuts(1, 1))), 60)


@pytest.mark.parametrize("job", [main_job, set_job, final_job])
@pytest.mark.parametrize("wrapped", [lambda generator: generator, AsPython])
def test_the_rules_are_the_schedulers(
    job: Callable[[Seed], Generator], wrapped: Callable[[Generator], Generator]
) -> None:
    """The jobs have retired processes, faults, and moments at which all workers are busy."""
    world, expected = Flaky(Seed(3)), list[Op]()
    scheduler = Scheduler(workers_on(NODES, 5), expected.append)
    run_virtual(scheduler, job(Seed(1)), client=lambda _: world, nemesis=world)
    live, run = Live(), Run(workers=5)

    def waited(op: Op) -> Done:
        done, end_ns = world.start(op, op.time_ns)
        run.cluster.simulation.world.sleep(end_ns - op.time_ns)
        return done

    run.go(wrapped(job(Seed(1))), waited, waited, latency_ns=0)
    assert run.ops == expected
    assert max(op.process for op in expected if isinstance(op.process, int)) > 50
    assert any(op.process == NEMESIS for op in expected)
    for op in expected:
        live.saw(op)
    assert run.live.read() == live.read()


def test_parts_that_are_together_take_turns() -> None:
    both = together(on_clients(repeat(read())), on_clients(repeat(write())))
    ops = Run(workers=1).go(time_limit(both, 0.1))
    called = [op.f for op in ops if op.kind is Kind.INVOKE]
    assert len(called) > 50
    assert called == [("read", "write")[at % 2] for at in range(len(called))]


# --- calls that are made in Python --------------------------------------------------------------


class Run:
    """A generator on the simulated servers, with clients that need none of them."""

    def __init__(self, workers: int = 3, nodes: tuple[str, ...] = ("ch1", "ch2", "ch3")) -> None:
        self.cluster = SimCluster(Topology.of(), Seed(1))
        self.ops: list[Op] = []
        self.keys: list[int] = []
        self.scheduler = Scheduler(workers_on(nodes, workers), self.ops.append)
        self.issues = HarnessIssues()
        self.live = Live()
        self.stop = threading.Event()
        self.closed = 0

    def go(
        self,
        generator: Generator,
        answer: Callable[[Op], Done] = lambda _: Done(Kind.OK),
        nemesis: Callable[[Op], Done] | None = None,
        *,
        latency_ns: int = 1_000_000,
    ) -> list[Op]:
        world = self.cluster.simulation.world
        run = self

        class Answers:
            def invoke(self, op: Op) -> Done:
                if latency_ns:
                    world.sleep(latency_ns)
                return answer(op)

            def close(self) -> None:
                run.closed += 1

        def client(_: str) -> Client:
            return Answers()

        def written(lines: bytes, keys: Any) -> None:
            self.ops += [decoded(line) for line in lines.splitlines()]
            self.keys = list(keys)

        simulated.run_tasks(
            self.scheduler,
            generator,
            world=self.cluster.simulation.world,
            client=client,
            statements={},
            nemesis=nemesis,
            clock=self.cluster.runtime.clock(),
            stop=self.stop,
            issues=self.issues,
            live=self.live,
            write=written,
            outcomes=self.cluster.engines.dialect.write_outcomes,
        )
        return self.ops


def test_workers_take_turns_and_indices_and_times_go_on_over_generators() -> None:
    run = Run()
    run.go(limit(repeat(read(key=4)), 6))
    run.go(limit(numbered(lambda n: write(n, key=2)), 3))
    assert [op.index for op in run.ops] == list(range(18))
    assert [op.node for op in run.ops if op.kind is Kind.INVOKE] == ["ch1", "ch2", "ch3"] * 3
    assert run.keys == [2]
    figures = run.live.read()
    assert (figures.total, figures.in_flight) == (9, 0)


def test_an_info_retires_the_process_and_closes_its_client() -> None:
    run = Run(workers=1)
    run.go(limit(repeat(read()), 3), lambda _: Done(Kind.INFO, error="gone"))
    assert [op.process for op in run.ops if op.kind is Kind.INVOKE] == [0, 1, 2]
    assert run.closed == 3
    assert [worker.process for worker in run.scheduler.workers if worker.number == 0] == [3]


def test_an_exception_of_a_client_is_an_info_and_an_issue() -> None:
    def answer(_: Op) -> Done:
        raise ValueError("a bug")

    run = Run()
    run.go(once(read()), answer)
    assert [(op.kind, op.error) for op in run.ops[1:]] == [(Kind.INFO, "ValueError: a bug")]
    assert run.issues.bugs == 1
    assert "a bug" in run.issues.first


def test_faults_go_to_the_nemesis_and_are_info_without_one() -> None:
    fault = Call(f="kill", value={"edge": "once", "fault": 1}, nemesis=True)
    generator = together(on_clients(limit(repeat(read()), 2)), on_nemesis(once(fault)))
    done = Run().go(generator, nemesis=lambda _: Done(Kind.OK, {"edge": "once", "fault": 1}))
    assert [(op.process, op.kind) for op in done if op.f == "kill"] == [
        ("nemesis", Kind.INVOKE),
        ("nemesis", Kind.OK),
    ]
    (_, alone) = [op for op in Run().go(generator) if op.f == "kill"]
    assert (alone.kind, alone.error) == (Kind.INFO, "no nemesis takes kill")


def test_a_worker_that_roams_goes_where_its_call_says() -> None:
    call = Call(f="read", key=0, node="ch2")
    step = Ready(call, Worker(0, 0, ANY_NODE))
    ops = Run(workers=1, nodes=(ANY_NODE,)).go(limit(Fixed(step), 1))
    assert [op.node for op in ops] == ["ch2", "ch2"]


def test_a_rate_a_limit_and_a_sleep_are_on_the_servers_time() -> None:
    spread = time_limit(rate(repeat(read()), 50, Seed(3)), 20)
    ops = Run().go(phases(spread, sleep(5), once(write(1))))
    calls = [op for op in ops if op.kind is Kind.INVOKE]
    assert 900 < len(calls) < 1100
    assert calls[-2].time_ns < 20 * SECOND < 24 * SECOND < calls[-1].time_ns


def test_who_is_told_to_stop_makes_no_more_calls() -> None:
    def answer(_: Op) -> Done:
        run.stop.set()
        return Done(Kind.OK)

    run = Run(workers=2)
    run.go(repeat(read()), answer)
    assert len(run.ops) < 10
    assert run.live.read().in_flight == 0


class Fixed:
    """Gives the same step for ever."""

    listens = False

    def __init__(self, step: Step | Exception) -> None:
        self.step = step

    def op(self, context: Context) -> tuple[Step, Generator]:
        if isinstance(self.step, Exception):
            raise self.step
        return self.step, self

    def update(self, context: Context, event: Op) -> Generator:
        return self


@pytest.mark.parametrize(
    ("step", "raised", "said"),
    [
        (PENDING, HarnessError, "waits for a call to end, but none is in flight"),
        (Ready(read(), Worker(0, 0, "ch1")), HarnessError, "worker 0, which is not free"),
        (ValueError("of its own"), ValueError, "of its own"),
    ],
)
def test_a_generator_that_is_wrong_ends_the_run(
    step: Step | Exception, raised: type[Exception], said: str
) -> None:
    run = Run()
    with pytest.raises(raised, match=said):
        run.go(Fixed(step))
    assert all(op.kind is Kind.INVOKE for op in run.ops), "what began is in the history"
    run.scheduler.begin(-1, Call(f="heal", nemesis=True), 0)

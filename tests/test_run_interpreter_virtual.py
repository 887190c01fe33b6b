"""The scheduler, on virtual time: the same seed gives the same history, byte for byte."""

import threading

import pytest
from generators_play import (
    MS,
    NODES,
    SECOND,
    Flaky,
    Scripted,
    invocations,
    main_job,
    play,
    read,
    run_virtual,
    write,
)

from harness.core.errors import HarnessError
from harness.core.lines import encoded
from harness.core.op import Call, Done, Kind, Op
from harness.core.protocols import Client, Exhausted, Generator, Pending, Worker
from harness.core.seed import Seed
from harness.generators import (
    limit,
    mix,
    numbered,
    once,
    rate,
    repeat,
    sequence,
    time_limit,
)
from harness.native.generators import Assigned, Scheduler
from harness.run.interpreter import run_threads, workers_on
from harness.run.live import Live


def history_bytes(seed: Seed) -> bytes:
    lines: list[bytes] = []
    world = Flaky(seed.child("world"))
    scheduler = Scheduler(workers_on(NODES, 5), lambda op: lines.append(encoded(op)))
    run_virtual(scheduler, main_job(seed), client=lambda _: world, nemesis=world)
    return b"".join(lines)


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others() -> None:
    first = history_bytes(Seed(1))
    assert first.count(b"\n") > 4000
    assert history_bytes(Seed(1)) == first
    assert history_bytes(Seed(2)) != first


class Ticking:
    """A clock that goes on only when the client works."""

    now = 0

    def now_ns(self) -> int:
        return self.now

    def sleep_until(self, time_ns: int) -> None:
        self.now = max(self.now, time_ns)


def test_both_interpreters_make_the_same_history_of_the_same_generator() -> None:
    def generator() -> Generator:
        calls = mix(Seed(7), [(2, numbered(lambda n: write(n))), (1, repeat(read()))])
        return limit(calls, 500)

    virtual: list[bytes] = []
    world = Flaky(Seed(3))
    scheduler = Scheduler(workers_on(["ch1"], 1), lambda op: virtual.append(encoded(op)))
    run_virtual(scheduler, generator(), client=lambda _: world)

    clock = Ticking()

    class OnTheClock:
        def invoke(self, op: Op) -> Done:
            done, end_ns = world.start(op, clock.now)
            clock.sleep_until(end_ns)
            return done

        def close(self) -> None:
            """Do nothing."""

    def client(_: str) -> Client:
        return OnTheClock()

    threads: list[bytes] = []
    run_threads(
        Scheduler(workers_on(["ch1"], 1), lambda op: threads.append(encoded(op))),
        generator(),
        client=client,
        nemesis=None,
        clock=clock,
        stop=threading.Event(),
    )
    assert threads == virtual
    assert any(b'"process":9,' in line for line in virtual), "processes were retired on the way"


def test_virtual_time_does_not_wait() -> None:
    history = play(time_limit(rate(repeat(read()), 1, Seed(1)), 3600))
    assert history[-1].time_ns > 3500 * SECOND


def test_ends_come_before_calls_of_the_same_time() -> None:
    history = play(limit(repeat(read()), 4), workers=2, latency_ns=10)
    assert [(op.kind, op.time_ns) for op in history] == [
        *[(Kind.INVOKE, 0)] * 2,
        *[(Kind.OK, 10)] * 2,
        *[(Kind.INVOKE, 10)] * 2,
        *[(Kind.OK, 20)] * 2,
    ]


def test_a_history_starts_when_it_is_told() -> None:
    ops: list[Op] = []
    scheduler = Scheduler(workers_on(NODES, 1), ops.append)
    world = Scripted()
    end_ns = run_virtual(scheduler, once(read()), client=lambda _: world, start_ns=5 * SECOND)
    assert [op.time_ns for op in ops] == [5 * SECOND, 5 * SECOND + 10 * MS]
    assert end_ns == 5 * SECOND + 10 * MS


def test_an_info_retires_the_process_but_not_the_nemesis() -> None:
    scripts = {("read", "ch1"): [Kind.INFO, Kind.OK], ("kill", None): [Kind.INFO, Kind.OK]}
    kill = Call(f="kill", nemesis=True)
    history = play(sequence([read(), kill]), workers=1, client=Scripted(script=scripts))
    again = play(sequence([kill, kill]), client=Scripted(script=scripts))
    assert [op.process for op in history if op.f == "read"] == [0, 0]
    assert {op.process for op in again} == {"nemesis"}


def test_idle_workers_take_turns() -> None:
    history = play(limit(rate(repeat(read()), 10, Seed(1)), 60), workers=6, latency_ns=1)
    assert [op.process for op in invocations(history)] == [i % 6 for i in range(60)]


def test_the_scheduler_prefers_who_asks() -> None:
    scheduler = Scheduler(workers_on(NODES, 3), lambda _: None)
    scheduler.follow(repeat(read()))
    step = scheduler.poll(0, prefer=2)
    assert isinstance(step, Assigned)
    assert (step.worker, step.op.node) == (Worker(2, 2, "ch3"), "ch3")


def test_the_scheduler_never_lets_time_go_back() -> None:
    ops: list[Op] = []
    scheduler = Scheduler(workers_on(NODES, 1), ops.append)
    scheduler.follow(once(read()))
    scheduler.poll(100)
    scheduler.complete(0, Done(Kind.OK), 50)
    assert [op.time_ns for op in ops] == [100, 100]
    assert isinstance(scheduler.poll(120), Exhausted)


def test_the_scheduler_refuses_a_busy_worker() -> None:
    scheduler = Scheduler(workers_on(NODES, 1), lambda _: None)
    scheduler.begin(0, read(), 0)
    with pytest.raises(HarnessError, match="call read for worker 0, which is not free"):
        scheduler.begin(0, read(), 0)


def test_a_scheduler_knows_what_is_in_flight() -> None:
    scheduler = Scheduler(workers_on(NODES, 2), lambda _: None)
    scheduler.follow(sequence([read(key=1), read(key=2)]))
    scheduler.poll(0)
    scheduler.poll(0)
    calls = [scheduler.call_of(number) for number in (-1, 0, 1)]
    assert [call and call.key for call in calls] == [None, 1, 2]
    assert isinstance(scheduler.poll(0), Exhausted | Pending)


@pytest.mark.parametrize(("nodes", "concurrency"), [([], 3), (["ch1"], 0)])
def test_there_must_be_workers(nodes: list[str], concurrency: int) -> None:
    with pytest.raises(HarnessError, match="at least one of each expected"):
        workers_on(nodes, concurrency)


def test_live_figures_count_outcomes_and_name_the_fault_in_force() -> None:
    live = Live()
    scheduler = Scheduler(workers_on(NODES, 3), live.saw)

    def fault(f: str, number: int, edge: str, text: str) -> None:
        scheduler.begin(-1, Call(f=f, nemesis=True), 0)
        value = {"fault": number, "edge": edge, "text": text}
        scheduler.complete(-1, Done(Kind.OK, value), 0)

    scheduler.begin(0, write(1), 0)
    scheduler.begin(1, read(), 0)
    scheduler.complete(1, Done(Kind.INFO, error="lost"), 0)
    fault("cut", 1, "begin", "{ch1 | ch2 ch3}")
    fault("pause", 2, "begin", "zk1 paused")
    figures = live.read()
    assert figures.ended == {("read", Kind.INFO): 1}
    assert (figures.in_flight, figures.total, figures.kind(Kind.INFO)) == (1, 1, 1)
    assert figures.faults == ("cut {ch1 | ch2 ch3}", "pause zk1 paused")

    fault("resume", 2, "end", "")
    fault("restart", 3, "once", "ch1 restarted")
    assert live.read().faults == ("cut {ch1 | ch2 ch3}",)
    assert live.read().injected == 3
    fault("mend", 1, "end", "")
    assert live.read().faults == ()
    assert len(figures.faults) == 2, "a reading does not change"
    fault("cut", 4, "begin", "ch1")
    fault("heal", 0, "heal", "")
    assert live.read().faults == ()

"""Rates, limits and pauses, on virtual time."""

from itertools import pairwise

import pytest
from generators_play import (
    MS,
    SECOND,
    Scripted,
    calls,
    context,
    cuts,
    invocations,
    play,
    read,
    write,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.errors import UsageError
from harness.core.op import Call, Kind
from harness.core.protocols import Exhausted, Pending
from harness.core.seed import Seed
from harness.generators import (
    limit,
    numbered,
    on_clients,
    on_nemesis,
    rate,
    repeat,
    sequence,
    sleep,
    time_limit,
    together,
    until_ok,
    while_answered,
)
from harness.generators.timing import Gaps

SEED = Seed(0x5EED)


@settings(max_examples=40)
@given(
    ops_per_s=st.sampled_from([5.0, 50.0, 1000.0, 20_000.0]),
    seed=st.integers(0, 2**64 - 1),
    gaps=st.sampled_from(["exponential", "uniform"]),
)
def test_a_rate_holds_on_average(ops_per_s: float, seed: int, gaps: Gaps) -> None:
    count = 1500
    generator = limit(rate(repeat(read()), ops_per_s, Seed(seed), gaps), count)
    times = [op.time_ns for op in invocations(play(generator, workers=40, latency_ns=1000))]
    # The mean of 1500 exponential gaps is within 6 standard errors of its expectation.
    assert times[-1] / 1e9 == pytest.approx(count / ops_per_s, rel=6 / count**0.5)


def test_gaps_are_drawn_not_fixed() -> None:
    generator = limit(rate(repeat(read()), 100, SEED), 200)
    times = [op.time_ns for op in invocations(play(generator, workers=50, latency_ns=1))]
    gaps = [b - a for a, b in pairwise(times)]
    assert min(gaps) < 1 * MS
    assert max(gaps) > 30 * MS


def test_uniform_gaps_stay_below_twice_the_mean() -> None:
    generator = limit(rate(repeat(read()), 100, SEED, "uniform"), 500)
    times = [op.time_ns for op in invocations(play(generator, workers=50, latency_ns=1))]
    assert max(b - a for a, b in pairwise(times)) <= 20 * MS


def test_what_was_late_is_made_up_without_a_burst() -> None:
    generator = rate(repeat(read()), 100, SEED, "uniform")
    now = 0
    _, generator = generator.op(context(now))
    now = SECOND // 2  # nobody was free for half a second: 50 calls late
    times = []
    while len(times) < 300:
        step, generator = generator.op(context(now))
        if isinstance(step, Pending):
            assert step.wake_ns is not None
            now = step.wake_ns
        else:
            times.append(now)
    behind = [b - a for a, b in pairwise(times) if b < SECOND]
    assert 4 * MS < sum(behind) / len(behind) < 7 * MS, "twice the rate while behind"
    assert times[-1] == pytest.approx(3 * SECOND, rel=0.1), "the average holds in the end"


def test_what_is_late_by_more_than_a_second_is_not_made_up() -> None:
    generator = rate(repeat(read()), 100, SEED, "uniform")
    _, generator = generator.op(context(0))
    now, made = 60 * SECOND, 0
    while now < 70 * SECOND:
        step, generator = generator.op(context(now))
        if isinstance(step, Pending):
            assert step.wake_ns is not None
            now = step.wake_ns
        else:
            made += 1
    assert 1000 < made < 1200, "ten seconds' calls and one second's, not one minute's"


@pytest.mark.parametrize("ops_per_s", [0, -1, float("nan")])
def test_a_rate_must_be_above_zero(ops_per_s: float) -> None:
    with pytest.raises(UsageError, match="more than 0 expected"):
        rate(repeat(read()), ops_per_s, SEED)


def test_a_limit_counts_calls() -> None:
    assert calls(play(limit(numbered(write), 3))) == [write(0), write(1), write(2)]


def test_a_time_limit_counts_from_its_first_question() -> None:
    generator = time_limit(repeat(read()), 1)
    step, generator = generator.op(context(5 * SECOND))
    assert not isinstance(step, Exhausted)
    assert not isinstance(generator.op(context(6 * SECOND - 1))[0], Exhausted)
    assert isinstance(generator.op(context(6 * SECOND))[0], Exhausted)


def test_a_time_limit_is_noticed_in_time() -> None:
    far = time_limit(sleep(60), 2)
    assert far.op(context(0))[0] == Pending(2 * SECOND)
    all_busy = context(0, free=0, busy=3)
    assert time_limit(repeat(read()), 2).op(all_busy)[0] == Pending(2 * SECOND)


def test_calls_in_flight_outlast_the_time_limit() -> None:
    history = play(time_limit(repeat(read()), 0.025), workers=1, latency_ns=10 * MS)
    assert [op.time_ns for op in invocations(history)] == [0, 10 * MS, 20 * MS]
    assert history[-1].time_ns == 30 * MS


def test_a_call_that_no_server_answers_is_repeated_until_patience_is_at_its_end() -> None:
    silent = Scripted(latency_ns=400 * MS, script={("read", "ch2"): [Kind.FAIL] * 99})
    on_ch2 = until_ok([Call(f="read", node="ch2")], tries=99, pause_s=0.1)
    history = play(while_answered(on_ch2, 1.5), client=silent)
    assert [op.time_ns for op in invocations(history)] == [0, 500 * MS, 1000 * MS]
    assert len(history.pairs) == 3


def test_an_answer_renews_the_patience() -> None:
    fails = [Kind.FAIL] * 2
    slow = Scripted(
        latency_ns=400 * MS, script={("read", None): [*fails, Kind.OK, *fails, Kind.OK]}
    )
    generator = while_answered(until_ok([read(1), read(2)], tries=99, pause_s=0.1), 1.5)
    history = play(limit(generator, 99), workers=1, client=slow)
    assert [pair.kind for pair in history.pairs].count(Kind.OK) == 2


def test_sleep_makes_no_call() -> None:
    generator = sleep(2)
    step, after = generator.op(context(SECOND))
    assert step == Pending(3 * SECOND)
    assert isinstance(after.op(context(3 * SECOND))[0], Exhausted)


def test_operations_go_on_while_the_nemesis_works_and_sleeps() -> None:
    schedule = cuts(0.5, 0.5)
    reads = rate(repeat(read()), 200, SEED, "uniform")
    history = play(time_limit(together(on_clients(reads), on_nemesis(schedule)), 4))
    assert len(invocations(history)) == pytest.approx(800, rel=0.1)
    assert len(invocations(history, "nemesis")) == 7


def test_the_nemesis_is_not_starved_by_busy_clients() -> None:
    schedule = on_nemesis(sequence([Call(f="kill", nemesis=True)]))
    generator = together(on_clients(limit(repeat(read()), 100)), schedule)
    assert invocations(play(generator), "nemesis")[0].time_ns == 0

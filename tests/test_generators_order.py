"""Phases and rounds do not overlap; workers are divided as told."""

from collections import Counter
from itertools import pairwise

import pytest
from generators_play import NODES, SECOND, Scripted, calls, context, invocations, play, read, write
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.errors import UsageError
from harness.core.history import History
from harness.core.op import Call, Kind
from harness.core.protocols import Exhausted, Pending
from harness.core.seed import Seed
from harness.generators import (
    cycle,
    limit,
    numbered,
    on_clients,
    on_nemesis,
    once,
    phases,
    rate,
    repeat,
    reserve,
    sequence,
    sleep,
    stop_when,
    together,
)

SEED = Seed(0x5EED)


def spans(history: History, f: str) -> tuple[int, int]:
    """Return the times from the first call of an f to its last end."""
    pairs = [pair for pair in history.pairs if pair.invoke.f == f]
    return pairs[0].invoke.time_ns, max(pair.end.time_ns for pair in pairs if pair.end)


@settings(max_examples=40)
@given(
    counts=st.lists(st.integers(1, 12), min_size=2, max_size=4),
    workers=st.integers(1, 6),
    latency_ns=st.integers(0, 10**8),
)
def test_phases_do_not_overlap(counts: list[int], workers: int, latency_ns: int) -> None:
    generator = phases(*(limit(repeat(Call(f=str(i))), n) for i, n in enumerate(counts)))
    history = play(generator, workers=workers, latency_ns=latency_ns)
    assert Counter(call.f for call in calls(history)) == {str(i): n for i, n in enumerate(counts)}
    times = [spans(history, str(i)) for i in range(len(counts))]
    for (_, end), (begin, _) in pairwise(times):
        assert end <= begin
    order = [op.index for op in history if op.f == "1" and op.kind is Kind.INVOKE]
    assert all(op.index < order[0] for op in history if op.f == "0"), "every end comes before"


def test_a_phase_may_be_a_pause() -> None:
    history = play(phases(once(read()), sleep(3), once(write())))
    begin, _ = spans(history, "write")
    _, end = spans(history, "read")
    assert begin - end == 3 * SECOND


def test_clients_phases_do_not_wait_for_the_nemesis() -> None:
    slow_fault = on_nemesis(once(Call(f="kill", nemesis=True)))
    clients = on_clients(phases(once(read()), once(write())))

    class World(Scripted):
        def start(self, op, now_ns):
            done, end_ns = super().start(op, now_ns)
            return done, now_ns + 60 * SECOND if op.f == "kill" else end_ns

    history = play(together(slow_fault, clients), client=World())
    assert spans(history, "write")[1] < SECOND


def test_a_cycle_makes_round_after_round() -> None:
    generator = cycle(lambda n: phases(sequence([write(n), write(n)]), once(read(n))))
    made = [(call.f, call.value) for call in calls(play(limit(generator, 7)))]
    assert made == [
        *[("write", 0), ("write", 0), ("read", 0)],
        *[("write", 1), ("write", 1), ("read", 1)],
        ("write", 2),
    ]


def test_a_cycle_of_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="round 0 has no call and no pause"):
        play(cycle(lambda _: sequence([])))


def test_calls_stop_when_an_awaited_end_is_seen() -> None:
    client = Scripted(script={("read", "ch1"): [Kind.FAIL, Kind.INFO, Kind.OK, Kind.OK]})
    looks = cycle(lambda _: phases(once(read()), sleep(1)))
    calls_made = phases(stop_when(lambda op: op.kind is Kind.OK, looks), once(write(7)))
    history = play(calls_made, workers=1, client=client)
    ended = [(pair.invoke.f, pair.kind) for pair in history.pairs]
    reads = [("read", Kind.FAIL), ("read", Kind.INFO), ("read", Kind.OK)]
    assert ended == [*reads, ("write", Kind.OK)]


def test_together_is_exhausted_when_all_parts_are() -> None:
    generator = together(sequence([read(1), read(2)]), sequence([write(1), write(2), write(3)]))
    assert Counter(call.f for call in calls(play(generator))) == {"read": 2, "write": 3}


def test_together_waits_for_the_earliest_of_its_parts() -> None:
    assert together(sleep(5), sleep(2), sleep(9)).op(context(0))[0] == Pending(2 * SECOND)


def test_reserved_workers_work_for_their_part_alone() -> None:
    generator = reserve([(2, limit(repeat(write()), 20))], limit(repeat(read()), 40))
    history = play(generator, workers=5)
    workers = {(op.f, op.process % 5) for op in invocations(history)}
    assert workers == {("write", 0), ("write", 1), ("read", 2), ("read", 3), ("read", 4)}


def test_a_share_spreads_over_nodes() -> None:
    generator = reserve([(3, limit(repeat(write()), 30))], sequence([]))
    history = play(generator, workers=6)
    assert {op.node for op in invocations(history)} == set(NODES)


def test_a_slow_part_does_not_hold_up_the_others_workers() -> None:
    slow = limit(rate(repeat(write()), 1, SEED), 2)
    history = play(reserve([(1, slow)], limit(repeat(read()), 100)), workers=2)
    assert spans(history, "read")[1] <= 1.1 * SECOND


def test_a_reserve_may_follow_phases_of_its_own() -> None:
    generator = reserve([(1, phases(once(write(1)), once(write(2))))], limit(repeat(read()), 10))
    history = play(generator, workers=3)
    assert [call.value for call in calls(history) if call.f == "write"] == [1, 2]


def test_a_share_is_at_least_one_worker() -> None:
    with pytest.raises(UsageError, match="a share of 0 workers given"):
        reserve([(0, repeat(read()))], repeat(write()))


def test_an_unmarked_call_is_not_for_the_nemesis() -> None:
    with pytest.raises(UsageError, match="wants a worker on any node"):
        on_nemesis(once(read())).op(context())


def test_a_busy_nemesis_is_asked_again_when_it_is_free() -> None:
    kill = Call(f="kill", nemesis=True)
    schedule = on_nemesis(phases(once(kill), once(kill)))
    history = play(together(on_clients(limit(numbered(read), 50)), schedule))
    ends = [op for op in history.nemesis if op.kind is not Kind.INVOKE]
    begins = [op for op in history.nemesis if op.kind is Kind.INVOKE]
    assert begins[1].time_ns == ends[0].time_ns


def test_nothing_at_all_is_exhausted() -> None:
    for generator in (phases(), together(), sequence([])):
        assert isinstance(generator.op(context())[0], Exhausted)

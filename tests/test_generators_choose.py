"""Mixtures and keys: every choice follows from a seed and a number."""

from collections import Counter

import pytest
from generators_play import MS, Scripted, calls, context, invocations, play, read, write

from harness.core.errors import UsageError
from harness.core.op import Kind
from harness.core.protocols import Generator
from harness.core.seed import Seed
from harness.generators import (
    limit,
    mix,
    numbered,
    once,
    per_key,
    rate,
    repeat,
    sequence,
    sleep,
    until_ok,
)

SEED = Seed(0x5EED)


def unique_writes_and_reads(key: int) -> Generator:
    writes = numbered(lambda n: write(n))
    return mix(SEED.child("key", key), [(1, writes), (1, repeat(read()))])


def test_a_mixture_keeps_its_weights() -> None:
    generator = mix(SEED, [(3, repeat(write())), (1, repeat(read()))])
    shares = Counter(call.f for call in calls(play(limit(generator, 4000))))
    assert 2850 < shares["write"] < 3150
    assert shares["write"] + shares["read"] == 4000


def test_the_calls_of_a_mixture_do_not_depend_on_workers_or_latencies() -> None:
    def generator() -> Generator:
        return limit(mix(SEED, [(1, numbered(write)), (2, numbered(read))]), 200)

    one, many = play(generator(), workers=1), play(generator(), workers=9, latency_ns=3 * MS)
    assert calls(one) == calls(many)


def test_an_exhausted_part_leaves_the_mixture() -> None:
    generator = mix(SEED, [(1, sequence([write(1), write(2)])), (1, limit(repeat(read()), 5))])
    assert Counter(call.f for call in calls(play(generator))) == {"write": 2, "read": 5}


def test_a_part_without_a_call_now_is_passed_over() -> None:
    slow = rate(repeat(write()), 1, SEED)
    generator = limit(mix(SEED, [(1, slow), (1, repeat(read()))]), 300)
    shares = Counter(op.f for op in invocations(play(generator, workers=1)))
    # 3 s of one worker at 10 ms: the slow part makes about three calls, and holds up nobody.
    assert shares["read"] > 290


@pytest.mark.parametrize("weights", [[], [1, 0], [-1]])
def test_weights_must_be_above_zero(weights: list[float]) -> None:
    with pytest.raises(UsageError, match="at least one expected, all above 0"):
        mix(SEED, [(weight, repeat(read())) for weight in weights])


def test_keys_count_from_zero_so_many_at_a_time_and_are_never_used_again() -> None:
    generator = per_key(SEED, unique_writes_and_reads, keys=3, ops_per_key=10)
    keys = [call.key for call in calls(play(limit(generator, 400)))]
    uses = Counter(keys)
    assert set(keys[:10]) == {0, 1, 2}
    assert sorted(uses) == list(range(max(uses) + 1))
    assert sum(count < 10 for count in uses.values()) <= 3, "only the live keys are unfinished"
    assert max(uses.values()) == 10
    spans = [(keys.index(k), len(keys) - keys[::-1].index(k)) for k in uses]
    for at in range(len(keys)):
        assert sum(first <= at < last for first, last in spans) <= 3


def test_each_key_has_a_generator_of_its_own_so_values_are_unique_per_key() -> None:
    generator = per_key(SEED, unique_writes_and_reads, keys=4, ops_per_key=25)
    written = [(c.key, c.value) for c in calls(play(limit(generator, 500))) if c.f == "write"]
    assert len(written) > 200
    assert len(set(written)) == len(written)


def test_any_worker_may_call_on_any_live_key() -> None:
    generator = per_key(SEED, unique_writes_and_reads, keys=2, ops_per_key=100)
    history = play(limit(generator, 200), workers=3)
    seen = {(op.key, op.node) for op in invocations(history)}
    assert len({pair for pair in seen if pair[0] in (0, 1)}) == 6


def test_a_key_whose_generator_ends_early_makes_way() -> None:
    generator = per_key(SEED, lambda key: once(write(key)), keys=1, ops_per_key=50)
    assert [call.key for call in calls(play(limit(generator, 6)))] == list(range(6))


def test_events_reach_the_generator_of_their_key() -> None:
    client = Scripted(script={("write", "ch1"): [Kind.FAIL, Kind.OK, Kind.OK]})
    generator = per_key(SEED, lambda key: until_ok([write(key)], tries=3), keys=1, ops_per_key=9)
    history = play(limit(generator, 3), workers=1, client=client)
    assert [op.key for op in invocations(history)] == [0, 0, 1], "key 0 again, for it failed"


@pytest.mark.parametrize("numbers", [{"keys": 0, "ops_per_key": 1}, {"keys": 1, "ops_per_key": 0}])
def test_keys_need_room(numbers: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="0 given, at least 1 expected"):
        per_key(SEED, unique_writes_and_reads, **numbers)


def test_a_key_without_a_call_is_refused() -> None:
    with pytest.raises(UsageError, match="key 0 has no call"):
        per_key(SEED, lambda _: sequence([]), keys=1, ops_per_key=1).op(context())


def test_keys_are_alike_in_looking_at_events() -> None:
    def make(key: int) -> Generator:
        return until_ok([read()], tries=1) if key else sequence([read(), read()])

    with pytest.raises(UsageError, match="same kind of generator for every key"):
        play(per_key(SEED, make, keys=1, ops_per_key=1))


def test_a_live_key_that_sleeps_is_passed_over() -> None:
    def make(key: int) -> Generator:
        return sleep(1) if key == 0 else repeat(read())

    generator = limit(per_key(SEED, make, keys=2, ops_per_key=1000), 50)
    assert {call.key for call in calls(play(generator))} == {1}

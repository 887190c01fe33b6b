"""Laws that hold for every generator, however it is composed."""

from typing import NamedTuple

from generators_play import MS, calls, cuts, play, read, write
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.history import History
from harness.core.op import Call, Kind, Op
from harness.core.protocols import Context, Generator, Pending, Ready, Step
from harness.core.seed import Seed
from harness.generators import (
    each_node,
    limit,
    mix,
    numbered,
    on_clients,
    on_nemesis,
    per_key,
    phases,
    rate,
    reserve,
    sequence,
    sleep,
    time_limit,
    together,
    until_ok,
    while_answered,
)


class Watched(NamedTuple):
    """Asks and tells the generator twice, and holds it to the law at every step."""

    generator: Generator

    def op(self, context: Context) -> tuple[Step, Generator]:
        first, _ = self.generator.op(context)
        step, generator = self.generator.op(context)
        assert step == first, "asking changes nothing"
        if isinstance(step, Ready):
            assert step.worker in context.free, "nothing is given to a busy worker"
            assert step.call.nemesis == (step.worker.number < 0)
            assert step.call.node in (None, step.worker.node)
        if isinstance(step, Pending) and step.wake_ns is not None:
            assert step.wake_ns > context.time_ns, "a wait ends later than now"
        return step, Watched(generator)

    def update(self, context: Context, event: Op) -> Generator:
        self.generator.update(context, event)
        return Watched(self.generator.update(context, event))


def trees(seed: Seed) -> st.SearchStrategy[Generator]:
    """Draw generators of every kind that end, composed at random; their choices come from the
    seed."""
    leaves = st.one_of(
        st.just(sequence([write(1), write(2)])),
        st.integers(1, 9).map(lambda n: limit(numbered(lambda i: read(i)), n)),
        st.integers(1, 4).map(lambda n: until_ok([read(i) for i in range(n)], tries=2)),
        st.floats(0.001, 0.5).map(sleep),
        st.just(each_node(sequence([read()]))),
        st.just(
            limit(per_key(seed, lambda k: numbered(lambda n: write(n)), keys=2, ops_per_key=3), 12)
        ),
    )

    def grow(inner: st.SearchStrategy[Generator]) -> st.SearchStrategy[Generator]:
        some = st.lists(inner, min_size=1, max_size=3)
        return st.one_of(
            some.map(lambda parts: phases(*parts)),
            some.map(lambda parts: together(*parts)),
            some.map(lambda parts: mix(seed, [(i + 1, part) for i, part in enumerate(parts)])),
            inner.map(lambda part: rate(part, 200, seed)),
            inner.map(lambda part: limit(part, 5)),
            inner.map(lambda part: time_limit(part, 0.3)),
            inner.map(lambda part: while_answered(part, 0.03)),
            inner.map(lambda part: each_node(part)),
            # A share within a share leaves no worker to the rest, so the rest wants none.
            inner.map(lambda part: reserve([(3, part)], sleep(0.01))),
        )

    return st.recursive(leaves, grow, max_leaves=6)


def with_faults(generator: Generator) -> Generator:
    """Return the generator beside a nemesis that is always busy."""
    schedule = on_nemesis(limit(cuts(0.05, 0.02), 6))
    return time_limit(together(on_clients(generator), schedule), 3)


SEEDS = st.integers(0, 2**64 - 1).map(Seed)


@given(st.data(), SEEDS, st.integers(6, 8), st.integers(0, 60 * MS))
def test_generators_are_pure_and_use_free_workers_alone(
    data: st.DataObject, seed: Seed, workers: int, latency_ns: int
) -> None:
    generator = with_faults(data.draw(trees(seed)))
    plain = play(generator, workers=workers, latency_ns=latency_ns)
    watched = play(Watched(generator), workers=workers, latency_ns=latency_ns)
    assert tuple(plain) == tuple(watched), "asking and telling twice makes the same history"
    assert all(pair.end is not None for pair in plain.pairs), "every call has an end"


def main_job(seed: Seed) -> Generator:
    """Return a generator composed as in a real run."""

    def one_key(key: int) -> Generator:
        own = seed.child("key", key)
        return mix(own, [(1, numbered(lambda n: write(n))), (1, numbered(lambda _: read()))])

    keys = per_key(seed.child("keys"), one_key, keys=3, ops_per_key=20)
    return limit(rate(keys, 500, seed.child("rate")), 300)


@settings(max_examples=25)
@given(SEEDS, SEEDS)
def test_the_seed_decides(seed: Seed, other: Seed) -> None:
    def shown(history: History) -> list[tuple[int, Call]]:
        times = [op.time_ns for op in history if op.kind is Kind.INVOKE]
        return list(zip(times, calls(history), strict=True))

    once, again = play(main_job(seed)), play(main_job(seed))
    assert tuple(once) == tuple(again)
    if seed != other:
        assert shown(play(main_job(other))) != shown(once)


@settings(max_examples=25)
@given(SEEDS, st.integers(1, 12), st.integers(0, 40 * MS))
def test_the_calls_follow_from_the_seed_whatever_the_servers_do(
    seed: Seed, workers: int, latency_ns: int
) -> None:
    here = play(main_job(seed), workers=workers, latency_ns=latency_ns)
    assert calls(here) == calls(play(main_job(seed)))

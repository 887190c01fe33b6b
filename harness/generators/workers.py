"""Generators restricted to some workers: clients or the nemesis, a share of them, one node's."""

from collections.abc import Sequence

from harness.core.errors import UsageError
from harness.core.op import Call
from harness.core.protocols import Generator
from harness.core.seed import Seed
from harness.generators.calls import repeat
from harness.generators.steps import nanoseconds
from harness.generators.timing import rate
from harness.native.generators import Combinator


def on_clients(generator: Generator) -> Generator:
    """Return the generator with clients' workers alone; its phases do not wait for the nemesis."""
    return Combinator.on_clients(generator)


def on_nemesis(generator: Generator) -> Generator:
    """Return the generator with the nemesis alone; its phases do not wait for clients. Its calls
    must be marked as the nemesis' (`Call.nemesis`)."""
    return Combinator.on_nemesis(generator)


def together(*generators: Generator) -> Generator:
    """Return all at the same time, each with the workers that are free; exhausted when all are. For
    operations and faults: `together(on_clients(calls), on_nemesis(schedule))`."""
    return Combinator.together(generators)


def reserve(shares: Sequence[tuple[int, Generator]], rest: Generator) -> Generator:
    """Divide the clients' workers: `reserve([(2, writes)], reads)` gives workers 0 and 1 to writes,
    all others to reads. Consecutive workers are on consecutive nodes, so a share spreads over
    nodes. Raises UsageError for a share below 1."""
    first, parts = 0, []
    for count, part in shares:
        if count < 1:
            raise UsageError(f"reserve: a share of {count} workers given, at least 1 expected")
        parts.append((first, part))
        first += count
    return Combinator.reserve([*parts, (first, rest)])


def each_node(generator: Generator, nodes: Sequence[str] = ()) -> Generator:
    """Return the generator once on every node, all nodes at the same time: each has its own copy
    with that node's workers alone, and calls name the node. `nodes` empty: the nodes of the
    workers. A node that is named and has no worker raises UsageError when its turn comes.

    Final reads: `each_node(until_ok([Call(f="read", key=k) for k in keys], tries=20))`.
    """
    return Combinator.each_node(generator, list(nodes))


def on_few_nodes(
    few: Generator,
    others: Generator,
    seed: Seed,
    *,
    nodes_max: int,
    turns: Sequence[tuple[int, float]],
    hanging_s: float,
) -> Generator:
    """Return the calls of `few` on a few nodes at a time, which take turns, one call in flight on
    each; all workers that have none of these calls make those of `others`. It is exhausted when
    `others` is.

    A turn has 1 to `nodes_max` nodes and one of the kinds `turns`, all drawn from the seed. A kind
    is a number of calls and the pause in seconds from the end of one to the next. The turn is over
    after its calls or when each of its nodes has one in flight, but while calls of `few` are in
    flight only if all of them have hung for `hanging_s`. Raises UsageError for numbers below 1.
    """
    for what, number in (("nodes_max", nodes_max), *(("turns", calls) for calls, _ in turns)):
        if number < 1:
            raise UsageError(f"on_few_nodes: {what}: {number} given, at least 1 expected")
    if not turns:
        raise UsageError("on_few_nodes: no turns given, at least one kind expected")
    kinds = [(calls, nanoseconds(pause_s)) for calls, pause_s in turns]
    return Combinator.on_few_nodes(
        few, others, seed.value, nodes_max, kinds, nanoseconds(hanging_s)
    )


def with_observer(calls: Generator, f: str, per_s: float, seed: Seed) -> Generator:
    """Return calls of which worker 0 makes `f` at `per_s` a second, and all others the rest. In a
    run of one worker only the observer works."""
    looks = rate(repeat(Call(f=f)), per_s, seed.child("looks"), gaps="uniform")
    return reserve([(1, looks)], calls)

"""Generators restricted to some workers: clients or the nemesis, a share of them, one node's."""

from collections.abc import Sequence

import msgspec

from harness.core.errors import UsageError
from harness.core.op import Call, Op
from harness.core.protocols import Context, Generator, Step, Worker
from harness.core.seed import Seed
from harness.generators.calls import repeat
from harness.generators.steps import ask, in_place, listen, narrowed, updated
from harness.generators.timing import rate
from harness.native.simulator import Combinator


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


class Reserve(msgspec.Struct, frozen=True):
    """Each part has workers of its own. See `reserve`."""

    parts: tuple[Generator, ...]
    bounds: tuple[int, ...]
    """Part i has the workers from bounds[i] up to, not including, bounds[i + 1]; the last part
    has all others."""
    listens: bool

    def op(self, context: Context) -> tuple[Step, Generator]:
        """Return a call of some part; the part of the preferred worker is asked first."""
        clients = [self._part(worker) for worker in context.free if worker.number >= 0]
        start = clients[0] if clients else 0
        step, _, after = ask(self.parts, start, context, lambda at: self._own(at, context))
        # An exhausted part keeps its place, for places name the workers.
        return step, Reserve(in_place(self.parts, after), self.bounds, self.listens)

    def _part(self, worker: Worker) -> int:
        return max(at for at, bound in enumerate(self.bounds) if bound <= worker.number)

    def _own(self, at: int, context: Context) -> Context:
        return narrowed(context, lambda w: w.number >= 0 and self._part(w) == at)

    def update(self, context: Context, event: Op) -> Generator:
        """Pass the event to every part."""
        parts = updated(self.parts, context, event)
        return self if parts is self.parts else Reserve(parts, self.bounds, self.listens)


def reserve(shares: Sequence[tuple[int, Generator]], rest: Generator) -> Generator:
    """Divide the clients' workers: `reserve([(2, writes)], reads)` gives workers 0 and 1 to writes,
    all others to reads. Consecutive workers are on consecutive nodes, so a share spreads over
    nodes. Raises UsageError for a share below 1."""
    bounds = [0]
    for count, _ in shares:
        if count < 1:
            raise UsageError(f"reserve: a share of {count} workers given, at least 1 expected")
        bounds.append(bounds[-1] + count)
    parts = (*(part for _, part in shares), rest)
    return Reserve(parts, tuple(bounds), listen(parts))


def each_node(generator: Generator, nodes: Sequence[str] = ()) -> Generator:
    """Return the generator once on every node, all nodes at the same time: each has its own copy
    with that node's workers alone, and calls name the node. `nodes` empty: the nodes of the
    workers. A node that is named and has no worker raises UsageError when its turn comes.

    Final reads: `each_node(until_ok([Call(f="read", key=k) for k in keys], tries=20))`.
    """
    return Combinator.each_node(generator, list(nodes))


def with_observer(calls: Generator, f: str, per_s: float, seed: Seed) -> Generator:
    """Return calls of which worker 0 makes `f` at `per_s` a second, and all others the rest. In a
    run of one worker only the observer works."""
    looks = rate(repeat(Call(f=f)), per_s, seed.child("looks"), gaps="uniform")
    return reserve([(1, looks)], calls)

"""Which workers a generator may use: clients or the nemesis, a share of them, one node's."""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from harness.core.errors import UsageError
from harness.core.op import NEMESIS, Call, Op
from harness.core.protocols import Context, Generator, Pending, Ready, Step, Worker
from harness.generators.steps import (
    EXHAUSTED,
    Compiled,
    ask,
    compiled,
    in_place,
    listen,
    listens,
    narrowed,
    updated,
)


class OnClients(msgspec.Struct, frozen=True):
    """Sees clients alone. See `on_clients`."""

    generator: Generator
    listens: bool

    def op(self, context: Context) -> tuple[Step, Generator]:
        """What the generator says to the clients' workers."""
        # Not by `narrowed`: this is asked for every op.
        clients = tuple([worker for worker in context.free if worker.number >= 0])
        at_work = tuple([worker for worker in context.busy if worker.number >= 0])
        step, generator = self.generator.op(Context(context.time_ns, clients, at_work))
        if generator is self.generator:
            return step, self
        return step, OnClients(generator, self.listens)

    def update(self, context: Context, event: Op) -> Generator:
        """Told only what clients did."""
        if event.process == NEMESIS:
            return self
        after = self.generator.update(context, event)
        return self if after is self.generator else OnClients(after, self.listens)

    def compiled(self) -> Compiled:
        """In Rust."""
        return "on_clients", compiled(self.generator)


def on_clients(generator: Generator) -> Generator:
    """The generator with clients' workers alone: its phases do not wait for the nemesis."""
    return OnClients(generator, listens(generator))


class OnNemesis(msgspec.Struct, frozen=True):
    """Sees the nemesis alone. See `on_nemesis`."""

    generator: Generator
    listens: bool
    quiet: Pending | None = None
    """What the generator said to the free nemesis. It holds until that time: nothing else that
    the generator sees can change. So a schedule that sleeps costs the clients' ops little."""

    def op(self, context: Context) -> tuple[Step, Generator]:
        """What the generator says to the nemesis."""
        if self.quiet is not None and context.time_ns < (self.quiet.wake_ns or 0):
            return self.quiet, self
        own = narrowed(context, lambda worker: worker.number < 0)
        step, generator = self.generator.op(own)
        holds = None
        if own.free and isinstance(step, Pending) and step.wake_ns is not None:
            step = holds = Pending(step.wake_ns, firm=True)
        return step, OnNemesis(generator, self.listens, holds)

    def update(self, context: Context, event: Op) -> Generator:
        """Told only what the nemesis did."""
        if event.process != NEMESIS:
            return self
        after = self.generator.update(context, event)
        return self if after is self.generator else OnNemesis(after, self.listens)

    def compiled(self) -> Compiled:
        """In Rust."""
        quiet_ns = None if self.quiet is None else self.quiet.wake_ns
        return "on_nemesis", compiled(self.generator), quiet_ns


def on_nemesis(generator: Generator) -> Generator:
    """The generator with the nemesis alone: its phases do not wait for clients. Its calls must
    be marked as the nemesis' (`Call.nemesis`)."""
    return OnNemesis(generator, listens(generator))


class Together(msgspec.Struct, frozen=True):
    """Several at the same time. See `together`."""

    parts: tuple[Generator, ...]
    listens: bool
    turn: int = 0

    def op(self, context: Context) -> tuple[Step, Generator]:
        """A call of whichever part has one; the first to be asked changes after every call."""
        if not self.parts:
            return EXHAUSTED, self
        step, at, after = ask(self.parts, self.turn % len(self.parts), context)
        parts = tuple([part for part in after if part is not None])
        return step, Together(parts, self.listens, self.turn + 1 if at >= 0 else self.turn)

    def update(self, context: Context, event: Op) -> Generator:
        """Told to every part."""
        parts = updated(self.parts, context, event)
        return self if parts is self.parts else replace(self, parts=parts)

    def compiled(self) -> Compiled:
        """In Rust."""
        return "together", tuple([compiled(part) for part in self.parts]), self.turn


def together(*generators: Generator) -> Generator:
    """All at the same time, each with whatever workers are free; exhausted when all are. For
    operations and faults: `together(on_clients(calls), on_nemesis(schedule))`."""
    return Together(generators, listen(generators))


class Reserve(msgspec.Struct, frozen=True):
    """Each part has workers of its own. See `reserve`."""

    parts: tuple[Generator, ...]
    bounds: tuple[int, ...]
    """Part i has the workers from bounds[i] up to, not including, bounds[i + 1]; the last part
    has all others."""
    listens: bool

    def op(self, context: Context) -> tuple[Step, Generator]:
        """A call of whichever part has one; that of the preferred worker is asked first."""
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
        """Told to every part."""
        parts = updated(self.parts, context, event)
        return self if parts is self.parts else replace(self, parts=parts)


def reserve(shares: Sequence[tuple[int, Generator]], rest: Generator) -> Generator:
    """Clients' workers divided: `reserve([(2, writes)], reads)` gives workers 0 and 1 to writes,
    all others to reads. Consecutive workers are on consecutive nodes, so a share spreads over
    nodes. Raises UsageError for a share below 1."""
    bounds = [0]
    for count, _ in shares:
        if count < 1:
            raise UsageError(f"reserve: a share of {count} workers given, at least 1 expected")
        bounds.append(bounds[-1] + count)
    parts = (*(part for _, part in shares), rest)
    return Reserve(parts, tuple(bounds), listen(parts))


class EachNode(msgspec.Struct, frozen=True):
    """The same on every node. See `each_node`."""

    generator: Generator
    listens: bool
    nodes: tuple[str, ...] = ()
    parts: tuple[Generator, ...] = ()
    """One for each of `nodes`."""

    def op(self, context: Context) -> tuple[Step, Generator]:
        """A call on whichever node has one; that of the preferred worker is asked first."""
        if not self.parts:
            return self._begun(context).op(context)
        nodes = self.nodes
        free = [nodes.index(worker.node) for worker in context.free if worker.node in nodes]
        step, at, after = ask(
            self.parts,
            free[0] if free else 0,
            context,
            lambda i: narrowed(context, lambda w: w.node == nodes[i]),
        )
        parts = in_place(self.parts, after)
        if isinstance(step, Ready):
            step = Ready(_on(step.call, nodes[at]), step.worker)
        return step, replace(self, parts=parts)

    def _begun(self, context: Context) -> "EachNode":
        every = {worker.node for worker in (*context.free, *context.busy) if worker.number >= 0}
        nodes = self.nodes or tuple(sorted(every))
        if not nodes:
            raise UsageError("each_node: no client's worker takes part, so there is no node")
        return replace(self, nodes=nodes, parts=(self.generator,) * len(nodes))

    def update(self, context: Context, event: Op) -> Generator:
        """Told to the node's own."""
        if event.node not in self.nodes or not self.parts:
            return self
        at = self.nodes.index(event.node)
        after = self.parts[at].update(context, event)
        if after is self.parts[at]:
            return self
        return replace(self, parts=(*self.parts[:at], after, *self.parts[at + 1 :]))

    def compiled(self) -> Compiled | None:
        """In Rust, before its first call, on nodes that are named."""
        begun = self.parts or not self.nodes
        return None if begun else ("each_node", compiled(self.generator), self.nodes)


def _on(call: Call, node: str) -> Call:
    return Call(f=call.f, value=call.value, key=call.key, node=node, nemesis=call.nemesis)


def each_node(generator: Generator, nodes: Sequence[str] = ()) -> Generator:
    """The generator once on every node, all nodes at the same time: each node has its own copy,
    with that node's workers alone, and calls name the node. `nodes` empty: those that workers
    are on. A node that is named and has no worker raises UsageError when its turn comes.

    Final reads: `each_node(until_ok([Call(f="read", key=k) for k in keys], tries=20))`.
    """
    return EachNode(generator, listens(generator), tuple(nodes))

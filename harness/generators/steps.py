"""What every generator is made with: taking a worker for a call, narrowing a context, waiting."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from harness.core.errors import UsageError
from harness.core.op import Call, Op
from harness.core.protocols import Context, Exhausted, Generator, Pending, Ready, Step, Worker

Compiled: TypeAlias = tuple[Any, ...]
"""A generator in words: what it is, then what `pysimulator.Interpreter` wants to know of it."""

NEMESIS_NUMBER = -1
"""The number of the worker that runs faults."""

PENDING = Pending()
"""Nothing until some call has ended."""
EXHAUSTED = Exhausted()


def assign(call: Call, context: Context) -> Step:
    """The call with the first free worker that may take it, else Pending.

    Raises UsageError when no worker, free or busy, could ever take it.
    """
    for worker in context.free:
        if _suits(call, worker):
            return Ready(call, worker)
    if any(_suits(call, worker) for worker in context.busy):
        return PENDING
    who = "the nemesis" if call.nemesis else f"a worker on {call.node or 'any node'}"
    raise UsageError(
        f"call {call.f}: wants {who}, and no such worker takes part; start at least one worker "
        "for each node (concurrency), and give a generator the workers that it needs"
    )


def _suits(call: Call, worker: Worker) -> bool:
    if worker.number < 0:
        return call.nemesis
    return not call.nemesis and (call.node is None or call.node == worker.node)


def narrowed(context: Context, keep: Callable[[Worker], bool]) -> Context:
    """The context as a part sees it that has only some of the workers."""
    return Context(
        context.time_ns,
        tuple([worker for worker in context.free if keep(worker)]),
        tuple([worker for worker in context.busy if keep(worker)]),
    )


def soonest(waits: Iterable[Pending]) -> Pending:
    """One wait for all of them: until the earliest time that is named."""
    times, firm = [], True
    for wait in waits:
        firm = firm and wait.firm
        if wait.wake_ns is not None:
            times.append(wait.wake_ns)
    return Pending(min(times), firm) if times else PENDING


def nanoseconds(seconds: float) -> int:
    """A duration as generators count it."""
    return round(seconds * 1e9)


def ask(
    parts: Sequence[Generator],
    start: int,
    context: Context,
    own: Callable[[int], Context] | None = None,
) -> tuple[Step, int, tuple[Generator | None, ...]]:
    """Asks parts in a circle from `start` until one has a call. `own(at)` is the context of a
    part; None: all have `context`.

    Returns the step for all of them; which part has the call (-1: none); and the parts after
    that, None where one is exhausted. No call: Pending until the earliest time that a part
    waits for; Exhausted when every part asked is.
    """
    after: list[Generator | None] = list(parts)
    waits: list[Pending] = []
    for at in (*range(start, len(parts)), *range(start)):
        step, after[at] = parts[at].op(context if own is None else own(at))
        if isinstance(step, Ready):
            return step, at, tuple(after)
        if isinstance(step, Pending):
            waits.append(step)
        else:
            after[at] = None
    return (soonest(waits) if waits else EXHAUSTED), -1, tuple(after)


def listens(generator: Generator) -> bool:
    """Whether events matter to it. One that says `listens = False` gives itself back from every
    `update`, and so do all that come after it: whoever wraps it need not tell it anything. A
    third of the time of an op would go into telling."""
    return getattr(generator, "listens", True)


def listen(generators: Iterable[Generator]) -> bool:
    """Whether events matter to any of them."""
    return any(listens(generator) for generator in generators)


def compiled(generator: Generator) -> Compiled:
    """What simulated runs ask in its place: the same in Rust as far as its classes are known there
    (harness/sim/simulator/src/interpreter), itself otherwise."""
    made: Compiled | None = getattr(generator, "compiled", lambda: None)()
    return ("python", generator, listens(generator)) if made is None else made


def in_place(
    parts: Sequence[Generator], after: Sequence[Generator | None]
) -> tuple[Generator, ...]:
    """What the parts became, by `ask`; an exhausted one stays, so that places keep their sense."""
    return tuple([old if new is None else new for old, new in zip(parts, after, strict=True)])


def updated(parts: tuple[Generator, ...], context: Context, event: Op) -> tuple[Generator, ...]:
    """Every part after an event; the very same tuple when none changed."""
    after = parts
    for at, part in enumerate(parts):
        if listens(part):
            new = part.update(context, event)
            if new is not part:
                after = (*after[:at], new, *after[at + 1 :])
    return after

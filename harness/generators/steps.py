"""Building blocks of generators in Python: narrowing a context, asking parts, waiting."""

from collections.abc import Callable, Iterable, Sequence

from harness.core.op import Op
from harness.core.protocols import Context, Exhausted, Generator, Pending, Ready, Step, Worker

NEMESIS_NUMBER = -1
"""The number of the worker that runs faults."""

PENDING = Pending()
"""Step that yields nothing until some call has ended."""
EXHAUSTED = Exhausted()


def narrowed(context: Context, keep: Callable[[Worker], bool]) -> Context:
    """Return the context as a part sees it that has only some of the workers."""
    return Context(
        context.time_ns,
        tuple([worker for worker in context.free if keep(worker)]),
        tuple([worker for worker in context.busy if keep(worker)]),
    )


def soonest(waits: Iterable[Pending]) -> Pending:
    """Return one wait for all of them, until the earliest time that is named."""
    times, firm = [], True
    for wait in waits:
        firm = firm and wait.firm
        if wait.wake_ns is not None:
            times.append(wait.wake_ns)
    return Pending(min(times), firm) if times else PENDING


def nanoseconds(seconds: float) -> int:
    """Return a duration as generators count it."""
    return round(seconds * 1e9)


def ask(
    parts: Sequence[Generator],
    start: int,
    context: Context,
    own: Callable[[int], Context] | None = None,
) -> tuple[Step, int, tuple[Generator | None, ...]]:
    """Ask parts in a circle from `start` until one has a call. `own(at)` is the context of a
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
    """True if events matter to it. A generator with `listens = False` returns itself from every
    `update`, as do all its successors, so a wrapper need not pass events on. Passing them would
    take a third of the time of an op."""
    return getattr(generator, "listens", True)


def listen(generators: Iterable[Generator]) -> bool:
    """Return whether events matter to any of them."""
    return any(listens(generator) for generator in generators)


def in_place(
    parts: Sequence[Generator], after: Sequence[Generator | None]
) -> tuple[Generator, ...]:
    """Return the parts after `ask`; an exhausted one stays, so that places keep their meaning."""
    return tuple([old if new is None else new for old, new in zip(parts, after, strict=True)])


def updated(parts: tuple[Generator, ...], context: Context, event: Op) -> tuple[Generator, ...]:
    """Return every part after an event; the same tuple if none changed."""
    after = parts
    for at, part in enumerate(parts):
        if listens(part):
            new = part.update(context, event)
            if new is not part:
                after = (*after[:at], new, *after[at + 1 :])
    return after

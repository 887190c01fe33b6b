"""Generators that make calls themselves: all others wrap these."""

from collections.abc import Callable, Iterable

import msgspec

from harness.core.op import Call, Op
from harness.core.protocols import Context, Generator, Ready, Step
from harness.generators.steps import EXHAUSTED, assign


class Numbered(msgspec.Struct, frozen=True):
    """Calls without end, each a function of its number. See `numbered`."""

    make: Callable[[int], Call]
    number: int = 0

    @property
    def listens(self) -> bool:
        """It looks at no event."""
        return False

    def op(self, context: Context) -> tuple[Step, Generator]:
        """The next call, as soon as a worker for it is free."""
        step = assign(self.make(self.number), context)
        return step, (Numbered(self.make, self.number + 1) if isinstance(step, Ready) else self)

    def update(self, context: Context, event: Op) -> Generator:  # noqa: ARG002
        """Itself."""
        return self


class Listed(msgspec.Struct, frozen=True):
    """Some calls, then nothing. See `sequence`."""

    calls: tuple[Call, ...]
    at: int = 0

    @property
    def listens(self) -> bool:
        """It looks at no event."""
        return False

    def op(self, context: Context) -> tuple[Step, Generator]:
        """The next call, as soon as a worker for it is free."""
        if self.at == len(self.calls):
            return EXHAUSTED, self
        step = assign(self.calls[self.at], context)
        return step, (Listed(self.calls, self.at + 1) if isinstance(step, Ready) else self)

    def update(self, context: Context, event: Op) -> Generator:  # noqa: ARG002
        """Itself."""
        return self


def numbered(make: Callable[[int], Call]) -> Generator:
    """`make(0)`, `make(1)`, … without end. `make` must be pure: equal numbers, equal calls."""
    return Numbered(make)


def repeat(call: Call) -> Generator:
    """The same call without end."""
    return Numbered(lambda _: call)


def sequence(calls: Iterable[Call]) -> Generator:
    """Each call once, begun in this order; a call does not wait for the one before to end."""
    return Listed(tuple(calls))


def once(call: Call) -> Generator:
    """One call."""
    return Listed((call,))

"""Workers that rest after a refusal."""

from typing import NamedTuple

from harness.core.op import Kind, Op
from harness.core.protocols import Context, Generator, Pending, Step
from harness.generators.steps import nanoseconds


class Backoff(NamedTuple):
    """Workers rest after a refusal. See `backoff`."""

    generator: Generator
    f: str
    pause_ns: int
    resting: tuple[tuple[int, int], ...] = ()
    """Process and the time until which it rests."""

    def op(self, context: Context) -> tuple[Step, Generator]:
        """What the generator says to the workers that do not rest."""
        resting = tuple([entry for entry in self.resting if entry[1] > context.time_ns])
        if not resting:
            step, generator = self.generator.op(context)
            return step, self._replace(generator=generator, resting=())
        processes = {process for process, _ in resting}
        awake = tuple([w for w in context.free if w.process not in processes])
        # Those at rest count as busy: they will be free, so a call for them is no mistake.
        others = tuple([w for w in context.free if w.process in processes])
        step, generator = self.generator.op(
            Context(context.time_ns, awake, (*context.busy, *others))
        )
        if isinstance(step, Pending):
            wake = min(until for _, until in resting)
            step = Pending(wake if step.wake_ns is None else min(wake, step.wake_ns))
        return step, self._replace(generator=generator, resting=resting)

    def update(self, context: Context, event: Op) -> Generator:
        """Sends the worker of a refused call to rest."""
        generator = self.generator.update(context, event)
        if event.kind is Kind.FAIL and event.f == self.f and isinstance(event.process, int):
            until = event.time_ns + self.pause_ns
            resting = (*self.resting, (event.process, until))
            return self._replace(generator=generator, resting=resting)
        if generator is self.generator:
            return self
        return self._replace(generator=generator)


def backoff(generator: Generator, f: str, pause_s: float) -> Generator:
    """The generator, whose workers rest for `pause_s` after a call of `f` was refused: else
    refusals, which cost nothing, would crowd out what is worth trying."""
    return Backoff(generator, f, nanoseconds(pause_s))

"""Choosing among generators by a seed: a mixture, and keys that live side by side."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate

import msgspec
from msgspec.structs import replace

from harness.core.errors import UsageError
from harness.core.op import Call, Op
from harness.core.protocols import Context, Exhausted, Generator, Ready, Step
from harness.core.seed import Seed
from harness.generators.steps import (
    EXHAUSTED,
    ask,
    in_place,
    listen,
    listens,
    updated,
)


class Mix(msgspec.Struct, frozen=True):
    """A mixture. See `mix`."""

    seed: Seed
    parts: tuple[Generator, ...]
    weights: tuple[float, ...]
    bounds: tuple[float, ...]
    """Cumulative weights."""
    listens: bool
    number: int = 0
    """Number of calls drawn."""

    def op(self, context: Context) -> tuple[Step, Generator]:
        """Return a call of the part drawn, or of the next part that has one."""
        if not self.parts:
            return EXHAUSTED, self
        drawn = bisect_right(self.bounds, self.seed.unit(self.number) * self.bounds[-1])
        # Adding floats may round the last bound down onto the draw.
        chosen = min(drawn, len(self.parts) - 1)
        step, part = self.parts[chosen].op(context)
        if isinstance(step, Ready):
            parts = (*self.parts[:chosen], part, *self.parts[chosen + 1 :])
            return step, replace(self, parts=parts, number=self.number + 1)
        if isinstance(step, Exhausted):
            return self._without(chosen).op(context)
        return self._passed_over(chosen, context)

    def _passed_over(self, chosen: int, context: Context) -> tuple[Step, Generator]:
        """Ask the other parts in turn, because the part drawn has no call now."""
        step, at, after = ask(self.parts, chosen, context)
        number = self.number + (at >= 0)
        # An exhausted part stays until it is drawn, so that it leaves in only one way.
        return step, replace(self, parts=in_place(self.parts, after), number=number)

    def _without(self, at: int) -> "Mix":
        parts = (*self.parts[:at], *self.parts[at + 1 :])
        weights = (*self.weights[:at], *self.weights[at + 1 :])
        return replace(self, parts=parts, weights=weights, bounds=tuple(accumulate(weights)))

    def update(self, context: Context, event: Op) -> Generator:
        """Pass the event to every part."""
        parts = updated(self.parts, context, event)
        return self if parts is self.parts else replace(self, parts=parts)


def mix(seed: Seed, parts: Sequence[tuple[float, Generator]]) -> Generator:
    """Return a mixture, whose calls are drawn by weight: `mix(seed, [(3, writes), (1, reads)])`.

    The n-th draw depends on the seed and n alone. A part that has nothing now (its rate, its
    workers) is passed over; one that is exhausted leaves, and the others keep their proportion.
    Raises UsageError for no parts and for weights that are not above 0.
    """
    weights = tuple(weight for weight, _ in parts)
    generators = tuple(part for _, part in parts)
    if not parts or min(weights) <= 0:
        raise UsageError(f"mix: weights {list(weights)} given, at least one expected, all above 0")
    return Mix(seed, generators, weights, tuple(accumulate(weights)), listen(generators))


class LiveKey(msgspec.Struct, frozen=True):
    """A key in use."""

    key: int
    calls: int
    """Number of calls made on it."""
    generator: Generator


class PerKey(msgspec.Struct, frozen=True):
    """Several keys at a time, each with a generator of its own. See `per_key`."""

    seed: Seed
    make: Callable[[int], Generator]
    ops_per_key: int
    live: tuple[LiveKey, ...]
    next_key: int
    listens: bool
    number: int = 0
    """Number of calls made."""

    def op(self, context: Context) -> tuple[Step, Generator]:
        """Return a call on the live key drawn, or on the next key that has one."""
        if not self.live:
            return EXHAUSTED, self
        chosen = self.seed.below(self.number, len(self.live))
        entry = self.live[chosen]
        step, generator = entry.generator.op(context)
        if isinstance(step, Ready):
            return _keyed(step, entry.key), self._used(chosen, generator)
        if isinstance(step, Exhausted):
            return self._without(chosen).op(context)
        step, at, after = ask([e.generator for e in self.live], chosen, context)
        if isinstance(step, Ready) and (found := after[at]) is not None:
            return _keyed(step, self.live[at].key), self._after(after)._used(at, found)
        return step, self._after(after)

    def _used(self, at: int, generator: Generator) -> "PerKey":
        entry = self.live[at]
        if entry.calls + 1 >= self.ops_per_key:
            return replace(self._renewed(at), number=self.number + 1)
        entry = LiveKey(entry.key, entry.calls + 1, generator)
        live = (*self.live[:at], entry, *self.live[at + 1 :])
        return replace(self, live=live, number=self.number + 1)

    def _renewed(self, at: int) -> "PerKey":
        """Return this with a fresh key in the place of one that is done."""
        key = self.next_key
        generator = self.make(key)
        if listens(generator) and not self.listens:
            raise UsageError(
                f"per_key: the generator of key {key} looks at events and that of key 0 does not; "
                "expected the same kind of generator for every key"
            )
        live = (*self.live[:at], LiveKey(key, 0, generator), *self.live[at + 1 :])
        return replace(self, live=live, next_key=key + 1)

    def _without(self, at: int) -> "PerKey":
        """Return this with a fresh key in the place of one whose generator is exhausted."""
        if self.live[at].calls == 0:
            raise UsageError(f"per_key: the generator of key {self.live[at].key} has no call")
        return self._renewed(at)

    def _after(self, generators: Sequence[Generator | None]) -> "PerKey":
        """Return this with the new generators of the keys; an exhausted one stays until drawn."""
        live = tuple(
            [
                e if g is None else LiveKey(e.key, e.calls, g)
                for e, g in zip(self.live, generators, strict=True)
            ]
        )
        return replace(self, live=live)

    def update(self, context: Context, event: Op) -> Generator:
        """Pass the event to the generator of its key alone."""
        for at, entry in enumerate(self.live):
            if entry.key == event.key:
                after = entry.generator.update(context, event)
                if after is entry.generator:
                    return self
                return self._after([after if i == at else None for i in range(len(self.live))])
        return self


def _keyed(step: Ready, key: int) -> Ready:
    call = step.call
    if call.key == key:
        return step
    return Ready(
        Call(f=call.f, value=call.value, key=key, node=call.node, nemesis=call.nemesis),
        step.worker,
    )


def per_key(
    seed: Seed, make: Callable[[int], Generator], *, keys: int, ops_per_key: int
) -> Generator:
    """Return calls on `keys` keys at a time, drawn evenly; after `ops_per_key` calls a key is left
    for good and a fresh one takes its place. Keys count from 0 and are never used again.

    `make(key)` is the generator of one key, and must be pure; its calls get the key, if they do
    not have it already (which is quicker). Any worker
    may call on any live key, so that every node serves every key. Raises UsageError for numbers
    below 1.
    """
    for what, number in (("keys", keys), ("ops_per_key", ops_per_key)):
        if number < 1:
            raise UsageError(f"{what}: {number} given, at least 1 expected")
    live = tuple(LiveKey(key, 0, make(key)) for key in range(keys))
    heard = listen([entry.generator for entry in live])
    return PerKey(seed, make, ops_per_key, live, keys, heard)

"""Choosing by a seed: a mixture of generators, and keys that live side by side. The n-th choice
depends on the seed and n alone."""

from collections.abc import Callable, Sequence

from harness.core.errors import UsageError
from harness.core.protocols import Generator
from harness.core.seed import Seed
from harness.native.generators import Combinator


def mix(seed: Seed, parts: Sequence[tuple[float, Generator]]) -> Generator:
    """Return a mixture, whose calls are drawn by weight: `mix(seed, [(3, writes), (1, reads)])`.

    A part that has nothing now (its rate, its workers) is passed over; one that is exhausted
    leaves, and the others keep their proportion. Raises UsageError for no parts and for weights
    that are not above 0.
    """
    weights = [weight for weight, _ in parts]
    if not parts or min(weights) <= 0:
        raise UsageError(f"mix: weights {weights} given, at least one expected, all above 0")
    return Combinator.mix(seed.value, parts)


def per_key(
    seed: Seed, make: Callable[[int], Generator], *, keys: int, ops_per_key: int
) -> Generator:
    """Return calls on `keys` keys at a time, drawn evenly; after `ops_per_key` calls a key is left
    for good and a fresh one takes its place. Keys count from 0 and are never used again.

    `make(key)` is the generator of one key, and must be pure; its calls get the key. Any worker
    may call on any live key, so that every node serves every key. Raises UsageError for numbers
    below 1.
    """
    _check_keys(keys, ops_per_key)
    return Combinator.per_key(seed.value, make, keys, ops_per_key)


def key_rounds(generator: Generator, seed: Seed, *, keys: int, ops_per_key: int) -> Generator:
    """Return the calls of the generator with keys, drawn evenly among `keys` keys, all of which
    make way for fresh ones after `keys` x `ops_per_key` calls. Keys count from 0 and are never used
    again. In contrast to `per_key` one generator makes the calls of all keys. Raises UsageError for
    numbers below 1."""
    _check_keys(keys, ops_per_key)
    return Combinator.key_rounds(generator, seed.value, keys, ops_per_key)


def _check_keys(keys: int, ops_per_key: int) -> None:
    for what, number in (("keys", keys), ("ops_per_key", ops_per_key)):
        if number < 1:
            raise UsageError(f"{what}: {number} given, at least 1 expected")

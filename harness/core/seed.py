"""Seeds: one seed decides every choice of a run. The same seed and counter give the same number.

The mixing function is SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number
generators", OOPSLA 2014). A child seed is named, so that adding a draw in one place changes no
draw elsewhere.
"""

import secrets
from collections.abc import Sequence
from hashlib import blake2b
from typing import TypeVar

import msgspec

_MASK = (1 << 64) - 1
_GAMMA = 0x9E3779B97F4A7C15

T = TypeVar("T")


class Seed(msgspec.Struct, frozen=True, gc=False):
    """Seed of 64 bits, from which numbers, choices and child seeds are drawn."""

    value: int

    @staticmethod
    def fresh() -> "Seed":
        """Return a random seed of 32 bits, short enough to type."""
        return Seed(secrets.randbits(32))

    def after(self, steps: int) -> "Seed":
        """Return the seed `steps` later; after the greatest comes 0."""
        return Seed((self.value + steps) & _MASK)

    def child(self, *name: str | int) -> "Seed":
        """Return the seed of a named part."""
        text = "/".join(map(str, name)).encode()
        key = self.value.to_bytes(8, "big")
        return Seed(int.from_bytes(blake2b(text, key=key, digest_size=8).digest(), "big"))

    def draw(self, counter: int) -> int:
        """Return number `counter` of this seed, uniform in [0, 2**64)."""
        z = (self.value + (counter + 1) * _GAMMA) & _MASK
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        return z ^ (z >> 31)

    def below(self, counter: int, bound: int) -> int:
        """Return a number uniform in [0, bound); the bias is less than bound / 2**64."""
        assert bound > 0, "a draw needs something to draw from"
        return (self.draw(counter) * bound) >> 64

    def unit(self, counter: int) -> float:
        """Return a number uniform in [0, 1)."""
        return (self.draw(counter) >> 11) * 2.0**-53

    def choice(self, counter: int, items: Sequence[T]) -> T:
        """Return one of the items."""
        return items[self.below(counter, len(items))]

    def shuffled(self, counter: int, items: Sequence[T]) -> tuple[T, ...]:
        """Return a permutation of the items (Fisher-Yates)."""
        out, own = list(items), self.child("shuffle", counter)
        for i in range(len(out) - 1, 0, -1):
            j = own.below(i, i + 1)
            out[i], out[j] = out[j], out[i]
        return tuple(out)

    def __str__(self) -> str:
        return f"0x{self.value:x}"

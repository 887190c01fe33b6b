"""Other values of a run's options, drawn from a seed: how hunts and steered nights vary runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from harness.core.seed import Seed

POWERS: Final[Mapping[str, tuple[float, float]]] = {
    "interval": (-4, 1),
    "duration": (-4, 3),
    "rate": (-1, 1),
    "time-limit": (-1, 1),
}
"""Powers of 2 by which options are multiplied far from those given: the least and the greatest."""
NEAR: Final = 1.0
"""Greatest power of 2, and its negative the least, by which options change a little."""
SHORTEST_S: Final = 0.01
RARE: Final = 1 / 16
"""Share of runs below which an element that they cover is rare."""
FRESH: Final = 0.5
"""Share of runs that are drawn afresh, and follow no earlier one."""


@dataclass(slots=True)
class Draws:
    """Numbers drawn from a seed one after the other."""

    seed: Seed
    made: int = 0

    def below(self, bound: int) -> int:
        """Return a number uniform in [0, bound)."""
        self.made += 1
        return self.seed.below(self.made, bound)

    def unit(self) -> float:
        """Return a number uniform in [0, 1)."""
        self.made += 1
        return self.seed.unit(self.made)

    def between(self, low: float, high: float) -> float:
        """Return a number uniform in [low, high)."""
        return low + (high - low) * self.unit()

    def weighted(self, weights: Sequence[float]) -> int:
        """Return a place in proportion to its weight."""
        left = self.unit() * sum(weights)
        for at, weight in enumerate(weights):
            left -= weight
            if left < 0:
                return at
        return len(weights) - 1

    def seed_text(self) -> str:
        """Return a seed of 32 bits."""
        return f"0x{self.below(1 << 32):x}"


def varied(
    draws: Draws, base: Mapping[str, object], given: Mapping[str, str], *, far: bool
) -> dict[str, str]:
    """Return other values of the options in POWERS, near those of `given` or else of `base`, or
    `far` from them; far from them also some of the nemeses in place of all."""
    changed: dict[str, str] = {}
    for name, (low, high) in POWERS.items():
        value = given.get(name) or base.get(name)
        if value is None:
            continue
        power = draws.between(low, high) if far else draws.between(-NEAR, NEAR)
        changed[name] = f"{max(SHORTEST_S, float(str(value)) * 2**power):.4g}"
    words = str(base.get("nemesis", "none")).split(",")
    if far and len(words) > 1:
        some = [word for word in words if draws.below(2)]
        changed["nemesis"] = ",".join(some or words)
    return changed

"""The draws of a seed, one after the other, made by the thousand: each packet takes one."""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Final

import numpy as np

from harness.core.seed import Seed

BATCH: Final = 4096


def draws(seed: Seed) -> Callable[[], int]:
    """What `seed.draw` gives for 0, 1, 2, …, one a call."""
    return chain.from_iterable(_batches(seed)).__next__


def _batches(seed: Seed) -> Iterator[list[int]]:
    """`harness.core.seed`'s SplitMix64, on a column of states; 64 bits overflow as they should."""
    steps = np.arange(1, BATCH + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    state = np.uint64(seed.value)
    while True:
        z = steps + state
        state = z[-1]
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        yield (z ^ (z >> np.uint64(31))).tolist()

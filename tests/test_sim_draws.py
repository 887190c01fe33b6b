"""Draws by the thousand are the draws of the seed."""

import pytest

from harness.core.seed import Seed
from harness.sim.draws import BATCH, draws


@pytest.mark.parametrize("value", [0, 1, 0x5EED, (1 << 64) - 1])
def test_draws_are_those_of_the_seed_over_batches(value: int) -> None:
    seed = Seed(value)
    drawn = draws(seed)
    count = 2 * BATCH + 1
    assert [drawn() for _ in range(count)] == [seed.draw(i) for i in range(count)]

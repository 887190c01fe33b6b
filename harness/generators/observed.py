"""Calls, and beside them one worker that does nothing but look."""

from harness.core.op import Call
from harness.core.protocols import Generator
from harness.core.seed import Seed
from harness.generators.calls import repeat
from harness.generators.timing import rate
from harness.generators.workers import reserve


def observed(calls: Generator, f: str, per_s: float, seed: Seed) -> Generator:
    """Worker 0 calls `f` so often; all others make the calls. A run of one worker only looks."""
    looks = rate(repeat(Call(f=f)), per_s, seed.child("looks"), gaps="uniform")
    return reserve([(1, looks)], calls)

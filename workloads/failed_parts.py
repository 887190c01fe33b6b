"""Quorum inserts whose part cannot be fetched, on a replica that then dies.

Once its session has expired, another replica that has the insert in its queue finds the part
nowhere and marks it failed: it was not acknowledged, is in no later sequentially consistent read,
and is gone when its replica comes back. What brings it about: no fetches, and a kill longer than a
session (`--nemesis partition-one,kill-clickhouse-one --links interserver --duration 9`)."""

from dataclasses import dataclass
from typing import ClassVar

from checkers.convergence import Convergence
from checkers.durability import Durability
from checkers.failed_parts import FailedParts
from checkers.ladder import Level
from checkers.set_full import SetFull
from checkers.stats import Stats
from harness.core.protocols import Workload
from harness.core.seed import Seed
from workloads.blocks import SEQUENTIAL_READS, BlockOptions, Blocks


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedPartsOptions(BlockOptions):
    """What may be chosen of it."""

    serial_only: ClassVar[str] = SEQUENTIAL_READS

    quorum_timeout_ms: int = 1000
    """Short, so that a replica whose insert hangs may soon be struck."""


def failed_parts(
    options: FailedPartsOptions, seed: Seed, promise: Level, faults_expected: bool
) -> Workload:
    """Failed parts stay out, and what was acknowledged is there."""
    return Blocks(
        name="failed-parts",
        options=options,
        seed=seed,
        promise=promise,
        shares={"insert": 2, "read": 1, "where": 3},
        looks_per_s=10.0,
        judges=(
            Stats(faults_expected=faults_expected),
            FailedParts(),
            Durability(options.quorum),
            SetFull(linearizable=False),
            Convergence(),
        ),
    )

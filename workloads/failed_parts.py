"""Quorum inserts whose part cannot be fetched, on a replica that then dies.

After its session has expired, another replica that has the insert in its queue finds the part on no
replica and marks it failed: it was not acknowledged, no later sequentially consistent read has it,
and it is gone when its replica comes back. It takes stopped fetches and a kill that outlasts a
session (`--nemesis partition-one,kill-clickhouse-one --links interserver --duration 9`).
"""

from dataclasses import dataclass
from typing import ClassVar

from checkers.ladder import Level
from checkers.quorum.durability import Durability
from checkers.quorum.failed_parts import FailedParts
from checkers.sets.convergence import Convergence
from checkers.sets.set_full import SetFull
from checkers.stats import Stats
from harness.core.protocols import Workload
from harness.core.seed import Seed
from workloads.blocks import SEQUENTIAL_READS, BlockOptions, blocks


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedPartsOptions(BlockOptions):
    """Options of `failed-parts`: quorum inserts with a short timeout."""

    serial_only: ClassVar[str] = SEQUENTIAL_READS

    quorum_timeout_ms: int = 1000
    """Short, so that a fault soon hits a replica whose insert hangs."""


def failed_parts(
    options: FailedPartsOptions, seed: Seed, promise: Level, faults_expected: bool
) -> Workload:
    """Return the workload `failed-parts`."""
    return blocks(
        "failed-parts",
        options,
        seed,
        promise,
        (
            Stats(faults_expected=faults_expected),
            FailedParts(),
            Durability(options.quorum),
            SetFull(linearizable=False, copies=options.quorum),
            Convergence(),
        ),
        shares={"insert": 2, "read": 1, "where": 3},
        looks_per_s=10.0,
    )

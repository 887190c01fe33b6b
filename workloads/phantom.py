"""Quorum inserts that are refused or of unknown outcome, and sequentially consistent reads.

No read shows a value that is in no committed part: none that was refused, and none that no replica
has at rest. A connection to ZooKeeper lost at the commit may break this (partition,
pause-zookeeper, kill).
"""

from dataclasses import dataclass
from typing import ClassVar

from checkers.ladder import Level
from checkers.sets.convergence import Convergence
from checkers.sets.set_full import SetFull
from checkers.sets.unknown_outcomes import UnknownOutcomes
from checkers.stats import Stats
from harness.core.protocols import Workload
from harness.core.seed import Seed
from workloads.blocks import SEQUENTIAL_READS, BlockOptions, blocks


@dataclass(frozen=True, slots=True, kw_only=True)
class PhantomOptions(BlockOptions):
    """Options of `phantom`: more reads than inserts."""

    serial_only: ClassVar[str] = SEQUENTIAL_READS

    ops_per_s: float = 80.0


def phantom(options: PhantomOptions, seed: Seed, promise: Level, faults_expected: bool) -> Workload:
    """Return the workload `phantom`."""
    return blocks(
        "phantom",
        options,
        seed,
        promise,
        (
            Stats(faults_expected=faults_expected),
            SetFull(linearizable=False, copies=options.quorum),
            UnknownOutcomes(),
            Convergence(),
        ),
        shares={"insert": 1, "read": 2},
        looks_per_s=2.0,
    )

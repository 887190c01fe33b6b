"""Quorum inserts that are refused or of unknown outcome, and sequentially consistent reads.

A value that is in no committed part is in no such read: none that was refused, and none that is
read once and at rest is on no replica. That could break: the connection to ZooKeeper lost at the
commit (partition, pause-zookeeper, kill)."""

from dataclasses import dataclass
from typing import ClassVar

from checkers.convergence import Convergence
from checkers.ladder import Level
from checkers.set_full import SetFull
from checkers.stats import Stats
from checkers.unknown_outcomes import UnknownOutcomes
from harness.core.protocols import Workload
from harness.core.seed import Seed
from workloads.blocks import SEQUENTIAL_READS, BlockOptions, Blocks


@dataclass(frozen=True, slots=True, kw_only=True)
class PhantomOptions(BlockOptions):
    """What may be chosen of it."""

    serial_only: ClassVar[str] = SEQUENTIAL_READS

    ops_per_s: float = 80.0
    """Two of three are reads."""


def phantom(options: PhantomOptions, seed: Seed, promise: Level, faults_expected: bool) -> Workload:
    """Phantoms, and what was acknowledged is there."""
    return Blocks(
        name="phantom",
        options=options,
        seed=seed,
        promise=promise,
        shares={"insert": 1, "read": 2},
        looks_per_s=2.0,
        judges=(
            Stats(faults_expected=faults_expected),
            SetFull(linearizable=False),
            UnknownOutcomes(),
            Convergence(),
        ),
    )

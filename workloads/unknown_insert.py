"""Quorum inserts with so short a timeout that many end with error 319.

"Unknown status of insert" means what it says: in the end such a value is on every replica or on
none, never on some, and never read and then gone. That could break: fetches that are stopped or
slow (stop-fetches), a connection lost at the commit (partition), a kill."""

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
class UnknownInsertOptions(BlockOptions):
    """What may be chosen of it."""

    serial_only: ClassVar[str] = SEQUENTIAL_READS

    quorum_timeout_ms: int = 15
    """Of one insert in four, about as long as a fetch takes; the others have twice, four and eight
    times as long, so that on slow machines too some are acknowledged."""


def unknown_insert(
    options: UnknownInsertOptions, seed: Seed, promise: Level, faults_expected: bool
) -> Workload:
    """What is unknown is everywhere or nowhere; what was acknowledged is there."""
    return Blocks(
        name="unknown-insert",
        options=options,
        seed=seed,
        promise=promise,
        shares={"insert": 2, "read": 2},
        looks_per_s=5.0,
        judges=(
            Stats(min_ok={"insert": 5, "read": 10}, faults_expected=faults_expected),
            UnknownOutcomes(),
            SetFull(linearizable=False),
            Convergence(),
        ),
        patience=(1, 2, 4, 8),
    )

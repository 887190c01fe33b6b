"""Quorum inserts with so short a timeout that many end with error 319, "Unknown status of insert".

At rest such a value is on every replica or on none, never on some, and it is never read and then
gone. Stopped or slow fetches (stop-fetches), a connection lost at the commit (partition), and kills
may break this.
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
class UnknownInsertOptions(BlockOptions):
    """Options of `unknown-insert`: quorum inserts with a very short timeout."""

    serial_only: ClassVar[str] = SEQUENTIAL_READS

    quorum_timeout_ms: int = 15
    """Timeout of one insert in four, about as long as a fetch takes. The others have twice, four
    times and eight times as long, so that some are acknowledged on slow machines too."""


def unknown_insert(
    options: UnknownInsertOptions, seed: Seed, promise: Level, faults_expected: bool
) -> Workload:
    """Return the workload `unknown-insert`."""
    return blocks(
        "unknown-insert",
        options,
        seed,
        promise,
        (
            Stats(min_ok={"insert": 5, "read": 10}, faults_expected=faults_expected),
            UnknownOutcomes(),
            SetFull(linearizable=False, copies=options.quorum),
            Convergence(),
        ),
        shares={"insert": 2, "read": 2},
        looks_per_s=5.0,
        patience=(1, 2, 4, 8),
    )

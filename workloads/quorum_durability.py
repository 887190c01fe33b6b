"""Quorum inserts beside a look at ZooKeeper's /quorum ten times a second.

The part of an acknowledged insert is on a quorum of replicas, one quorum insert is in flight at a
time, and the last part of a partition never goes back to a lower block. A replica that is killed
after the status was updated (kill), cut off (partition), or without fetches may break this.
"""

from checkers.ladder import Level
from checkers.quorum.durability import Durability
from checkers.sets.convergence import Convergence
from checkers.sets.set_full import SetFull
from checkers.stats import Stats
from harness.core.protocols import Workload
from harness.core.seed import Seed
from workloads.blocks import BlockOptions, blocks


def quorum_durability(
    options: BlockOptions, seed: Seed, promise: Level, faults_expected: bool
) -> Workload:
    """Return the workload `quorum-durability`."""
    return blocks(
        "quorum-durability",
        options,
        seed,
        promise,
        (
            Stats(faults_expected=faults_expected),
            Durability(options.quorum, serial=not options.parallel),
            SetFull(linearizable=False, copies=options.quorum),
            Convergence(),
        ),
        shares={"insert": 3, "read": 1, "where": 1},
        looks_per_s=10.0,
    )

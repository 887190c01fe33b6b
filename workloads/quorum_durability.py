"""Quorum inserts, and beside them a look at ZooKeeper's /quorum ten times a second.

An acknowledged insert's part is on its quorum of replicas, one quorum insert is under way at a
time, and the last part of a partition never goes back to a lower block. That could break: a
replica killed after the status was updated (kill), cut off (partition), or without fetches."""

from checkers.convergence import Convergence
from checkers.durability import Durability
from checkers.ladder import Level
from checkers.set_full import SetFull
from checkers.stats import Stats
from harness.core.protocols import Workload
from harness.core.seed import Seed
from workloads.blocks import BlockOptions, Blocks


def quorum_durability(
    options: BlockOptions, seed: Seed, promise: Level, faults_expected: bool
) -> Workload:
    """Quorums, and what was acknowledged is there."""
    return Blocks(
        name="quorum-durability",
        options=options,
        seed=seed,
        promise=promise,
        shares={"insert": 3, "read": 1, "where": 1},
        looks_per_s=10.0,
        judges=(
            Stats(faults_expected=faults_expected),
            Durability(options.quorum, serial=not options.parallel),
            SetFull(linearizable=False),
            Convergence(),
        ),
    )

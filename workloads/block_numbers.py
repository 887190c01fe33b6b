"""Concurrent inserts into one partition, and the numbers that ZooKeeper gives their blocks.

Numbers come from sequential nodes below /block_numbers: they are unique, and higher than those of
all inserts that were acknowledged before. A session that expires between the number and the commit
may break this (pause-clickhouse or partition with --duration 7).
"""

from dataclasses import dataclass
from typing import ClassVar

from checkers.ladder import Level
from checkers.quorum.block_numbers import BlockNumbers
from checkers.sets.set_full import SetFull
from checkers.stats import Stats
from harness.core.protocols import Workload
from harness.core.seed import Seed
from workloads.blocks import BlockOptions, blocks


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockNumbersOptions(BlockOptions):
    """Options of `block-numbers`: many concurrent inserts, most of them without a quorum."""

    quorum_least: ClassVar[int] = 1

    quorum: int = 1
    """Quorum of the inserts. One replica is the default, so that more inserts are concurrent."""
    ops_per_s: float = 120.0


def block_numbers(
    options: BlockNumbersOptions, seed: Seed, promise: Level, faults_expected: bool
) -> Workload:
    """Return the workload `block-numbers`."""
    return blocks(
        "block-numbers",
        options,
        seed,
        promise,
        (
            Stats(faults_expected=faults_expected),
            BlockNumbers(),
            SetFull(linearizable=False, copies=options.quorum),
        ),
        shares={"insert": 6, "read": 1, "where": 1},
        looks_per_s=2.0,
    )

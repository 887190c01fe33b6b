"""Concurrent inserts into one partition, and the number that ZooKeeper gave each block.

Numbers come from sequential nodes below /block_numbers: unique, and higher than those of every
insert that was acknowledged before. That could break: a session that expires between the number
and the commit (pause-clickhouse or partition with --duration 7)."""

from dataclasses import dataclass
from typing import ClassVar

from checkers.block_numbers import BlockNumbers
from checkers.ladder import Level
from checkers.set_full import SetFull
from checkers.stats import Stats
from harness.core.protocols import Workload
from harness.core.seed import Seed
from workloads.blocks import BlockOptions, Blocks


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockNumbersOptions(BlockOptions):
    """What may be chosen of it."""

    quorum_least: ClassVar[int] = 1

    quorum: int = 1
    """1: an insert is acknowledged by one replica, which lets more of them be concurrent."""
    ops_per_s: float = 120.0
    """Three of four are inserts."""


def block_numbers(
    options: BlockNumbersOptions, seed: Seed, promise: Level, faults_expected: bool
) -> Workload:
    """Numbers, and what was acknowledged is there."""
    return Blocks(
        name="block-numbers",
        options=options,
        seed=seed,
        promise=promise,
        shares={"insert": 6, "read": 1, "where": 1},
        looks_per_s=2.0,
        judges=(
            Stats(faults_expected=faults_expected),
            BlockNumbers(),
            SetFull(linearizable=False),
        ),
    )

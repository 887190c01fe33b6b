"""Repairs of looks: at the objects of a store, the columns of a table, the tasks of a queue and the
shards of a Distributed table at rest, and at what an OPTIMIZE has merged."""

from collections.abc import Iterator

from checkers.triage.columns import column_repairs
from checkers.triage.evidence import Evidence
from checkers.triage.merges import merge_repairs
from checkers.triage.repairs import Repair
from checkers.triage.shards import shard_repairs
from checkers.triage.store import store_repairs
from checkers.triage.tasks import task_repairs
from harness.core.history import History


def repairs_of(history: History, evidence: Evidence) -> Iterator[Repair]:
    """Yield what known defects of any version made wrong in looks."""
    for family in (store_repairs, column_repairs, task_repairs, shard_repairs, merge_repairs):
        yield from family(history, evidence)

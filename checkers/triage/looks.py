"""Repairs of looks: at the objects of a store, the columns of a table, the tasks of a queue and the
shards of a Distributed table at rest, at what an OPTIMIZE has merged, at inserts into several
partitions, at rows of dropped partitions, and at who leads."""

from collections.abc import Iterator

from checkers.triage.atomic_reads import atomic_repairs
from checkers.triage.claims import claim_repairs
from checkers.triage.columns import column_repairs
from checkers.triage.evidence import Evidence
from checkers.triage.merges import merge_repairs
from checkers.triage.repairs import Repair
from checkers.triage.returned import returned_repairs
from checkers.triage.shards import shard_repairs
from checkers.triage.store import store_repairs
from checkers.triage.tasks import task_repairs
from harness.core.history import History

FAMILIES = (
    *(store_repairs, column_repairs, task_repairs, shard_repairs, merge_repairs),
    *(atomic_repairs, returned_repairs, claim_repairs),
)


def repairs_of(history: History, evidence: Evidence) -> Iterator[Repair]:
    """Yield what known defects of any version made wrong in looks."""
    for family in FAMILIES:
        yield from family(history, evidence)

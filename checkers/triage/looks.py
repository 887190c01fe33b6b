"""Repairs of looks: at the objects of a store, the columns of a table, the tasks of a queue and the
shards of a Distributed table at rest, at what an OPTIMIZE has merged, at inserts into several
partitions, at rows of dropped partitions, at rows that statements changed, at mutations at rest,
and at who leads."""

from collections.abc import Iterator

from checkers.triage.atomic_reads import split_inserts
from checkers.triage.claims import two_leaders
from checkers.triage.columns import deaf_replica, undone_alter
from checkers.triage.copies import copies, restored_replica
from checkers.triage.endless_mutations import endless_mutation
from checkers.triage.evidence import Evidence
from checkers.triage.forgotten_partitions import forgotten_partition
from checkers.triage.merges import unwaited_clone
from checkers.triage.orphans import orphans
from checkers.triage.partitions import kept_rows
from checkers.triage.renames import stuck_renames
from checkers.triage.repairs import Repair
from checkers.triage.shards import lost_distributed_insert
from checkers.triage.statement_rows import (
    kept_statement_rows,
    phantom_statement_rows,
    statement_rows,
)
from checkers.triage.tasks import ddl_twice, undone_task
from harness.core.history import History

FAMILIES = (
    *(orphans, copies, restored_replica, undone_alter, deaf_replica, ddl_twice, undone_task),
    *(lost_distributed_insert, unwaited_clone, split_inserts, kept_rows, two_leaders),
    *(statement_rows, kept_statement_rows, phantom_statement_rows, stuck_renames),
    *(forgotten_partition, endless_mutation),
)


def repairs_of(history: History, evidence: Evidence) -> Iterator[Repair]:
    """Yield what known defects of any version made wrong in looks."""
    for family in FAMILIES:
        yield from family(history, evidence)

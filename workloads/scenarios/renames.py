"""Scripts that show what RENAME COLUMN does to rows that a replica inserts before it has executed
it."""

from collections.abc import Mapping
from dataclasses import replace

from checkers.statements.calls import READ_ROWS, Effect, StatementCall
from checkers.statements.reads import StatementReads
from checkers.stats import Stats
from harness.core.op import Call
from harness.generators.script import Do, Until
from workloads.scenarios.scenario import Finding, Scenario
from workloads.scenarios.statements import FINDING, NOBODY, call_of
from workloads.scenarios.steps import Ended
from workloads.statements import StatementsOptions, scripted_statements

OPTIONS = StatementsOptions(statements="column-rename")
WAITED: Mapping[str, int | str] = {"replication_alter_partitions_sync": 2}
"""Settings of an ALTER that waits for all replicas."""


def _on(f: str, node: str, settings: Mapping[str, int | str] = {}) -> Do:
    """Return the step in which a statement on the whole of t is made."""
    return Do(call_of(f, node, StatementCall(Effect.NONE, "t", settings=settings), key=None))


def _insert(row: int, node: str) -> Do:
    """Return the step in which a row with a value is inserted into t."""
    return Do(call_of("insert-row", node, StatementCall(Effect.INSERT, "t", row=row, update=row)))


RENAMED_AWAY = Scenario(
    name="renamed-away",
    text="RENAME COLUMN is acknowledged, and a replica that has yet to execute it inserts the "
    "first row of a partition: its value reads as the default, for good and on every replica",
    workload=scripted_statements("scenario-renamed-away", OPTIONS),
    steps=(
        _on("stop-queues", "ch2"),
        _on("rename-column", "ch1"),
        _insert(1, "ch2"),
        _on("start-queues", "ch2"),
        _on("rename-back", "ch1", WAITED),
    ),
    finding=Finding(FINDING, "undone"),
    needs=OPTIONS.needs,
)

STUCK_RENAME = Scenario(
    name="stuck-rename",
    text="the same in a partition that has a part: the next RENAME of the column hides the value, "
    "and never ends",
    # The cluster is not at rest while the RENAME is to do, so that a read is judged.
    workload=replace(
        scripted_statements("scenario-stuck-rename", OPTIONS),
        judges=(Stats(min_ok={}, min_ok_total=1), StatementReads()),
    ),
    steps=(
        _insert(1, "ch1"),
        _on("stop-queues", "ch2"),
        _on("rename-column", "ch1"),
        _insert(2, "ch2"),
        _on("start-queues", "ch2"),
        _on("sync-replica", "ch1"),
        _on("sync-replica", "ch2"),
        _on("rename-back", "ch1", NOBODY),
        Until(Call(f=READ_ROWS, key=0, node="ch1"), Ended(), pause_s=0.1),
        Do(Call(f=READ_ROWS, key=0, node="ch1")),
    ),
    finding=Finding("statement-reads", "impossible"),
    needs=OPTIONS.needs,
    quiesce_s=10,
)

"""Scripts that show what statements between two tables do to rows that their replica lacks."""

from checkers.look import encode
from checkers.statements.calls import Effect, StatementCall
from harness.core.op import Call
from harness.generators.script import Do
from workloads.scenarios.scenario import Finding, Scenario
from workloads.scenarios.steps import fault
from workloads.statements import StatementsOptions, scripted_statements

BEHIND = fault("stop-fetches", "stop-fetches-one", nodes=["ch2"])
"""Fault in which ch2 fetches no part, as if it were slow."""
OPTIONS = StatementsOptions(statements="move,replace,attach-from")
FINDING = "statement-rows"


def _insert(row: int, node: str) -> Call:
    """Return the insert of a row into t."""
    value = encode(StatementCall(Effect.INSERT, "t", row=row))
    return Call(f="insert-row", key=0, node=node, value=value)


def _from_t_to_u(f: str, effect: Effect, node: str, *, synced: bool = False) -> Call:
    """Return a statement that takes the partition from t."""
    settings = {"replication_alter_partitions_sync": 0}
    call = StatementCall(effect, "t", to="u", settings=settings, synced=synced)
    return Call(f=f, key=0, node=node, value=encode(call))


def _scenario(name: str, text: str, statement: Call, kind: str) -> Scenario:
    return Scenario(
        name=name,
        text=text,
        workload=scripted_statements(f"scenario-{name}", OPTIONS),
        nemesis="stop-fetches",
        steps=(*BEHIND.begins, Do(_insert(1, "ch1")), Do(statement), BEHIND.ends),
        finding=Finding(FINDING, kind),
        needs=OPTIONS.needs,
    )


STALE_REPLACE = _scenario(
    "stale-replace",
    "REPLACE PARTITION on a replica that has not fetched an acknowledged row yet: the row is not "
    "in the target, which is emptied",
    _from_t_to_u("replace", Effect.REPLACE, "ch2"),
    "stale-copy",
)
MOVED_AWAY = _scenario(
    "moved-away",
    "MOVE PARTITION on a replica that has not fetched an acknowledged row yet: the row is in "
    "neither table",
    _from_t_to_u("move", Effect.MOVE, "ch2"),
    "lost",
)

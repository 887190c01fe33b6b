"""Scripts that show how the table of a materialized view comes to differ from its source."""

from checkers.statements.calls import Effect, StatementCall
from harness.core.dialect import Mechanism
from harness.core.op import Call
from harness.generators.script import Do
from workloads.scenarios.scenario import Finding, Scenario
from workloads.scenarios.statements import FINDING, call_of
from workloads.scenarios.steps import MESSAGES, held
from workloads.scenarios.waits import has_view
from workloads.statement_tables import LATE_VIEW, VIEW, TableShape
from workloads.statements import StatementsOptions, scripted_statements

OPTIONS = StatementsOptions(statements="insert-row")


def _insert(row: int, node: str) -> Call:
    """Return an insert of a row into t, of which the view's table receives a copy."""
    return call_of("insert-row", node, StatementCall(Effect.INSERT, "t", row=row, view=VIEW))


_AGAIN = StatementCall(Effect.AGAIN, "t", row=1, view=VIEW)
DOUBLED_VIEW = Scenario(
    name="doubled-view",
    text="an acknowledged insert is sent again, as after a lost answer: the table has its row "
    "once, and the table of its materialized view has it twice",
    workload=scripted_statements("scenario-doubled-view", OPTIONS, TableShape(view=True)),
    steps=(Do(_insert(1, "ch1")), Do(call_of("insert-again", "ch1", _AGAIN))),
    finding=Finding(FINDING, "derived"),
)

_IN_VIEWS = {"deduplicate_blocks_in_dependent_materialized_views": 1}
RETRIED_ELSEWHERE = Scenario(
    name="retried-elsewhere",
    text="an acknowledged insert is sent again to another replica, and both ask for deduplication "
    "in views: the table has its row once, and on 24.8 the table of its materialized view has it "
    "twice, because the view has another UUID on each replica",
    workload=scripted_statements("scenario-retried-elsewhere", OPTIONS, TableShape(view=True)),
    steps=tuple(
        Do(call_of(f, node, StatementCall(effect, "t", row=1, view=VIEW, settings=_IN_VIEWS)))
        for f, node, effect in (
            ("insert-row", "ch1", Effect.INSERT),
            ("insert-again", "ch2", Effect.AGAIN),
        )
    ),
    finding=Finding(FINDING, "derived"),
    needs=(Mechanism.DEDUPLICATION_TOKEN,),
)

_LISTED = ("/view/log",)
"""Word of the request by which a server looks for new statements in the database of the view."""
_CREATED = StatementCall(
    Effect.NONE, "t", to=LATE_VIEW, settings={"distributed_ddl_task_timeout": 0}
)
MISSED_VIEW = Scenario(
    name="missed-view",
    text="a materialized view is created in a Replicated database, and a row is inserted through a "
    "replica that has yet to execute the statement: the view's table never gets the row",
    workload=scripted_statements("scenario-missed-view", OPTIONS, TableShape(late_view=True)),
    nemesis=MESSAGES,
    steps=(
        held("hold", 1, "ch2", "read", _LISTED),
        Do(call_of("create-view", "ch1", _CREATED)),
        held("await", 2, "ch2", "read", _LISTED),
        Do(_insert(1, "ch2")),
        held("release", 3, "ch2", "read", _LISTED),
        has_view("ch2", 2.0),
        Do(_insert(2, "ch2")),
    ),
    finding=Finding(FINDING, "derived"),
    needs=(Mechanism.REPLICATED_DATABASES,),
)

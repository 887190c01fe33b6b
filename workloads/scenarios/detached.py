"""Scripts that show which of the parts that were put aside ATTACH PARTITION leaves there, and what
FORGET PARTITION loses."""

from collections.abc import Mapping
from dataclasses import replace

from checkers.statements.calls import Effect, StatementCall
from checkers.statements.endings import MutationEnds
from checkers.stats import Stats
from harness.core.dialect import Mechanism
from harness.core.op import Kind
from harness.generators.script import Do
from workloads.scenarios.scenario import Finding, Scenario
from workloads.scenarios.statements import FINDING, call_of, insert_row
from workloads.scenarios.steps import REPLICAS
from workloads.scenarios.updates import PENDING, WAITED
from workloads.scenarios.waits import parts_gone
from workloads.statements import StatementsOptions, scripted_statements

OPTIONS = StatementsOptions(statements="optimize,detach,attach,fetch")


def _on(f: str, effect: Effect, table: str) -> Do:
    """Return the step in which ch1 makes a statement on a partition and waits for all replicas."""
    return Do(call_of(f, "ch1", StatementCall(effect, table, settings=WAITED)))


_SECOND = StatementCall(Effect.DETACH, "t", one_in=4, rest=2, settings=WAITED)
STRANDED_PART = Scenario(
    name="stranded-part",
    text="a part is detached, the parts before and after it are merged, and the partition is "
    "detached and attached: the row of the first part is left aside, and no ATTACH brings it back",
    workload=scripted_statements("scenario-stranded-part", OPTIONS),
    steps=(
        *(Do(insert_row(row, "ch1")) for row in (1, 2, 3)),
        Do(call_of("detach-second", "ch1", _SECOND)),
        _on("optimize", Effect.NONE, "t"),
        _on("detach", Effect.DETACH, "t"),
        _on("attach", Effect.ATTACH, "t"),
    ),
    finding=Finding(FINDING, "stale-copy"),
    needs=(*OPTIONS.needs, Mechanism.NAMED_PARTS),
)
FETCHED_OVER = Scenario(
    name="fetched-over",
    text="a partition of another table is fetched, and that of the table is detached: ATTACH "
    "attaches the fetched part, and leaves the table's own row aside, which has the same number",
    workload=scripted_statements("scenario-fetched-over", OPTIONS),
    steps=(
        Do(call_of("insert-row", "ch1", StatementCall(Effect.INSERT, "u", row=1))),
        Do(insert_row(2, "ch1")),
        Do(call_of("fetch", "ch1", StatementCall(Effect.FETCH, "t", to="u"))),
        _on("detach", Effect.DETACH, "u"),
        _on("attach", Effect.ATTACH, "u"),
    ),
    finding=Finding(FINDING, "stale-copy"),
    needs=OPTIONS.needs,
)

FORGETTING = StatementsOptions(statements="drop,forget")
_ON_ITS_REPLICA = StatementCall(Effect.NONE, "t")
_FORGOTTEN = StatementCall(Effect.FORGET, "t")
_DROPPED = StatementCall(Effect.DELETE, "t", settings={"replication_alter_partitions_sync": 1})
FORGOTTEN_PARTITION = Scenario(
    name="forgotten-partition",
    text="a partition is dropped and forgotten while a replica has yet to execute the drop, whose "
    "range then spans the part of the next insert: the replica never gets its row",
    workload=scripted_statements("scenario-forgotten-partition", FORGETTING),
    steps=(
        Do(insert_row(1, "ch1")),
        Do(call_of("sync-replica", "ch2", _ON_ITS_REPLICA)),
        Do(call_of("sync-replica", "ch3", _ON_ITS_REPLICA)),
        Do(call_of("stop-queues", "ch2", _ON_ITS_REPLICA)),
        Do(call_of("drop", "ch1", _DROPPED)),
        Do(call_of("sync-replica", "ch3", _ON_ITS_REPLICA)),
        *parts_gone(20.0, 0, "ch1"),
        Do(call_of("forget", "ch1", _FORGOTTEN)),
        Do(insert_row(2, "ch3")),
        Do(call_of("start-queues", "ch2", _ON_ITS_REPLICA)),
    ),
    finding=Finding(FINDING, "diverged"),
    needs=FORGETTING.needs,
)

FORGETTING_MUTATED = StatementsOptions(statements="drop,forget,update")


def _update(number: int, settings: Mapping[str, int | str]) -> StatementCall:
    """Return an UPDATE of the row 1."""
    return StatementCall(Effect.APPEND, "t", update=number, one_in=4, rest=1, settings=settings)


def _merges(f: str) -> tuple[Do, ...]:
    """Return the steps in which merges and mutations of t are stopped or started on each
    replica."""
    return tuple(Do(call_of(f, node, _ON_ITS_REPLICA, key=None)) for node in REPLICAS)


ENDLESS_MUTATION = Scenario(
    name="endless-mutation",
    text="a partition is forgotten while a mutation has yet to change another one: it changes all "
    "that it has to, and never ends, and neither does a later one, so that an ALTER UPDATE which "
    "waits for it does not return",
    workload=replace(
        scripted_statements("scenario-endless-mutation", FORGETTING_MUTATED),
        judges=(Stats(min_ok={}, min_ok_total=1), MutationEnds()),
    ),
    steps=(
        Do(insert_row(1, "ch1")),
        Do(insert_row(2, "ch1", key=1)),
        Do(call_of("drop", "ch1", StatementCall(Effect.DELETE, "t", settings=WAITED), key=1)),
        *parts_gone(20.0, 1, "ch1"),
        *_merges("stop-merges"),
        Do(call_of("update", "ch1", _update(7, PENDING))),
        Do(call_of("forget", "ch1", _FORGOTTEN, key=1)),
        *_merges("start-merges"),
        Do(call_of("update", "ch1", _update(8, {"mutations_sync": 1})), ends=(Kind.INFO,)),
    ),
    finding=Finding("mutation-ends", "unfinished"),
    needs=FORGETTING_MUTATED.needs,
)

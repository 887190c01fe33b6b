"""Scripts that show what UPDATE, which writes patch parts, does to rows beside other statements,
and what becomes of mutations that are pending."""

from collections.abc import Mapping

from checkers.statements.calls import Effect, StatementCall
from harness.core.op import Call, Kind
from harness.generators.script import Do, Joined, ScriptStep
from workloads.scenarios.scenario import Finding, Scenario
from workloads.scenarios.statements import FINDING, call_of
from workloads.scenarios.steps import (
    KILL,
    MESSAGES,
    REPLICAS,
    held,
    killed,
)
from workloads.scenarios.waits import rows_on, sessions_gone
from workloads.statement_tables import TableShape
from workloads.statements import StatementsOptions, scripted_statements

OPTIONS = StatementsOptions(statements="move,update,optimize,patch,patch-sync")
WAITED: Mapping[str, int | str] = {"replication_alter_partitions_sync": 2}
"""Settings of an ALTER or OPTIMIZE that waits for all replicas."""
PENDING: Mapping[str, int | str] = {"mutations_sync": 0}
"""Settings of a mutation that is acknowledged before anything is changed."""


def _insert(row: int, table: str) -> Do:
    return Do(call_of("insert-row", "ch1", StatementCall(Effect.INSERT, table, row=row)))


def _merge(table: str) -> Do:
    call = StatementCall(Effect.NONE, table, settings=WAITED)
    return Do(call_of("optimize", "ch1", call))


def _patch(update: int, table: str, node: str, mode: str = "auto", rest: int = 1) -> Call:
    """Return an UPDATE of the rows whose number divided by 4 leaves `rest`."""
    settings: Mapping[str, int | str] = {
        "enable_lightweight_update": 1,
        "update_parallel_mode": mode,
    }
    call = StatementCall(
        Effect.APPEND, table, update=update, one_in=4, rest=rest, settings=settings
    )
    return call_of("patch" if mode == "auto" else "patch-sync", node, call)


STRAYED_UPDATE = Scenario(
    name="strayed-update",
    text="a partition is moved to another table, and an UPDATE of one of its rows also changes a "
    "row that was there before, because the two have the same block number and offset",
    workload=scripted_statements(
        "scenario-strayed-update",
        OPTIONS,
        TableShape(settings={"apply_patches_on_merge": 0}),
    ),
    steps=(
        *(
            step
            for table, rows in (("t", (1, 2)), ("u", (3, 4)))
            for step in (*(_insert(row, table) for row in rows), _merge(table))
        ),
        Do(call_of("move", "ch1", StatementCall(Effect.MOVE, "t", to="u", settings=WAITED))),
        Do(_patch(7, "u", "ch1")),
        _merge("u"),
    ),
    finding=Finding(FINDING, "strayed"),
    needs=OPTIONS.needs,
)

_COMMITTED = ("_t/1/log/log-",)
"""Words of the transaction that commits a patch part of t."""
LOST_UPDATE = Scenario(
    name="lost-update",
    text="two UPDATEs of a row overlap, one with update_parallel_mode = 'sync' and one with "
    "'auto': both are acknowledged, and the row has one of them",
    workload=scripted_statements("scenario-lost-update", OPTIONS),
    nemesis=MESSAGES,
    clients=2,
    steps=(
        _insert(1, "t"),
        held("hold", 1, "ch1", "multi", _COMMITTED),
        Do(_patch(7, "t", "ch1", "sync"), wait=False),
        held("await", 2, "ch1", "multi", _COMMITTED),
        Do(_patch(8, "t", "ch2"), by=1),
        held("release", 3, "ch1", "multi", _COMMITTED),
        Joined(),
    ),
    finding=Finding(FINDING, "undone"),
    needs=OPTIONS.needs,
)


def _on_each(f: str) -> tuple[ScriptStep, ...]:
    """Return the steps in which a statement on the whole of t is made on each replica."""
    call = StatementCall(Effect.NONE, "t")
    return tuple(Do(call_of(f, node, call, key=None)) for node in REPLICAS)


_ALTERED = StatementCall(Effect.APPEND, "t", update=7, one_in=4, rest=1, settings=PENDING)
OVERWRITTEN_UPDATE = Scenario(
    name="overwritten-update",
    text="an ALTER UPDATE is acknowledged with mutations_sync = 0, and an UPDATE before it is "
    "executed computes the new value without it: what the first has changed is lost",
    workload=scripted_statements("scenario-overwritten-update", OPTIONS),
    steps=(
        _insert(1, "t"),
        *_on_each("stop-merges"),
        Do(call_of("update", "ch1", _ALTERED)),
        Do(_patch(8, "t", "ch1")),
        *_on_each("start-merges"),
    ),
    finding=Finding(FINDING, "undone"),
    needs=OPTIONS.needs,
)

MUTATED = StatementsOptions(statements="update,detach,attach")
FORGOTTEN_MUTATION = Scenario(
    name="forgotten-mutation",
    text="an ALTER UPDATE is acknowledged with mutations_sync = 0, and before it is executed the "
    "partition is detached and attached again: its rows are never changed, and it counts as done",
    workload=scripted_statements("scenario-forgotten-mutation", MUTATED),
    steps=(
        _insert(1, "t"),
        *_on_each("stop-merges"),
        Do(call_of("update", "ch1", _ALTERED)),
        Do(call_of("detach", "ch1", StatementCall(Effect.DETACH, "t", settings=WAITED))),
        Do(call_of("attach", "ch1", StatementCall(Effect.ATTACH, "t", settings=WAITED))),
        *_on_each("start-merges"),
    ),
    finding=Finding(FINDING, "stale-copy"),
    needs=MUTATED.needs,
)

ON_ALL_HOSTS = StatementsOptions(statements="update-on-cluster")
_EXECUTED = ("/executed",)
"""Words of the request by which a replica writes down that it has executed a statement for its
shard."""
_OTHERS, _EXECUTOR = killed("ch2", "ch3"), killed("ch1", number=2)
_REPEATED = StatementCall(
    Effect.APPEND,
    "t",
    update=7,
    one_in=4,
    rest=1,
    settings={**PENDING, "distributed_ddl_task_timeout": 5},
)
MUTATED_TWICE = Scenario(
    name="mutated-twice",
    text="the replica that has made an ALTER UPDATE ON CLUSTER for its shard dies before it writes "
    "that down: another one makes it again, and the row has the update twice",
    workload=scripted_statements("scenario-mutated-twice", ON_ALL_HOSTS),
    nemesis=f"{MESSAGES},{KILL}",
    steps=(
        _insert(1, "t"),
        *rows_on(2.0, 1, "ch2", "ch3"),
        # Which replica makes it is a race, which ch1 wins alone.
        *_OTHERS.begins,
        held("hold", 1, "ch1", "write", _EXECUTED),
        Do(call_of("update-on-cluster", "ch1", _REPEATED), ends=(Kind.INFO,), wait=False),
        held("await", 2, "ch1", "write", _EXECUTED),
        _OTHERS.ends,
        *_EXECUTOR.begins,
        Joined(),
        held("cut", 3, "ch1", "write", _EXECUTED),
        sessions_gone("ch2"),
        _EXECUTOR.ends,
    ),
    finding=Finding(FINDING, "changed"),
    needs=ON_ALL_HOSTS.needs,
)

"""Scripts that show what statements between two tables do to rows that their replica lacks, or when
their replica is killed."""

from collections.abc import Sequence
from dataclasses import replace

from checkers.look import encode
from checkers.statements.calls import Effect, StatementCall
from harness.core.dialect import Mechanism
from harness.core.op import Call, Kind
from harness.generators.script import Do, Joined, ScriptStep
from workloads.scenarios.scenario import Finding, Scenario
from workloads.scenarios.steps import KILL, MESSAGES, REPLICAS, fault, held, killed
from workloads.scenarios.waits import rows_on, under_way
from workloads.statement_tables import TableShape, at_replica
from workloads.statements import StatementsOptions, scripted_statements

BEHIND = fault("stop-fetches", "stop-fetches-one", nodes=["ch2"])
"""Fault in which ch2 fetches no part, as if it were slow."""
OPTIONS = StatementsOptions(statements="move,replace,attach-from")
FINDING = "statement-rows"
NOBODY: dict[str, int] = {"replication_alter_partitions_sync": 0}
"""Settings of an ALTER that waits for nobody."""
QUORUM: dict[str, int] = {"insert_quorum": 2, "insert_quorum_parallel": 0}
SEQUENTIAL: dict[str, int] = {"select_sequential_consistency": 1}


def call_of(f: str, node: str, call: StatementCall, key: int | None = 0) -> Call:
    """Return the call of a statement on a partition."""
    return Call(f=f, key=key, node=node, value=encode(call))


def insert_row(row: int, node: str, key: int = 0) -> Call:
    """Return the insert of a row into t."""
    return call_of("insert-row", node, StatementCall(Effect.INSERT, "t", row=row), key)


def _behind(name: str, text: str, statement: Call, kind: str) -> Scenario:
    """Return a scenario in which a replica makes a statement before it has fetched a row."""
    return Scenario(
        name=name,
        text=text,
        workload=scripted_statements(f"scenario-{name}", OPTIONS),
        nemesis="stop-fetches",
        steps=(*BEHIND.begins, Do(insert_row(1, "ch1")), Do(statement), BEHIND.ends),
        finding=Finding(FINDING, kind),
        needs=OPTIONS.needs,
    )


STALE_REPLACE = _behind(
    "stale-replace",
    "REPLACE PARTITION on a replica that has not fetched an acknowledged row yet: the row is not "
    "in the target, which is emptied",
    call_of("replace", "ch2", StatementCall(Effect.REPLACE, "t", to="u", settings=NOBODY)),
    "stale-copy",
)
MOVED_AWAY = _behind(
    "moved-away",
    "MOVE PARTITION on a replica that has not fetched an acknowledged row yet: the row is in "
    "neither table",
    call_of("move", "ch2", StatementCall(Effect.MOVE, "t", to="u", settings=NOBODY)),
    "lost",
)


_REMOVAL = ("_t/1/log/log-",)
"""Words of the transaction in which a MOVE removes the partition from t: it writes t's log."""
CUT_SHORT = killed("ch1")
HALF_MOVED = Scenario(
    name="half-moved",
    text="a replica is killed after MOVE PARTITION has added the partition to one table and before "
    "it has removed it from the other: its rows are in both for good",
    workload=scripted_statements("scenario-half-moved", OPTIONS),
    nemesis=f"{MESSAGES},{KILL}",
    steps=(
        Do(insert_row(1, "ch1")),
        held("hold", 1, "ch1", "multi", _REMOVAL),
        Do(
            call_of("move", "ch1", StatementCall(Effect.MOVE, "t", to="u")),
            ends=(Kind.INFO,),
            wait=False,
        ),
        held("await", 2, "ch1", "multi", _REMOVAL),
        *CUT_SHORT.begins,
        Joined(),
        held("cut", 3, "ch1", "multi", _REMOVAL),
        CUT_SHORT.ends,
    ),
    finding=Finding(FINDING, "half-moved"),
    needs=OPTIONS.needs,
)

TRIES = range(8)
"""Partitions that a script tries, as the hosts of a shard compete for each statement."""


def _everywhere(name: str, text: str, f: str, effect: Effect) -> Scenario:
    """Return a scenario in which a statement ON CLUSTER takes what one replica has staged."""
    steps: list[ScriptStep] = []
    for key in TRIES:
        staged = StatementCall(Effect.INSERT, at_replica("ch1"), row=key)
        taken = StatementCall(effect, at_replica("ch1"), to="u")
        steps += [
            Do(call_of("insert-row", "ch1", staged, key)),
            Do(call_of(f, "ch1", taken, key)),
        ]
    return Scenario(
        name=name,
        text=text,
        workload=scripted_statements(f"scenario-{name}", OPTIONS, TableShape(staging=True)),
        steps=steps,
        finding=Finding(FINDING, "stale-copy"),
        needs=OPTIONS.needs,
    )


ATTACHED_NOWHERE = _everywhere(
    "attached-nowhere",
    "ATTACH PARTITION FROM a staging table ON CLUSTER: every host answers that it is done, and "
    "what one replica has staged is not attached, because another one attached nothing",
    "attach-everywhere",
    Effect.COPY,
)
REPLACED_BY_NOTHING = _everywhere(
    "replaced-by-nothing",
    "REPLACE PARTITION FROM a staging table ON CLUSTER: every host answers that it is done, and "
    "the target is empty, because a replica that has staged nothing replaced it",
    "replace-everywhere",
    Effect.REPLACE,
)


def _with_quorum(row: int) -> Call:
    """Return the insert of a row into t with a quorum."""
    return call_of("insert-row", "ch1", StatementCall(Effect.INSERT, "t", row=row, settings=QUORUM))


COPIED_NOTHING = Scenario(
    name="copied-nothing",
    text="a sequentially consistent INSERT SELECT copies nothing of the row that a quorum had "
    "acknowledged to its client, for good: it chose its parts before it looked for the last one",
    workload=scripted_statements("scenario-copied-nothing", OPTIONS),
    nemesis="stop-fetches",
    steps=(
        Do(_with_quorum(1)),
        *rows_on(1.0, 1, "ch2"),
        *BEHIND.begins,
        Do(_with_quorum(2)),
        # Its parts are chosen at once; the last quorum part is looked for three seconds later.
        Do(
            call_of(
                "insert-select-slowly",
                "ch2",
                StatementCall(Effect.SELECT, "t", to="u", settings={**QUORUM, **SEQUENTIAL}),
            ),
            ends=(Kind.OK, Kind.INFO),
            wait=False,
        ),
        under_way("ch2", "INSERT", 0.5),
        BEHIND.ends,
        Joined(),
    ),
    finding=Finding(FINDING, "lost"),
    needs=(*OPTIONS.needs, Mechanism.PARALLEL_QUORUM),
)

FORGOTTEN_INSERT = Scenario(
    name="forgotten-insert",
    text="a row is inserted, deleted by ALTER DELETE, and inserted again: the insert is "
    "acknowledged, and the row is not there, because its block is remembered",
    workload=scripted_statements("scenario-forgotten-insert", StatementsOptions()),
    steps=(
        Do(insert_row(1, "ch1")),
        Do(
            call_of(
                "delete", "ch1", StatementCall(Effect.DELETE, "t", settings={"mutations_sync": 2})
            )
        ),
        Do(call_of("insert-again", "ch1", StatementCall(Effect.AGAIN, "t", row=1))),
    ),
    finding=Finding(FINDING, "lost"),
    needs=StatementsOptions().needs,
)

_ATTACHED = ("_t/1/log/log-",)
"""Words of the transaction in which a restore registers a part of t."""
_MADE = ("_t/1/metadata",)
"""Words of the transaction in which a restore makes t in ZooKeeper."""
RESTORING = StatementsOptions(statements="attach")
RESTORED = range(4)
"""Partitions of a table that is restored."""


def _on(f: str, node: str) -> Do:
    """Return the step in which a statement on the whole of t is made."""
    return Do(call_of(f, node, StatementCall(Effect.NONE, "t"), key=None))


def _cut_restore(
    name: str,
    text: str,
    words: Sequence[str],
    repeated: tuple[Kind, ...],
    skip: int = 0,
    after: Sequence[ScriptStep] = (),
) -> Scenario:
    """Return a scenario in which ch1 is killed before a transaction of SYSTEM RESTORE REPLICA, and
    the statement is made again there, then on the others; what comes after that ends it."""
    return Scenario(
        name=name,
        text=text,
        workload=scripted_statements(f"scenario-{name}", RESTORING),
        nemesis=f"{MESSAGES},{KILL}",
        steps=(
            *(Do(insert_row(key, "ch1", key=key)) for key in RESTORED),
            *rows_on(2.0, 4, "ch2", "ch3"),
            *(_on("detach-table", node) for node in REPLICAS),
            *(_on("drop-replica", node) for node in REPLICAS),
            *(_on("attach-table", node) for node in REPLICAS),
            held("hold", 1, "ch1", "multi", words, skip=skip),
            replace(_on("restore-replica", "ch1"), ends=(Kind.INFO,), wait=False),
            held("await", 2, "ch1", "multi", words),
            *CUT_SHORT.begins,
            Joined(),
            held("cut", 3, "ch1", "multi", words),
            CUT_SHORT.ends,
            replace(_on("restore-replica", "ch1"), ends=repeated),
            _on("restore-replica", "ch2"),
            _on("restore-replica", "ch3"),
            *after,
        ),
        finding=Finding(FINDING, "lost"),
        needs=(*RESTORING.needs, Mechanism.DROP_REPLICA),
    )


HALF_RESTORED = _cut_restore(
    "half-restored",
    "a replica is killed while SYSTEM RESTORE REPLICA attaches its parts: the statement cannot be "
    "repeated, and when the others are restored, acknowledged rows are on no replica",
    _ATTACHED,
    # Refused: what ZooKeeper has of it is there.
    repeated=(Kind.FAIL, Kind.INFO),
    skip=2,
)
IGNORED_PART = _cut_restore(
    "ignored-part",
    "the same, and ATTACH PARTITION is made for each row that lacks, on the replica that was "
    "killed: each says that it is done, and the part that was being attached stays aside",
    _ATTACHED,
    repeated=(Kind.FAIL, Kind.INFO),
    skip=2,
    after=[
        Do(call_of("attach", "ch1", StatementCall(Effect.ATTACH, "t"), key)) for key in RESTORED[2:]
    ],
)
RESTORED_NOTHING = _cut_restore(
    "restored-nothing",
    "a replica is killed before SYSTEM RESTORE REPLICA has made its table in ZooKeeper: the "
    "statement is repeated, on the others as well, each says that it is done, and no replica has "
    "a row",
    _MADE,
    repeated=(Kind.OK,),
)

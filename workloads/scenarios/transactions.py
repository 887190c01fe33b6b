"""Scripts on transactions of MergeTree tables, after which a server cannot tell whether that of a
part was committed."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from checkers.consistency.isolation import TXN
from checkers.ladder import Level
from compose.settings import Fsync, Settings, Storage
from harness.core.dialect import Mechanism
from harness.core.op import Call, Json, Kind
from harness.core.seed import Seed
from harness.generators.script import Do, Rest
from workloads.list_append import APPEND, LEFT_OPEN, TransactionsOptions, transactions
from workloads.scenarios.scenario import Finding, Scenario
from workloads.scenarios.steps import fault, killed

LISTS: Final = transactions(
    TransactionsOptions(keys=2, timeout_s=15.0), Seed(1), Level.EVENTUAL, faults_expected=True
)
STARTS_OR_NOT: Final = (Kind.OK, Kind.INFO)
"""Ends of the fault that ends a server: 24.8 loads its tables before it answers, and may not
start."""
TAIL_MOVED_S: Final = 1.0
"""Time in which a server has moved the tail of the log after a commit."""


def _append(node: str, key: int, value: int, *, left_open: bool = False) -> Call:
    """Return the transaction that appends a value to a list of a server."""
    steps: list[Json] = [[APPEND, key, value]]
    return Call(f=TXN, value={TXN: steps, LEFT_OPEN: left_open}, node=node)


def _commits(node: str, values: Sequence[int], by: int = 0) -> tuple[Do | Rest, ...]:
    """Return the steps in which transactions append values to list 1, after which the tail of the
    log has moved on."""
    return (*(Do(_append(node, 1, value), by=by) for value in values), Rest(TAIL_MOVED_S))


CUT: Final = "power-cut-clickhouse-one"
_POWER = fault("power-cut", CUT, nodes=["ch1"], takes="unsynced", seed=0)

UNSYNCED_COMMIT = Scenario(
    name="unsynced-commit",
    text="transactions are acknowledged whose parts are durable, and power is cut: the server has "
    "not synced that they were committed, has removed them from ZooKeeper, and never loads the "
    "table again",
    workload=LISTS,
    needs=(Mechanism.TRANSACTIONS, Mechanism.DURABLE_PARTS),
    nemesis=CUT,
    replicas=1,
    keepers=1,
    settings=Settings(storage=Storage.FAULTY, fsync=Fsync.ALL),
    steps=(
        Do(_append("ch1", 0, 1)),
        *_commits("ch1", (2, 3, 4)),
        *_POWER.begins,
        replace(_POWER.ends, ends=STARTS_OR_NOT),
    ),
    finding=Finding("answers", "unanswered"),
    time_limit_s=60,
)

_KILL = killed("ch1")
SHARED_TRANSACTIONS = Scenario(
    name="shared-transactions",
    text="two servers have their transactions at one path in ZooKeeper, as by default: one is "
    "killed within a transaction, the other commits, and the first never loads its table again",
    workload=LISTS,
    needs=(Mechanism.TRANSACTIONS,),
    nemesis="kill-clickhouse-one",
    clients=2,
    replicas=2,
    keepers=1,
    settings=Settings(shared_transactions=True),
    steps=(
        Do(_append("ch1", 0, 1)),
        Do(_append("ch1", 0, 2, left_open=True), ends=(Kind.FAIL,)),
        *_KILL.begins,
        *_commits("ch2", (3, 4, 5), by=1),
        replace(_KILL.ends, ends=STARTS_OR_NOT),
    ),
    finding=Finding("answers", "unanswered"),
    time_limit_s=60,
)

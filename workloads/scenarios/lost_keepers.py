"""Scripts in which all of ZooKeeper loses what it has, or is put back to an older copy."""

from collections.abc import Sequence

from checkers.statements.calls import Effect, StatementCall
from harness.core.dialect import Mechanism
from harness.generators.script import Do, Rest, ScriptStep, Until
from workloads.scenarios.scenario import Finding, Held, Scenario
from workloads.scenarios.statements import BEHIND, FINDING, call_of, insert_row
from workloads.scenarios.steps import REPLICAS, Ended, fault
from workloads.scenarios.waits import rows_on
from workloads.statements import StatementsOptions, scripted_statements

OPTIONS = StatementsOptions(statements="restart-replica")
_KEEPERS = ("zk1", "zk2", "zk3")
_ON_TABLE = StatementCall(Effect.NONE, "t")
REWOUND = fault("keeper-rewound", "keeper-rewound-zookeeper-all", 5, nodes=list(_KEEPERS))
LOST = fault("keeper-lost", "keeper-lost-zookeeper-all", nodes=list(_KEEPERS))


def _on_each(f: str) -> tuple[ScriptStep, ...]:
    """Return the steps in which each replica makes a statement on the whole of t."""
    return tuple(Do(call_of(f, node, _ON_TABLE, key=None)) for node in REPLICAS)


def _synced(*nodes: str) -> Sequence[Until]:
    """Return the steps that end when these replicas have a session again and an empty queue."""
    return [
        Until(call_of("sync-replica", node, _ON_TABLE, key=None), Ended(), tries=200, pause_s=0.2)
        for node in nodes
    ]


REWOUND_INSERT = Scenario(
    name="rewound-insert",
    text="ZooKeeper is put back to an older copy, and a replica that lacks the newest part gives "
    "its number to the next insert: the others fetch that part without end, and once they are "
    "restarted, the acknowledged row before is on no replica",
    workload=scripted_statements("scenario-rewound-insert", OPTIONS),
    nemesis="keeper-rewound,stop-fetches",
    steps=(
        Do(insert_row(0, "ch1")),
        *rows_on(2.0, 1, "ch2", "ch3"),
        *REWOUND.begins,
        *_synced(*REPLICAS),
        *BEHIND.begins,
        Do(insert_row(1, "ch1")),
        *rows_on(2.0, 2, "ch3"),
        REWOUND.ends,
        BEHIND.ends,
        *_synced(*REPLICAS),
        Do(insert_row(2, "ch2")),
        Rest(3.0),
        *_on_each("restart-replica"),
    ),
    finding=Finding(FINDING, "lost"),
    needs=OPTIONS.needs,
)

REWOUND_RESTART = Scenario(
    name="rewound-restart",
    text="ZooKeeper is put back to an older copy, and the replicas are restarted: the part of an "
    "acknowledged row that ZooKeeper does not know is in the table of none",
    workload=scripted_statements("scenario-rewound-restart", OPTIONS),
    nemesis="keeper-rewound",
    steps=(
        *(Do(insert_row(row, "ch1")) for row in range(4)),
        *rows_on(2.0, 4, "ch2", "ch3"),
        *REWOUND.begins,
        *_synced(*REPLICAS),
        Do(insert_row(4, "ch1")),
        *rows_on(2.0, 5, "ch2", "ch3"),
        REWOUND.ends,
        *_synced(*REPLICAS),
        *_on_each("restart-replica"),
    ),
    finding=Finding(FINDING, "lost"),
    needs=OPTIONS.needs,
)

LOST_KEEPERS = Scenario(
    name="lost-keepers",
    text="ZooKeeper loses all that it has; after SYSTEM RESTART REPLICA and SYSTEM RESTORE REPLICA "
    "of each replica every row is on each, and inserts are acknowledged",
    workload=scripted_statements("scenario-lost-keepers", OPTIONS),
    nemesis="keeper-lost",
    steps=(
        *(Do(insert_row(key, "ch1", key=key)) for key in range(4)),
        *rows_on(2.0, 4, "ch2", "ch3"),
        *LOST.begins,
        LOST.ends,
        *_synced(*REPLICAS),
        Do(insert_row(5, "ch2")),
    ),
    finding=Held(FINDING, ("rows",)),
    needs=(*OPTIONS.needs, Mechanism.DROP_REPLICA),
)

"""Rows that are gone since ZooKeeper was put back to an older copy are explained only where the
record proves it. Times are in ms."""

from collections.abc import Mapping, Sequence

import pytest
from checkers_cases import _nemesis, fault
from test_triage_statements import (
    HELD,
    INSERT,
    LOST,
    NEW,
    Calls,
    Fact,
    at_rest,
    call,
    explained,
    trace,
)

from checkers.health import Complaint, HealthReport
from checkers.look import encode


def put_back(copied: int, killed: int, name: str = "keeper-rewound") -> Calls:
    """Return a fault that copies the disks of all ZooKeeper servers, and that kills them to start
    them with the copies, which takes two seconds."""
    edges = (("begin", copied, copied), ("end", killed + 2_000, killed))
    return [
        event
        for edge, at, invoked in edges
        for value in [{"fault": 9, "edge": edge, "name": f"{name}-all", "text": "zk1 zk2 zk3"}]
        for event in _nemesis(name, at, "ok", value, invoked=invoked)
    ]


def said(*nodes: str, kind: str = "unexpected-part") -> Calls:
    """Return what servers say of themselves at rest."""
    of = {node: [Complaint(kind, "so it is")] for node in nodes}
    return _nemesis("health", 70_000, "ok", encode(HealthReport({"ch3": [], **of})))


def restarts(*nodes: str, begin: int = 5_000) -> list[Calls]:
    return [call("restart-replica", "none", begin, begin + 100, node=node) for node in nodes]


FETCHED: Fact = ["hold", 250, "0_0_0_0", "ch2"]
REWOUND = put_back(50, 1_000)
AGAIN: Fact = ["hold", 6_000, "0_0_0_0", "ch1"]
BOTH = restarts("ch1", "ch2")
SAID = said("ch1", "ch2")
OTHER: Fact = ["hold", 260, "0_1_1_0", "ch1"]

CASES: Mapping[str, tuple[Sequence[Calls], Sequence[Fact], tuple[str, list[str]]]] = {
    "both replicas set it aside": (
        (REWOUND, *BOTH, SAID), (HELD, FETCHED), ("known", ["rewound-restart"]),
    ),
    "its server was killed, and set it aside": (
        (REWOUND, fault(4_000, 5_000, "ch1", "kill-clickhouse-one", 2), SAID), (HELD,),
        ("known", ["rewound-restart"]),
    ),
    "its number was given to another part": (
        (REWOUND, *BOTH, SAID), (HELD, FETCHED, AGAIN), ("known", ["rewound-insert"]),
    ),
    "either of two parts may be its own, and both are forgotten": (
        (REWOUND, *BOTH, SAID), (HELD, OTHER), ("known", ["rewound-restart"]),
    ),
    "ZooKeeper was not put back": ((*BOTH, SAID), (HELD, FETCHED), NEW),
    "ZooKeeper has lost all": (
        (put_back(50, 1_000, "keeper-lost"), *BOTH, SAID), (HELD, FETCHED), NEW,
    ),
    "the copy was made later": ((put_back(150, 1_000), *BOTH, SAID), (HELD, FETCHED), NEW),
    "it was acknowledged when the servers had been killed": (
        (put_back(50, 280), *BOTH, SAID), (HELD, FETCHED), NEW,
    ),
    "a replica with the part did not start again": (
        (REWOUND, *restarts("ch1"), SAID), (HELD, FETCHED), NEW,
    ),
    "the replicas started before that": (
        (REWOUND, *restarts("ch1", "ch2", begin=500), SAID), (HELD, FETCHED), NEW,
    ),
    "a replica with the part set nothing aside": (
        (REWOUND, *BOTH, said("ch1")), (HELD, FETCHED), NEW,
    ),
    "no server was asked": ((REWOUND, *BOTH), (HELD, FETCHED), NEW),
    "a replica says something else": (
        (REWOUND, *BOTH, said("ch1", "ch2", kind="read-only")), (HELD, FETCHED), NEW,
    ),
    "nobody knows its part": ((REWOUND, *BOTH, SAID), (), NEW),
}  # fmt: skip


@pytest.mark.parametrize(("node", "by"), [("ch3", "rewound-insert"), ("ch1", "rewound-restart")])
def test_a_replica_that_lacks_the_part_gives_its_number_to_the_next_row(node: str, by: str) -> None:
    later = call("insert-row", "insert", 4_000, 4_100, row=2, node=node)
    shown = at_rest(t=[(2, [], 1)])
    of_run = (INSERT, REWOUND, later, *BOTH, SAID, shown, trace("t", HELD, FETCHED))
    assert explained(*of_run) == ("known", [by])


@pytest.mark.parametrize("case", ["both replicas set it aside", "nobody knows its part"])
@pytest.mark.parametrize("gaps", [[], ["2 transactions from 0x1 are in no log"]])
def test_a_record_may_end_when_zookeeper_is_put_back(case: str, gaps: list[str]) -> None:
    calls, facts, expected = CASES[case]
    of_t = trace("t", *facts)
    of_t[-1].op["value"] |= {"ended": "two servers have different transactions", "gaps": gaps}
    assert explained(INSERT, *calls, LOST, of_t) == (NEW if gaps else expected)


@pytest.mark.parametrize("case", CASES)
def test_a_row_that_zookeeper_has_forgotten(case: str) -> None:
    calls, facts, expected = CASES[case]
    assert explained(INSERT, *calls, LOST, trace("t", *facts), trace("u")) == expected

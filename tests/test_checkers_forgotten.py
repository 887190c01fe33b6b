"""Values that ZooKeeper may have forgotten are not said to have diverged."""

from collections.abc import Mapping

import pytest
from checkers_cases import Event, fault, final, history, insert, rest

from checkers.sets.convergence import Convergence
from harness.core.verdict import Status

CUT: Mapping[str, object] = {"name": "partition", "grudge": {"zk1": ["zk2", "zk3"]}}
TAKE: Mapping[str, object] = {"name": "replace", "nodes": ["zk2"], "takes": "all"}
ELSEWHERE: Mapping[str, object] = {"name": "kill", "nodes": ["ch2"]}


def struck(begin: float, end: float, fault_: Mapping[str, object], number: int) -> list[Event]:
    """Return a fault between these times."""
    return fault(begin, end, number=number, **fault_)


@pytest.mark.parametrize(
    ("faults", "status"),
    [
        ([], Status.INVALID),
        (struck(3, 9, TAKE, 1), Status.INVALID),
        (struck(0.5, 4, CUT, 1), Status.INVALID),
        ([*struck(0.5, 4, CUT, 1), *struck(3, 9, TAKE, 2)], Status.UNKNOWN),
        ([*struck(3, 9, TAKE, 1), *struck(6, 8, CUT, 2)], Status.UNKNOWN),
        ([*struck(0.5, 4, ELSEWHERE, 1), *struck(3, 9, TAKE, 2)], Status.INVALID),
        ([*struck(0.2, 0.8, CUT, 1), *struck(3, 9, TAKE, 2)], Status.INVALID),
        ([*struck(0.1, 0.9, TAKE, 1), *struck(3, 9, CUT, 2)], Status.INVALID),
    ],
    ids=[
        "no fault",
        "a disk alone was taken",
        "a server was cut off alone",
        "a disk was taken while another server was cut off",
        "a server was cut off before the other disk had all again",
        "a replica was killed beside it",
        "the cut ended before the insert began",
        "the disk was taken before the insert began",
    ],
)
def test_what_zookeeper_may_have_forgotten(faults: list[Event], status: Status) -> None:
    verdict = Convergence().check(
        history(
            insert(0, 7, 1, 2),
            faults,
            rest(20, ch1={}, ch2={}),
            final(0, [7], 21, 22, node="ch1"),
            final(1, [], 21, 22, node="ch2"),
        )
    )
    assert verdict.status is status, verdict.summary

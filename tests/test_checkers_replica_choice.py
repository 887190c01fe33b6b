"""The checker of which replica a Distributed table reads from, on histories by hand."""

import pytest
from checkers_cases import Event, _call, history

from checkers.replication.replica_choice import ROUTE, ReplicaChoice
from harness.core.verdict import Status


def route(host: str, ch3: int, ch4: int, *, after: int | None = None) -> list[Event]:
    """Return a query on ch1, of shard 1, to which a replica of shard 2 answered."""
    before = {"2": {"ch3": ch3, "ch4": ch4}}
    later = {"2": {"ch3": ch3 if after is None else after, "ch4": ch4}}
    value = {"hosts": ["ch1", host], "before": before, "after": later}
    return _call(0, ROUTE, 1, 2, "ok", "ch1", None, None, value, None)


@pytest.mark.parametrize(
    ("calls", "status", "checked"),
    [
        (route("ch4", 2, 0), Status.VALID, 1),
        (route("ch3", 2, 0), Status.INVALID, 1),
        # Equal counts leave the choice free; counts that change during the query say nothing.
        (route("ch3", 1, 1), Status.UNKNOWN, 0),
        (route("ch3", 0, 0, after=3), Status.UNKNOWN, 0),
        ([], Status.UNKNOWN, 0),
    ],
)
def test_the_replica_with_the_fewest_errors_answers(
    calls: list[Event], status: Status, checked: int
) -> None:
    verdict = ReplicaChoice().check(history(calls))
    assert (verdict.status, verdict.checked) == (status, checked)


def test_a_witness_names_the_counts() -> None:
    verdict = ReplicaChoice().check(history(route("ch3", 2, 0)))
    assert verdict.summary == (
        "op #1 route on ch1 was answered by ch3 at 0.002 s; errors: ch3 2, ch4 0"
    )

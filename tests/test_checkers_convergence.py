"""All replicas equal at rest."""

from collections import Counter

import pytest
from checkers_cases import (
    final,
    gave_up,
    histories,
    history,
    insert,
    observe,
    read,
    rest,
)
from hypothesis import given
from msgspec.structs import replace

from checkers.sets.convergence import Convergence
from harness.core.history import History
from harness.core.verdict import Anomaly, Status, Verdict

ONE = insert(0, 1, 0, 10)


def verdict(h: History) -> Verdict:
    return Convergence().check(h)


def both(left, right):
    """Return the final reads of two replicas, one after the other."""
    return [final(8, left, 100, 110, node="ch1"), final(9, right, 120, 130, node="ch2")]


def test_equal_replicas_at_rest_are_valid():
    h = history(ONE, rest(90), *both([1], [1]))
    assert verdict(h) == Verdict(
        checker="convergence",
        status=Status.VALID,
        summary="2 replicas equal in 1 key at 0.090 s",
        checked=2,
        figures={
            "replicas": 2,
            "keys": 1,
            "final_reads_used": 2,
            "rest_at_s": 0.09,
            "pending": [],
            "unsettled": 0,
            "anomalies": {"diverged": 0},
        },
    )


def test_a_settled_value_on_one_replica_only_is_told_with_both_reads():
    h = history(ONE, insert(0, 2, 20, 30), rest(90), *both([2, 1], [2]))
    result = verdict(h)
    assert (result.status, result.summary) == (
        Status.INVALID,
        "1 value not equally on all 2 replicas at rest (1 key of 1)",
    )
    assert result.anomalies == (
        Anomaly(
            kind="diverged",
            text="value 1 of key 0, which ch1 has and ch2 lacks at rest (op #7, op #9)",
            ops=(6, 7, 8, 9),
            key=0,
            value=1,
            time_ns=110_000_000,
            steps=(
                "op #6 final-read on ch1 began at 0.100 s and returned 2 values at 0.110 s "
                "(op #7) with 1 1 time",
                "op #8 final-read on ch2 began at 0.120 s and returned 1 value at 0.130 s "
                "(op #9) with 1 0 times",
            ),
        ),
    )


def test_a_part_that_is_yet_to_be_checked_is_named_beside_the_difference():
    seen = [insert(2, 7, 0, 5, "info"), read(1, [1, 7], 50, 60, node="ch2")]
    at_rest = rest(90, ch1={"queue": 0}, ch2={"queue": 0, "to_check": 1})
    result = verdict(history(ONE, *seen, at_rest, *both([1], [1, 7])))
    assert result.status is Status.INVALID
    assert result.anomalies[0].steps[-1] == (
        "ch2 has 1 part to check: one of an insert of unknown outcome may never be on another "
        "replica"
    )


CASES = {
    "order does not matter": ([insert(0, 2, 20, 30), rest(90), *both([1, 2], [2, 1])], "VALID"),
    "multiplicity does": ([rest(90), *both([1, 1], [1])], "INVALID"),
    "equal multiplicity is equal": ([rest(90), *both([1, 1], [1, 1])], "VALID"),
    "the last final read of a replica counts": (
        [rest(90), final(8, [], 92, 95, node="ch1"), *both([1], [1])],
        "VALID",
    ),
    "a refused value on one replica": (
        [insert(2, 7, 0, 5, "fail"), rest(90), *both([1, 7], [1])],
        "INVALID",
    ),
    "a value that nobody tried on one replica": ([rest(90), *both([1, 7], [1])], "INVALID"),
    "an unknown one may have come between the final reads": (
        [insert(2, 7, 0, 5, "info"), rest(90), *both([1], [1, 7])],
        "UNKNOWN",
    ),
    "but not when it was read before them": (
        [insert(2, 7, 0, 5, "info"), read(1, [1, 7], 50, 60), rest(90), *both([1], [1, 7])],
        "INVALID",
    ),
    "a value acknowledged during the final reads": (
        [insert(2, 7, 0, 115), rest(90), *both([1], [1, 7])],
        "UNKNOWN",
    ),
    "not at rest": ([rest(90, "ch2 has 3 queue entries"), *both([1], [])], "UNKNOWN"),
    "rest in the end": ([rest(80, "zk2 has no leader"), rest(90), *both([1], [1])], "VALID"),
    "equal, yet the run never said that it was at rest": (both([1], [1]), "UNKNOWN"),
    "a quiesce that was given up": ([rest(90, "x", kind="info"), *both([1], [1])], "UNKNOWN"),
    "queues empty": ([rest(85), observe(90, ch1=0, ch2=0), *both([1], [1])], "VALID"),
    "a queue not empty": ([rest(85), observe(90, ch1=0, ch2=3), *both([1], [1])], "UNKNOWN"),
    "a quiesce that lists the queues": (
        [rest(90, ch1={"queue": 0}, ch2={"queue": 0}), *both([1], [1])],
        "VALID",
    ),
    "a quiesce that lists a queue": (
        [rest(90, ch1={"queue": 0}, ch2={"queue": 3}), *both([1], [1])],
        "UNKNOWN",
    ),
    "a quiesce that lists a replica in trouble, which nobody read": (
        [rest(90, ch1={"queue": 0}, ch3="gave an error"), *both([1], [1])],
        "UNKNOWN",
    ),
    "a replica that was only observed": (
        [rest(85), observe(90, ch1=0, ch2=0, ch3=0), *both([1], [1])],
        "UNKNOWN",
    ),
    "one replica did not answer": (
        [rest(90), final(8, [1], 100, 110), final(9, None, 100, 110, node="ch2", kind="fail")],
        "UNKNOWN",
    ),
    "a replica without a final read": (
        [read(1, [1], 20, 30, node="ch2"), rest(90), final(8, [1], 100, 110)],
        "UNKNOWN",
    ),
    "keys are separate": (
        [
            insert(1, 5, 0, 9, key=3),
            rest(90),
            *both([1], [1]),
            final(8, [5], 140, 150, key=3),
            final(9, [], 140, 150, key=3, node="ch2"),
        ],
        "INVALID",
    ),
}


@pytest.mark.parametrize(("calls", "status"), CASES.values(), ids=CASES)
def test_what_is_converged(calls, status):
    assert verdict(history(ONE, *calls)).status == status


REASONS = {
    "nothing": ([], "the run did not record that the cluster came to rest; no key was used"),
    "pending": (
        [ONE, rest(90, "zk2 down", "ch1 lags"), *both([1], [1])],
        "pending: zk2 down, ch1 lags",
    ),
    "silent": (
        [ONE, read(1, [1], 20, 30, node="ch2"), rest(90), final(8, [1], 100, 110)],
        "no final read of key 0 on ch2",
    ),
    "unknown outcome": (
        [ONE, insert(2, 7, 0), rest(90), *both([1], [1, 7])],
        "1 value of unknown outcome on some replicas only: 7",
    ),
    "a quiesce without a word": (
        [ONE, gave_up(90, "interrupted"), *both([1], [1])],
        "pending: quiesce ended info: interrupted",
    ),
    "different, not at rest": (
        [ONE, rest(90, "ch2 has 3 queue entries"), *both([1], [])],
        "pending: ch2 has 3 queue entries; 1 value not on every replica yet",
    ),
    "a queue": (
        [ONE, rest(85), observe(90, ch2=3), *both([1], [1])],
        "pending: ch2 has 3 queue entries",
    ),
}


@pytest.mark.parametrize(("calls", "summary"), REASONS.values(), ids=REASONS)
def test_unknown_says_why(calls, summary):
    result = verdict(history(*calls))
    assert (result.status, result.summary) == (Status.UNKNOWN, summary)


@given(histories(keys=2, calls=14))
def test_without_word_of_rest_it_is_never_more_than_unknown(h):
    assert verdict(h).status is Status.UNKNOWN


@given(histories(calls=12))
def test_it_agrees_with_its_definition(h):
    """At rest, with one key on the replicas ch1 and ch2: valid exactly if both answered a final
    read and the last ones are equal as multisets."""
    h = at_rest(h)
    last = {}
    for pair in h.pairs:
        if pair.invoke.f == "final-read" and pair.kind == "ok":
            last[pair.invoke.node] = Counter(pair.end.value)
    nodes = {pair.invoke.node for pair in h.pairs}
    contents = {frozenset(count.items()) for count in last.values()}
    equal = last.keys() == nodes and len(contents) == 1
    assert (verdict(h).status is Status.VALID) == equal


def at_rest(h: History) -> History:
    """Return the same history after a quiesce at its begin."""
    before = list(history(rest(0)))
    return History([*before, *(replace(op, index=op.index + len(before)) for op in h)])

"""Rows that are on disk and missing from sequentially consistent reads; levels that the documents
say do not hold."""

from checkers_cases import final, history, insert, read, rest

from checkers.consistency.linearizable import Linearizable
from checkers.sets.hidden import PLAIN, Hidden
from checkers.suite import Documented
from harness.core.verdict import Status

VALID, INVALID, UNKNOWN = Status.VALID, Status.INVALID, Status.UNKNOWN


def _plain(process, values, node):
    kind = "fail" if values is None else "ok"
    return read(process, values, 13, 14, kind, node=node, f=PLAIN)


def run(sequential, plain, *more):
    """Return the acknowledged values 0 and 1, then what both replicas return at rest."""
    nodes = ((5, "ch1"), (6, "ch2"))
    return history(
        insert(0, 0, 0, 1),
        insert(0, 1, 2, 3),
        rest(10),
        *(final(p, seen, 11, 12, node=n) for (p, n), seen in zip(nodes, sequential, strict=True)),
        *(_plain(p, own, n) for (p, n), own in zip(nodes, plain, strict=True)),
        *more,
    )


def said(*arguments):
    verdict = Hidden().check(run(*arguments))
    return verdict.status, [(one.kind, one.value) for one in verdict.anomalies]


def test_rows_that_every_read_has_are_valid():
    assert said(((0, 1), (0, 1)), ((0, 1), (0, 1))) == (VALID, [])


def test_a_row_on_the_replica_that_its_sequential_read_lacks_is_hidden():
    verdict = Hidden().check(run(((0,), (0, 1)), ((0, 1), (0, 1))))
    assert verdict.status is INVALID
    (anomaly,) = verdict.anomalies
    assert (anomaly.kind, anomaly.value) == ("hidden", 1)
    assert anomaly.text == (
        "value 1 of key 0, op #3 ok on ch1, is on ch1 at rest (op #12) and missing there from "
        "sequentially consistent reads (op #8)"
    )
    assert verdict.figures["anomalies"] == {"hidden": 1, "gone": 0}


def test_a_row_that_a_plain_read_lacks_is_gone_whatever_other_reads_have():
    assert said(((0, 1), (0, 1)), ((0, 1), (1,))) == (INVALID, [("gone", 0)])
    assert said(((0,), (0,)), ((0,), (0,))) == (INVALID, [("gone", 1)])


def test_without_rest_or_reads_of_every_replica_nothing_is_concluded():
    assert said(((0, 1), (0, 1)), ((0, 1), None))[0] is UNKNOWN
    assert said(((0,), (0,)), ((0, 1), (0, 1)), rest(20, "busy"))[0] is UNKNOWN
    nothing = history(insert(0, 0, 0, 1, "info"), rest(2))
    assert Hidden().check(nothing).status is UNKNOWN


def test_what_is_documented_not_to_hold_is_invalid_all_the_same_and_says_so():
    stale = history(insert(0, 0, 0, 1), read(1, (), 2, 3))
    fresh = history(insert(0, 0, 0, 1), read(1, (0,), 2, 3))
    checker = Documented(Linearizable("linearizable"), "A does not work with B")
    assert checker.name == "linearizable"
    broken, held = (checker.check(h) for h in (stale, fresh))
    assert (broken.status, held.status) == (INVALID, VALID)
    assert broken.summary == "1 of 1 key not linearizable (1 read) (A does not work with B)"
    assert "A does not work" not in held.summary

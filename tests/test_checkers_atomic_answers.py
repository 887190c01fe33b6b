"""The checkers of inserts of several values and of final answers, on histories by hand."""

from checkers_cases import Event, _call, _nemesis, fault, final, history, insert, read

from checkers.availability.answers import Answers
from checkers.sets.atomic import Atomic
from harness.core.verdict import Status, Verdict


def many(process, values, begin, end=None, kind="ok", *, node="ch1", key=0):
    return _call(process, "insert-many", begin, end, kind, node, key, values, values, None)


def healed(time, kind="ok"):
    return _nemesis("heal", time, kind, {"edge": "heal"})


def verdict(checker, *calls: list[Event]) -> Verdict:
    return checker.check(history(*calls))


def test_a_read_of_a_part_of_an_insert_is_torn() -> None:
    found = verdict(Atomic(), many(0, (1, 2, 3), 0, 9), read(1, (2,), 4, 5), read(1, (), 1, 2))
    assert (found.status, found.figures["anomalies"]) == (
        Status.INVALID,
        {"torn": 1, "half": 0},
    )
    assert found.anomalies[0].ops == (0, 3, 4)
    assert found.anomalies[0].text == (
        "op #4 read of key 0 on ch1 returned 1 of the 3 values of op #0"
    )


def test_a_part_of_a_failed_or_unknown_insert_is_torn_too() -> None:
    for kind in ("fail", "info"):
        found = verdict(Atomic(), many(0, (1, 2), 0, 3, kind), read(1, (1,), 4, 5))
        assert found.status is Status.INVALID


def test_a_part_of_an_insert_at_rest_is_half() -> None:
    found = verdict(Atomic(), many(0, (1, 2, 3), 0, 3, "info"), final(1, (2, 3), 10, 11))
    assert [one.kind for one in found.anomalies] == ["half"]
    assert found.summary == "1 read returned a part of 1 insert"


def test_whole_inserts_are_valid_and_none_at_all_says_nothing() -> None:
    whole = verdict(Atomic(), many(0, (1, 2), 0, 3), read(1, (2, 1), 4, 5), read(1, (), 1, 2))
    assert (whole.status, whole.checked) == (Status.VALID, 1)
    assert verdict(Atomic(), many(0, (1, 2), 0, 3), read(1, (), 4, 5)).status is Status.UNKNOWN
    assert verdict(Atomic(), insert(0, 7, 0, 3), read(1, (7,), 4, 5)).status is Status.UNKNOWN


def test_a_final_call_that_is_never_answered_is_told() -> None:
    refused = [final(0, None, 10 + i, 10.5 + i, kind="fail") for i in range(3)]
    found = verdict(Answers(), healed(5), *refused, final(1, (), 10, 11, node="ch2"))
    assert (found.status, found.checked) == (Status.INVALID, 2)
    assert found.summary == "1 final call never answered (of 2)"
    assert found.anomalies[0].text == (
        "final-read of key 0 on ch1: 3 tries, the last at 0.012 s (op #8): no end"
    )


def test_one_answer_is_enough_and_a_cluster_that_is_not_healed_owes_none() -> None:
    late = (final(0, None, 10, 11, kind="fail"), final(0, (), 12, 13))
    assert verdict(Answers(), fault(1, 2), healed(5), *late).status is Status.VALID
    never = final(0, None, 10, 11, kind="fail")
    assert verdict(Answers(), fault(1, None), healed(5, "info"), never).status is Status.UNKNOWN
    assert verdict(Answers(), healed(5), insert(0, 1, 6, 7)).status is Status.UNKNOWN

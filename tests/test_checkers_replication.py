"""Retries, parts at rest, whole blocks, places in the log: literal histories, whole verdicts."""

import pytest
from checkers_cases import fault, final, history, insert, read, rest

from checkers.replication.log_pointers import LogPointers
from checkers.replication.parts import Part, Parts
from checkers.replication.whole_blocks import WholeBlocks
from checkers.sets.dedup import MIN_RETRIED, Dedup
from harness.core.errors import HistoryError
from harness.core.verdict import Status


def observed(process, f, value, begin, end=None, kind="ok"):
    events = read(process, None, begin, begin + 1 if end is None else end, kind, f=f)
    events[1].op["value"] = value
    return events


# --- dedup ----------------------------------------------------------------------------------


def retried(count, *more):
    """Return each value of `count` tried on ch1, with unknown outcome, and on ch2."""
    tries = []
    for v in range(count):
        tries.append(insert(10 + v, v, 0, 1, "info", node="ch1"))
        tries.append(insert(50 + v, v, 2, 3, node="ch2"))
    return history(*tries, *more)


def test_values_that_were_tried_again_and_came_once_are_valid():
    h = retried(MIN_RETRIED, read(1, range(MIN_RETRIED), 5, 6))
    result = Dedup().check(h)
    assert (result.status, result.checked, result.summary) == (
        Status.VALID,
        10,
        "10 values tried again, 10 of them on another replica, 10 after an unknown outcome",
    )


def test_a_value_that_came_twice_is_told_with_its_tries():
    result = Dedup().check(retried(2, read(1, [0, 1, 1], 5, 6, node="ch3")))
    assert (result.status, result.figures["anomalies"]) == (Status.INVALID, {"duplicate": 1})
    (anomaly,) = result.anomalies
    assert anomaly.text == (
        "value 1 of key 0 was returned 2 times by op #9 read on ch3 at 0.006 s, after 2 tries of "
        "the block"
    )
    assert anomaly.steps[:2] == (
        "op #1 insert 1 on ch1 at 0.000 s ended info at 0.001 s",
        "op #5 insert 1 on ch2 at 0.002 s ended ok at 0.003 s",
    )


def spaced(others, *, kind="ok", times=2):
    """Return a try of value 0, this many other inserts and a second try of value 0; then a read
    that has it `times` times."""
    between = [insert(10 + n, 100 + n, 2 + n, 3 + n) for n in range(others)]
    seen = [*[0] * times, *range(100, 100 + others)]
    return history(insert(0, 0, 0, 1, kind), *between, insert(1, 0, 90, 91), read(2, seen, 95, 96))


def test_a_block_that_the_table_remembers_may_not_come_twice():
    result = Dedup(window=3).check(spaced(2))
    assert (result.status, result.figures["anomalies"]) == (Status.INVALID, {"duplicate": 1})


def test_a_block_beyond_the_window_may_come_twice_but_not_three_times():
    result = Dedup(window=3).check(spaced(3))
    assert (result.status, result.figures["anomalies"]) == (Status.UNKNOWN, {"duplicate": 0})
    assert result.figures["doubled_beyond_window"] == 1
    assert result.summary.endswith("1 tried again beyond the window, 1 of them twice in a read")
    result = Dedup(window=3).check(spaced(3, times=3))
    assert result.status is Status.INVALID


def test_a_block_that_is_older_than_the_table_remembers_may_come_twice():
    apart_s = 0.091  # from the begin of the first try to the end of the second
    assert Dedup(window_s=apart_s).check(spaced(0)).status is Status.INVALID
    later = Dedup(window_s=apart_s - 0.001).check(spaced(0))
    assert (later.status, later.figures["doubled_beyond_window"]) == (Status.UNKNOWN, 1)


def test_a_try_of_unknown_outcome_may_take_effect_later_than_all_that_follow():
    late = [insert(50 + n, 200 + n, 92 + n, 93 + n) for n in range(3)]
    of_others = spaced(0, kind="info")
    assert Dedup(window=3).check(of_others).status is Status.INVALID
    delayed = history(
        insert(0, 0, 0, 1, "info"), insert(1, 0, 90, 91), *late, read(2, [0, 0], 97, 98)
    )
    assert Dedup(window=3).check(delayed).status is Status.UNKNOWN


def test_a_value_that_is_there_once_was_committed_by_the_end_of_its_acknowledged_try():
    # Else three tries of unknown outcome would leave nothing to judge for the rest of the run.
    tried = [insert(50 + n, 200 + n, n, n + 1, "info") for n in range(3)]
    again = [insert(60 + n, 200 + n, 10 + n, 11 + n) for n in range(3)]
    doubled = [insert(0, 0, 30, 31), insert(1, 0, 32, 33)]
    seen = [0, 0, 200, 201, 202]
    at_rest = history(*tried, *again, *doubled, rest(40), final(2, seen, 41, 42))
    assert Dedup(window=3).check(at_rest).status is Status.INVALID
    moving = history(*tried, *again, *doubled, read(2, seen, 41, 42))
    assert Dedup(window=3).check(moving).status is Status.UNKNOWN


def test_few_retries_and_refused_ones_say_nothing():
    assert Dedup().check(retried(MIN_RETRIED - 1)).status is Status.UNKNOWN
    refused = [insert(2 * v, v, 0, 1, "fail") for v in range(20)]
    again = [insert(2 * v, v, 2, 3) for v in range(20)]
    result = Dedup().check(history(*refused, *again))
    assert (result.status, result.checked) == (Status.UNKNOWN, 0)


# --- parts ----------------------------------------------------------------------------------


def at_rest(*pending, **active):
    return history(rest(90, *pending, **{n: {"queue": 0, "active": a} for n, a in active.items()}))


ONE, TWO = {"0_0_3_1": [4, "ab"], "1_0_0_0": [1, "cd"]}, {"0_0_3_1": [4, "ab"]}


def test_equal_parts_at_rest_are_valid():
    result = Parts().check(at_rest(ch1=ONE, ch2=ONE))
    assert (result.status, result.summary) == (Status.VALID, "2 parts equal on 2 replicas")


@pytest.mark.parametrize(
    ("active", "kind", "text"),
    [
        ({"ch1": ONE, "ch2": TWO}, "diverged", "part 1_0_0_0 is on ch1 and not on ch2, at rest"),
        (
            {"ch1": TWO, "ch2": {"0_0_3_1": [4, "ee"]}},
            "diverged",
            "part 0_0_3_1 is [4, 'ab'] on ch1 and [4, 'ee'] on ch2, at rest at 0.090 s",
        ),
        (
            {"ch1": {**TWO, "0_3_3_0": [1, "x"]}, "ch2": {**TWO, "0_3_3_0": [1, "x"]}},
            "intersecting",
            "ch1 has 0_0_3_1 and 0_3_3_0, which share blocks",
        ),
    ],
)
def test_what_differs_or_intersects_is_told(active, kind, text):
    result = Parts().check(at_rest(**active))
    assert result.status is Status.INVALID
    assert (result.anomalies[0].kind, result.anomalies[0].text[: len(text)]) == (kind, text)


@pytest.mark.parametrize(
    ("to_check", "part", "status"),
    [
        ({"ch1": 1}, "1_0_0_0", Status.UNKNOWN),
        ({"ch2": 1}, "1_0_0_0", Status.INVALID),
        ({"ch1": 1}, "1_0_3_1", Status.INVALID),
    ],
)
def test_the_part_of_an_insert_that_may_not_be_committed_is_unknown(to_check, part, status):
    states = {
        node: {"queue": 0, "to_check": to_check.get(node, 0), "active": active}
        for node, active in {"ch1": {**TWO, part: [1, "cd"]}, "ch2": TWO}.items()
    }
    assert Parts().check(history(rest(90, **states))).status is status


def test_without_rest_a_difference_is_unknown():
    assert Parts().check(at_rest("x", ch1=ONE, ch2=TWO)).status is Status.UNKNOWN
    assert Parts().check(at_rest(ch1=ONE)).status is Status.UNKNOWN
    assert Parts().check(history()).status is Status.UNKNOWN
    silent = history(rest(90, ch1={"queue": 0, "active": ONE}, ch2={"error": "gone"}))
    assert Parts().check(silent).status is Status.UNKNOWN


def test_a_mutated_part_keeps_its_blocks():
    assert Part.of("all_1_5_2_9") == Part("all_1_5_2_9", "all", 1, 5, 2)
    with pytest.raises(ValueError, match="expected PARTITION_MIN_MAX_LEVEL"):
        Part.of("tmp")


# --- whole blocks -----------------------------------------------------------------------------


def test_whole_blocks_are_valid_and_a_part_of_one_is_told():
    whole = observed(0, "rows", {"blocks": [[1, 1, 1], [2, 50, 50]]}, 0)
    result = WholeBlocks().check(history(whole))
    assert (result.status, result.checked) == (Status.VALID, 2)
    half = observed(0, "final-rows", {"blocks": [[2, 49, 50]]}, 5)
    result = WholeBlocks().check(history(whole, half))
    assert (result.status, result.anomalies[0].text) == (
        Status.INVALID,
        "value 2 of key 0 has 49 of its 50 rows in op #3 final-rows on ch1 at 0.006 s",
    )


def test_small_blocks_say_nothing_and_other_values_are_no_blocks():
    small = history(observed(0, "rows", {"blocks": [[1, 1, 1]]}, 0))
    assert WholeBlocks().check(small).status is Status.UNKNOWN
    for odd in ({}, {"blocks": 5}, {"blocks": [["x", 1, 1]]}, {"blocks": [[1, 1, 0]]}):
        with pytest.raises(HistoryError, match="op #1: the value of an ok rows cannot be read"):
            WholeBlocks().check(history(observed(0, "rows", odd, 0)))


# --- places in the log ------------------------------------------------------------------------


def places(at, pointer, *, lost=False, version=0):
    state = {"pointer": pointer, "lost": lost, "lost_version": version, "active": True}
    return observed(0, "observe-log", {"replicas": {"ch1": state}}, at)


def test_pointers_that_move_on_are_valid_and_one_that_goes_back_is_told():
    forth = [places(0, 3), places(2, 5)]
    assert LogPointers().check(history(*forth)).status is Status.VALID
    result = LogPointers().check(history(*forth, places(4, 4)))
    assert result.status is Status.INVALID
    assert result.anomalies[0].text.startswith("log_pointer of ch1 went from 5 (op #3) to 4 (op #5")


def test_a_clone_may_go_back_and_a_pointer_that_stands_says_nothing():
    clone = history(places(0, 3), places(2, 5, lost=True, version=1), places(4, 4, version=2))
    assert LogPointers().check(clone).status is Status.VALID
    still = history(places(0, 3), places(2, 3))
    assert LogPointers().check(still).status is Status.UNKNOWN


REWOUND = fault(6, 20, "zk1 zk2 zk3", "keeper-rewound-zookeeper-all", invoked=5)


@pytest.mark.parametrize(
    ("looks", "status"),
    [
        ([(0, 3), (3, 40), (10, 50), (25, 45)], Status.VALID),
        ([(0, 3), (3, 40), (10, 50), (25, 40)], Status.VALID),
        # What was there before the copy was asked for is in the copy.
        ([(0, 3), (3, 40), (10, 50), (25, 39)], Status.INVALID),
        # It goes back while the servers still have what the copy lacks.
        ([(0, 3), (3, 40), (10, 50), (12, 45)], Status.INVALID),
        # It goes back again since.
        ([(0, 3), (3, 40), (10, 50), (25, 45), (30, 44)], Status.INVALID),
    ],
)
def test_a_pointer_goes_back_with_zookeeper_and_no_further(looks, status):
    made = history(*(places(at, pointer) for at, pointer in looks), REWOUND)
    result = LogPointers().check(made)
    assert (result.status, result.figures["looks"]) == (status, len(looks))

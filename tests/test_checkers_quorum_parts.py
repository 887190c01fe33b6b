"""Quorum inserts and their parts: literal histories, and what each property says of them."""

import pytest
from checkers_cases import final, history, insert, observe, read, rest

from checkers.quorum.block_numbers import MIN_JUDGED, BlockNumbers
from checkers.quorum.durability import Durability
from checkers.quorum.failed_parts import FailedParts
from checkers.sets.unknown_outcomes import UnknownOutcomes
from harness.core.verdict import Status


def told(process, f, value, begin, end, *, node="ch1"):
    events = read(process, None, begin, end, f=f, node=node)
    events[1].op["value"] = value
    return events


def where(at, *pairs, node="ch1"):
    return told(7, "where", {"where": [list(pair) for pair in pairs]}, at, at + 1, node=node)


def look(at, zxid, *, last=None, failed=(), kept=None, parts=None):
    value = {"zxid": zxid, "pending": None, "last": last or {}, "failed": list(failed)}
    value["kept"] = kept or {}
    if parts is None:
        return told(8, "observe-quorum", value, at, at + 1)
    return told(8, "final-quorum", {**value, "parts": parts}, at, at + 1)


ON_TWO = {"0_0_0_0": {"ch1": 10, "ch2": 14}, "0_1_1_0": {"ch2": 20, "ch3": 22, "ch1": 30}}


def quorum(*more, parts=ON_TWO, first_look=19):
    """Return values 0 and 1 acknowledged on ch1 and ch2, a look after each, and all parts at the
    end."""
    return history(
        insert(0, 0, 0, 10), look(11, first_look), insert(0, 1, 20, 30), look(31, 29),
        where(40, (0, "0_0_0_0"), (1, "0_1_1_0")), *more, rest(90), look(95, 99, parts=parts),
    )  # fmt: skip


def kinds(checker, h):
    said = checker.check(h)
    return said.status, [anomaly.kind for anomaly in said.anomalies]


def test_inserts_on_their_quorum_in_time_and_in_turn_are_valid():
    said = Durability(2).check(quorum())
    assert (said.status, said.summary) == (
        Status.VALID,
        "2 acknowledged inserts on 2 replicas in time, 2 parts one after the other",
    )


@pytest.mark.parametrize(
    ("mutated", "kind", "text"),
    [
        (
            {"parts": {**ON_TWO, "0_0_0_0": {"ch1": 10}}},
            "under-replicated",
            "value 0 of key 0, op #1 ok at 0.010 s on ch1, in part 0_0_0_0, is on 1 replica",
        ),
        (
            {"first_look": 12},
            "acknowledged-early",
            "value 0 of key 0, op #1 ok at 0.010 s on ch1, in part 0_0_0_0, reached its quorum by "
            "transaction 0xe, after 0xc of op #3, a look that began later",
        ),
        (
            {"parts": {**ON_TWO, "0_1_1_0": {"ch2": 12, "ch1": 16}}},
            "overlap",
            "part 0_1_1_0 was committed by transaction 0xc, though 0_0_0_0 before it had its "
            "quorum by transaction 0xe",
        ),
    ],
)
def test_each_broken_promise_of_a_quorum_is_told(mutated, kind, text):
    said = Durability(2).check(quorum(**mutated))
    assert said.status is Status.INVALID
    assert (said.anomalies[0].kind, said.anomalies[0].text[: len(text)]) == (kind, text)


def test_a_quorum_of_a_majority_counts_the_replicas():
    three = observe(50, ch1=0, ch2=0, ch3=0)
    said = Durability("auto").check(quorum(three))
    assert said.summary.startswith("2 acknowledged inserts on 2 replicas in time")


def test_parallel_quorum_inserts_may_overlap():
    overlapping = quorum(
        parts={"0_0_0_0": {"ch1": 10, "ch2": 17}, "0_1_1_0": {"ch1": 16, "ch2": 18}}
    )
    assert "overlap" in kinds(Durability(2), overlapping)[1]
    assert "overlap" not in kinds(Durability(2, serial=False), overlapping)[1]


def test_a_block_that_goes_back_is_told_and_another_partition_is_another_matter():
    forth = look(50, 40, last={"0": "0_1_1_0", "1": "1_7_7_0"})
    assert kinds(Durability(2), quorum(forth)) == (Status.VALID, [])
    back = look(52, 41, last={"0": "0_0_0_0", "1": "1_7_7_0"})
    assert kinds(Durability(2), quorum(forth, back)) == (Status.INVALID, ["last-part-back"])


def test_a_failed_part_makes_room_for_the_next():
    parts = {"0_0_0_0": {"ch1": 10}, "0_1_1_0": ON_TWO["0_1_1_0"]}
    h = history(
        insert(0, 0, 0, 10, "info"), insert(1, 1, 20, 30), where(40, (1, "0_1_1_0")), rest(90),
        look(95, 99, parts=parts, failed=["0_0_0_0"]),
    )  # fmt: skip
    assert kinds(Durability(2), h) == (Status.VALID, [])


def test_without_rest_or_parts_nothing_is_concluded():
    assert kinds(Durability(2), history(insert(0, 0, 0, 1), rest(9)))[0] is Status.UNKNOWN
    moving = history(
        insert(0, 0, 0, 10), where(40, (0, "0_0_0_0")), rest(90, "x"), look(95, 99, parts={})
    )
    assert kinds(Durability(2), moving)[0] is Status.UNKNOWN


# --- failed parts ---------------------------------------------------------------------------


def failed(*more, end="info"):
    return history(
        insert(0, 5, 0, 50, end), where(10, (5, "0_3_3_0")), look(60, 9, failed=["0_3_3_0"]), *more
    )


def test_a_failed_part_that_stays_out_is_valid():
    h = failed(read(1, [], 70, 71), final(2, [], 80, 81))
    said = FailedParts().check(h)
    assert (said.status, said.summary) == (
        Status.VALID,
        "1 part failed, 1 with known values, none read again; 0 inserted again later",
    )


@pytest.mark.parametrize(
    ("h", "kind"),
    [
        (failed(end="ok"), "acknowledged"),
        (failed(read(1, [5], 70, 71)), "read-again"),
        (failed(final(1, [5], 70, 71)), "back"),
        (failed(look(70, 10, failed=["0_3_3_0"], kept={"ch1": ["0_3_3_0"]})), "kept"),
    ],
)
def test_a_failed_part_that_counts_again_is_told(h, kind):
    assert kinds(FailedParts(), h) == (Status.INVALID, [kind])


def test_a_later_try_explains_a_read_and_an_earlier_read_is_none():
    again = failed(insert(3, 5, 65, 68), read(1, [5], 70, 71))
    assert kinds(FailedParts(), again) == (Status.VALID, [])
    assert kinds(FailedParts(), failed(read(1, [5], 55, 58))) == (Status.VALID, [])
    assert kinds(FailedParts(), history(insert(0, 5, 0, 1)))[0] is Status.UNKNOWN


# --- unknown outcomes -----------------------------------------------------------------------


def unknown(*reads, pending=()):
    return history(insert(0, 1, 0, 10, "info"), rest(90, *pending), *reads)


def finals(one, two):
    return final(5, one, 100, 101, node="ch1"), final(6, two, 102, 103, node="ch2")


def test_everywhere_or_nowhere_is_legal():
    for value in ([], [1]):
        assert kinds(UnknownOutcomes(), unknown(*finals(value, value))) == (Status.VALID, [])


def test_on_some_replicas_or_read_and_gone_is_not():
    split = UnknownOutcomes().check(unknown(*finals([1], [])))
    assert (split.status, split.anomalies[0].text) == (
        Status.INVALID,
        "value 1 of key 0, whose insert on ch1 (op #0) has an unknown outcome, is at rest on ch1 "
        "and not on ch2",
    )
    gone = unknown(read(4, [1], 20, 21, node="ch2"), *finals([], []))
    assert kinds(UnknownOutcomes(), gone) == (Status.INVALID, ["vanished"])


def test_without_rest_or_unknown_inserts_it_is_unknown():
    assert kinds(UnknownOutcomes(), unknown(*finals([1], []), pending=["x"]))[0] is Status.UNKNOWN
    known = history(insert(0, 1, 0, 10), rest(90), *finals([1], []))
    assert kinds(UnknownOutcomes(), known)[0] is Status.UNKNOWN


# --- block numbers --------------------------------------------------------------------------


def numbered(*numbers):
    """Return inserts one after the other, with these block numbers."""
    calls = [insert(0, v, 10 * v, 10 * v + 5) for v in range(len(numbers))]
    pairs = [(v, f"0_{n}_{n}_0") for v, n in enumerate(numbers)]
    return history(*calls, where(1_000, *pairs))


def test_numbers_that_increase_are_valid_with_gaps_too():
    assert kinds(BlockNumbers(), numbered(*range(0, 2 * MIN_JUDGED, 2))) == (Status.VALID, [])
    assert kinds(BlockNumbers(), numbered(0, 1))[0] is Status.UNKNOWN


def test_a_lower_number_later_and_a_number_twice_are_told():
    assert kinds(BlockNumbers(), numbered(0, 5, 4)) == (Status.INVALID, ["not-increasing"])
    assert kinds(BlockNumbers(), numbered(0, 5, 5)) == (Status.INVALID, ["shared"])


def test_concurrent_inserts_may_have_any_order():
    h = history(insert(0, 0, 0, 10), insert(1, 1, 5, 15), where(50, (0, "0_9_9_0"), (1, "0_3_3_0")))
    assert kinds(BlockNumbers(), h) == (Status.UNKNOWN, [])

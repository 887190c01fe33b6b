"""Quorum inserts and their parts: literal histories, and what each property says of them."""

import pytest
from checkers_cases import fault, final, history, insert, observe, read, rest

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


LOG = (
    ["begin", 10, "0_0_0_0", 2], ["hold", 10, "0_0_0_0", "ch1", 9],
    ["hold", 14, "0_0_0_0", "ch2", 9], ["end", 15, "0_0_0_0"],
    ["begin", 20, "0_1_1_0", 2], ["hold", 20, "0_1_1_0", "ch2", 25],
    ["hold", 22, "0_1_1_0", "ch3", 25], ["end", 23, "0_1_1_0"],
)  # fmt: skip
"""ZooKeeper's log of the same: each quorum ends after its second replica has the part."""


def log(*facts, gaps=(), at=97):
    """Return the call that read these facts from ZooKeeper's log."""
    value = {"facts": [list(fact) for fact in facts], "gaps": list(gaps)}
    return told(9, "transactions", value, at, at + 1)


def quorum(*more, parts=ON_TWO, first_look=19, logged=LOG):
    """Return values 0 and 1 acknowledged on ch1 and ch2, a look after each, all parts at the
    end, and the log."""
    return history(
        insert(0, 0, 0, 10), look(11, first_look), insert(0, 1, 20, 30), look(31, 29),
        where(40, (0, "0_0_0_0"), (1, "0_1_1_0")), *more, rest(90), look(95, 99, parts=parts),
        log(*logged) if logged is not None else (),
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


def test_a_replica_that_registers_its_parts_anew_accuses_nobody():
    """At rest only its second registration is left; the log has the first."""
    anew = {**ON_TWO, "0_0_0_0": {"ch1": 10, "ch2": 50}}
    assert kinds(Durability(2), quorum(parts=anew)) == (Status.VALID, [])


@pytest.mark.parametrize(
    ("struck", "left", "expected"),
    [
        (["ch1", "ch2"], {}, []),
        (["ch1", "ch2"], {"ch1": 10}, ["under-replicated"]),
        (["ch1"], {}, ["under-replicated"]),
    ],
)
def test_what_faults_took_from_every_disk_need_not_be_there_at_rest(struck, left, expected):
    gone = {**ON_TWO, "0_0_0_0": left}
    taken = fault(50, 60, "", "power-cut", takes="unsynced", fsync="default", nodes=struck)
    asked = where(45, node="ch2")  # a node that no client calls is no replica
    assert kinds(Durability(2), quorum(asked, taken, parts=gone))[1] == expected


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
            {"parts": {**ON_TWO, "0_1_1_0": {"ch2": 12, "ch1": 16}}, "logged": None},
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
        parts={"0_0_0_0": {"ch1": 10, "ch2": 17}, "0_1_1_0": {"ch1": 16, "ch2": 18}}, logged=None
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
        log(["begin", 10, "0_0_0_0", 2], ["fail", 19, "0_0_0_0"], ["end", 19, "0_0_0_0"], *LOG[4:]),
    )  # fmt: skip
    assert kinds(Durability(2), h) == (Status.VALID, [])


# What looks ten times a second cannot tell, and the final look calls in order; the log tells it.


def test_a_quorum_that_ended_uncounted_between_two_looks_is_told_by_the_log():
    """The first quorum ends with one replica; the second comes before the next look."""
    between = [LOG[0], LOG[1], ["end", 13, "0_0_0_0"], LOG[2], *LOG[4:]]
    by_looks = quorum(first_look=16, logged=None)
    assert kinds(Durability(2), by_looks) == (Status.UNKNOWN, []), "nothing broken is seen"
    said = Durability(2).check(quorum(first_look=16, logged=between))
    assert (said.status, said.anomalies[0].kind) == (Status.INVALID, "acknowledged-early")
    assert "stopped being pending by transaction 0xd with 1 of 2 replicas: ch1" in (
        said.anomalies[0].text
    )


def test_a_quorum_that_failed_after_the_next_began_overlapped_it():
    parts = {"0_0_0_0": {"ch1": 10}, "0_1_1_0": ON_TWO["0_1_1_0"]}

    def one(*facts):
        return history(
            insert(0, 0, 0, 10, "info"), insert(1, 1, 20, 30), where(40, (1, "0_1_1_0")), rest(90),
            look(95, 99, parts=parts, failed=["0_0_0_0"]), *facts,
        )  # fmt: skip

    late = log(*LOG[:2], *LOG[4:], ["fail", 24, "0_0_0_0"])
    assert kinds(Durability(2), one()) == (Status.UNKNOWN, []), "failed at some time"
    assert kinds(Durability(2), one(late)) == (Status.INVALID, ["overlap"])


def test_the_clock_of_the_transactions_tells_what_no_look_in_between_can():
    """Looks at 11 and 31 ms show that the transactions' clock is 1,000 ms ahead, or 1,002."""
    clock = [["barrier", 19, 1_012], ["barrier", 29, 1_032]]
    for at_ms, kind in ((1_012, []), (1_014, ["acknowledged-early"])):
        late = [*LOG[:2], ["hold", 14, "0_0_0_0", "ch2", at_ms], *LOG[3:4]]
        later = [[*fact[:-1], 1_025] if fact[0] == "hold" else fact for fact in LOG[4:]]
        assert kinds(Durability(2), quorum(logged=[*late, *later, *clock]))[1] == kind


def test_without_the_log_only_a_look_before_the_acknowledgement_proves_that_it_was_in_time():
    said = Durability(2).check(quorum(logged=None))
    assert (said.status, said.summary) == (
        Status.UNKNOWN,
        "2 acknowledgements not known to be in time: nobody read ZooKeeper's transaction log",
    )
    seen = history(
        insert(0, 0, 0, 50), look(11, 19), where(60, (0, "0_0_0_0")), rest(90),
        look(95, 99, parts={"0_0_0_0": ON_TWO["0_0_0_0"]}),
    )  # fmt: skip
    assert kinds(Durability(2), seen) == (Status.VALID, [])
    gap = history(
        insert(0, 0, 0, 10), where(60, (0, "0_0_0_0")), rest(90), look(95, 99, parts=ON_TWO),
        log(*LOG, gaps=["3 transactions from 0x9 are in no log"]),
    )  # fmt: skip
    assert kinds(Durability(2), gap)[0] is Status.UNKNOWN


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


TAKEN = [["number", 10 * n + 1, "0", n, 7] for n in range(MIN_JUDGED)]
COMMITTED = [["commit", 10 * n + 5, f"0_{n}_{n}_0", 7] for n in range(MIN_JUDGED)]
RELEASED = [["release", 10 * n + 5, "0", n, 7] for n in range(MIN_JUDGED)]


def taken(*facts):
    """Return the first inserts in the log, and more facts that clients do not see."""
    every = sorted((*TAKEN, *COMMITTED, *RELEASED, *facts), key=lambda fact: fact[1])
    calls = [insert(0, v, 10 * v, 10 * v + 5) for v in range(MIN_JUDGED)]
    pairs = [(v, f"0_{v}_{v}_0") for v in range(MIN_JUDGED)]
    return history(*calls, where(1_000, *pairs), log(*every, at=2_000))


def test_a_session_that_expires_with_its_number_leaves_a_gap():
    h = taken(["number", 201, "0", 20, 8], ["expire", 210, 8])
    said = BlockNumbers().check(h)
    assert (said.status, said.summary) == (
        Status.VALID,
        "10 block numbers of 1 partition, unique and increasing; 1 number lost with a session",
    )
    later = BlockNumbers().check(taken(["number", 201, "0", 20, 8], ["release", 210, "0", 20, 9]))
    assert (later.status, later.figures["replaced"]) == (Status.VALID, 1)


@pytest.mark.parametrize(
    ("facts", "kind", "why"),
    [
        ((["expire", 210, 8], ["commit", 220, "0_20_20_0", 9]), "not-held", "which held it, ended"),
        ((["release", 210, "0", 20, 8], ["commit", 220, "0_20_20_0", 8]), "not-held", "given back"),
        ((["commit", 220, "0_20_20_0", 9],), "not-held", "session 0x8 held it"),
        ((["commit", 220, "0_21_21_0", 8],), "not-held", "nobody had taken it"),
        ((["number", 220, "0", 20, 9],), "taken-again", "though 20 had been taken before"),
    ],
)
def test_a_number_that_is_not_held_at_the_commit_is_told_by_the_log_alone(facts, kind, why):
    said = BlockNumbers().check(taken(["number", 201, "0", 20, 8], *facts))
    assert (said.status, [one.kind for one in said.anomalies]) == (Status.INVALID, [kind])
    assert why in said.anomalies[0].text

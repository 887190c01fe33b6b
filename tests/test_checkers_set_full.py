"""set-full on literal histories, and its agreement with its definition on any history."""

import pytest
from checkers_cases import fault, final, histories, history, insert, read, rest
from hypothesis import given

from checkers.sets.set_full import SetFull
from harness.core.errors import HistoryError
from harness.core.history import History
from harness.core.op import Kind
from harness.core.verdict import Anomaly, Status, Verdict

FINAL = [rest(90), final(8, [1, 2], 100, 110, node="ch1"), final(9, [1, 2], 100, 110, node="ch2")]
TWO = [insert(0, 1, 0, 10), insert(0, 2, 20, 30)]


def verdict(h: History, *, linearizable: bool = True) -> Verdict:
    return SetFull(linearizable=linearizable).check(h)


def test_a_sound_history_is_valid_and_says_how_much_was_seen():
    h = history(*TWO, read(1, [1], 15, 25), *FINAL)
    assert verdict(h) == Verdict(
        checker="set-full",
        status=Status.VALID,
        summary="2 acknowledged values, none lost",
        checked=2,
        figures={
            "attempts": 2,
            "acknowledged": 2,
            "refused": 0,
            "info": 0,
            "info_appeared": 0,
            "reads_ok": 3,
            "final_reads_ok": 2,
            "stale": 0,
            "stale_reads": 0,
            "stale_ms_max": None,
            "stale_ms_median": None,
            "missed": 0,
            "lost": 0,
            "unaccounted": 0,
            "never_read": 0,
            "duplicated": 0,
            "phantom": 0,
            "anomalies": {"lost": 0, "duplicate": 0, "phantom": 0, "stale": 0},
            "eventual": "VALID",
            "doubts": [],
        },
    )


def test_a_lost_value_is_told_with_the_reads_that_lack_it_and_the_fault():
    h = history(
        *TWO,
        fault(25, 50, "{ch1 zk1 | ch2 zk2}"),
        rest(90),
        final(8, [1], 100, 110, node="ch1"),
        final(9, [1], 100, 120, node="ch2"),
    )
    said = verdict(h, linearizable=False)
    assert said.status is Status.INVALID
    assert said.summary == "1 acknowledged value is missing from the final read (of 2 acknowledged)"
    assert said.anomalies == (
        Anomaly(
            kind="lost",
            text="value 2 of key 0, op #5 ok at 0.030 s on ch1, "
            "during partition {ch1 zk1 | ch2 zk2}",
            ops=(5, 10, 11, 12, 13),
            key=0,
            value=2,
            time_ns=30_000_000,
            steps=(
                "op #5 insert 2 on ch1 was acknowledged at 0.030 s, "
                "during partition {ch1 zk1 | ch2 zk2}",
                "op #10 final-read on ch1 began at 0.100 s and returned 1 value at 0.110 s "
                "(op #12) without 2",
                "op #11 final-read on ch2 began at 0.100 s and returned 1 value at 0.120 s "
                "(op #13) without 2",
            ),
        ),
    )


def test_a_stale_read_is_told_by_the_last_read_that_missed_the_value():
    h = history(*TWO, read(1, [1], 40, 50, node="ch2"), read(1, [1], 60, 70.5, node="ch2"), *FINAL)
    said = verdict(h)
    assert said.anomalies == (
        Anomaly(
            kind="stale",
            text="value 2 of key 0, op #3 ok at 0.030 s on ch1, is missing from op #6 read on "
            "ch2, begun 30 ms later",
            ops=(3, 6, 7),
            key=0,
            value=2,
            time_ns=40_000_000,
            steps=(
                "op #3 insert 2 on ch1 was acknowledged at 0.030 s",
                "op #6 read on ch2 began at 0.060 s and returned 1 value at 0.070 s (op #7) "
                "without 2",
            ),
        ),
    )
    assert said.summary == (
        "1 acknowledged value is missing from reads begun after the acknowledgement "
        "(of 2 acknowledged)"
    )
    figures = said.figures
    assert (figures["stale"], figures["stale_reads"], figures["stale_ms_max"]) == (1, 2, 30.0)


def test_under_the_eventual_promise_a_stale_read_is_a_figure():
    h = history(*TWO, read(1, [1], 40, 50, node="ch2"), *FINAL)
    said = verdict(h, linearizable=False)
    assert (said.status, said.figures["stale"]) == (Status.VALID, 1)
    assert said.summary == "2 acknowledged values, none lost; 1 missing from some reads at first"


def test_of_many_stale_values_the_first_two_and_the_longest_are_shown():
    h = history(
        *(insert(0, v, 10 * v, 10 * v + 1) for v in range(5)),
        read(1, [3], 60, 61),
        read(1, [0, 1, 2, 3], 200, 201),
        final(8, range(5), 300, 310),
    )
    said = verdict(h)
    assert [a.value for a in said.anomalies] == [0, 1, 4]
    assert said.figures["stale_ms_max"] == 200 - 41


# Of each: what happened beside insert 1 (0-10) and insert 2 (20-30), whose key is 0; then what
# breaks the promise, under linearizability and under the eventual promise.
CASES = {
    "a read at the nanosecond of the ack is concurrent": ([read(1, [1], 30, 40), *FINAL], {}, {}),
    "a read one nanosecond later is not": (
        [read(1, [1], 30.000001, 40), *FINAL],
        {"stale": 1},
        {},
    ),
    "a value that comes and goes is stale": (
        [read(1, [1, 2], 40, 50), read(1, [1], 60, 70), *FINAL],
        {"stale": 1},
        {},
    ),
    "a value twice in one read": (
        [read(1, [1, 2, 1], 40, 50), *FINAL],
        {"duplicate": 1},
        {"duplicate": 1},
    ),
    "a value twice in two reads is one duplicate": (
        [read(1, [1, 2, 1], 40, 50), read(1, [1, 2, 1], 60, 70), *FINAL],
        {"duplicate": 1},
        {"duplicate": 1},
    ),
    "a refused value that is read": (
        [insert(3, 7, 0, 5, "fail"), read(1, [1, 2, 7], 40, 50), *FINAL],
        {"phantom": 1},
        {"phantom": 1},
    ),
    "a value that nobody tried": (
        [read(1, [1, 2, 7], 40, 50), *FINAL],
        {"phantom": 1},
        {"phantom": 1},
    ),
    "a value read between a refused attempt and the one that took effect": (
        [
            insert(3, 7, 0, 5, "fail"),
            read(1, [1, 2, 7], 40, 50),
            insert(3, 7, 60, 70),
            rest(90),
            final(8, [1, 2, 7], 100, 110),
        ],
        {"phantom": 1},
        {"phantom": 1},
    ),
    "a value of another key": (
        [
            insert(3, 7, 0, 5, key=1),
            read(1, [1, 2, 7], 40, 50),
            final(5, [7], 100, 110, key=1),
            final(6, [7], 100, 110, key=1, node="ch2"),
            *FINAL,
        ],
        {"phantom": 1},
        {"phantom": 1},
    ),
    "a value read before its insert began": (
        [
            read(1, [1, 2, 7], 40, 50),
            insert(3, 7, 50.000001, 60),
            *FINAL[:1],
            final(8, [1, 2, 7], 100, 110),
            final(9, [1, 2, 7], 100, 110, node="ch2"),
        ],
        {"phantom": 1},
        {"phantom": 1},
    ),
    "the end of a read and the begin of the insert at one time are concurrent": (
        [
            read(1, [1, 2, 7], 40, 50),
            insert(3, 7, 50, 60),
            *FINAL[:1],
            final(8, [1, 2, 7], 100, 110),
            final(9, [1, 2, 7], 100, 110, node="ch2"),
        ],
        {},
        {},
    ),
    "an insert of unknown outcome may appear or not": (
        [insert(3, 7, 0, 5, "info"), insert(4, 8, 0), read(1, [1, 2, 7], 40, 50), *FINAL],
        {},
        {},
    ),
    "lost in one final read only: stale, else the matter of convergence": (
        [rest(90), final(8, [1, 2], 100, 110), final(9, [1], 100, 110, node="ch2")],
        {"stale": 1},
        {},
    ),
    "lost, and read before": (
        [read(1, [1, 2], 40, 50), rest(90), final(8, [1], 100, 110)],
        {"lost": 1},
        {"lost": 1},
    ),
}


@pytest.mark.parametrize(("more", "strict", "eventual"), CASES.values(), ids=CASES)
def test_what_breaks_which_promise(more, strict, eventual):
    h = history(*TWO, *more)
    for linearizable, expected in ((True, strict), (False, eventual)):
        said = verdict(h, linearizable=linearizable)
        counts = {kind: n for kind, n in said.figures["anomalies"].items() if n}
        assert counts == expected
        assert said.status is (Status.INVALID if expected else Status.VALID)
        assert said.figures["eventual"] == ("INVALID" if eventual else "VALID")


UNKNOWN = {
    "nothing": ([], "no insert was acknowledged; no read was answered"),
    "only info": (
        [insert(0, 1, 0, 5, "info"), read(1, None, 0, 9, "info")],
        "no insert was acknowledged; no read was answered",
    ),
    "open calls": ([insert(0, 1, 0), read(1, None, 0)], None),
    "reads only": ([read(1, [], 0, 9)], "no insert was acknowledged"),
    "no final read": (
        [*TWO, read(1, [1, 2], 40, 50)],
        "2 acknowledged values in no final read, and not every replica answered one: 1, 2",
    ),
    "final reads before the ack": (
        [final(8, [1], 12, 13), *TWO],
        "1 acknowledged value in no final read, and not every replica answered one: 2",
    ),
    "a replica that did not answer may have it": (
        [*TWO, read(1, [1, 2], 40, 50, node="ch2"), final(8, [1], 90, 99)],
        "1 acknowledged value in no final read, and not every replica answered one: 2",
    ),
    "not at rest": (
        [*TWO, rest(80, "ch2 has 3 queue entries"), final(8, [1], 90, 99)],
        "not at rest before the final reads: ch2 has 3 queue entries",
    ),
}


@pytest.mark.parametrize(("calls", "summary"), UNKNOWN.values(), ids=UNKNOWN)
def test_too_little_is_unknown_under_the_eventual_promise(calls, summary):
    said = verdict(history(*calls), linearizable=False)
    assert said.status is Status.UNKNOWN
    assert said.summary == (summary or "no insert was acknowledged; no read was answered")


def test_a_value_that_is_missed_and_then_unaccounted_for_is_stale():
    h = history(*TWO, read(1, [1], 40, 50))
    said = verdict(h)
    figures = said.figures
    assert said.status is Status.INVALID
    assert (figures["stale"], figures["lost"], figures["unaccounted"]) == (1, 0, 2)
    assert figures["never_read"] == 1


def test_attempts_at_one_value_count_once_from_the_first_acknowledgement():
    h = history(
        insert(0, 1, 0, 10, "info"),
        insert(1, 1, 20, 30),
        insert(2, 1, 35, 40, "fail"),
        read(3, [1], 5, 7),
        final(8, [1], 50, 60),
    )
    said = verdict(h)
    assert (said.status, said.figures["attempts"]) == (Status.VALID, 1)


def test_an_ok_read_without_values_breaks_the_rules():
    with pytest.raises(HistoryError, match=r"op #1: an ok read has value None, expected a tuple"):
        verdict(history(read(0, None, 0, 1)))


def by_definition(h: History) -> dict[str, int]:
    """Compute set-full by its definition: quantifiers over calls, no sweep, no bits."""
    out = dict.fromkeys(
        (
            "stale",
            "stale_reads",
            "missed",
            "lost",
            "unaccounted",
            "never_read",
            "duplicated",
            "phantom",
            "acknowledged",
            "info_appeared",
        ),
        0,
    )
    nodes = {p.invoke.node for p in h.pairs}
    for key in h.keys:
        of_key = [p for p in h.pairs if p.invoke.key == key]
        inserts = [p for p in of_key if p.invoke.f == "insert"]
        reads = [p for p in of_key if p.invoke.f != "insert" and p.kind is Kind.OK]
        finals = [p for p in reads if p.invoke.f == "final-read"]
        late_reads = set()
        for value in {p.invoke.value for p in inserts}:
            tries = [p for p in inserts if p.invoke.value == value]
            acks = [p.end.time_ns for p in tries if p.kind is Kind.OK]
            has = [r for r in reads if value in r.end.value]
            if not acks:
                out["info_appeared"] += bool(has) and any(p.kind is Kind.INFO for p in tries)
                continue
            out["acknowledged"] += 1
            misses = [r for r in reads if r.invoke.time_ns > min(acks) and r not in has]
            late_reads |= {r.invoke.index for r in misses}
            kept = any(r in has for r in finals)
            told = {r.invoke.node for r in finals if r.invoke.time_ns > min(acks)}
            lost = not kept and bool(told) and told == nodes
            out["lost"] += lost
            out["unaccounted"] += not kept and not lost
            out["missed"] += bool(misses)
            out["stale"] += bool(misses) and not lost
            out["never_read"] += not has and not lost
        out["stale_reads"] += len(late_reads)
        for value in {v for r in reads for v in r.end.value}:
            has = [r for r in reads if value in r.end.value]
            tries = [p for p in inserts if p.invoke.value == value and p.kind is not Kind.FAIL]
            out["duplicated"] += any(r.end.value.count(value) > 1 for r in has)
            begins = min((p.invoke.time_ns for p in tries), default=None)
            out["phantom"] += any(begins is None or r.end.time_ns < begins for r in has)
    return out


@given(histories(keys=2, calls=14, unique=False))
def test_it_agrees_with_its_definition(h):
    said = verdict(h)
    expected = by_definition(h)
    assert {name: said.figures[name] for name in expected} == expected
    broken = expected["lost"] + expected["stale"] + expected["duplicated"] + expected["phantom"]
    assert (said.status is Status.INVALID) == bool(broken)

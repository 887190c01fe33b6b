"""A history's columns say what its ops say; ops come back as they were written."""

import gc
import json
import pickle
from array import array
from collections import Counter
from collections.abc import Mapping
from itertools import accumulate

import pyarrow as pa
import pytest
from checkers_cases import fault, histories, history, insert, read
from hypothesis import given
from hypothesis import strategies as st
from store_cases import OPS

from checkers.judge import judge
from checkers.ladder import Level
from checkers.sets.key_sets import key_sets
from checkers.suite import set_checkers
from harness.core.errors import HistoryError
from harness.core.history import History
from harness.core.lines import decoded, encoded
from harness.core.op import NEMESIS, Kind, Op, Written
from harness.core.rows import NEVER_NS, Rows
from harness.core.verdict import Status

PLAIN = [
    Op(index=0, process=3, kind=Kind.INVOKE, f="insert", time_ns=5, value=7, key=1, node="ch1"),
    Op(index=1, process=3, kind=Kind.OK, f="insert", time_ns=9, value=7, key=1, node="ch1"),
]
LINES = b"".join([encoded(op) for op in PLAIN])


def of_lines(h: History) -> History:
    return History(Rows.of_lines(b"".join([encoded(op) for op in h])))


def test_ops_of_lines_are_the_ops_that_were_written() -> None:
    lines = b"".join([encoded(op) for op in OPS])
    rows = Rows.of_lines(lines)
    assert [rows[at] for at in range(len(OPS))] == list(OPS)
    assert rows[-1] == OPS[-1]
    assert tuple(Rows.of_lines(lines)) == OPS
    assert Rows.of_lines(lines)[2:4] == OPS[2:4]
    with pytest.raises(IndexError):
        rows[len(OPS)]


def test_a_history_goes_to_another_process() -> None:
    h = History(OPS)
    assert h.faults[0].text == "{ch1 | ch2 ch3}"
    back = pickle.loads(pickle.dumps(h))
    assert tuple(back) == OPS
    assert list(back.pairs) == list(h.pairs)


def test_an_entry_that_is_written_already_stands_for_what_it_says() -> None:
    value = {"pending": [], "protocol": Written('[["last",5,"0",7]]'), "é": float("inf")}
    op = Op(index=0, process=NEMESIS, kind=Kind.OK, f="quiesce", time_ns=5, value=value)
    output = {"pending": [], "protocol": [["last", 5, "0", 7]], "é": float("inf")}
    assert decoded(encoded(op)).value == output
    assert encoded(op) == encoded(decoded(encoded(op)))


@pytest.mark.parametrize(
    "line",
    [
        b'{"index": 0, "process": 0, "kind": "invoke", "f": "read", "time_ns": 1}\n',
        LINES.replace(b"ch1", b"c\\u0068", 1),
        LINES.replace(b'"value":7', b'"value":07', 1),
        LINES.replace(b'"value":7', b'"value":7.0', 1),
        LINES.replace(b'"value":7', b'"value":[7', 1),
        LINES.replace(b'"value":7', b'"value":{"a":1', 1),
        LINES.replace(b'"error":null}', b'"error":null},', 1),
        LINES.replace(b'"kind":"ok"', b'"kind":"okay"'),
        LINES.replace(b"ch1", b"c\xff1"),
        LINES.replace(b"ch1", b"c\n1"),
        LINES[:-1],
        b"\n" + LINES,
    ],
)
def test_a_line_that_no_journal_writes_is_not_guessed_at(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"\d+"):
        Rows.of_lines(line)


def test_an_object_is_looked_into_at_once() -> None:
    lines = LINES.replace(b'"value":7', b'"value":{"a":oops}')
    with pytest.raises(ValueError, match=r"malformed|Expecting value"):
        Rows.of_lines(lines)


@pytest.mark.parametrize("field", ["process", "key", "time_ns"])
def test_a_field_beyond_64_bits_is_named(field: str) -> None:
    fields = {"index": 0, "process": 0, "kind": Kind.INVOKE, "f": "read", "time_ns": 1}
    op = Op(**{**fields, field: 2**63})
    with pytest.raises(HistoryError, match=f"row 0: {field} takes more than 64 bits"):
        History([op])


def test_no_number_of_a_process_is_the_nemesis() -> None:
    op = Op(index=0, process=-(2**63), kind=Kind.INVOKE, f="read", time_ns=1)
    with pytest.raises(HistoryError, match="row 0: process takes more than 64 bits"):
        History([op])


def test_a_value_beyond_64_bits_is_kept_and_not_judged() -> None:
    h = history(insert(0, 2**63, 0, 1), read(1, [2**63 - 1, 2**64], 2, 3))
    assert of_lines(h)[1].value == 2**63
    assert of_lines(h)[3].value == (2**63 - 1, 2**64)
    with pytest.raises(HistoryError, match=r"op #0: insert of a number of more than 64 bits"):
        key_sets(h)
    judgement = judge(
        h, set_checkers(Level.LINEARIZABLE, faults_expected=False), 10, Level.LINEARIZABLE
    )
    assert judgement.status is Status.UNKNOWN


@pytest.mark.parametrize(
    ("value", "says"), [("null", "an insert of None"), ("[1]", r"an insert of \(1,\)")]
)
def test_an_insert_of_no_number_is_told(value: str, says: str) -> None:
    lines = LINES.replace(b'"value":7', b'"value":' + value.encode())
    with pytest.raises(HistoryError, match=f"op #0: {says}, expected an int"):
        key_sets(History(Rows.of_lines(lines)))


def test_a_read_of_no_numbers_is_told() -> None:
    lines = LINES.replace(b"insert", b"read")
    with pytest.raises(HistoryError, match=r"op #1: an ok read has value 7, expected a tuple"):
        key_sets(History(Rows.of_lines(lines)))


def test_calls_are_arrow_columns_that_outlive_their_history() -> None:
    h = history(
        insert(0, 7, 0, 4),
        read(1, [7, 5], 4, 6),
        insert(2, 9, 5, None),
        insert(0, 8, 5, 8, "fail"),
        read(1, [], 6, 9, f="final-read"),
        read(1, [7], 10, None),
    )
    (found,) = h.columns.calls("set")
    found.__arrow_c_stream__()  # nobody takes it
    table = pa.RecordBatchReader.from_stream(found).read_all()
    again = pa.RecordBatchReader.from_stream(found).read_all()
    del h, found
    gc.collect()
    table.validate(full=True)
    assert table == again
    assert table.to_pydict() == {
        "process": [0, 1, 2, 1],
        "f": ["add", "read", "add", "read"],
        "value": [7, None, 9, None],
        # The last one after the call of its process that ended then.
        "call": [0, 4_000_000, 5_000_000, 6_000_001],
        "ret": [4_000_000, 6_000_000, None, 9_000_000],
        "output": [None, [7, 5], None, []],
    }


WORDS = st.text(max_size=3)
NUMBER = st.integers(-(2**63), 2**63 - 1)
CALLS = st.lists(
    st.tuples(
        st.sampled_from(["insert", "read", "final-read"]) | WORDS,
        st.none() | NUMBER,
        st.none() | WORDS,
        st.none() | NUMBER | st.lists(NUMBER, max_size=3).map(tuple) | st.just({"a": [1, "}"]}),
        st.sampled_from([Kind.OK, Kind.FAIL, Kind.INFO, None]),
        st.none() | WORDS,
    ),
    max_size=6,
)


def made(calls: list[tuple], faulty: bool) -> History:
    """Return a history in which each call has its own process, and ends come in reverse order."""
    ops: list[Mapping] = []
    for process, (f, key, node, value, _, _) in enumerate(calls):
        same = {"process": process, "f": f, "key": key, "node": node}
        ops.append({**same, "kind": Kind.INVOKE, "value": value})
    for process, (f, key, node, value, kind, error) in reversed(list(enumerate(calls))):
        same = {"process": process, "f": f, "key": key, "node": node}
        if kind is not None:
            ops.append({**same, "kind": kind, "value": value, "error": error})
    if faulty:
        ops.append({"process": NEMESIS, "f": "cut", "kind": Kind.INVOKE})
    return History([Op(index=at, time_ns=at * 10, **op) for at, op in enumerate(ops)])


@given(CALLS, st.booleans())
def test_columns_say_what_the_ops_say(calls: list[tuple], faulty: bool) -> None:
    written = made(calls, faulty)
    h = of_lines(written)
    columns = h.columns
    ends = {op.process: op for op in written if op.kind is not Kind.INVOKE}
    invoked = [op for op in written if op.kind is Kind.INVOKE and op.process != NEMESIS]
    assert [(p.invoke, p.end) for p in h.pairs] == [(op, ends.get(op.process)) for op in invoked]
    assert h.rows.called(columns.pairs(range(len(h.pairs)))) == list(h.pairs)
    assert columns.calls_count() == len(calls)
    assert h.nemesis == tuple(op for op in written if op.process == NEMESIS)
    assert h.keys == tuple(sorted({op.key for op in invoked if op.key is not None}))
    assert sorted(columns.nodes()) == sorted({op.node for op in invoked if op.node is not None})
    by_f, by_node = columns.tally([0.5, 1.0])
    kinds = Counter((p.invoke.f, p.kind) for p in h.pairs)
    order = (Kind.OK, Kind.FAIL, Kind.INFO)
    assert {f: ends for f, ends, _, _ in by_f} == {
        op.f: [kinds[op.f, kind] for kind in order] for op in invoked
    }
    assert sum(sum(ends) for _, _, ends in by_node) == len(calls)
    codes = Counter(
        (p.invoke.f, p.end.error.partition(":")[0])
        for p in h.pairs
        if p.end is not None and p.end.error is not None
    )
    assert {(f, code): n for f, _, _, errors in by_f for code, n in errors} == dict(codes)


@given(CALLS, st.booleans(), st.lists(st.sampled_from([Kind.OK, Kind.FAIL, Kind.INFO])))
def test_some_calls_are_those_with_a_name_and_a_kind(
    calls: list[tuple], long: bool, kinds: list[Kind]
) -> None:
    written = made(calls, faulty=True)
    h = of_lines(written)
    h.rows.kept = not long
    names = ["read", "final-read", calls[0][0]] if calls else ["read"]
    expected = [
        (place, pair)
        for place, pair in enumerate(written.pairs)
        if pair.invoke.f in names and (not kinds or pair.kind in kinds)
    ]
    found = h.calls(*names, kinds=kinds)
    assert list(zip(found.places, found, strict=True)) == expected
    assert [found[at] for at in range(-len(found), 0)] == [pair for _, pair in expected]
    assert found[1:] == tuple(pair for _, pair in expected[1:])
    ends = [p.end.time_ns if p.end and p.kind is Kind.OK else NEVER_NS for _, p in expected]
    assert [list(times) for times in found.spans] == [
        [pair.invoke.time_ns for _, pair in expected],
        ends,
    ]
    assert list(h.answered(*names)) == [
        (p.invoke, p.end) for p in written.pairs if p.invoke.f in names and p.kind is Kind.OK
    ]
    assert list(h.nemesis) == list(written.nemesis)


@given(histories(keys=2, unique=False))
def test_repeated_calls_come_value_by_value(h: History) -> None:
    inserts = h.calls("insert", kinds=(Kind.OK, Kind.INFO))
    groups: dict[tuple, list[int]] = {}
    for place, pair in zip(inserts.places, inserts, strict=True):
        groups.setdefault((pair.invoke.key, pair.invoke.value), []).append(place)
    again = [places for places in groups.values() if len(places) > 1]
    places, ends = (array("I", found) for found in h.columns.repeated(inserts.places))
    assert list(places) == [place for group in again for place in group]
    assert list(ends) == list(accumulate(map(len, again)))


@given(histories(keys=2, unique=False))
def test_sets_in_columns_are_the_sets(h: History) -> None:
    for key in key_sets(of_lines(h)):
        tries = [p for p in h.pairs if p.invoke.f == "insert" and p.invoke.key == key.key]
        assert list(key.inserts) == list(dict.fromkeys(p.invoke.value for p in tries))
        for value, one in key.inserts.items():
            own = [p for p in tries if p.invoke.value == value]
            acks = [p.end for p in own if p.kind is Kind.OK]
            possible = [p for p in own if p.kind is not Kind.FAIL]
            assert one.attempts == len(own)
            assert one.ack == min(acks, key=lambda op: op.index, default=None)
            assert one.invoke == (possible or own)[0].invoke
            assert key.values[one.bit.bit_length() - 1] == value
        answered = [
            p for p in h.pairs if "read" in p.invoke.f and p.kind is Kind.OK and p.end is not None
        ]
        own_reads = [p for p in answered if p.invoke.key == key.key]
        assert [(r.invoke, r.end) for r in key.reads] == [(p.invoke, p.end) for p in own_reads]
        for one_read in key.reads:
            bits = [bit for bit in range(len(key.values)) if one_read.mask >> bit & 1]
            assert {key.values[bit] for bit in bits} == set(one_read.values)
            assert one_read.duplicated == (len(one_read.values) > len(bits))
        assert [r.invoke.f for r in key.finals] == ["final-read"] * len(key.finals)


def test_verdicts_do_not_depend_on_where_the_ops_came_from() -> None:
    h = history(
        fault(5, 45),
        *(insert(0, value, value * 10, value * 10 + 5) for value in range(12)),
        *(read(1, range(value), value * 10 + 6, value * 10 + 7) for value in range(12)),
    )
    checkers = set_checkers(Level.LINEARIZABLE, faults_expected=True)
    output = [
        json.dumps(judge(one, checkers, 10, Level.LINEARIZABLE).results()["ladder"])
        for one in (h, of_lines(h))
    ]
    assert output[0] == output[1]
    assert "INVALID" in output[0]

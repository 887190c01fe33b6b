"""Invariants: a history in, the whole verdict out."""

import pickle
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyporcupine import INVARIANTS, HistoryError, InvalidError, Operation, check_invariant

Row = tuple[Any, ...]
"""f, value, output; times are the position, or (call, ret) in fourth place, or None if it never
returned."""


def history(*rows: Row) -> list[Operation]:
    """Return operations one after the other, unless a row has times of its own."""
    made = []
    for at, (f, value, output, *times) in enumerate(rows):
        call, ret = (10 * at, 10 * at + 5) if not times else times[0] or (10 * at, None)
        made.append(Operation(at, f, value=value, call=call, ret=ret, output=output))
    return made


def enqueue(value: Any, *times: Any) -> Row:
    return ("enqueue", value, None, *times)


def dequeue(value: Any, *times: Any) -> Row:
    return ("dequeue", None, value, *times)


def drain(*values: Any) -> Row:
    return ("drain", None, list(values))


def add(value: Any, *times: Any) -> Row:
    return ("add", value, None, *times)


def read(found: Any, *times: Any) -> Row:
    return ("read", None, found, *times)


def txn(*steps: Row) -> Row:
    return ("txn", None, [list(step) for step in steps])


def final(found: Any) -> Row:
    return ("final-read", None, found)


def send(key: Any, offset: int, value: Any) -> Row:
    return ("send", [["send", key, value]], [["send", key, [offset, value]]])


def poll(found: Any) -> Row:
    return ("poll", [["poll"]], [["poll", found]])


LOST = None
"""In place of times: the operation never returned."""

Case = tuple[str, str, Sequence[Row], dict[str, Any], str, str]
CASES: list[Case] = [
    # name, invariant, history, options, status, reason
    ("what went in came out", "total-queue", [enqueue(1), enqueue(2), drain(2, 1)], {}, "VALID",
     "2 values acknowledged, and each came out"),
    ("a value is gone from a drained queue", "total-queue", [enqueue(1), enqueue(2), drain(2)], {},
     "INVALID", "1 value acknowledged and never came out, although the queue was empty later: 1"),
    ("nobody drained the queue", "total-queue", [enqueue(1), enqueue(2), dequeue(2)], {}, "UNKNOWN",
     "1 value acknowledged and never came out, and nobody saw the queue empty after that: drain it "
     "at the end"),
    ("a dequeue that found nothing also saw it empty", "total-queue", [enqueue(1), dequeue(None)],
     {}, "INVALID",
     "1 value acknowledged and never came out, although the queue was empty later: 1"),
    ("a drain that began before the acknowledgement proves nothing", "total-queue",
     [enqueue(1, (0, 9)), ("drain", None, [], (5, 20))], {}, "UNKNOWN",
     "1 value acknowledged and never came out, and nobody saw the queue empty after that: drain it "
     "at the end"),
    ("a dequeue that never returned may have it", "total-queue",
     [enqueue(1), dequeue(None, LOST), drain()], {}, "UNKNOWN",
     "1 value acknowledged and never came out, but 1 dequeue never returned and may have taken as "
     "many"),
    ("it has not taken two", "total-queue",
     [enqueue(1), enqueue("b"), dequeue(None, LOST), drain()], {}, "INVALID",
     "2 values acknowledged and never came out, although the queue was empty later: 1, \"b\"; "
     "1 dequeue that never returned may have taken as many"),
    ("a drain that never returned may have taken all", "total-queue",
     [enqueue(1), enqueue(2), ("drain", None, None, LOST), drain()], {}, "UNKNOWN",
     "2 values acknowledged and never came out, but 1 drain never returned and may have taken as "
     "many"),
    ("a value comes from nowhere", "total-queue", [enqueue(1), drain(1, 7)], {}, "INVALID",
     "1 value came out that nobody had put in: 7"),
    ("a value of unknown outcome may come out, and one may come twice", "total-queue",
     [enqueue(1), enqueue(2, LOST), drain(1, 1, 2)], {}, "VALID",
     "1 value acknowledged, and each came out"),
    ("an empty queue says nothing", "total-queue", [enqueue(1, LOST), drain()], {}, "UNKNOWN",
     "nothing was checked: no value was acknowledged, and none came out"),

    ("identifiers differ", "unique-ids", [("generate", None, 3), ("generate", None, 1)], {},
     "VALID", "2 identifiers differ, from 1 to 3"),
    ("an identifier comes again", "unique-ids", [("generate", None, "a")] * 3, {}, "INVALID",
     '1 identifier returned more than once: "a" 3 times'),
    ("one identifier differs from nothing", "unique-ids",
     [("generate", None, "a"), ("generate", None, None, LOST)], {}, "UNKNOWN",
     "nothing was checked: fewer than two identifiers were returned"),

    ("a read finds the sum", "counter-bounds", [add(2), add(3), read(5)], {}, "VALID",
     "1 read within bounds"),
    ("a read finds too little, whatever the counter began with", "counter-bounds",
     [read(0), add(2), add(3), read(4)], {}, "INVALID",
     "1 read out of bounds: the first found 4, expected 5"),
    ("a read finds what may have been added", "counter-bounds", [add(2), add(3, LOST), read(5)], {},
     "VALID", "1 read within bounds"),
    ("another initial value would explain it", "counter-bounds", [add(2), read(102)], {}, "UNKNOWN",
     "explained if the counter began with 100, and nothing says what it began with: give that with "
     "initial=100"),
    ("with that value it is valid", "counter-bounds", [add(2), read(102)], {"initial": 100},
     "VALID", "1 read within bounds"),
    ("with a stated value it is not", "counter-bounds", [add(2), read(102)], {"initial": 0},
     "INVALID", "1 read out of bounds: the first found 102, expected 2"),
    ("a negative addition that may have happened lowers the least", "counter-bounds",
     [add(5), add(-3, LOST), add(1, LOST), read(2), read(6)], {}, "VALID", "2 reads within bounds"),
    ("an addition that returns the sum counts itself", "counter-bounds",
     [add(5), ("add", 1, 5), read(6)], {"initial": 0}, "INVALID",
     "1 read out of bounds: the first found 5, expected 6"),
    ("only additions say nothing", "counter-bounds", [add(1)], {}, "UNKNOWN",
     "nothing was checked: no read returned a value"),

    ("the total stays", "bank", [read([4, 6]), ("transfer", {"from": 0}, None), read([5, 5])], {},
     "VALID", "2 reads of a total of 10"),
    ("the total changes", "bank", [read({"a": 4, "b": 6}), read({"a": 4, "b": 7}), read([10])], {},
     "INVALID", "1 read of another total: the first has 11, expected 10, as in 2 other reads"),
    ("the total is not as stated", "bank", [read([4, 6])], {"initial": 11}, "INVALID",
     "1 read of another total: the first has 10, expected 11, as was stated"),
    ("one read has no total to compare with", "bank", [read([4, 6])], {}, "UNKNOWN",
     "one read alone says nothing about the total: give the sum of all accounts with initial=10"),
    ("a balance is negative", "bank", [read([-1, 11])], {}, "INVALID",
     "1 read of a negative balance: the first has -1"),
    ("negative balances are allowed", "bank", [read([-1, 11])],
     {"negative_balances": True, "initial": 10}, "VALID", "1 read of a total of 10"),
    ("an account has no balance", "bank", [read([[0, 10], [1, None]])], {}, "INVALID",
     "1 read without a balance: the first has 1 account without one"),
    ("no read returned", "bank", [read(None, LOST), read(None)], {}, "UNKNOWN",
     "nothing was checked: no read returned balances"),

    ("elements stay", "set-full", [add(1), read([1]), add(2), read([1, 2])], {}, "VALID",
     "2 elements stable, none lost"),
    ("an element is lost", "set-full", [add(1), read([1]), add(2), read([2])], {}, "INVALID",
     "1 element known, and in no later read: 1"),
    ("an element that was never seen is lost", "set-full", [add(1), add(2), read([2])], {},
     "INVALID", "1 element known, and in no later read: 1"),
    ("a read beside the add proves no loss", "set-full",
     [add(1), add(2, (20, 40)), read([1], (30, 50))], {}, "VALID", "1 element stable, none lost"),
    ("an element appears late", "set-full", [add(1), read([]), read([1])], {}, "VALID",
     "1 element stable, none lost"),
    ("that is stale for a linearizable set", "set-full", [add(1), read([]), read([1])],
     {"linearizable": True}, "INVALID",
     "1 element known and missing from a read, but found later: 1"),
    ("an element comes from nowhere", "set-full", [add(1), read([1, 7])], {}, "INVALID",
     "1 element read that nobody added: 7"),
    ("an element is there twice", "set-full", [add(1), read([1, 1])], {}, "INVALID",
     "1 element several times in one read: 1"),
    ("Maelstrom broadcasts elements", "set-full", [("broadcast", 1, None), read([1])], {}, "VALID",
     "1 element stable, none lost"),
    ("elements may be pairs", "set-full", [add([0, 1]), read([[0, 1]])], {}, "VALID",
     "1 element stable, none lost"),
    ("no element was ever read", "set-full", [add(1, LOST), read([])], {}, "UNKNOWN",
     "nothing was checked: no read shows that an element is in the set"),

    ("final reads see all additions", "pn-counter",
     [add(3), read(0), add(-1, LOST), final(2), final(3)], {}, "VALID", "2 reads within bounds"),
    ("a final read misses one", "pn-counter", [add(3), add(2), final(3)], {"initial": 0},
     "INVALID", "1 read out of bounds: the first found 3, expected 5"),
    ("no read is final", "pn-counter", [add(3), read(3)], {}, "UNKNOWN",
     "nothing was checked: no final read returned a value"),
    ("records are polled in order", "kafka",
     [send("x", 0, 7), send("x", 2, 8), poll({"x": [[0, 7]]}), poll({"x": [[2, 8]]})], {}, "VALID",
     "2 records polled in order"),
    ("an acknowledged record is never polled", "kafka",
     [send("x", 0, 7), send("x", 1, 8), poll({"x": [[1, 8]]})], {}, "INVALID",
     "1 record acknowledged and never polled, although a later offset was: 7 at offset 0 of key "
     '"x"'),
    ("a poll that never returned may have had it", "kafka",
     [send("x", 0, 7), send("x", 1, 8), ("poll", [["poll"]], None, LOST), poll({"x": [[1, 8]]})],
     {}, "UNKNOWN",
     "1 record acknowledged and never polled, although a later offset was, but 1 poll never "
     "returned and may have had them"),
    ("nobody sent it", "kafka", [poll({"x": [[0, 7]]})], {}, "INVALID",
     '1 record polled that nobody sent: 7 at offset 0 of key "x"'),
    ("a send that never returned may have", "kafka",
     [("send", [["send", "x", 7]], None, LOST), poll({"x": [[0, 7]]})], {}, "VALID",
     "1 record polled in order"),
    ("it was sent once and is there twice", "kafka",
     [send("x", 0, 7), poll({"x": [[0, 7], [1, 7]]})], {}, "INVALID",
     '1 record sent once, and also at an earlier offset: 7 at offset 1 of key "x"'),
    ("an offset has two values", "kafka", [send("x", 0, 7), send("x", 0, 8)], {}, "INVALID",
     '1 record beside another value there: 8 at offset 0 of key "x"'),
    ("one operation polls backwards", "kafka",
     [send("x", 0, 7), send("x", 1, 8), poll({"x": [[1, 8], [0, 7]]})], {}, "INVALID",
     "1 record polled after the same or a later offset in one operation: 7 at offset 0 of key "
     '"x"'),
    ("one operation skips what another polled", "kafka",
     [send("x", 0, 7), send("x", 1, 8), send("x", 2, 9), poll({"x": [[0, 7], [2, 9]]}),
      poll({"x": [[1, 8]]})], {}, "INVALID",
     "1 record polled in one operation without a record before it: 9 at offset 2 of key \"x\""),
    ("Jepsen's own names are understood", "kafka",
     [("txn", [[":send", 1, 7], [":poll"]], [[":send", 1, [0, 7]], [":poll", {1: [[0, 7]]}]])], {},
     "VALID", "1 record polled in order"),
    ("nobody polled", "kafka", [send("x", 0, 7)], {}, "UNKNOWN",
     "nothing was checked: no poll returned a record"),
    ("reads see the writes in one order", "long-fork",
     [txn(("w", 0, 1)), txn(("r", 0, 1), ("r", 1, None)), txn(("r", 1, 1), ("r", 0, 1))], {},
     "VALID", "2 reads in one order of the writes"),
    ("two reads see them in different orders", "long-fork",
     [txn(("r", 0, 1), ("r", 1, None)), txn(("r", 1, 1), ("r", 0, None))], {}, "INVALID",
     "1 pair of reads of the same keys, each of which found a key written that the other did not"),
    ("Jepsen's own names are understood", "long-fork",
     [("read", None, [[":r", 0, 1], [":r", 1, None]]), ("write", [[":w", 1, 1]], None),
      ("read", None, [[":r", 1, 1], [":r", 0, None]])], {}, "INVALID",
     "1 pair of reads of the same keys, each of which found a key written that the other did not"),
    ("a key is written twice", "long-fork", [txn(("w", 0, 1)), txn(("w", 0, 2))], {}, "UNKNOWN",
     "1 key written more than once: 0; a long fork is defined where each key is written once"),
    ("reads found two values of a key", "long-fork", [txn(("r", 0, 1)), txn(("r", 0, 2))], {},
     "UNKNOWN", "reads found different values of key 0; a long fork is defined where each key is "
     "written once"),
    ("reads of different keys are not compared", "long-fork",
     [txn(("r", 0, 1)), txn(("r", 1, 1))], {}, "UNKNOWN",
     "nothing was checked: no two reads of the same keys of which one found a write"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("invariant", "rows", "options", "status", "reason"),
    [case[1:] for case in CASES],
    ids=[f"{case[1]}: {case[0]}" for case in CASES],
)
def test_a_history_has_this_verdict(
    invariant: Any, rows: Sequence[Row], options: dict[str, Any], status: str, reason: str
) -> None:
    result = check_invariant(history(*rows), invariant, **options)
    assert (result.status, result.reason) == (status, reason)


def test_every_invariant_has_cases_of_each_status() -> None:
    assert {(name, status) for _, name, *_, status, _ in CASES} == {
        (name, status) for name in INVARIANTS for status in ("VALID", "INVALID", "UNKNOWN")
    }


def test_findings_have_counts_and_the_operations_that_show_them() -> None:
    rows = [enqueue(1), enqueue(2), enqueue(3, LOST), drain(3, 3, 9), drain()]
    result = check_invariant(history(*rows), "total-queue")
    assert result.counts == {
        "attempted": 3,
        "acknowledged": 2,
        "dequeued": 3,
        "missing": 2,
        "lost": 2,
        "unexpected": 1,
        "duplicated": 1,
        "recovered": 1,
    }
    assert [(f.name, f.forbidden, f.count, f.operations) for f in result.findings] == [
        ("lost", True, 2, [0, 1]),
        ("unexpected", True, 1, [3]),
        ("duplicated", False, 1, [3]),
    ]


def test_keys_are_judged_apart_and_the_worst_decides() -> None:
    good, bad = history(add(1), read([1])), history(add(1), read([2]))
    both = [
        Operation(f"{key}{one.process}", one.f, key, one.value, call=one.call, ret=one.ret,
                  output=one.output)
        for key, rows in (("good", good), ("bad", bad))
        for one in rows
    ]  # fmt: skip
    result = check_invariant(both, "set-full")
    assert (result.status, result.keys) == ("INVALID", 2)
    assert [(finding.name, finding.key) for finding in result.findings] == [
        ("lost", "bad"),
        ("unexpected", "bad"),
    ]
    assert result.counts["stable"] == 1


def test_columns_of_arrow_have_the_same_verdict_as_operations() -> None:
    columns = pa.table(
        {
            "process": [0, 1, 2],
            "f": ["add", "add", "read"],
            "value": [1, 2, None],
            "output": pa.array([None, None, [2]], pa.list_(pa.int64())),
            "call": [0, 10, 20],
            "ret": [5, 15, 25],
        }
    )
    rows = history(add(1), add(2), read([2]))
    found, expected = check_invariant(columns, "set-full"), check_invariant(rows, "set-full")
    assert (found.status, found.reason) == (expected.status, expected.reason)
    assert found.counts == expected.counts


@pytest.mark.parametrize(
    ("invariant", "row", "says"),
    [
        ("total-queue", ("push", 1, None), 'f is "push", expected "enqueue", "dequeue" or "drain"'),
        ("total-queue", ("drain", None, 3), "output is 3, expected a list of the values"),
        ("unique-ids", ("generate", None, None), "output is None, expected the identifier"),
        ("counter-bounds", add("x"), 'value is "x", expected an int of 64 bits'),
        ("counter-bounds", add(None), "value is None, expected an int of 64 bits"),
        ("counter-bounds", read([1]), "output is [1], expected an int of 64 bits"),
        ("bank", read(["x"]), 'output is ["x"], expected balances: a list of ints, or of pairs'),
        ("bank", read([]), "output is [], expected balances"),
        ("set-full", read(3), "output is 3, expected a list of the elements"),
        ("long-fork", txn(("r", 0, 1), ("w", 1, 1)), "expected one write such as"),
        ("long-fork", ("txn", None, None), "value is None, expected one write such as"),
    ],
)
def test_a_row_that_the_invariant_does_not_know_is_named(
    invariant: Any, row: Row, says: str
) -> None:
    with pytest.raises(HistoryError) as refused:
        check_invariant(history(row), invariant)
    assert str(refused.value).startswith("row 0: ")
    assert says in str(refused.value)


@pytest.mark.parametrize("invariant", INVARIANTS)
def test_no_operations_say_nothing(invariant: Any) -> None:
    result = check_invariant([], invariant)
    assert (result.status, result.keys) == ("UNKNOWN", 0)
    assert result.reason == "nothing was checked: there are no operations"


def test_an_unknown_invariant_is_refused() -> None:
    unknown: Any = "set"
    with pytest.raises(ValueError, match=r'invariant is "set", expected one of "total-queue", '):
        check_invariant([], unknown)


def test_a_result_is_no_truth_value_and_can_be_raised_and_sent() -> None:
    result = check_invariant(history(add(1), read([1, 1])), "set-full")
    with pytest.raises(TypeError, match="neither true nor false"):
        bool(result)
    with pytest.raises(InvalidError, match="1 element several times in one read: 1"):
        result.raise_if_invalid()
    again = pickle.loads(pickle.dumps(result))
    assert (again.status, again.counts) == (result.status, result.counts)
    assert [finding.text for finding in again.findings] == [result.reason]


def test_a_limit_that_is_reached_leaves_it_open() -> None:
    rows = [("generate", None, at) for at in range(20_000)]
    result = check_invariant(history(*rows), "unique-ids", time_s=1e-9)
    assert (result.status, result.reason) == ("UNKNOWN", "out of time")
    result = check_invariant(history(*rows), "unique-ids", memory_mb=1e-3)
    assert (result.status, result.reason) == ("UNKNOWN", "out of memory")

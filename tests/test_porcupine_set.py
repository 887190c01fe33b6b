"""The set model of pyporcupine: literal history in, whole verdict out."""

from dataclasses import dataclass
from typing import Any

import pytest
from pyporcupine import HistoryError, Operation, check


def add(process: int, value: Any, call: int, ret: int | None, key: Any = None) -> Operation:
    return Operation(process, "add", key, value, call=call, ret=ret)


def read(process: int, output: Any, call: int, ret: int | None, key: Any = None) -> Operation:
    return Operation(process, "read", key, call=call, ret=ret, output=output)


@dataclass(frozen=True)
class Case:
    says: str
    history: list[Operation]
    linearizable: list[tuple[int, int, str, int | None]]
    """The steps of the witness; none where it is valid."""
    sequential: list[tuple[int, int, str, int | None]]


CASES = [
    Case("nothing happened", [], [], []),
    Case("a read sees what was added before", [add(0, 1, 0, 1), read(1, [1], 2, 3)], [], []),
    Case(
        "a stale read breaks real time only",
        [add(0, 1, 0, 1), read(1, [], 2, 3)],
        [(0, 1, "real-time", None), (1, 0, "read misses add", 1)],
        [],
    ),
    Case(
        "a process misses its own add",
        [add(0, 1, 0, 1), read(0, [], 2, 3)],
        [(0, 1, "real-time", None), (1, 0, "read misses add", 1)],
        [(0, 1, "process-order", None), (1, 0, "read misses add", 1)],
    ),
    Case(
        "a value is seen before it is added, in real time only",
        [read(1, [1], 0, 1), add(0, 1, 2, 3)],
        [(1, 0, "read sees add", 1), (0, 1, "real-time", None)],
        [],
    ),
    Case("equal times are concurrent", [add(0, 1, 0, 5), read(1, [], 5, 6)], [], []),
    Case(
        "a value vanishes between two reads of one process",
        [add(0, 1, 0, 9), read(1, [1], 1, 2), read(1, [], 3, 4)],
        [(1, 2, "real-time", None), (2, 0, "read misses add", 1), (0, 1, "read sees add", 1)],
        [(1, 2, "process-order", None), (2, 0, "read misses add", 1), (0, 1, "read sees add", 1)],
    ),
    Case(
        "the second of two adds is seen without the first",
        [add(0, 1, 0, 1), add(0, 2, 2, 9), read(1, [2], 1, 8)],
        [(0, 1, "real-time", None), (1, 2, "read sees add", 2), (2, 0, "read misses add", 1)],
        [(0, 1, "process-order", None), (1, 2, "read sees add", 2), (2, 0, "read misses add", 1)],
    ),
    Case(
        "two reads disagree on which came first",
        [add(0, 1, 0, 9), add(1, 2, 0, 9), read(2, [1], 0, 9), read(3, [2], 0, 9)],
        [
            (0, 2, "read sees add", 1),
            (2, 1, "read misses add", 2),
            (1, 3, "read sees add", 2),
            (3, 0, "read misses add", 1),
        ],
        [
            (0, 2, "read sees add", 1),
            (2, 1, "read misses add", 2),
            (1, 3, "read sees add", 2),
            (3, 0, "read misses add", 1),
        ],
    ),
    Case(
        "a value is listed twice",
        [add(0, 1, 0, 1), read(1, [1, 1], 2, 3)],
        [(1, 1, "duplicate in read", 1)],
        [(1, 1, "duplicate in read", 1)],
    ),
    Case(
        "a value was never added",
        [add(0, 1, 0, 1), read(1, [1, 7], 2, 3)],
        [(1, 1, "read never-added value", 7)],
        [(1, 1, "read never-added value", 7)],
    ),
    Case(
        "an add that never returned takes effect late, or never",
        [add(0, 1, 0, None), add(1, 2, 0, None), read(2, [], 1, 2), read(2, [1], 3, 4)],
        [],
        [],
    ),
    Case(
        "an add that never returned, once seen, stays",
        [add(0, 1, 0, None), read(2, [1], 1, 2), read(2, [], 3, 4)],
        [(1, 2, "real-time", None), (2, 0, "read misses add", 1), (0, 1, "read sees add", 1)],
        [(1, 2, "process-order", None), (2, 0, "read misses add", 1), (0, 1, "read sees add", 1)],
    ),
    Case(
        "an add that never returned is not seen before its call",
        [read(1, [1], 0, 1), add(0, 1, 2, None)],
        [(1, 0, "read sees add", 1), (0, 1, "real-time", None)],
        [],
    ),
    Case("a read that never returned says nothing", [read(0, None, 0, None)], [], []),
    Case(
        "a value added twice is there from the first",
        [add(0, 1, 0, 1), read(1, [1], 2, 3), add(0, 1, 4, 5)],
        [],
        [],
    ),
    Case(
        "either of two adds of one value may be the first",
        [read(0, [], 0, 1), add(0, 1, 2, 3), read(1, [1], 4, 5), add(1, 1, 6, 7)],
        [],
        [],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.says.replace(" ", "-"))
@pytest.mark.parametrize("consistency", ["linearizable", "sequential"])
def test_verdict(case: Case, consistency: Any) -> None:
    result = check(case.history, "set", consistency=consistency)
    steps = case.linearizable if consistency == "linearizable" else case.sequential
    found = [s for o in result.objects for s in o.explanation]
    assert [(s.from_op, s.to_op, s.why, s.value) for s in found] == steps
    assert result.status == ("INVALID" if steps else "VALID")
    named = sorted({s.from_op for s in found} | {s.to_op for s in found})
    assert [at for o in result.objects for at in o.witness] == named


def test_each_key_is_a_set_of_its_own() -> None:
    result = check(
        [
            add(0, 1, 0, 1, key="a"),
            add(0, 1, 2, 3, key=7),
            read(1, [1], 4, 5, key="a"),
            read(1, [], 6, 7, key=7),
            read(1, [], 8, 9),
        ],
        "set",
    )
    assert result.status == "INVALID"
    assert [(o.key, o.status, o.operations, o.witness) for o in result.objects] == [
        ("a", "VALID", 2, []),
        (7, "INVALID", 2, [1, 3]),
        (None, "VALID", 1, []),
    ]


def test_without_witness() -> None:
    (found,) = check([add(0, 1, 0, 1), read(1, [], 2, 3)], "set", witness=False).objects
    assert (found.status, found.witness, found.explanation) == ("INVALID", [], [])


@pytest.mark.parametrize(
    ("history", "text"),
    [
        ([add(0, 1, 5, 4)], "row 0: ret is 4, before its call at 5"),
        ([add(0, 1, 0, 4), add(0, 2, 3, 5)], "row 1: call at 3 while row 0 of the same process 0"),
        ([add(0, 1, 0, None), add(0, 2, 3, 5)], "row 1: call at 3 .* for good"),
        ([Operation(0, "cas", call=0, ret=1)], 'row 0: f is "cas", expected "add" or "read"'),
        ([add(0, None, 0, 1)], "row 0: value is None, expected an int"),
        ([add(0, True, 0, 1)], "row 0: value is True, expected an int"),
        ([read(0, None, 0, 1)], "row 0: output is None, expected a list of ints"),
        ([read(0, ["x"], 0, 1)], r'row 0: output is \["x"\], expected a list of ints'),
        ([add(0, 2**64, 0, 1)], "row 0: value is 18446744073709551616, expected an int of 64 bits"),
        ([add(0, 1, 0, 1, key=1.5)], "row 0: key is 1.5, expected an int"),
    ],
)
def test_malformed_rows_are_refused(history: list[Operation], text: str) -> None:
    with pytest.raises(HistoryError, match=text):
        check(history, "set")


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match=r"consistency is .eventual., expected"):
        check([], "set", consistency="eventual")
    with pytest.raises(ValueError, match="time_s is -1, expected"):
        check([], "set", time_s=-1)
    with pytest.raises(TypeError, match=r"row 0 is a .*int.*, expected an Operation"):
        check([3], "set")

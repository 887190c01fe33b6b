"""The answer of pyporcupine cannot be taken for another one."""

import pickle
import re

import pyarrow as pa
import pytest
from pyporcupine import HistoryError, InvalidError, Operation, UndecidedError, check

VALID = [Operation(0, "add", 1, 1, call=0, ret=1)]
INVALID = [
    Operation(0, "add", "a", 1, call=0, ret=1),
    Operation(1, "read", "a", call=2, ret=3, output=[]),
    Operation(1, "read", "b", call=4, ret=5, output=[7]),
    Operation(1, "read", "c", call=6, ret=7, output=[7]),
    Operation(1, "read", "d", call=8, ret=9, output=[7]),
]


def test_a_result_is_neither_true_nor_false() -> None:
    for result in (check(VALID, "set"), check(INVALID, "set")):
        for one in (result, *result.objects):
            verdict_found = (
                f'the status is "{one.status}", which is neither true nor false: compare `.status`'
            )
            with pytest.raises(TypeError, match=re.escape(verdict_found)):
                bool(one)


def test_the_model_must_be_said() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'model'"):
        check(VALID)  # type: ignore[call-arg]


def test_valid_raises_nothing() -> None:
    check(VALID, "set").raise_if_invalid()


def test_invalid_is_raised_with_the_first_keys() -> None:
    with pytest.raises(InvalidError) as raised:
        check(INVALID, "set").raise_if_invalid()
    never = "a read returned the value 7, which was never added"
    assert str(raised.value) == (
        "INVALID: key 'a': a read missed the value 1, which had been added before (operations "
        "[0, 1]); "
        f"key 'b': {never} (operations [2]); key 'c': {never} (operations [3]); and 1 more key"
    )


def test_unknown_is_not_valid() -> None:
    history = [Operation(at, "add", None, 1 << at, call=at, ret=1000 + at) for at in range(24)]
    history.append(Operation(98, "read", call=97, ret=999, output=-1))
    result = check(history, "counter", memory_mb=0.1)
    with pytest.raises(
        UndecidedError, match=r"^UNKNOWN: out of memory: explored \d+ configurations"
    ):
        result.raise_if_invalid()


def test_operations_and_results_can_be_pickled() -> None:
    history = [
        Operation("a", "write", "k", 1, call=0, ret=1),
        Operation("b", "read", "k", output=2, call=2, ret=3),
    ]
    result = check(history, "register", linearization=True)
    again, copies = pickle.loads(pickle.dumps((result, history)))
    assert repr(again) == repr(result)
    assert repr(again.objects) == repr(result.objects)
    assert [repr(step) for step in again.objects[0].explanation] == [
        repr(step) for step in result.objects[0].explanation
    ]
    assert repr(copies) == repr(history)
    with pytest.raises(InvalidError):
        again.raise_if_invalid()


def test_processes_may_be_texts() -> None:
    overlap = [Operation("a", "write", value=n, call=0, ret=2) for n in (1, 2)]
    with pytest.raises(HistoryError, match="row 1: call at 0 while row 0 of the same process is"):
        check(overlap, "register")
    columns = {"process": ["a", "b"], "f": ["write"] * 2, "value": [1, 2], "call": [0, 0],
               "ret": [2, 2]}  # fmt: skip
    assert check(pa.table(columns), "register").status == "VALID"
    columns["process"] = ["a", "a"]
    with pytest.raises(HistoryError, match="of the same process is"):
        check(pa.table(columns), "register")


def test_a_dict_is_told_how_to_become_an_operation() -> None:
    row = {"process": 0, "f": "read", "call": 0}
    with pytest.raises(
        TypeError, match=r"row 0 is a dict, expected an Operation: Operation\(\*\*row\)"
    ):
        check([row], "register")

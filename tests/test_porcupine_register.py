"""The register models of pyporcupine: literal history in, whole verdict out."""

from typing import Any

import pytest
from pyporcupine import HistoryError, Operation, check

from benches import porcupine_histories as histories


def write(process: int, value: Any, call: int, ret: int | None) -> Operation:
    return Operation(process, "write", None, value, call=call, ret=ret)


def read(process: int, output: Any, call: int, ret: int | None) -> Operation:
    return Operation(process, "read", None, call=call, ret=ret, output=output)


def cas(process: int, pair: tuple[Any, Any], output: bool | None, call: int, ret: Any) -> Operation:
    return Operation(process, "cas", None, pair, call=call, ret=ret, output=output)


CASES: list[tuple[str, list[Operation], list[int], list[int]]] = [
    # what it says, history, witness if linearizable fails, witness if sequential fails
    ("the initial value is None", [read(0, None, 0, 1)], [], []),
    ("a read sees the last write", [write(0, 1, 0, 1), read(1, 1, 2, 3)], [], []),
    (
        "a stale read breaks real time only",
        [write(0, 1, 0, 1), write(0, 2, 2, 3), read(1, 1, 4, 5)],
        [0, 1, 2],
        [],
    ),
    (
        "a stale read of one's own write",
        [write(0, 1, 0, 1), write(0, 2, 2, 3), read(0, 1, 4, 5)],
        [0, 1, 2],
        [0, 1, 2],
    ),
    ("the initial value comes back", [write(0, 1, 0, 1), read(0, None, 2, 3)], [0, 1], [0, 1]),
    ("a value from nowhere", [write(0, 1, 0, 1), read(0, 7, 2, 3)], [1], [1]),
    ("a value from the future", [read(0, 1, 0, 1), write(1, 1, 2, 3)], [0, 1], []),
    (
        "two reads see two writes in different orders",
        [
            write(0, 1, 0, 9),
            write(1, 2, 0, 9),
            read(2, 1, 0, 1),
            read(2, 2, 2, 3),
            read(3, 1, 4, 5),
        ],
        [0, 1, 2, 3, 4],
        [],
    ),
    (
        "a lost write may take effect late",
        [write(0, 1, 0, None), write(1, 2, 0, 1), read(2, 2, 2, 3), read(2, 1, 4, 5)],
        [],
        [],
    ),
    (
        "a lost write takes effect once",
        [
            write(0, 1, 0, None),
            write(1, 2, 0, 1),
            read(2, 1, 2, 3),
            read(2, 2, 4, 5),
            read(2, 1, 6, 7),
        ],
        [0, 1, 2, 3, 4],
        [0, 1, 2, 3, 4],
    ),
]


@pytest.mark.parametrize(("says", "history", "linearizable", "sequential"), CASES)
@pytest.mark.parametrize("model", ["register", "cas-register"])
@pytest.mark.parametrize("consistency", ["linearizable", "sequential"])
def test_verdict(
    says: str,
    history: list[Operation],
    linearizable: list[int],
    sequential: list[int],
    model: Any,
    consistency: Any,
) -> None:
    result = check(history, model, consistency=consistency)
    witness = linearizable if consistency == "linearizable" else sequential
    (found,) = result.objects
    assert set(found.witness) <= set(witness), says
    assert (result.status, bool(found.witness)) == (
        ("INVALID", True) if witness else ("VALID", False)
    )


def test_compare_and_set() -> None:
    good = [write(0, 1, 0, 1), cas(1, (1, 2), True, 2, 3), cas(0, (1, 3), False, 4, 5)]
    assert check(good, "cas-register").status == "VALID"
    (found,) = check([*good, read(1, 3, 6, 7)], "cas-register").objects
    assert (found.status, found.witness) == ("INVALID", [3])
    (found,) = check([*good, cas(1, (2, 4), False, 6, 7)], "cas-register").objects
    assert (found.status, found.witness) == ("INVALID", [0, 1, 3])


def test_a_linearization_explains_the_history() -> None:
    history = [write(0, 1, 0, 9), read(1, 1, 1, 2), cas(2, (1, 5), True, 0, 9), read(1, 5, 3, 4)]
    (found,) = check(history, "cas-register", linearization=True).objects
    assert found.linearization == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("history", "text"),
    [
        ([write(0, None, 0, 1)], "row 0: value is None, expected the int, str or bool"),
        ([cas(0, (1, 2), None, 0, 1)], r"row 0: output is None, expected True .*False"),
        ([Operation(0, "cas", None, 3, call=0, ret=1)], "row 0: value is 3, expected a pair"),
        ([Operation(0, "get", call=0, ret=1)], 'row 0: f is "get", expected "read", "write" or'),
    ],
)
def test_malformed_rows_are_refused(history: list[Operation], text: str) -> None:
    with pytest.raises(HistoryError, match=text):
        check(history, "cas-register")


@pytest.mark.parametrize("bad", [False, True])
@pytest.mark.parametrize(("kind", "model"), [("rw", "register"), ("cas5", "cas-register")])
@pytest.mark.parametrize("info", [0, 20])
def test_synthetic_histories(kind: str, model: Any, info: int, bad: bool) -> None:
    history = histories.synthetic(kind, 400, 8, info=info, bad=bad, seed=3)
    result = check(history, model, initial=0 if kind == "rw" else None)
    assert result.status == ("INVALID" if bad else "VALID")


def test_out_of_time_is_unknown() -> None:
    history = histories.synthetic("cas5", 2000, 60)
    (found,) = check(history, "cas-register", time_s=0.001).objects
    assert (found.status, found.witness) == ("UNKNOWN", [])
    assert found.reason.startswith("out of time: explored ")


def test_out_of_memory_is_unknown() -> None:
    history = histories.synthetic("cas5", 2000, 60)
    (found,) = check(history, "cas-register", memory_mb=0.05).objects
    assert found.reason.startswith("out of memory: explored ")

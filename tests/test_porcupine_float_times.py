"""Times that are floats: exact, so that none is rounded past another."""

import copy
import math
import pickle
import re
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd
import polars as pl
import porcupine_models as models
import pyarrow as pa
import pytest
from pyporcupine import (
    HistoryError,
    Operation,
    Transaction,
    check,
    check_invariant,
    check_transactions,
    read,
)

NOW = 1_764_400_000.25  # seconds since 1970, of which neighbouring floats are 240 ns apart
NEXT = math.nextafter(NOW, math.inf)


def stale(between: float, then: float, initial: Any = None) -> list[Operation]:
    """Return a write that returns at `between`, and a read that misses it, called at `then`."""
    return [
        Operation("a", "write", value=1, call=NOW - 2, ret=between),
        Operation("b", "read", output=initial, call=then, ret=NOW + 3),
    ]


@pytest.mark.parametrize(
    ("model", "initial"), [("register", None), ("cas-register", None), (models.Register(), 0)]
)
def test_neighbouring_floats_are_told_apart(model: Any, initial: Any) -> None:
    found = [check(stale(*times, initial), model).status for times in ((NOW, NEXT), (NOW, NOW))]
    assert found == ["INVALID", "VALID"]


def test_floats_and_ints_are_one_clock() -> None:
    mixed = [
        Operation(0, "write", value=1, call=0, ret=1),
        Operation(1, "read", output=None, call=1.5, ret=2),
    ]
    assert check(mixed, "register").status == "INVALID"
    mixed[1] = Operation(1, "read", output=None, call=1.0, ret=2)
    assert check(mixed, "register").status == "VALID"
    mixed[1] = Operation(1, "read", output=None, call=0.5, ret=2**53 + 1)
    text = "row 1: ret is 9007199254740993, which no float equals, expected a float"
    for model in ("register", models.Register()):
        with pytest.raises(HistoryError, match=text):
            check(mixed, model)


def test_the_verdict_is_that_of_ranks() -> None:
    """Random histories of floats, negative and tiny ones among them, and of the ints that rank
    them have one verdict."""
    random, verdicts = Random(3), set()
    for _ in range(300):
        times = sorted(
            random.choice([-1, 1]) * random.random() * 10.0 ** random.randint(-300, 9)
            for _ in range(8)
        )
        if random.random() < 0.5:
            times[3:5] = [times[3], math.nextafter(times[3], math.inf)]
        assert all(a < b for a, b in pairwise(times))
        spans = [sorted(random.sample(range(8), 2)) for _ in range(4)]
        kinds = [
            random.choice([("write", 1), ("write", 2), ("read", 1), ("read", 2)]) for _ in spans
        ]

        def made(times: list[float], spans: Any = spans, kinds: Any = kinds) -> list[Operation]:
            return [
                Operation(
                    at, f, call=times[start], ret=times[end],
                    value=value if f == "write" else None, output=value if f == "read" else None,
                )
                for at, ((start, end), (f, value)) in enumerate(zip(spans, kinds, strict=True))
            ]  # fmt: skip

        found = check(made(times), "cas-register").status
        assert found == check(made(list(range(8))), "cas-register").status
        verdicts.add(found)
    assert verdicts == {"VALID", "INVALID"}


def test_errors_show_floats() -> None:
    with pytest.raises(HistoryError, match=r"row 0: ret is 0.25, before its call at 0.5"):
        check([Operation(0, "read", call=0.5, ret=0.25)], "register")
    history = [
        Operation(0, "write", value=1, call=0.5, ret=1.5),
        Operation(0, "write", value=2, call=0.75, ret=2.5),
    ]
    with pytest.raises(HistoryError, match=r"row 1: call at 0.75 while row 0 of the same process"):
        check(history, "register")
    for time in (math.nan, math.inf):
        with pytest.raises(ValueError, match=r"the time is (NaN|inf), expected an int or a finite"):
            Operation(0, "read", call=time)
    with pytest.raises(TypeError, match=r"the time is 'noon', expected an int or a float"):
        Operation(0, "read", call="noon")  # type: ignore[arg-type]


def test_an_operation_keeps_its_times() -> None:
    one = Operation(0, "read", call=0.1, ret=0.1 + 0.2)
    again = pickle.loads(pickle.dumps(copy.copy(one)))
    assert (again.call, again.ret) == (0.1, 0.30000000000000004)
    assert "call=0.1, ret=0.30000000000000004" in repr(one)
    assert isinstance(Operation(0, "read", call=2).call, int)


def test_columns_of_floats() -> None:
    columns: dict[str, list[Any]] = {
        "process": [0, 1, 2],
        "f": ["write", "read", "read"],
        "value": [1, None, None],
        "output": [None, None, 1],
        "call": [NOW - 2, NEXT, NOW],
        "ret": [NOW, NOW + 3, None],
    }
    frame = pd.DataFrame(columns)
    frame[["value", "output"]] = frame[["value", "output"]].astype("Int64")
    for table in (pa.table(columns), pl.DataFrame(columns), frame):
        (found,) = check(table, "register").objects
        assert (found.status, found.witness) == ("INVALID", [0, 1])
        assert check(table, models.Register()).status == "INVALID"
    counter = pa.table(columns | {"f": ["add", "read", "read"], "output": [None, 0, 1]})
    assert check_invariant(counter, "counter-bounds", initial=0).status == "INVALID"
    ints = columns | {"call": [0, 1, 2]}
    assert check(pa.table(ints), "register").status == "VALID"
    bad = columns | {"ret": [NOW, math.nan, None]}
    text = "row 1: ret is null, not finite or too large, expected ints or floats"
    with pytest.raises(HistoryError, match=text):
        check(pa.table(bad), "register")


def test_transactions_at_floats() -> None:
    def history(then: float) -> list[Transaction]:
        return [
            Transaction(0, [("append", "x", 1)], call=NOW - 2, ret=NOW),
            Transaction(1, [("r", "x", [])], call=then, ret=NOW + 3),
        ]

    strict = "strict-serializable"
    found = [
        check_transactions(history(then), "list-append", consistency=strict).status
        for then in (NEXT, NOW)
    ]
    assert found == ["INVALID", "VALID"]
    calls = pa.table({"process": [0, 1], "call": [NOW - 2, NEXT], "ret": [NOW, NOW + 3]})
    micro_ops = pa.table(
        {"txn": [0, 1], "f": ["append", "r"], "key": ["x", "x"], "value": [1, None]}
        | {"read": pa.array([None, []], pa.list_(pa.int64()))}
    )
    columns = check_transactions(calls, "list-append", micro_ops=micro_ops, consistency=strict)
    assert columns.status == "INVALID"
    with pytest.raises(HistoryError, match=r"row 0: ret is 0.25, expected at least its call, 0.5"):
        check_transactions([Transaction(0, [], call=0.5, ret=0.25)], "list-append")


def test_json_lines_with_floats(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text(
        '{"client":0,"f":"write","value":1,"ok":true,"call":0.1,"return":0.3}\n'
        '{"client":1,"f":"read","value":0,"ok":true,"call":0.30000000000000004,"return":0.4}\n'
    )
    found = read(path)
    assert found.operations[1].call == 0.30000000000000004
    assert check(found.operations, **found.arguments("register")).status == "INVALID"
    path.write_text(re.sub(r"0\.3\d+4", "0.3", path.read_text()))
    found = read(path)
    assert check(found.operations, **found.arguments("register")).status == "VALID"

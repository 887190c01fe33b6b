"""The states of built-in models in a picture, against models of the tests' own."""

import json
import re
from pathlib import Path
from random import Random
from typing import Any

import porcupine_models as models
import pytest
from pyporcupine import UNKNOWN, Call, Operation, visualize
from pyporcupine.builtin_states import states_of

PLAIN = {True: "held", False: "free"}


def op(f: str, value: Any = None, output: Any = None, lost: bool = False) -> Operation:
    """Return an operation; those of a test come one after the other."""
    op.now += 10  # type: ignore[attr-defined]
    at: int = op.now  # type: ignore[attr-defined]
    return Operation(at if lost else 0, f, None, value, call=at, ret=None if lost else at + 5,
                     output=output)  # fmt: skip


op.now = 0  # type: ignore[attr-defined]


def drawn(tmp_path: Path, history: list[Operation], model: Any, **options: Any) -> list[str]:
    """Return the states in the page: at the beginning, and after each operation in its order."""
    page = tmp_path / "page.html"
    (found,) = visualize(history, model, path=page, **options).objects
    text = re.search(r'id="data">(.*?)</script>', page.read_text(), re.S)
    assert text
    data = json.loads(text[1])
    if not data["states"]:
        return []
    states = [data["states"][number] for number in data["objects"][0]["states"]]
    assert len(states) == len(found.linearization) + 1
    return states


CASES: list[tuple[str, list[Operation], dict[str, Any], list[str]]] = [
    ("register", [op("write", "a"), op("read", None, "a"), op("write", True)], {},
     ["None", "'a'", "'a'", "True"]),
    ("cas-register", [op("cas", [5, 1], True), op("cas", [5, 2], False), op("read", None, 1)],
     {"initial": 5}, ["5", "1", "1", "1"]),
    ("key-value", [op("put", "a"), op("append", "b"), op("get", None, "ab")], {},
     ["''", "'a'", "'ab'", "'ab'"]),
    ("set", [op("add", 2), op("add", 1), op("read", None, [1, 2])], {},
     ["{}", "{2}", "{1, 2}", "{1, 2}"]),
    ("append-log", [op("append", 2), op("append", "x"), op("read", None, [2, "x"])], {},
     ["[]", "[2]", "[2, 'x']", "[2, 'x']"]),
    ("counter", [op("add", 2), op("add", 3, 5), op("read", None, 5)], {}, ["0", "2", "5", "5"]),
    ("queue", [op("enqueue", 2), op("enqueue", 1), op("dequeue", None, 2), op("dequeue", None, 1)],
     {}, ["{}", "{2}", "{1, 2}", "{1}", "{}"]),
    ("fifo-queue", [op("enqueue", 2), op("enqueue", 1), op("dequeue", None, 2), op("dequeue")],
     {}, ["[]", "[2]", "[2, 1]", "[1]"]),
    ("stack", [op("push", 2), op("push", 1), op("pop", None, 1)], {},
     ["[]", "[2]", "[2, 1]", "[2]"]),
    ("priority-queue", [op("insert", 2), op("insert", 1), op("delete-min", None, 1)], {},
     ["[]", "[2]", "[1, 2]", "[2]"]),
    ("deque", [op("push-back", 1), op("push-front", 2), op("push-back", 3),
               op("pop-front", None, 2), op("pop-back", None, 3)], {},
     ["[]", "[1]", "[2, 1]", "[2, 1, 3]", "[1, 3]", "[1]"]),
    ("mutex", [op("acquire"), op("release")], {}, ["free", "held", "free"]),
    ("multi-register", [op("txn", [["write", "x", 1], ["write", "y", 2]]),
                        op("txn", [["read", "x", None]], [["read", "x", 1]]),
                        op("txn", [["write", "x", 3]])], {"initial": None},
     ["{others: None}", "{'x': 1, 'y': 2, others: None}", "{'x': 1, 'y': 2, others: None}",
      "{'x': 3, 'y': 2, others: None}"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("model", "history", "options", "expected"), CASES, ids=[case[0] for case in CASES]
)
def test_the_page_has_these_states(
    tmp_path: Path,
    model: str,
    history: list[Operation],
    options: dict[str, Any],
    expected: list[str],
) -> None:
    assert drawn(tmp_path, history, model, **options) == expected


RANDOM: list[tuple[str, Any, Any, Any, dict[str, Any]]] = [
    ("cas-register", models.Register, models.register_call, 0, {"initial": 0}),
    ("queue", models.Queue, models.queue_call, [], {}),
    ("set", models.Set, models.set_call, [], {}),
    ("counter", models.Counter, models.counter_call, 0, {}),
    ("mutex", models.Mutex, models.mutex_call, False, {}),
    ("fifo-queue", models.Fifo, models.fifo_call, [], {}),
    ("append-log", models.Log, models.log_call, [], {}),
    ("key-value", models.KeyValue, models.key_value_call, "", {}),
]


@pytest.mark.parametrize(
    ("model", "own", "call", "start", "options"), RANDOM, ids=[case[0] for case in RANDOM]
)
def test_states_are_those_of_another_model_of_the_same_object(
    tmp_path: Path, model: str, own: Any, call: Any, start: Any, options: dict[str, Any]
) -> None:
    """Along the same order, of which the other model takes each operation."""
    rng, followed = Random(7), 0
    shown = states_of(model, options.get("initial", ...)).describe_state
    for _ in range(120):
        history = models.random_history(rng, call, start)
        page = tmp_path / "page.html"
        (found,) = visualize(history, model, path=page, **options).objects
        states = {own().init()}
        told = drawn(tmp_path, history, model, **options)
        for row, text in zip(found.linearization, told[1:], strict=True):
            one = history[row]
            output = UNKNOWN if one.ret is None else one.output
            after = [own().step(state, Call(one.f, one.value), output) for state in states]
            flat = [one for part in after for one in (part if isinstance(part, list) else [part])]
            states = {one for one in flat if one is not None}
            assert states, "the order that was found is one of the other model as well"
            assert sorted(text.split(" or ")) == sorted(
                PLAIN[one] if model == "mutex" else shown(one) for one in states
            )
            followed += 1
    assert followed > 100


def test_a_long_state_is_cut_and_a_long_history_has_none(tmp_path: Path) -> None:
    adds = [op("add", value) for value in range(30)]
    read = op("read", None, list(range(30)))
    assert drawn(tmp_path, [*adds, read], "set")[-1] == (
        f"{{{', '.join(map(str, range(20)))}, … (30 in all)}}"
    )
    registers = [op("txn", [["write", key, 1]]) for key in range(22)]
    assert drawn(tmp_path, registers, "multi-register")[-1].endswith(
        "19: 1, … (22 in all), others: 0}"
    )
    writes = [op("write", value) for value in range(5_001)]
    assert drawn(tmp_path, writes, "register") == []
    assert len(drawn(tmp_path, writes[1:], "register")) == 5_001

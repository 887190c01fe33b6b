"""Models of pyporcupine that are written in Python."""

import threading
import time
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import porcupine_models as models
import pyarrow as pa
import pytest
from pyporcupine import UNKNOWN, Call, ModelError, Operation, check


def op(f: str, value: Any, output: Any, call: int, ret: int | None, process: int = 0) -> Operation:
    return Operation(process, f, None, value, call=call, ret=ret, output=output)


STALE = [op("write", 1, None, 0, 1), op("write", 2, None, 2, 3), op("read", None, 1, 4, 5, 1)]


@pytest.mark.parametrize("consistency", ["linearizable", "sequential"])
@pytest.mark.parametrize(
    ("model", "name", "call", "state", "initial"),
    [
        (models.Register(), "cas-register", models.register_call, 0, 0),
        (models.Queue(), "queue", models.queue_call, [], ...),
        (models.Set(), "set", models.set_call, [], ...),
    ],
)
def test_agreement_with_the_models_by_name(
    model: Any, name: Any, call: Callable[..., Any], state: Any, initial: Any, consistency: Any
) -> None:
    rng = Random(7)
    counts = {"VALID": 0, "INVALID": 0}
    for _ in range(3000):
        history = models.random_history(rng, call, state)
        theirs = check(history, name, consistency=consistency, initial=initial).status
        (found,) = check(history, model, consistency=consistency, linearization=True).objects
        assert found.status == theirs, history
        counts[theirs] += 1
        if theirs == "VALID":
            assert explains(model, [history[at] for at in found.linearization])
            returned = {at for at, one in enumerate(history) if one.ret is not None}
            assert returned <= set(found.linearization)
        else:
            part = [history[at] for at in found.witness]
            assert check(part, model, consistency=consistency).status == "INVALID"
    assert min(counts.values()) > 500


def explains(model: Any, order: Sequence[Operation]) -> bool:
    """Return whether the operations can follow each other in this order."""
    states = {model.init()}
    for one in order:
        output = UNKNOWN if one.ret is None else one.output
        call = Call(one.f, one.value, one.key)
        after = [model.step(state, call, output) for state in states]
        lists = [found if isinstance(found, list) else [found] for found in after]
        states = {state for found in lists for state in found if state is not None}
    return bool(states)


def test_an_invalid_history_has_its_witness_and_its_longest_part() -> None:
    (found,) = check(STALE, models.Register(), linearization=True).objects
    assert (found.status, found.witness, found.linearization) == ("INVALID", [0, 1, 2], [0, 1])
    (step,) = found.explanation
    assert (step.from_op, step.why) == (2, "cannot be placed")
    assert check(STALE, models.Register(), consistency="sequential").status == "VALID"


def test_the_same_from_arrow_columns() -> None:
    fields = ("process", "f", "value", "output", "call", "ret")
    table = pa.table({name: [getattr(one, name) for one in STALE] for name in fields})
    (found,) = check(table, models.Register()).objects
    assert (found.status, found.witness) == ("INVALID", [0, 1, 2])


def test_objects_are_keys_unless_the_model_partitions() -> None:
    class Together(models.Register):
        def partition(self, history: Sequence[Operation]) -> dict[str, list[int]]:
            return {"all": list(range(len(history)))}

    history = [
        Operation(0, "write", "a", 1, call=0, ret=1),
        Operation(0, "read", "b", call=2, ret=3, output=1),
    ]
    found = check(history, models.Register()).objects
    assert [(o.key, o.status) for o in found] == [("a", "VALID"), ("b", "INVALID")]
    found = check(history, Together()).objects
    assert [(o.key, o.status, o.operations) for o in found] == [("all", "VALID", 2)]


class Broken(models.Register):
    def __init__(self, **methods: Callable[..., Any]) -> None:
        self.__dict__.update(methods)


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (
            Broken(step=lambda state, call, output: 1 // 0),
            r'^row 0: Broken.step\(0, Call\("write", 1\), None\) raised ZeroDivisionError: ',
        ),
        (
            Broken(step=lambda state, call, output: {1}),
            r"^row 0: .* returned \{1\}, which cannot be told from other states .*frozenset in",
        ),
        (Broken(step=lambda *asked: [0, None]), "returned None, expected a state, a list of"),
        (Broken(step=lambda *asked: (s for s in [0])), "returned <generator .*expected a state"),
        (Broken(init=lambda: None), r"^Broken.init\(\) returned None, .*expected another value"),
        (Broken(init=list), r"^Broken.init\(\) returned \[\], which cannot be told from"),
        (Broken(init=lambda: 1 // 0), r"^Broken.init\(\) raised ZeroDivisionError"),
        (Broken(partition=lambda history: [[0]]), r"partition.* returned .*expected a dict"),
        (Broken(partition=lambda history: {1: [0, 1]}), "lacks the position 2, expected every"),
        (Broken(partition=lambda history: {1: [0, 1], 2: [1, 2]}), "has the position 1 twice"),
        (Broken(partition=lambda history: {1: [0, 3]}), "has the position 3, expected an int"),
        (Broken(partition=lambda history: 1 // 0), "partition.* raised ZeroDivisionError"),
    ],
)
def test_a_broken_model_is_named(model: Any, text: str) -> None:
    with pytest.raises(ModelError, match=text):
        check(STALE, model)


def test_the_exception_of_a_model_is_the_cause() -> None:
    with pytest.raises(ModelError) as raised:
        check(STALE, Broken(step=lambda state, call, output: {}[1]))
    assert isinstance(raised.value.__cause__, KeyError)


def test_an_unknown_output_cannot_be_compared() -> None:
    history = [op("read", None, None, 0, None), *STALE[1:]]
    model = Broken(step=lambda state, call, output: state if output == 0 else None)
    with pytest.raises(ModelError, match=r"row 1: .*UNKNOWN.* raised TypeError: the output of a"):
        check([op("write", 1, None, 0, 9, 1), *history[:1]], model)
    for compare in (hash, bool, lambda output: output in [0], lambda output: output < 0):
        with pytest.raises(TypeError, match="never returned"):
            compare(UNKNOWN)


@pytest.mark.parametrize("model", [3, object(), models.Register, None])
def test_what_is_no_model_is_refused(model: Any) -> None:
    with pytest.raises(TypeError, match=r"^model is .*, expected"):
        check(STALE, model)
    with pytest.raises(ValueError, match="initial is for models by name"):
        check(STALE, models.Register(), initial=0)


@pytest.mark.parametrize("consistency", ["linearizable", "sequential"])
def test_a_slow_step_keeps_to_the_time(consistency: Any) -> None:
    class Slow(models.Queue):
        def step(self, state: Any, call: Call, output: Any, /) -> Any:
            time.sleep(0.02)
            return super().step(state, call, output)

    history = [op("enqueue", at, None, 0, 9, at) for at in range(12)]
    began = time.monotonic()
    (found,) = check(
        [*history, op("dequeue", None, 99, 0, 9, 12)], Slow(), consistency=consistency, time_s=0.2
    ).objects
    assert (found.status, found.witness) == ("UNKNOWN", [])
    assert found.reason.startswith("out of time: explored ")
    assert time.monotonic() - began < 30, "12! orders of 20 ms each were not tried"


@pytest.mark.parametrize("consistency", ["linearizable", "sequential"])
def test_large_states_keep_to_the_memory(consistency: Any) -> None:
    class Large(models.Queue):
        def step(self, state: Any, call: Call, output: Any, /) -> Any:
            return None if call.f == "dequeue" else (*state, call.value) * 2

    history = [op("enqueue", at, None, 0, 9, at) for at in range(14)]
    (found,) = check(
        [*history, op("dequeue", None, 99, 0, 9, 14)], Large(), consistency=consistency, memory_mb=2
    ).objects
    assert (found.status, found.reason.split(":")[0]) == ("UNKNOWN", "out of memory")


def test_the_gil_is_free_between_steps() -> None:
    """Another thread of Python goes on while a search with many cached steps runs."""
    ticks = 0
    done = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not done.wait(0.001):
            ticks += 1

    history = [op("enqueue", at, None, 0, 99, at) for at in range(13)]
    thread = threading.Thread(target=tick)
    thread.start()
    try:
        check([*history, op("dequeue", None, 99, 0, 99, 13)], models.Queue(), time_s=0.5)
    finally:
        done.set()
        thread.join()
    assert ticks > 20


def test_ctrl_c_ends_the_search() -> None:
    def interrupted(*asked: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check(STALE, Broken(step=interrupted), threads=2)


class Light:
    """A light of three colours, which counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def init(self) -> str:
        return "red"

    def step(self, state: str, call: Call, output: Any) -> str | None:
        self.asked += 1
        if call.f == "switch":
            return str(call.value)
        return state if output is UNKNOWN or output == state else None


def test_a_model_of_few_states_is_asked_everything_once() -> None:
    rng, model, state = Random(3), Light(), "red"
    history = []
    for at in range(3000):
        if rng.random() < 0.5:
            state = rng.choice(["red", "amber", "green"])
            history.append(op("switch", state, None, 2 * at, 2 * at + 1))
        else:
            history.append(op("read", None, state, 2 * at, 2 * at + 1))
    assert check(history, model).status == "VALID"
    assert model.asked == 3 * 6  # states, and actions: three switches, three reads


def test_what_the_search_does_not_ask_may_fail() -> None:
    class Strict(Light):
        def step(self, state: str, call: Call, output: Any) -> str | None:
            if state == "green" and call.f == "switch":
                raise ValueError("it is green for good")
            return super().step(state, call, output)

    history = [
        op("switch", "amber", None, 0, 1), op("switch", "green", None, 2, 3),
        op("read", None, "green", 4, 5),
    ]  # fmt: skip
    assert check(history, Strict()).status == "VALID"

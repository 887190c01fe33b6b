"""What pyporcupine shows of a violation proves it: compared with every order of small histories."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import porcupine_models as models
import pytest
from pyporcupine import UNKNOWN, Call, Operation, check


def after(model: Any, state: Any, op: Operation) -> list[Any]:
    """Return the states in which the operation leaves the model; none: it is impossible."""
    output = UNKNOWN if op.ret is None else op.output
    found = model.step(state, Call(op.f, op.value, op.key), output)
    return found if isinstance(found, list) else [] if found is None else [found]


def comes_first(one: Operation, other: Operation, consistency: str) -> bool:
    if consistency == "sequential":
        return one.process == other.process and one.call < other.call
    return one.ret is not None and one.ret < other.call


def is_explained(
    model: Any, ops: Sequence[Operation], consistency: str, until: float = float("inf")
) -> bool:
    """Return whether some order has every operation that returned until then. O(2 to the n)."""
    must = {at for at, op in enumerate(ops) if op.ret is not None and op.ret <= until}
    open_: list[tuple[frozenset[int], Any]] = [(frozenset(), model.init())]
    seen = set(open_)
    while open_:
        placed, state = open_.pop()
        if must <= placed:
            return True
        for at, op in enumerate(ops):
            others = range(len(ops))
            if at in placed or any(
                i not in placed and comes_first(ops[i], op, consistency) for i in others
            ):
                continue
            found = {(placed | {at}, state) for state in after(model, state, op)} - seen
            seen |= found
            open_ += found
    return False


def is_possible(model: Any, op: Operation, others: Sequence[Operation]) -> bool:
    """Return whether the operation is possible after some of the others, in whatever order."""
    open_: list[tuple[frozenset[int], Any]] = [(frozenset(), model.init())]
    seen = set(open_)
    while open_:
        placed, state = open_.pop()
        if after(model, state, op):
            return True
        for at, other in enumerate(others):
            if at not in placed:
                found = {(placed | {at}, state) for state in after(model, state, other)} - seen
                seen |= found
                open_ += found
    return False


def proves(model: Any, part: Sequence[Operation], stuck: Operation, consistency: str) -> bool:
    """Return whether the operations show that their history cannot be explained, and blame nothing
    that is impossible only because others are left out."""
    if stuck not in part:
        return False
    until = float("inf") if stuck.ret is None or consistency == "sequential" else stuck.ret
    if is_explained(model, part, consistency, until):
        return False
    if consistency == "linearizable":
        rest = without(part, stuck)
        return is_explained(model, rest, consistency, until) and is_possible(model, stuck, rest)
    returned = [op for op in part if op.ret is not None]
    return all(is_possible(model, op, without(part, op)) for op in returned)


def undoes(judge: Any, part: Sequence[Operation], history: Sequence[Operation]) -> bool:
    """Return whether a queue is left no value more often than after the history."""
    if judge not in ("queue", "fifo-queue"):
        return True

    def left(ops: Sequence[Operation], value: Any) -> int:
        enqueued = sum(op.f == "enqueue" and op.value == value for op in ops)
        dequeued = sum(op.f == "dequeue" and op.output == value for op in ops if op.ret is not None)
        return max(0, enqueued - dequeued)

    values = {op.value for op in part if op.f == "enqueue"}
    return all(left(part, value) <= left(history, value) for value in values)


def without(part: Sequence[Operation], op: Operation) -> list[Operation]:
    return [other for other in part if other is not op]


def op(f: str, value: Any, output: Any, call: int, ret: int | None, process: int = 0) -> Operation:
    return Operation(process, f, None, value, call=call, ret=ret, output=output)


def apart(history: Sequence[Operation]) -> list[Operation]:
    """Return the history with returns at different times, and as concurrent as it was."""
    ends = [None if op.ret is None else 100 * op.ret + 50 + at for at, op in enumerate(history)]
    return [
        Operation(op.process, op.f, op.key, op.value, call=100 * op.call, ret=ret, output=op.output)
        for op, ret in zip(history, ends, strict=True)
    ]


@pytest.mark.parametrize("consistency", ["linearizable", "sequential"])
@pytest.mark.parametrize(
    ("model", "name", "call", "state", "initial"),
    [
        (models.Register(), "cas-register", models.register_call, 0, 0),
        (models.Queue(), "queue", models.queue_call, [], ...),
        (models.Fifo(), "fifo-queue", models.fifo_call, [], ...),
        (models.Counter(), "counter", models.counter_call, 0, ...),
        (models.Mutex(), "mutex", models.mutex_call, False, ...),
        (models.Log(), "append-log", models.log_call, [], ...),
        (models.KeyValue(), "key-value", models.key_value_call, "", ...),
        (models.Set(), None, models.set_call, [], ...),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_witnesses_prove_the_violation(
    model: Any, name: Any, call: Callable[..., Any], state: Any, initial: Any, consistency: Any
) -> None:
    rng = Random(11)
    invalid = 0
    for _ in range(1000):
        history = apart(models.random_history(rng, call, state))
        for judge in [model, *([name] if name else [])]:
            start = initial if judge is name else ...
            (found,) = check(history, judge, consistency=consistency, initial=start).objects
            assert (found.status == "VALID") == is_explained(model, history, consistency), history
            if found.status == "VALID":
                continue
            invalid += 1
            check_witness(model, judge, history, found, consistency)
    assert invalid > 200


def check_witness(
    model: Any, judge: Any, history: list[Operation], found: Any, consistency: str
) -> None:
    told = (judge, found.witness, found.reason, found.explanation, history)
    part = [history[at] for at in found.witness]
    if not found.reason.startswith(("no order of the operations", "no operations, in")):
        assert not is_explained(model, part, consistency), told
        return
    stuck = history[found.explanation[0].from_op]
    end = stuck.ret if stuck.ret is not None and consistency == "linearizable" else float("inf")
    known = [op for op in history if op.call <= end]
    if found.reason == "no operations, in whatever order, make this one possible":
        assert stuck in part, told
        assert not is_possible(model, stuck, without(known, stuck)), told
        return
    assert found.reason == "no order of the operations explains this one", told
    assert proves(model, part, stuck, consistency), told
    assert undoes(judge, part, known), told
    for op in part:
        rest = without(part, op)
        dropped = proves(model, rest, stuck, consistency) and undoes(judge, rest, known)
        assert not dropped, (op, told)


@pytest.mark.parametrize("lost", [False, True])
def test_an_operation_is_shown_with_what_makes_it_possible(lost: bool) -> None:
    """The compare-and-set alone has no linearization either, but is innocent."""
    history = [
        op("write", 1, None, 0, 1),
        op("cas", (1, 2), True, 2, 3),
        op("read", None, 1, 4, 5),
        *([op("write", 3, None, 0, None, process=1)] if lost else []),
    ]
    for judge in (models.Register(), "cas-register"):
        (found,) = check(history, judge).objects
        assert (found.status, found.witness, found.explanation[0].from_op) == (
            "INVALID",
            [0, 1, 2],
            2,
        )


@pytest.mark.parametrize("lost", [False, True])
def test_an_operation_that_nothing_makes_possible_is_shown_alone(lost: bool) -> None:
    history = [
        op("add", 1, None, 0, 1),
        op("add", 1, None, 2, 3),
        op("read", None, 3, 4, 5),
        *([op("add", 2, None, 6, None)] if lost else []),
    ]
    for judge in (models.Counter(), "counter"):
        (found,) = check(history, judge).objects
        assert (found.status, found.witness) == ("INVALID", [2])
        assert found.reason == "no operations, in whatever order, make this one possible"


def test_a_witness_may_leave_out_what_undid_one_of_its_operations() -> None:
    """The proof is that all operations have no order. Those of the witness have none either, but
    the first client had released the mutex."""
    turns = [(1, "acquire"), (1, "release"), (2, "acquire"), (2, "release"), (3, "acquire")]
    history = [
        op("acquire", None, None, 0, None),
        *(
            op(f, None, None, 10 * at, 10 * at + 5, client)
            for at, (client, f) in enumerate(turns, 1)
        ),
        op("acquire", None, None, 60, 65, process=4),
    ]
    (found,) = check(history, "mutex").objects
    assert (found.status, found.witness) == ("INVALID", [1, 6])
    part = [history[at] for at in found.witness]
    assert not is_explained(models.Mutex(), part, "linearizable")
    assert is_explained(models.Mutex(), [part[0], history[2], part[1]], "linearizable")

"""Transactions over several registers: literal histories, and random ones against all orders."""

import random
from itertools import permutations
from typing import Any, Literal

import pytest
from pyporcupine import HistoryError, Operation, check

Step = list[Any]
Consistency = Literal["linearizable", "sequential"]


def read(register: str, found: Any = None) -> Step:
    return ["read", register, found]


def write(register: str, value: Any) -> Step:
    return ["write", register, value]


def txn(process: int, call: int, ret: int | None, *steps: Step) -> Operation:
    called = [[f, register, None if f == "read" else value] for f, register, value in steps]
    output = None if ret is None else list(steps)
    return Operation(process, "txn", None, called, call=call, ret=ret, output=output)


CASES: list[tuple[str, list[Operation], str, list[int]]] = [
    (
        "both registers change at once",
        [txn(0, 0, 9, write("x", 1), write("y", 1)), txn(1, 1, 2, read("x", 1), read("y", 1))],
        "VALID", [],
    ),
    (
        "half of a transaction is seen",
        [txn(0, 0, 9, write("x", 1), write("y", 1)), txn(1, 1, 2, read("x", 1), read("y", 0))],
        "INVALID", [0, 1],
    ),
    (
        "a transaction sees its own writes",
        [txn(0, 0, 1, read("x", 0), write("x", 1), read("x", 1), write("x", 2)),
         txn(0, 2, 3, read("x", 2))],
        "VALID", [],
    ),
    (
        "and no other value than these",
        [txn(0, 0, 1, write("x", 1), read("x", 0)), txn(0, 2, 3, read("x", 1))],
        "INVALID", [0],
    ),
    (
        "two reads of one register agree",
        [txn(0, 0, 9, write("x", 1)), txn(1, 1, 2, read("x", 0), read("x", 1))],
        "INVALID", [1],
    ),
    (
        "long fork: two readers disagree about the order of two writes",
        [txn(0, 0, 9, write("x", 1)), txn(1, 0, 9, write("y", 1)),
         txn(2, 0, 9, read("x", 1), read("y", 0)), txn(3, 0, 9, read("x", 0), read("y", 1))],
        "INVALID", [0, 1, 2, 3],
    ),
    (
        "a transaction that never returned takes effect as a whole",
        [txn(0, 0, None, write("x", 1), write("y", 1)), txn(1, 1, 2, read("x", 1), read("y", 0))],
        "INVALID", [0, 1],
    ),
    (
        "or not at all",
        [txn(0, 0, None, write("x", 1), read("y")), txn(1, 1, 2, read("x", 0)),
         txn(1, 3, 4, read("x", 1))],
        "VALID", [],
    ),
    (
        "write skew is not linearizable",
        [txn(0, 0, 5, read("x", 0), write("y", 1)), txn(1, 0, 5, read("y", 0), write("x", 1))],
        "INVALID", [0, 1],
    ),
    (
        "a read of None says nothing",
        [txn(0, 0, 1, write("x", 1)), txn(0, 2, 3, read("x", None))],
        "VALID", [],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("says", "history", "status", "witness"), CASES)
def test_histories(says: str, history: list[Operation], status: str, witness: list[int]) -> None:
    (found,) = check(history, "multi-register").objects
    assert (found.status, found.witness) == (status, witness), says


def test_what_nobody_wrote_is_found_at_once_in_a_long_history() -> None:
    history = [
        txn(place % 10, 10 * place, 10 * place + 95, read("x", place - 1), write("x", place))
        if place else txn(0, 0, 95, write("x", 0))
        for place in range(5_000)
    ]  # fmt: skip
    assert check(history, "multi-register", time_s=30).status == "VALID"
    history[4_000] = txn(0, 40_000, 40_095, read("x", -1), write("x", 4_000))
    (found,) = check(history, "multi-register", time_s=30).objects
    assert (found.status, found.witness) == ("INVALID", [4_000])
    assert found.reason == "a transaction found a value that nothing wrote"


def test_where_registers_begin_with_none_a_read_of_none_found_it() -> None:
    history = [txn(0, 0, 1, read("y", None), write("x", 1)), txn(0, 2, 3, read("x", None))]
    assert check(history, "multi-register", initial=None).status == "INVALID"
    assert check(history[:1], "multi-register", initial=None).status == "VALID"
    assert check(history[:1], "multi-register", initial=7).status == "VALID"


def test_what_the_reads_found_may_stand_in_the_value() -> None:
    history = [Operation(0, "txn", None, [["read", "x", 1]], call=0, ret=1)]
    assert check(history, "multi-register", initial=1).status == "VALID"
    assert check(history, "multi-register").status == "INVALID"


@pytest.mark.parametrize(
    ("value", "f"),
    [
        (1, "txn"), ("x", "txn"), ([1], "txn"), ([["read", "x"]], "txn"),
        ([["cas", "x", 1]], "txn"), ([["read", None, 1]], "txn"), ([["write", "x", [1]]], "txn"),
        ([["read", "x", 1]], "read"),
    ],
)  # fmt: skip
def test_what_is_no_transaction_is_refused(value: Any, f: str) -> None:
    with pytest.raises(HistoryError, match=r"^row 0: (value is .*a list of reads and writes|f is)"):
        check([Operation(0, f, None, value, call=0, ret=1)], "multi-register")


def test_lists_nested_for_ever_are_refused() -> None:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(HistoryError, match="expected lists of at most 10 within each other"):
        check([Operation(0, "txn", None, value, call=0, ret=1)], "multi-register")
    while value:  # taken apart from outside: to free it at once would recurse
        (value,) = value


def explained(history: list[Operation], consistency: Consistency) -> bool:
    """Return whether any order explains the calls, with or without those that never returned."""
    lost = [op for op in history if op.ret is None]
    done = [op for op in history if op.ret is not None]
    for chosen in range(1 << len(lost)):
        some = done + [op for place, op in enumerate(lost) if chosen >> place & 1]
        if any(_runs(order, consistency) for order in permutations(some)):
            return True
    return False


def _runs(order: tuple[Operation, ...], consistency: Consistency) -> bool:
    for place, later in enumerate(order):
        for earlier in order[:place]:
            ordered = later.ret is not None and later.ret < earlier.call
            if ordered and (consistency == "linearizable" or later.process == earlier.process):
                return False
    state = {"x": 0, "y": 0, "z": 0}
    for operation in order:
        for f, register, value in operation.output or operation.value:
            if f == "write":
                state[register] = value
            elif operation.ret is not None and value is not None and state[register] != value:
                return False
    return True


def made(rng: random.Random) -> list[Operation]:
    """Draw up to six transactions that took effect one by one, with some reads then changed."""
    free_at, state = [0, 0, 0], {"x": 0, "y": 0, "z": 0}
    plans = []
    for _ in range(rng.randint(1, 6)):
        process = rng.randrange(3)
        call = free_at[process] + rng.randint(1, 4)
        end = call + rng.randint(0, 6)
        free_at[process] = 1_000 if (lost := rng.random() < 0.15) else end
        if call < 1_000:
            plans.append((rng.uniform(call, end), process, call, None if lost else end))
    history = []
    for _, process, call, ret in sorted(plans, key=lambda plan: plan[0]):
        steps, before = [], dict(state)
        for _ in range(rng.randint(1, 3)):
            register = rng.choice("xyz")
            if rng.random() < 0.5:
                state[register] = rng.randrange(3)
                steps.append(write(register, state[register]))
            else:
                found = state[register] if rng.random() < 0.9 else rng.choice([0, 1, 2, 3, None])
                steps.append(read(register, found))
        if ret is None and rng.random() < 0.5:
            state = before
        history.append(txn(process, call, ret, *steps))
    return history


@pytest.mark.parametrize("consistency", ["linearizable", "sequential"])
def test_random_histories_against_all_orders(consistency: Consistency) -> None:
    rng, invalid = random.Random(22), 0
    for _ in range(1_500):
        history = made(rng)
        expected = "VALID" if explained(history, consistency) else "INVALID"
        (found,) = check(history, "multi-register", consistency=consistency).objects or (None,)
        status = "VALID" if found is None else found.status
        assert status == expected, history
        if found is not None and expected == "INVALID":
            invalid += 1
            assert not explained([history[place] for place in found.witness], consistency)
    assert invalid > 200

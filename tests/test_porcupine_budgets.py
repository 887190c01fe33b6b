"""Budgets of pyporcupine: for a whole check, in time and memory; and what is cheap without them.

What a check takes is measured in a process of its own. CPU time and not wall time is compared, so
that what else the machine does counts for nothing.
"""

import os
import time
from typing import Any

import pytest
from pyporcupine import MEMORY_MB, Call, Operation, check

from benches import porcupine_budgets, porcupine_wild
from benches.porcupine_wild import Wild

BUDGET: dict[str, Any] = {"time_s": 1.0, "memory_mb": 64.0}
SLACK_MB = 16
"""Memory of the history's rows and of thread stacks."""
HARD = [
    Wild("counter", 60, 600, values=3, spoiled="late"),
    Wild("cas-register", 60, 1000, lost=100, values=3, spoiled="late"),
    Wild("queue", 60, 600, lost=100, values=3, spoiled="late"),
    Wild("fifo-queue", 50, 600, lost=100, values=3, spoiled="early"),
    Wild("key-value", 60, 1000, keys=2, lost=100, values=2, spoiled="late"),
    Wild("multi-register", 60, 1000, lost=100, values=3, spoiled="late"),
    Wild("append-log", 60, 600, lost=100, values=2, spoiled="late"),
]


@pytest.mark.parametrize("consistency", ["linearizable", "sequential"])
@pytest.mark.parametrize("wild", HARD, ids=lambda wild: wild.model)
def test_a_check_keeps_to_its_budget(wild: Wild, consistency: str) -> None:
    printed = porcupine_budgets.child(wild, consistency=consistency, **BUDGET)
    assert printed["mb"] <= BUDGET["memory_mb"] + SLACK_MB, printed
    assert printed["cpu_s"] <= BUDGET["time_s"] * (os.cpu_count() or 1) + 0.5, printed


@pytest.mark.parametrize("lost", [0, 50])
@pytest.mark.parametrize("spoiled", ["", "early", "late"])
def test_texts_that_grow_by_different_pieces_are_cheap(spoiled: str, lost: int) -> None:
    wild = Wild("key-value", 50, 2000, keys=10, lost=lost, spoiled=spoiled)
    printed = porcupine_budgets.child(wild, threads=1)
    assert printed["status"] == ("INVALID" if spoiled else "VALID")
    assert printed["cpu_s"] < 2.0, printed
    assert printed["mb"] < 20, printed


def wide(key: str, width: int = 24) -> list[Operation]:
    """Return a counter history with a read that only a search through all sums can refuse."""
    adds = [Operation(at, "add", key, 1 << at, call=at, ret=1000 + at) for at in range(width)]
    return [
        *adds,
        Operation(99, "read", key, call=98, ret=99, output=3),
        Operation(98, "read", key, call=97, ret=999, output=-1),
    ]


def test_the_budget_of_memory_is_that_of_all_keys_and_threads() -> None:
    result = check(
        [*wide("a"), *shifted(wide("b"), 100), *shifted(wide("c"), 200)],
        "counter", memory_mb=1.0, time_s=None, threads=2,
    )  # fmt: skip
    assert [one.status for one in result.objects] == ["UNKNOWN"] * 3
    assert all(one.reason.startswith("out of memory") for one in result.objects)


def shifted(operations: list[Operation], by: int) -> list[Operation]:
    """Return the same operations of other processes."""
    return [
        Operation(
            one.process + by, one.f, one.key, one.value, call=one.call, ret=one.ret,
            output=one.output,
        )
        for one in operations
    ]  # fmt: skip


def test_once_a_key_is_invalid_the_others_get_little_more() -> None:
    stale = [
        Operation(500, "add", "stale", 1, call=0, ret=1),
        Operation(500, "read", "stale", call=2, ret=3, output=0),
    ]
    result = check([*stale, *wide("wide", 40)], "counter", time_s=4.0, memory_mb=4000.0)
    known, open_ = result.objects
    assert (known.status, known.witness) == ("INVALID", [0, 1])
    assert open_.status == "UNKNOWN"
    assert open_.reason.startswith("given up, for another key is INVALID: explored ")
    assert result.status == "INVALID"


def test_a_hard_key_leaves_time_for_the_others() -> None:
    easy = [Operation(500, "read", "easy", call=0, ret=1, output=0)]
    result = check([*wide("wide", 40), *easy], "counter", time_s=0.5, memory_mb=4000.0)
    assert [(one.key, one.status) for one in result.objects] == [
        ("wide", "UNKNOWN"),
        ("easy", "VALID"),
    ]


def test_invalid_stays_invalid_without_a_smallest_witness() -> None:
    class SlowToExplain:
        """A register that answers fast when it is first asked, and slowly after that."""

        turns = 0

        def init(self) -> int:
            self.turns += 1
            return 0

        def step(self, state: int, call: Call, output: Any, /) -> int | None:
            if self.turns > 1:
                time.sleep(0.05)
            if call.f == "write":
                return int(call.value)
            return state if output == state else None

    history = [
        Operation(0, "write", None, 1 + at, call=10 * at, ret=10 * at + 1) for at in range(40)
    ]
    history.append(Operation(0, "read", call=400, ret=401, output=1))
    (found,) = check(history, SlowToExplain(), time_s=2.0).objects
    assert (found.status, found.stuck) == ("INVALID", 40)
    assert found.reason == (
        "no order of the operations explains this one; the witness may not be the smallest "
        "(out of time)"
    )


def test_the_default_is_a_quarter_of_the_machine() -> None:
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e6
    assert 0 < MEMORY_MB <= pages / 4


@pytest.mark.parametrize("empty", [False, True])
def test_a_queue_that_is_found_empty_is_cheap_though_values_come_again(empty: bool) -> None:
    """Dequeues find nothing in the beginning; in the end one does though five values are there many
    times."""
    wild = Wild("queue", 10, 20_000, values=5)
    history = porcupine_wild.history(wild)
    assert any(one.f == "dequeue" and one.output is None for one in history)
    if empty:
        history.append(Operation(99, "dequeue", 0, call=10**9, ret=10**9 + 1))
    began = time.process_time()
    (found,) = check(history, "queue", threads=1).objects
    assert time.process_time() - began < 5.0
    assert found.status == ("INVALID" if empty else "VALID")
    if empty:
        assert found.reason == "a dequeue found nothing though some value was always there"
        assert len(found.witness) == 2

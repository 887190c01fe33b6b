"""Models written in Python, as a user of pyporcupine writes them, and random histories."""

from collections.abc import Callable
from random import Random
from typing import Any

from pyporcupine import UNKNOWN, Call, Operation


class Register:
    """Read, write and compare-and-set; the initial value is 0."""

    def init(self) -> int:
        return 0

    def step(self, state: int, call: Call, output: Any, /) -> int | list[int] | None:
        match call:
            case Call("write", value):
                return value
            case Call("cas", (expected, new)):
                if output is UNKNOWN:
                    return new if state == expected else state
                if output:
                    return new if state == expected else None
                return state if state != expected else None
            case _:
                return state if output is UNKNOWN or output == state else None


class Queue:
    """Unordered; whatever a call that never returned took, it took one of those that were there."""

    def init(self) -> tuple[int, ...]:
        return ()

    def step(
        self, state: tuple[int, ...], call: Call, output: Any, /
    ) -> tuple[int, ...] | list[tuple[int, ...]] | None:
        if call.f == "enqueue":
            return tuple(sorted((*state, call.value)))
        if output is UNKNOWN:
            return [without(state, one) for one in state] or None
        if output is None:
            return None if state else state
        return without(state, output) if output in state else None


def without(state: tuple[int, ...], value: int) -> tuple[int, ...]:
    at = state.index(value)
    return state[:at] + state[at + 1 :]


class Set:
    def init(self) -> frozenset[int]:
        return frozenset()

    def step(self, state: frozenset[int], call: Call, output: Any, /) -> frozenset[int] | None:
        if call.f == "add":
            return state | {call.value}
        if output is UNKNOWN:
            return state
        return state if sorted(output) == sorted(state) else None


class Counter:
    def init(self) -> int:
        return 0

    def step(self, state: int, call: Call, output: Any, /) -> int | None:
        if call.f == "add":
            return state + call.value
        return state if output is UNKNOWN or output == state else None


class Mutex:
    def init(self) -> bool:
        return False

    def step(self, state: bool, call: Call, output: Any, /) -> bool | None:
        return None if state == (call.f == "acquire") else not state


class Fifo:
    def init(self) -> tuple[int, ...]:
        return ()

    def step(self, state: tuple[int, ...], call: Call, output: Any, /) -> tuple[int, ...] | None:
        if call.f == "enqueue":
            return (*state, call.value)
        if output is UNKNOWN:
            return state[1:]
        return state[1:] if state[:1] == (() if output is None else (output,)) else None


class Log:
    def init(self) -> tuple[int, ...]:
        return ()

    def step(self, state: tuple[int, ...], call: Call, output: Any, /) -> tuple[int, ...] | None:
        if call.f == "append":
            return (*state, call.value)
        return state if output is UNKNOWN or tuple(output) == state else None


class KeyValue:
    def init(self) -> str:
        return ""

    def step(self, state: str, call: Call, output: Any, /) -> str | None:
        match call:
            case Call("put", text):
                return str(text)
            case Call("append", text):
                return state + str(text)
            case _:
                return state if output is UNKNOWN or output == state else None


def register_call(rng: Random, state: int) -> tuple[str, Any, Any, int]:
    match rng.randrange(4):
        case 0:
            pair = (rng.randrange(3), rng.randrange(3))
            hit = state == pair[0]
            return "cas", pair, hit, pair[1] if hit else state
        case 1:
            value = rng.randrange(3)
            return "write", value, None, value
        case _:
            return "read", None, state, state


def queue_call(rng: Random, state: list[int]) -> tuple[str, Any, Any, list[int]]:
    if rng.random() < 0.5:
        value = rng.randrange(5)
        return "enqueue", value, None, [*state, value]
    if not state:
        return "dequeue", None, None, state
    taken = rng.choice(state)
    return "dequeue", None, taken, list(without(tuple(state), taken))


def set_call(rng: Random, state: list[int]) -> tuple[str, Any, Any, list[int]]:
    if rng.random() < 0.5:
        value = rng.randrange(5)
        return "add", value, None, sorted({*state, value})
    return "read", None, list(state), state


def counter_call(rng: Random, state: int) -> tuple[str, Any, Any, int]:
    if rng.random() < 0.5:
        by = rng.choice([1, 1, 2, 3, -1])
        return "add", by, None, state + by
    return "read", None, state, state


def mutex_call(rng: Random, state: bool) -> tuple[str, Any, Any, bool]:
    acquires = rng.random() < 0.5
    return "acquire" if acquires else "release", None, None, acquires


def fifo_call(rng: Random, state: list[int]) -> tuple[str, Any, Any, list[int]]:
    if rng.random() < 0.5:
        value = rng.randrange(4)
        return "enqueue", value, None, [*state, value]
    return "dequeue", None, state[0] if state else None, state[1:]


def log_call(rng: Random, state: list[int]) -> tuple[str, Any, Any, list[int]]:
    if rng.random() < 0.5:
        value = rng.randrange(4)
        return "append", value, None, [*state, value]
    return "read", None, list(state), state


def key_value_call(rng: Random, state: str) -> tuple[str, Any, Any, str]:
    text = rng.choice("abc")
    match rng.randrange(4):
        case 0:
            return "put", text, None, text
        case 1:
            return "append", text, None, state + text
        case _:
            return "get", None, state, state


def random_history(
    rng: Random, call: Callable[[Random, Any], tuple[str, Any, Any, Any]], state: Any
) -> list[Operation]:
    """Draw up to nine calls of up to four processes, some of which never return. Most histories are
    then damaged: an output is that of another call, or an end comes early."""
    free = [0] * rng.randrange(1, 5)
    spans = []
    for _ in range(rng.randrange(1, 10)):
        process = rng.randrange(len(free))
        begin = free[process] + rng.randrange(3)
        end = begin + rng.randrange(5)
        free[process] = end + 1
        spans.append((rng.randint(begin, end), process, begin, end))
    lost = rng.random() < 0.4
    calls: list[dict[str, Any]] = []
    retired: set[int] = set()
    for _, process, begin, end in sorted(spans):
        if process in retired:
            continue
        f, value, output, after = call(rng, state)
        gone = lost and rng.random() < 0.2
        if gone:
            retired.add(process)
        if not gone or rng.random() < 0.5:
            state = after
        ret = None if gone else end
        output = None if gone else output
        row = {"process": process, "f": f, "value": value, "output": output}
        calls.append({**row, "call": begin, "ret": ret})
    others = []
    for _ in range(8):
        f, _, output, state = call(rng, state)
        others.append((f, output))
    for _ in range(rng.randrange(4)):
        damage(rng, calls, others)
    return [Operation(**row) for row in calls]


def damage(rng: Random, calls: list[dict[str, Any]], others: list[tuple[str, Any]]) -> None:
    one = rng.choice(calls)
    if one["ret"] is None:
        return
    if rng.random() < 0.3:
        one["ret"] = one["call"]
    told = [row["output"] for row in calls if row["f"] == one["f"] and row["ret"] is not None]
    told += [output for f, output in others if f == one["f"]]
    one["output"] = rng.choice(told)

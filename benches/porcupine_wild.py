"""Histories of every model, made to be hard: many clients, late and early violations, lost calls.

Each operation takes effect at a random time between its call and its return, in the order of those
times, so that a history is valid until it is spoiled. A lost call never returns, and takes effect
half of the time. To spoil is to give an operation the output of another one; what comes of it may
be valid all the same.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from pyporcupine import Operation
from pyporcupine.importers.formats import Model

READS = ("read", "get")
"""A lost one would say nothing."""
CALL_MOST = 1000
"""The longest call; the longest pause is a tenth of it."""


@dataclass(frozen=True, slots=True)
class Wild:
    """Parameters of a random history."""

    model: Model
    clients: int
    operations: int
    keys: int = 1
    lost: int = 0
    """Lost calls per mille."""
    values: int | None = None
    """Maximum number of different written values; None writes each value once."""
    spoiled: str = ""
    """"early", "late", or "" for a valid history."""
    seed: int = 1


@dataclass(slots=True, kw_only=True)
class Draft:
    """An operation before it is one."""

    process: int
    key: int
    f: str
    value: Any
    call: int
    ret: int
    effect: int
    lost: bool = False
    happens: bool = True
    output: Any = None


@dataclass(slots=True)
class Maker:
    """Rules of a model: how its operations are drawn, and what they do to a state."""

    initial: Callable[[], Any]
    draw: Callable[[Random, int], tuple[str, Any]]
    apply: Callable[[Any, Draft], tuple[Any, Any]]
    """The state after, and the output."""
    observes: frozenset[str] = field(default_factory=frozenset)


def history(wild: Wild, maker: Maker | None = None) -> list[Operation]:
    """Return the operations in order of call; `maker` replaces that of the model."""
    draw, maker = Random(wild.seed), maker or MAKERS[wild.model]
    drafts = _drafts(wild, maker, draw)
    _take_effect(maker, drafts)
    if wild.spoiled:
        _spoil(wild, maker, drafts, draw)
    return [
        Operation(
            one.process, one.f, one.key, one.value, call=one.call,
            ret=None if one.lost else one.ret, output=None if one.lost else one.output,
        )
        for one in sorted(drafts, key=lambda one: one.call)
    ]  # fmt: skip


def _drafts(wild: Wild, maker: Maker, draw: Random) -> list[Draft]:
    free = [draw.randrange(CALL_MOST) for _ in range(wild.clients)]
    process = list(range(wild.clients))
    drafts = []
    for number in range(wild.operations):
        client = min(range(wild.clients), key=free.__getitem__)
        call = free[client] + draw.randrange(1 + CALL_MOST // 10)
        ret = call + 1 + draw.randrange(CALL_MOST)
        value = number if wild.values is None else draw.randrange(wild.values)
        f, value = maker.draw(draw, value)
        lost = f not in READS and draw.randrange(1000) < wild.lost
        drafts.append(
            Draft(
                process=process[client], key=draw.randrange(wild.keys), f=f, value=value,
                call=call, ret=ret, effect=draw.randint(call, ret), lost=lost,
                happens=not lost or draw.random() < 0.5,
            )
        )  # fmt: skip
        free[client] = ret + 1
        process[client] += wild.clients * lost  # a lost call is its process's last
    return drafts


def _take_effect(maker: Maker, drafts: list[Draft]) -> None:
    states = dict[int, Any]()
    for one in sorted(drafts, key=lambda one: one.effect):
        if one.happens:
            state = states[one.key] if one.key in states else maker.initial()
            states[one.key], one.output = maker.apply(state, one)


def _spoil(wild: Wild, maker: Maker, drafts: list[Draft], draw: Random) -> None:
    """Change the result of one operation in the first or the last tenth of those with a result."""
    observes = maker.observes
    telling = [one for one in drafts if one.f in observes and not one.lost]
    telling.sort(key=lambda one: one.call)
    part = len(telling) // 10 or 1
    for one in telling[:part] if wild.spoiled == "early" else telling[-part:]:
        outputs = [other.output for other in telling if _alike(one, other)]
        if outputs:
            one.output = draw.choice(outputs)
            return


def _alike(one: Draft, other: Draft) -> bool:
    """Return whether two operations were called alike but returned different results."""
    called = (one.f, one.key, one.value) == (other.f, other.key, other.value)
    return called and one.output != other.output


def _register(state: Any, one: Draft) -> tuple[Any, Any]:
    if one.f == "read":
        return state, state
    if one.f == "write":
        return one.value, None
    expected, new = one.value
    return (new, True) if state == expected else (state, False)


def _text(state: str, one: Draft) -> tuple[str, Any]:
    if one.f == "get":
        return state, state
    return (state + one.value if one.f == "append" else one.value), None


def _grows(state: list[int], one: Draft) -> tuple[list[int], Any]:
    if one.f == "read":
        return state, state
    return ([*state, one.value] if one.f == "append" else sorted({*state, one.value})), None


def _container(state: list[int], one: Draft) -> tuple[list[int], Any]:
    if one.f == "push-front":
        return [one.value, *state], None
    if one.f not in TAKES:
        return [*state, one.value], None
    if not state:
        return state, None
    at = TAKES[one.f](state, one)
    return state[:at] + state[at + 1 :], state[at]


def _any_of_queue(state: list[int], one: Draft) -> tuple[list[int], Any]:
    if one.f == "enqueue" or not state:
        return _container(state, one)
    at = one.effect % len(state)
    return state[:at] + state[at + 1 :], state[at]


def _mutex(state: bool, one: Draft) -> tuple[bool, Any]:
    # An operation that is impossible in this state becomes the opposite one.
    one.f = "release" if state else "acquire"
    return not state, None


def _one_of(*fs: str) -> Callable[[Random, int], tuple[str, Any]]:
    """Return a function that draws an operation; reads have no value."""

    def draw(random: Random, value: int) -> tuple[str, Any]:
        f = random.choice(fs)
        return f, None if f == "read" or f in TAKES else value

    return draw


def _cas(random: Random, value: int) -> tuple[str, Any]:
    f = random.choice(("read", "write", "cas"))
    return f, (value - 1, value) if f == "cas" else None if f == "read" else value


def _key_value(random: Random, value: int) -> tuple[str, Any]:
    f = random.choices(("get", "append", "put"), (10, 10, 1))[0]
    return f, None if f == "get" else f"x {value} y"


def _counter(state: int, one: Draft) -> tuple[int, Any]:
    return (state, state) if one.f == "read" else (state + one.value, None)


def _several(random: Random, value: int) -> tuple[str, Any]:
    if random.random() < 0.4:
        return "txn", [["read", register, None] for register in REGISTERS]
    registers = random.sample(REGISTERS, 2)
    return "txn", [["read", registers[0], None], ["write", registers[1], value]]


def _txn(state: dict[int, int], one: Draft) -> tuple[dict[int, int], Any]:
    found, after = [], dict(state)
    for f, register, value in one.value:
        if f == "write":
            after[register] = value
        found.append([f, register, after[register]])
    return after, found


TAKES: dict[str, Callable[[list[int], Draft], int]] = {
    "dequeue": lambda _state, _one: 0,
    "pop": lambda state, _one: len(state) - 1,
    "pop-front": lambda _state, _one: 0,
    "pop-back": lambda state, _one: len(state) - 1,
    "delete-min": lambda state, _one: state.index(min(state)),
}
"""Operations that take a value out, and the place from which they do."""
REGISTERS = (0, 1, 2)
MAKERS: dict[Model, Maker] = {
    "register": Maker(lambda: None, _one_of("read", "write"), _register, frozenset({"read"})),
    "cas-register": Maker(lambda: None, _cas, _register, frozenset({"read", "cas"})),
    "key-value": Maker(lambda: "", _key_value, _text, frozenset({"get"})),
    "set": Maker(list, _one_of("read", "add", "add"), _grows, frozenset({"read"})),
    "append-log": Maker(list, _one_of("read", "append", "append"), _grows, frozenset({"read"})),
    "counter": Maker(int, _one_of("read", "add"), _counter, frozenset({"read"})),
    "queue": Maker(list, _one_of("dequeue", "enqueue"), _any_of_queue, frozenset({"dequeue"})),
    "fifo-queue": Maker(list, _one_of("dequeue", "enqueue"), _container, frozenset({"dequeue"})),
    "stack": Maker(list, _one_of("pop", "push"), _container, frozenset({"pop"})),
    "priority-queue": Maker(
        list, _one_of("delete-min", "insert"), _container, frozenset({"delete-min"})
    ),
    "deque": Maker(
        list,
        _one_of("pop-front", "pop-back", "push-front", "push-back"),
        _container,
        frozenset({"pop-front", "pop-back"}),
    ),
    "multi-register": Maker(
        lambda: dict.fromkeys(REGISTERS, 0), _several, _txn, frozenset({"txn"})
    ),
    "mutex": Maker(bool, _one_of("acquire", "release"), _mutex),
}

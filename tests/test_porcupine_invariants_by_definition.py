"""Invariants of small random histories, beside their definitions: all pairs, all elements, all
subsets."""

from collections import Counter
from collections.abc import Callable
from itertools import chain, combinations, pairwise
from random import Random
from typing import Any

import pytest
from pyporcupine import Operation, check_invariant

HISTORIES = 3_000
Made = list[Operation]


def timed(random: Random, rows: list[tuple[str, Any, Any]]) -> Made:
    """Return operations that overlap at random; some never return."""
    made = []
    for at, (f, value, output) in enumerate(rows):
        call = 3 * at + random.randint(0, 2)
        ret = None if random.random() < 0.15 else call + random.randint(1, 12)
        found = output if ret is not None else None
        made.append(Operation(at, f, value=value, call=call, ret=ret, output=found))
    return made


def queues(random: Random) -> Made:
    def some() -> list[int]:
        return [random.randint(0, 3) for _ in range(random.randint(0, 3))]

    kinds: list[Callable[[], tuple[str, Any, Any]]] = [
        lambda: ("enqueue", random.randint(0, 3), None),
        lambda: ("enqueue", random.randint(0, 3), None),
        lambda: ("dequeue", None, random.choice([None, 0, 1, 2, 3])),
        lambda: ("drain", None, some()),
    ]
    return timed(random, [random.choice(kinds)() for _ in range(random.randint(0, 8))])


def queue_by_definition(made: Made) -> str:
    """Judge whether some choice of values for the dequeues and drains that never returned explains
    what is missing: what was acknowledged before the queue was seen empty came out."""
    attempted = {one.value for one in made if one.f == "enqueue"}
    returned = [one for one in made if one.ret is not None]
    out = Counter[Any]()
    for one in returned:
        if one.f == "dequeue" and one.output is not None:
            out[one.output] += 1
        elif one.f == "drain":
            out.update(one.output)
    if any(value not in attempted for value in out):
        return "INVALID"
    acknowledged = [one for one in returned if one.f == "enqueue"]
    saw_empty = [
        one for one in returned if one.f == "drain" or (one.f == "dequeue" and one.output is None)
    ]
    before = [one for one in acknowledged if any(one.ret < seen.call for seen in saw_empty)]
    gone = Counter(one.value for one in before) - out
    takers = [one.f for one in made if one.ret is None and one.f in ("dequeue", "drain")]
    if gone and "drain" not in takers and gone.total() > len(takers):
        return "INVALID"
    if Counter(one.value for one in acknowledged) - out or not (acknowledged or out):
        return "UNKNOWN"
    return "VALID"


def counters(random: Random) -> Made:
    rows: list[tuple[str, Any, Any]] = [
        ("add", random.randint(-2, 3), None)
        if random.random() < 0.6
        else ("read", None, random.randint(-3, 7))
        for _ in range(random.randint(0, 7))
    ]
    return timed(random, rows)


def counter_by_definition(made: Made) -> str:
    """Judge whether each read is the sum of the additions before it and of no more than all that
    were called by its return: tries all subsets."""
    adds = [one for one in made if one.f == "add"]
    reads = [one for one in made if one.f == "read" and one.ret is not None]
    for one in reads:
        sure = [add for add in adds if add.ret is not None and add.ret < one.call]
        maybe = [add for add in adds if add not in sure and add.call <= one.ret]
        chosen = chain.from_iterable(combinations(maybe, n) for n in range(len(maybe) + 1))
        sums = {sum(add.value for add in (*sure, *some)) for some in chosen}
        if not min(sums) <= one.output <= max(sums):
            return "INVALID"
    return "VALID" if reads else "UNKNOWN"


def sets(random: Random) -> Made:
    def some() -> list[int]:
        return [random.randint(0, 4) for _ in range(random.randint(0, 4))]

    rows: list[tuple[str, Any, Any]] = [
        ("add", random.randint(0, 3), None) if random.random() < 0.5 else ("read", None, some())
        for _ in range(random.randint(0, 8))
    ]
    return timed(random, rows)


def set_by_definition(made: Made, *, linearizable: bool = False) -> str:
    """Judge each element by itself, as `set-full` of Jepsen's checker.clj defines known, present
    and absent."""
    adds = [one for one in made if one.f == "add"]
    reads = [one for one in made if one.f == "read" and one.ret is not None]
    everything = {one.value for one in adds}
    if any(element not in everything for one in reads for element in one.output):
        return "INVALID"
    if any(len(set(one.output)) < len(one.output) for one in reads):
        return "INVALID"
    stable = stale = 0
    for element in everything:
        shown = [one for one in reads if element in one.output]
        ends = [one.ret for one in adds if one.value == element and one.ret is not None]
        ends += [one.ret for one in shown]
        last_present = max((one.call for one in shown), default=-1)
        missed = [one.call for one in reads if element not in one.output]
        last_absent = max(missed, default=-1)
        if ends and last_present < last_absent and min(ends) < last_absent:
            return "INVALID"
        if last_absent < last_present:
            stable += 1
            stale += min(ends) < last_absent
    if not stable:
        return "UNKNOWN"
    return "INVALID" if stale and linearizable else "VALID"


def forks(random: Random) -> Made:
    def one() -> tuple[str, Any, Any]:
        group = random.choice([(0, 1, 2), (0, 1), (3,)])
        keys = random.sample(group, len(group))
        return "txn", None, [["r", key, random.choice([None, 1])] for key in keys]

    return timed(random, [one() for _ in range(random.randint(0, 6))])


def fork_by_definition(made: Made) -> str:
    """Judge each pair of reads of the same keys."""
    sets_ = [
        (frozenset(key for _, key, _ in one.output), {key for _, key, v in one.output if v})
        for one in made
        if one.ret is not None
    ]
    pairs = [(a, b) for (of, a), (same, b) in combinations(sets_, 2) if of == same]
    if any(a - b and b - a for a, b in pairs):
        return "INVALID"
    return "VALID" if any(a or b for a, b in pairs) else "UNKNOWN"


def banks(random: Random) -> Made:
    rows: list[tuple[str, Any, Any]] = [
        ("read", None, random.choice([[5, 5], [4, 6], [3, 6], [-1, 11], [5, None]]))
        if random.random() < 0.7
        else ("transfer", None, None)
        for _ in range(random.randint(0, 4))
    ]
    return timed(random, rows)


def bank_by_definition(made: Made) -> str:
    reads = [one.output for one in made if one.f == "read" and one.ret is not None]
    if any(balance is None or balance < 0 for found in reads for balance in found):
        return "INVALID"
    if len({sum(found) for found in reads}) > 1:
        return "INVALID"
    return "VALID" if len(reads) > 1 else "UNKNOWN"


def ids(random: Random) -> Made:
    rows = [("generate", None, random.randint(0, 12)) for _ in range(random.randint(0, 6))]
    return timed(random, rows)


def ids_by_definition(made: Made) -> str:
    found = [one.output for one in made if one.ret is not None]
    if any(a == b for a, b in combinations(found, 2)):
        return "INVALID"
    return "VALID" if len(found) > 1 else "UNKNOWN"


def final_counters(random: Random) -> Made:
    rows: list[tuple[str, Any, Any]] = [
        ("add", random.randint(-2, 3), None)
        if random.random() < 0.6
        else (random.choice(["read", "final-read"]), None, random.randint(-3, 7))
        for _ in range(random.randint(0, 7))
    ]
    return timed(random, rows)


def final_by_definition(made: Made) -> str:
    finals = [
        Operation(one.process, "read", call=one.call, ret=one.ret, output=one.output)
        for one in made
        if one.f == "final-read"
    ]
    return counter_by_definition([*(one for one in made if one.f == "add"), *finals])


def logs(random: Random) -> Made:
    """Return producers and consumers of two logs, most of whose answers are those of one log."""
    log = {key: [random.randint(0, 5) for _ in range(4)] for key in "xy"}

    def sends() -> tuple[str, Any, Any]:
        key, at = random.choice("xy"), random.randint(0, 3)
        value = log[key][at] if random.random() < 0.95 else random.randint(0, 5)
        return "send", [["send", key, value]], [["send", key, [at, value]]]

    def polls() -> tuple[str, Any, Any]:
        key, start = random.choice("xy"), random.randint(0, 3)
        found = [[at, log[key][at]] for at in range(start, random.randint(start, 4))]
        if found and random.random() < 0.1:
            found.pop(random.randrange(len(found)))
        return "poll", [["poll"]], [["poll", {key: found}]]

    def assigns() -> tuple[str, Any, Any]:
        return random.choice(["assign", "assign", "subscribe"]), ["x", "y"], None

    kinds = [sends, sends, sends, sends, polls, polls, polls, assigns]
    made, flying = [], dict[int, int]()
    for at in range(random.randint(0, 9)):
        f, value, output = random.choice(kinds)()
        process = random.choice([0, 1])
        process = flying.get(process, process)
        ret = None if random.random() < 0.08 else 10 * at + 5
        if ret is None:
            flying[process % 10] = process + 10
        found = None if ret is None else output
        made.append(Operation(process, f, value=value, call=10 * at, ret=ret, output=found))
    return made


def log_by_definition(made: Made) -> str:
    """Judge each pair of records."""
    attempts = Counter((s[1], s[2]) for one in made if one.f == "send" for s in one.value)
    sent, polled = list[Any](), list[Any]()
    for number, one in enumerate(made):
        if one.ret is None or one.f not in ("send", "poll"):
            continue
        before = [x for x in made[:number] if x.process == one.process]
        chosen = [x for x in before if x.f in ("assign", "subscribe")]
        epoch = made.index(chosen[-1]) if chosen else -1
        follows = not chosen or chosen[-1].f == "assign"
        for step in one.output:
            if step[0] == "send":
                sent.append((one.process, step[1], *step[2]))
                continue
            polled += [
                (one.process, key, *record, number, epoch, follows)
                for key, records in step[1].items()
                for record in records
            ]
    places = [one[1:4] for one in (*sent, *polled)]
    broken = any(one[1::2][:2] not in attempts for one in polled)
    for (key, at, value), (other, there, what) in combinations(places, 2):
        if key == other:
            broken |= at == there and value != what
            broken |= at != there and value == what and attempts[key, value] == 1
    for process, key in {one[:2] for one in (*sent, *polled)}:
        ours = [one for one in sent if one[:2] == (process, key)]
        broken |= any(b[2] <= a[2] for a, b in pairwise(ours))
        for a, b in pairwise([one for one in polled if one[:2] == (process, key)]):
            if a[4] == b[4] or (a[5] == b[5] and b[6]):
                known = {at for where, at, _ in places if where == key}
                broken |= b[2] <= a[2] or any(a[2] < at < b[2] for at in known)
    seen = {(key, value) for _, key, _, value, *_ in polled}
    latest = {key: max(p[2] for p in polled if p[1] == key) for _, key, *_ in polled}
    missing = [s for s in sent if (s[1], s[3]) not in seen and s[2] < latest.get(s[1], -1)]
    takers = [one for one in made if one.f == "poll" and one.ret is None]
    if broken or (missing and not takers):
        return "INVALID"
    return "UNKNOWN" if missing or not polled else "VALID"


@pytest.mark.parametrize(
    ("invariant", "make", "by_definition", "options"),
    [
        ("total-queue", queues, queue_by_definition, {}),
        ("counter-bounds", counters, counter_by_definition, {"initial": 0}),
        ("set-full", sets, set_by_definition, {}),
        ("set-full", sets, lambda made: set_by_definition(made, linearizable=True),
         {"linearizable": True}),
        ("long-fork", forks, fork_by_definition, {}),
        ("bank", banks, bank_by_definition, {}),
        ("unique-ids", ids, ids_by_definition, {}),
        ("pn-counter", final_counters, final_by_definition, {"initial": 0}),
        ("kafka", logs, log_by_definition, {}),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)  # fmt: skip
def test_small_histories_have_the_verdict_of_the_definition(
    invariant: Any,
    make: Callable[[Random], Made],
    by_definition: Callable[[Made], str],
    options: dict[str, Any],
) -> None:
    random = Random(f"{invariant} {options}")
    seen = Counter[str]()
    for _ in range(HISTORIES):
        made = make(random)
        if not made:
            continue
        expected = by_definition(made)
        result = check_invariant(made, invariant, **options)
        assert result.status == expected, (made, result.reason)
        seen[expected] += 1
    assert min(seen[status] for status in ("VALID", "INVALID", "UNKNOWN")) > 50, seen

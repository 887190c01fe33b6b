"""The other models of pyporcupine: literal history in, whole verdict out."""

from typing import Any

import pytest
from pyporcupine import HistoryError, Operation, check


def op(f: str, value: Any, output: Any, call: int, ret: int | None, process: int = 0) -> Operation:
    return Operation(process, f, None, value, call=call, ret=ret, output=output)


def run(*calls: tuple[str, Any, Any]) -> list[Operation]:
    """Return the calls of one process, one after the other."""
    return [op(f, value, output, 2 * i, 2 * i + 1) for i, (f, value, output) in enumerate(calls)]


GOOD: list[tuple[str, list[Operation]]] = [
    ("key-value", run(("put", "a", None), ("append", "b", None), ("get", None, "ab"))),
    ("append-log", run(("append", 1, None), ("append", "x", None), ("read", None, [1, "x"]))),
    ("append-log", [op("append", 1, None, 0, 9), op("read", None, [], 1, 2, 1)]),
    ("append-log", [op("append", 1, None, 0, None), op("read", None, [1], 1, 2, 1)]),
    ("counter", run(("add", 3, None), ("add", -1, 2), ("read", None, 2))),
    ("queue", run(("enqueue", 1, None), ("enqueue", 2, None), ("dequeue", None, 2))),
    ("queue", run(("dequeue", None, None), ("enqueue", 1, None), ("dequeue", None, 1))),
    ("fifo-queue", run(("enqueue", 1, None), ("enqueue", 2, None), ("dequeue", None, 1))),
    ("fifo-queue", [op("enqueue", 1, None, 0, 9), op("enqueue", 2, None, 0, 9, 1)]),
    ("stack", run(("push", 1, None), ("push", "x", None), ("pop", None, "x"), ("pop", None, 1))),
    ("stack", run(("pop", None, None), ("push", 1, None))),
    (
        "stack",
        [op("push", 1, None, 0, 9), op("push", 2, None, 0, 9, 1), op("pop", None, 1, 10, 11)],
    ),
    (
        "priority-queue",
        run(("insert", 2, None), ("insert", -1, None), ("delete-min", None, -1)),
    ),
    (
        "deque",
        run(
            ("push-back", 1, None),
            ("push-front", 2, None),
            ("pop-back", None, 1),
            ("pop-front", None, 2),
            ("pop-back", None, None),
        ),
    ),
    ("mutex", run(("acquire", None, None), ("release", None, None), ("acquire", None, None))),
]
BAD: list[tuple[str, list[Operation], list[int]]] = [
    ("key-value", run(("put", "a", None), ("append", "b", None), ("get", None, "a")), [0, 1, 2]),
    (
        "append-log",
        run(("append", 1, None), ("append", 2, None), ("read", None, [2, 1])),
        [0, 1, 2],
    ),
    ("counter", run(("add", 3, None), ("read", None, 2)), [1]),  # 2 is no multiple of 3
    ("counter", run(("add", 3, None), ("read", None, 0)), [0, 1]),
    ("counter", run(("add", 1, None), ("add", 1, 1)), [0, 1]),
    ("queue", run(("enqueue", 1, None), ("dequeue", None, 1), ("dequeue", None, 1)), [0, 1, 2]),
    ("queue", run(("enqueue", 1, None), ("dequeue", None, None)), [0, 1]),
    (
        "fifo-queue",
        run(("enqueue", 1, None), ("enqueue", 2, None), ("dequeue", None, 2)),
        [0, 1, 2],
    ),
    (
        "stack",
        run(("push", 1, None), ("push", 2, None), ("pop", None, 1), ("pop", None, 2)),
        [0, 1, 2, 3],
    ),
    ("priority-queue", run(("insert", 1, None), ("delete-min", None, None)), [0, 1]),
    ("mutex", run(("acquire", None, None), ("acquire", None, None)), [0, 1]),
    (
        "mutex",
        run(("acquire", None, None), ("release", None, None), ("release", None, None)),
        [0, 1, 2],
    ),
]


@pytest.mark.parametrize(("model", "history"), GOOD)
@pytest.mark.parametrize("consistency", ["linearizable", "sequential"])
def test_good(model: Any, history: list[Operation], consistency: Any) -> None:
    result = check(history, model, consistency=consistency, linearization=True)
    (found,) = result.objects
    assert found.status == "VALID"
    returned = [i for i, op in enumerate(history) if op.ret is not None]
    assert set(returned) <= set(found.linearization)


@pytest.mark.parametrize(("model", "history", "witness"), BAD)
@pytest.mark.parametrize("consistency", ["linearizable", "sequential"])
def test_bad(model: Any, history: list[Operation], witness: list[int], consistency: Any) -> None:
    (found,) = check(history, model, consistency=consistency).objects
    assert (found.status, found.witness) == ("INVALID", witness)


@pytest.mark.parametrize(
    ("model", "history", "text"),
    [
        ("key-value", run(("append", 3, None)), "row 0: value is 3, expected a str"),
        ("append-log", run(("read", None, 3)), "row 0: output is 3, expected a list"),
        ("counter", run(("add", "x", None)), 'row 0: value is "x", expected an int'),
        ("queue", run(("enqueue", None, None)), "row 0: value is None, expected an int or a str"),
        ("queue", run(("dequeue", None, [1])), r"row 0: output is \[1\], expected an int, a str"),
        ("mutex", run(("lock", None, None)), 'row 0: f is "lock", expected "acquire" or'),
    ],
)
def test_malformed_rows_are_refused(model: Any, history: list[Operation], text: str) -> None:
    with pytest.raises(HistoryError, match=text):
        check(history, model)


def test_keys_are_shared_among_threads() -> None:
    history = [
        Operation(key, f, key, value, call=call, ret=call + 1, output=output)
        for key in range(200)
        for f, value, output, call in [
            ("enqueue", key, None, 0),
            ("dequeue", None, key if key % 3 else 7000, 2),
        ]
    ]
    for threads in (1, 2, 5):
        found = check(history, "queue", threads=threads).objects
        assert [o.key for o in found] == list(range(200))
        assert [o.status for o in found] == ["VALID" if k % 3 else "INVALID" for k in range(200)]


def lost(f: str, value: Any, call: int, process: int) -> Operation:
    return op(f, value, None, call, None, process)


ENQUEUED = [op("enqueue", at, None, 2 * at, 2 * at + 1) for at in range(200)]
ADDED = [lost("add", 1, at, at) for at in range(255)]
# Additions of several numbers are searched, whatever their number.
SEVERAL_ADDED = [lost("add", 1 + at % 2, at, at) for at in range(255)]
LOST = [lost("dequeue", None, 1000 + at, 1 + at) for at in range(10)]


@pytest.mark.parametrize(
    ("model", "history", "witness"),
    [
        ("fifo-queue", [*ENQUEUED, *LOST, op("dequeue", None, 10, 2000, 2001)], None),
        # 11 values come before it, and 10 dequeues can have taken them.
        (
            "fifo-queue",
            [*ENQUEUED, *LOST, op("dequeue", None, 11, 2000, 2001)],
            [*range(12), *range(200, 211)],
        ),
        ("queue", [*ENQUEUED[:10], *LOST, op("dequeue", None, None, 2000, 2001)], None),
        (
            "queue",
            [*ENQUEUED[:11], *LOST, op("dequeue", None, None, 2000, 2001)],
            [*range(22)],
        ),
        ("counter", [*ADDED, op("read", None, 255, 300, 301, 300)], None),
        ("counter", [*ADDED, op("read", None, -1, 300, 301, 300)], [255]),
        ("counter", [*SEVERAL_ADDED, op("read", None, 300, 300, 301, 300)], None),
    ],
)
def test_calls_that_never_returned(
    model: Any, history: list[Operation], witness: list[int] | None
) -> None:
    (found,) = check(history, model, time_s=20).objects
    expected = ("VALID", []) if witness is None else ("INVALID", witness)
    assert (found.status, found.witness) == expected

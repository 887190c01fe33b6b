"""Histories to measure with: made from a seed, or read from published logs."""

import json
import re
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from pathlib import Path
from typing import Any

from pyporcupine import Operation

from harness.core.seed import Seed

ETCD = re.compile(r"jepsen\.util - (\d+)\s+:(\w+)\s+:(\w+)\s+(.*)$")


def synthetic(
    kind: str, n: int, c: int, *, keys: int = 1, info: int = 0, seed: int = 1, bad: bool = False
) -> list[Operation]:
    """Return n operations of c clients on a register ("rw", initially 0, written values all
    different), a compare-and-set register ("cas5", initially None, values 0 to 4) or a key-value
    store ("kv").

    Valid by construction: each takes effect at a random point between call and return. `info`:
    per mille of writes and cas that never return; half of them take effect. `bad`: a read in the
    middle returns what nobody can have read then.
    """
    draws = Seed(seed)
    drafts: list[Draft] = []
    free = [(draws.child("start").below(i, 1000), i) for i in range(c)]
    heapify(free)
    process = list(range(c))
    for number in range(n):
        at, client = heappop(free)
        own = draws.child(number)
        call = at + own.below(0, 100)
        ret = call + 1 + own.below(1, 1000)
        f, value = _call(kind, own, number)
        lost = f not in ("read", "get") and own.below(5, 1000) < info
        effect = call + own.below(2, ret - call + 1)
        key = str(own.below(3, keys)) if kind == "kv" else None
        drafts.append(Draft(process[client], f, key, value, call, None if lost else ret, effect))
        if lost:
            process[client] += c
            if own.below(6, 2):
                drafts[-1].effect = None
        heappush(free, (ret + 1, client))
    _take_effect(kind, drafts)
    if bad:
        _spoil(kind, drafts)
    return [draft.operation() for draft in sorted(drafts, key=lambda draft: draft.call)]


@dataclass(slots=True)
class Draft:
    """An operation in the making."""

    process: int
    f: str
    key: str | None
    value: Any
    call: int
    ret: int | None
    effect: int | None
    """Time at which it takes effect; None if it never does."""
    output: Any = None

    def operation(self) -> Operation:
        """Return the operation for pyporcupine. Times are doubled, so that a return comes after the
        calls of its tick."""
        ret = None if self.ret is None else 2 * self.ret + 1
        return Operation(
            self.process, self.f, self.key, self.value, call=2 * self.call, ret=ret,
            output=self.output,
        )  # fmt: skip


def _call(kind: str, own: Seed, number: int) -> tuple[str, Any]:
    if kind == "kv":
        return ("get", None) if own.below(4, 2) else ("put", str(number + 1))
    if kind == "rw":
        return ("read", None) if own.below(4, 2) else ("write", number + 1)
    f = own.choice(4, ("read", "write", "cas"))
    value = {"read": None, "write": own.below(7, 5), "cas": (own.below(7, 5), own.below(8, 5))}[f]
    return f, value


def _take_effect(kind: str, drafts: list[Draft]) -> None:
    state: dict[str | None, Any] = {}
    empty = {"rw": 0, "cas5": None, "kv": ""}[kind]
    for draft in sorted((d for d in drafts if d.effect is not None), key=lambda d: d.effect or 0):
        now = state.get(draft.key, empty)
        if draft.f in ("read", "get"):
            draft.output = now
        elif draft.f == "cas":
            draft.output = now == draft.value[0] if draft.ret is not None else None
            state[draft.key] = draft.value[1] if now == draft.value[0] else now
        else:
            state[draft.key] = draft.value


def _spoil(kind: str, drafts: list[Draft]) -> None:
    """Change one read: to a value that nobody wrote (cas5), or one that was overwritten before the
    read began."""
    for at in range(len(drafts) // 2, len(drafts)):
        read = drafts[at]
        if read.f not in ("read", "get"):
            continue
        if kind == "cas5":
            read.output = 99
            return
        writes = [
            d for d in drafts
            if d.f in ("write", "put") and d.key == read.key and d.ret and d.ret < read.call
        ]  # fmt: skip
        last = max(writes, key=lambda d: d.call, default=None)
        older = [d for d in writes if last and d.ret and d.ret < last.call]
        if older:
            read.output = older[-1].value
            return
    raise AssertionError("no read to spoil")


def etcd(path: Path) -> list[Operation]:
    """Return the operations in a log of a compare-and-set register; times are line numbers."""
    calls: dict[int, tuple[int, str, Any]] = {}
    done: list[Operation] = []
    for at, line in enumerate(path.read_text().splitlines()):
        found = ETCD.search(line)
        if not found:
            continue
        process, kind, f = int(found[1]), found[2], found[3]
        if kind == "invoke":
            calls[process] = (at, f, _etcd_value(found[4]))
            continue
        if kind == "info":
            continue
        call, f, value = calls.pop(process)
        if f == "read" and kind == "ok":
            output = _etcd_value(found[4])
            done.append(Operation(process, f, None, None, call=call, ret=at, output=output))
        elif f == "cas":
            done.append(Operation(process, f, None, value, call=call, ret=at, output=kind == "ok"))
        elif kind == "ok":
            done.append(Operation(process, f, None, value, call=call, ret=at))
    done += [
        Operation(process, f, None, value, call=call) for process, (call, f, value) in calls.items()
    ]
    return sorted(done, key=lambda op: op.call)


def _etcd_value(text: str) -> Any:
    text = text.strip()
    if text == "nil":
        return None
    if text.startswith("["):
        return tuple(int(part) for part in text.strip("[]").split())
    return int(text)


def truth(directory: Path) -> dict[str, bool]:
    """Return whether each log is linearizable, by path, from `truth.json` of a directory of
    logs."""
    verdicts: dict[str, bool] = json.loads((directory / "truth.json").read_text())
    return verdicts

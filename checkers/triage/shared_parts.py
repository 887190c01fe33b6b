"""Explains what becomes of the parts that replicas share: a second copy of one that two of them
moved, and objects that a replica deletes when it is restored."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from checkers.conclusion import mapping_of
from checkers.phrasing import seconds
from checkers.replication.objects import FINAL_LOOK, LOOK
from checkers.sets.key_sets import FINAL_READ, INSERT
from checkers.triage.breaks import nodes_in
from checkers.triage.repairs import Repair
from harness.core.history import History, Pair
from harness.core.op import Kind, Op

MOVED_TWICE: Final = "moved-twice"
RESTORED: Final = "restored-replica"
MOVE: Final = "move"
RESTORE: Final = "restore"
_DONE: Final = range(200, 300)


def paused_mover(history: History, first: tuple[str, str, int], node: str) -> str:
    """Return why a replica has stored a part that another one had stored before: it was paused in
    the middle of its own move, in which time the other one stored the part; "" if it was not.
    `first` is the part, who stored it first and when."""
    part, source, stored_ns = first
    own = [
        pair
        for pair in history.pairs
        if pair.invoke.f == MOVE and str(pair.invoke.key) == part.split("_")[0]
    ]
    for pair in own if any(one.invoke.node == source for one in own) else ():
        end_ns = pair.end.time_ns if pair.end is not None else None
        for fault in history.faults if pair.invoke.node == node else ():
            amid = pair.invoke.time_ns <= fault.begin_ns and (
                end_ns is None or fault.begin_ns <= end_ns
            )
            paused = fault.name.startswith("pause") and node in nodes_in(fault.text)
            over_ns = fault.end_ns
            if amid and paused and fault.begin_ns <= stored_ns and over_ns and stored_ns <= over_ns:
                return (
                    f"{node} began to move {part} at {seconds(pair.invoke.time_ns)} and was paused "
                    f"until {seconds(over_ns)}; {source} moved it too, at {seconds(stored_ns)}"
                )
    return ""


def restored_repairs(history: History) -> Iterator[Repair]:
    """Yield the references to objects that a restored replica deleted, though another one has the
    part, and the rows of these parts, which are gone when that one starts again."""
    gone: dict[str, tuple[int, str]] = {}
    for pair in history.pairs:
        if pair.invoke.f != RESTORE or pair.kind is not Kind.OK:
            continue
        for look in _looks_after(history, pair):
            for part, keys in mapping_of(look).get("missing", {}).items():
                for key in keys:
                    why = _deleted(look, key, pair)
                    if why:
                        text = f"{look.node} has {part}, and {why}"
                        gone.setdefault(part.split("_")[0], (look.time_ns, text))
                        change = partial(_without_missing, part=part, key=key)
                        yield Repair(look.index, RESTORED, text, change)
    for read in history.pairs if gone else ():
        since = gone.get(str(read.invoke.key))
        if read.invoke.f == FINAL_READ and read.kind is Kind.OK and read.end and since:
            rows = _rows(history, read.invoke.key, since[0])
            yield Repair(read.end.index, RESTORED, since[1], partial(_with_rows, rows=rows))


def _looks_after(history: History, restore: Pair) -> Iterator[Op]:
    """Yield what other replicas than the restored one referred to afterwards."""
    for pair in history.pairs:
        other = pair.invoke.node != restore.invoke.node
        looked = pair.invoke.f in (LOOK, FINAL_LOOK) and pair.kind is Kind.OK
        if looked and other and pair.end and pair.end.time_ns > restore.invoke.time_ns:
            yield pair.end


def _deleted(look: Op, key: str, restore: Pair) -> str:
    """Return when the restored replica deleted an object; "" if it did not."""
    for request in mapping_of(look).get("requests", {}).get(key, ()):
        at_ns = look.time_ns - round(float(request["ago_s"]) * 1e9)
        deletes = request["method"] != "PUT" and request["status"] in _DONE
        of_it = request["source"] == restore.invoke.node
        if deletes and of_it and at_ns >= restore.invoke.time_ns:
            return f"{restore.invoke.node}, which was restored, deleted {key} at {seconds(at_ns)}"
    return ""


def _rows(history: History, key: int | None, until_ns: int) -> tuple[int, ...]:
    """Return the values of a partition that were acknowledged by a time."""
    return tuple(
        pair.invoke.value
        for pair in history.pairs
        if (pair.invoke.f, pair.invoke.key) == (INSERT, key)
        and isinstance(pair.invoke.value, int)
        and pair.kind is Kind.OK
        and pair.end is not None
        and pair.end.time_ns <= until_ns
    )


def _without_missing(value: Mapping[str, Any], *, part: str, key: str) -> Mapping[str, Any]:
    left = [one for one in value["missing"][part] if one != key]
    return {**value, "missing": {**value["missing"], part: left}}


def _with_rows(values: tuple[int, ...], *, rows: tuple[int, ...]) -> tuple[int, ...]:
    return (*values, *(row for row in rows if row not in values))

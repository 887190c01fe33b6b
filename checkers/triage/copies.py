"""Explains what becomes of the objects that replicas share: second copies of a part, and objects
that a replica deletes when it is restored."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from checkers.conclusion import mapping_of
from checkers.phrasing import seconds
from checkers.replication.objects import FINAL_LOOK, FINAL_STORE, LOOK, REATTACH
from checkers.sets.key_sets import FINAL_READ, INSERT
from checkers.triage.events import (
    TEMPORARY_LOCK,
    Event,
    Events,
    calls,
    is_acknowledged,
    locks,
    pauses,
    store_cuts,
)
from checkers.triage.evidence import Evidence
from checkers.triage.orphans import DONE, blob_of, partition_of, requests_for
from checkers.triage.repairs import Repair, answers_by_node, last_answer, remove
from harness.core.history import History
from harness.core.op import Op


@dataclass(frozen=True, slots=True)
class Copy:
    """A part that a replica stored although another one had stored it."""

    history: History
    part: str
    locks: Events
    """Every lock of the part."""
    first: Event
    """Lock of the first copy."""
    second: Event
    """Lock of the second one."""


def copies(history: History, _: Evidence) -> Iterator[Repair]:
    """Yield the parts that a replica stored a second time."""
    store, looks = last_answer(history, FINAL_STORE), answers_by_node(history, FINAL_LOOK)
    if store is None:
        return
    every = locks(history, store.time_ns)
    for part in sorted({part for op in looks.values() for part in mapping_of(op)["parts"]}):
        of_part = every.about(part)
        own = {node: mapping_of(op)["parts"].get(part) for node, op in looks.items()}
        had = {node: files for node, files in own.items() if files is not None}
        firsts = {
            lock.node: lock
            for lock in reversed(of_part)
            if lock.blob in map(blob_of, had.get(lock.node, {}).values())
        }
        if len(had) < 2 or had.keys() - firsts.keys():
            continue
        source = min(had, key=lambda node: firsts[node].begin_ns)
        for node, files in had.items():
            if files == had[source] or firsts[node].begin_ns <= firsts[source].begin_ns:
                continue
            copy = Copy(history, part, of_part, firsts[source], firsts[node])
            for by, signature in COPIES.items():
                if why := signature(copy):
                    change = partial(_with_files, part=part, files=had[source])
                    yield Repair(looks[node].index, by, why, change)
                    break


def moved_twice(copy: Copy) -> str:
    """Return how a replica was paused in the middle of its move, and another one moved the part in
    that time."""
    first, node = copy.first, copy.second.node
    moves = calls(copy.history, "move").about(partition_of(copy.part))
    for move in moves.on(node) if moves.on(first.node) else ():
        paused = pauses(copy.history).on(node).at(first.begin_ns).over
        amid = paused.since(move.begin_ns).until(move.end_ns)
        if amid:
            return (
                f"{node} began to move {copy.part} at {seconds(move.begin_ns)} and was paused "
                f"until {seconds(amid[0].end_ns)}; {first.node} moved it too, at "
                f"{seconds(first.begin_ns)}"
            )
    return ""


def attach_own_copy(copy: Copy) -> str:
    """Return how the first copy was made while its partition was detached and attached, and the
    second replica made its own: it never held the temporary lock with which a fetch begins."""
    first, second = copy.first, copy.second
    _, begin, end, *level = copy.part.split("_")
    attached = calls(copy.history, REATTACH).about(partition_of(copy.part)).until(first.begin_ns)
    amid = attached.where(lambda call: call.end_ns >= first.begin_ns or not is_acknowledged(call))
    fetched = copy.locks.of(TEMPORARY_LOCK).on(second.node)
    if fetched or not amid or (begin, level) != (end, ["0"]):
        return ""
    return (
        f"{first.node} attached {copy.part} at {seconds(first.begin_ns)}, and {second.node} made "
        f"it at {seconds(second.begin_ns)}, without a fetch"
    )


def copied_part(copy: Copy) -> str:
    """Return how a fault kept the replica that stored the second copy from the store, at some time
    between both: it could not ask for the first one."""
    first, second = copy.first, copy.second
    fault = (
        store_cuts(copy.history, second.node)
        .where(lambda cut: cut.maybe_ns <= second.begin_ns and cut.end_ns >= first.begin_ns)
        .first
    )
    if fault is None:
        return ""
    return (
        f"{second.node} stored {copy.part} at {seconds(second.begin_ns)}, which {first.node} had "
        f"stored at {seconds(first.begin_ns)}, as {fault.kind} {fault.detail} kept it from "
        "the store"
    )


COPIES: Final[Mapping[str, Callable[[Copy], str]]] = {
    "moved-twice": moved_twice,
    "attach-own-copy": attach_own_copy,
    "copied-part": copied_part,
}
"""Signatures of second copies; the first one that the record proves explains a copy."""


def _with_files(
    value: Mapping[str, Any], *, part: str, files: Mapping[str, str]
) -> Mapping[str, Any]:
    held = [*value["held"], *value["parts"][part].values()]
    return {**value, "parts": {**value["parts"], part: dict(files)}, "held": held}


def restored_replica(history: History, _: Evidence) -> Iterator[Repair]:
    """Yield the references of parts to objects that a restored replica deleted since its restore
    began, by the store's log, and the rows of these partitions, which are gone when the replica
    that has the part starts again."""
    if last_answer(history, FINAL_STORE) is None or not answers_by_node(history, FINAL_LOOK):
        return
    gone: dict[str, tuple[int, str]] = {}
    for restore, _end in history.answered("restore"):
        for look in _looks_after(history, restore):
            for part, keys in mapping_of(look).get("missing", {}).items():
                for key in keys:
                    deletes = requests_for(look, key).on(str(restore.node)).since(restore.time_ns)
                    deleted = deletes.where(_is_deleted).first
                    if deleted is None:
                        continue
                    why = (
                        f"{look.node} has {part}, and {restore.node}, which was restored, deleted "
                        f"{key} at {seconds(deleted.begin_ns)}"
                    )
                    gone.setdefault(partition_of(part), (look.time_ns, why))
                    yield Repair(look.index, "restored-replica", why, remove(key, "missing", part))
    for read, end in history.answered(FINAL_READ) if gone else ():
        if since := gone.get(str(read.key)):
            rows = _rows(history, read.key, since[0])
            change = partial(_with_rows, rows=rows)
            yield Repair(end.index, "restored-replica", since[1], change)


def _is_deleted(request: Event) -> bool:
    return request.kind != "PUT" and request.detail["status"] in DONE


def _looks_after(history: History, restore: Op) -> Iterator[Op]:
    """Yield what other replicas than the restored one referred to afterwards."""
    for invoke, end in history.answered(LOOK, FINAL_LOOK):
        if invoke.node != restore.node and end.time_ns > restore.time_ns:
            yield end


def _rows(history: History, key: int | None, until_ns: int) -> tuple[int, ...]:
    """Return the values of a partition that were acknowledged by a time."""
    return tuple(
        insert.value
        for insert, end in history.answered(INSERT)
        if insert.key == key and isinstance(insert.value, int) and end.time_ns <= until_ns
    )


def _with_rows(values: tuple[int, ...], *, rows: tuple[int, ...]) -> tuple[int, ...]:
    return (*values, *(row for row in rows if row not in values))

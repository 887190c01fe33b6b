"""Explains objects that no replica refers to, and second copies, by the store's log and the locks
of zero-copy replication.

The lock of a part names the object of the part's checksums (its blob). The files of a part are
written by one replica within a moment, so that the objects around that one are the same part's.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from checkers.conclusion import mapping_of
from checkers.phrasing import seconds
from checkers.replication import objects
from checkers.replication.objects import FINAL_LOOK, FINAL_STORE, REATTACH, REBUILD, objects_in_use
from checkers.triage.breaks import cuts_store, kills
from checkers.triage.evidence import Evidence, facts_of_tables
from checkers.triage.repairs import Repair, answers_by_node, last_answer
from checkers.triage.shared_parts import MOVED_TWICE, paused_mover, restored_repairs
from checkers.triage.undone import COMMIT, UNLOCK, released, undone
from harness.core.history import Fault, History, Pair
from harness.core.op import Kind, Op

INSERT: Final = "orphaned-insert"
DROP: Final = "orphaned-drop"
FETCH: Final = "orphaned-fetch"
MOVE: Final = "orphaned-move"
DROPPED: Final = "dropped-replica"
COPIED: Final = "copied-part"
ATTACHED: Final = "attach-own-copy"
MOMENT_NS: Final = 1_000_000_000
"""Time between two writes of one part at most, and between the last one and the moment at which the
part is the table's."""
_DONE: Final = range(200, 300)
_ABSENT: Final = 404


@dataclass(slots=True)
class Lock:
    """A lock of a part, held by a replica for a time."""

    part: str
    blob: str
    replica: str
    at_ns: int
    temporary: bool
    """True if it ends with the session: the lock of a fetch under way."""
    end_ns: int | None = None


@dataclass(slots=True)
class OrphanGroup:
    """Orphans that one replica wrote within a moment."""

    writer: str
    keys: list[str] = field(default_factory=list)
    begin_ns: int = 0
    end_ns: int = 0


def store_repairs(history: History, _: Evidence) -> Iterator[Repair]:
    """Yield the objects, locks and copies that known defects left."""
    store, looks = last_answer(history, FINAL_STORE), answers_by_node(history, FINAL_LOOK)
    if store is None or not looks:
        return
    locks = _locks(history, store.time_ns)
    orphans = _orphans(store, looks)
    refused = {key: why for key in orphans if (why := _refused(store, key))}
    for key, why in refused.items():
        yield Repair(store.index, DROP, why, partial(_without_object, key=key))
    for group in _groups(store, [key for key in orphans if key not in refused]):
        for by, why, keys in _explained(history, group, locks, looks):
            for key in keys:
                yield Repair(store.index, by, why, partial(_without_object, key=key))
    yield from _idle_locks(history, store, looks, locks)
    yield from _copies(history, looks, locks)
    yield from restored_repairs(history)


def _locks(history: History, until_ns: int) -> list[Lock]:
    """Return the locks that were held up to a time, in order."""
    found: list[Lock] = []
    held: dict[tuple[str, str, str], Lock] = {}
    for facts in facts_of_tables(history, frozenset({"lock", "unlock"})):
        for at_ns, name, rest in [fact for fact in facts if fact[0] <= until_ns]:
            of = (str(rest[0]), str(rest[1]), str(rest[2]))
            if of in held:
                held.pop(of).end_ns = at_ns
            if name == "lock":
                held[of] = Lock(*of, at_ns, temporary=bool(rest[3]))
                found.append(held[of])
    return found


def _orphans(store: Op, looks: Mapping[str, Op]) -> list[str]:
    used = {key for op in looks.values() for key in objects_in_use(op)}
    return [key for key in mapping_of(store)["objects"] if key not in used]


def _requests(store: Op, key: str) -> Sequence[Mapping[str, Any]]:
    found: Sequence[Mapping[str, Any]] = mapping_of(store).get("requests", {}).get(key, ())
    return found


def _at_ns(store: Op, request: Mapping[str, Any]) -> int:
    return store.time_ns - round(float(request["ago_s"]) * 1e9)


def _refused(store: Op, key: str) -> str:
    """Return how the last request to delete an object failed; "" if there was none, or it did
    not."""
    deletes = [one for one in _requests(store, key) if one["method"] != "PUT"]
    if not deletes or deletes[-1]["status"] in _DONE or deletes[-1]["status"] == _ABSENT:
        return ""
    last = deletes[-1]
    why = f", during {last['fault']}" if "fault" in last else ""
    return (
        f"the store was asked to delete {key} at {seconds(_at_ns(store, last))} by "
        f"{last['source']}, and did not{why}"
    )


def _groups(store: Op, keys: Sequence[str]) -> list[OrphanGroup]:
    writes: dict[str, list[tuple[int, str]]] = {}
    for key in keys:
        puts = [r for r in _requests(store, key) if (r["method"], r["status"]) == ("PUT", 200)]
        if puts:
            writes.setdefault(str(puts[-1]["source"]), []).append((_at_ns(store, puts[-1]), key))
    found: list[OrphanGroup] = []
    for writer, of_writer in sorted(writes.items()):
        last_ns = -MOMENT_NS
        for at_ns, key in sorted(of_writer):
            if at_ns - last_ns >= MOMENT_NS:
                found.append(OrphanGroup(writer, [], at_ns))
            found[-1].keys.append(key)
            found[-1].end_ns = last_ns = at_ns
    return found


def _explained(
    history: History, group: OrphanGroup, locks: Sequence[Lock], looks: Mapping[str, Op]
) -> Iterator[tuple[str, str, Sequence[str]]]:
    """Yield a known defect, its evidence and the objects that it explains."""
    blobs = {_blob(key) for key in group.keys}
    known = {lock.blob for lock in locks} & blobs
    whys: list[tuple[str, str]] = []
    for blob in sorted(known):
        of_blob = [lock for lock in locks if lock.blob == blob]
        why = (
            _abandoned(history, of_blob)
            or _forgotten(history, of_blob, looks)
            or _released(history, of_blob, locks)
        )
        if why is None:
            return
        whys.append(why)
    files = _files_max(looks)
    rest = list(group.keys)
    for by, said in whys:
        yield by, said, rest[:files]
        rest = rest[files:]
    for said in undone(history, group.writer, group.begin_ns, group.end_ns) if rest else ():
        yield COMMIT, said, rest[:files]
        rest = rest[files:]
    if not rest:
        return
    fault = _killed(history, group)
    if fault is not None:
        text = (
            f"{group.writer} wrote {len(rest)} objects until {seconds(group.end_ns)}, which no "
            f"lock names, and was killed at {seconds(fault.begin_ns)}"
        )
        yield INSERT, text, rest
    elif group.writer in _dropped(history):
        text = (
            f"{group.writer}, which another replica was to drop, wrote {len(rest)} objects, which "
            f"no lock names, until {seconds(group.end_ns)}, and could not drop its table"
        )
        yield DROPPED, text, rest


def _blob(key: str) -> str:
    return key.replace("/", "_")


def _files_max(looks: Mapping[str, Op]) -> int:
    """Return the number of files of a part."""
    parts = [files for op in looks.values() for files in mapping_of(op)["parts"].values()]
    return max(map(len, parts), default=0)


def _abandoned(history: History, locks: Sequence[Lock]) -> tuple[str, str] | None:
    """Return why the objects of a part stay: the last replica that had the part gave it up while
    another one, which never had it, held a temporary lock."""
    owned = [lock for lock in locks if not lock.temporary]
    last = max(owned, key=lambda lock: lock.end_ns or 0, default=None)
    if last is None or any(lock.end_ns is None for lock in owned):
        return None
    assert last.end_ns is not None, "each of them has ended"
    for lock in locks:
        over_ns = lock.end_ns
        had = lock.replica in {one.replica for one in owned}
        meanwhile = lock.at_ns < last.end_ns and (over_ns is None or over_ns > last.end_ns)
        if lock.temporary and meanwhile and not had:
            moved = any(p.invoke.f == "move" and _of(lock.part, p) for p in history.pairs)
            text = (
                f"{last.replica} gave up {lock.part} at {seconds(last.end_ns)}, while "
                f"{lock.replica}, which never had it, held a temporary lock since "
                f"{seconds(lock.at_ns)}"
            )
            return (MOVE if moved else FETCH), text
    return None


def _of(part: str, pair: Pair) -> bool:
    return part.split("_")[0] == str(pair.invoke.key)


def _forgotten(
    history: History, locks: Sequence[Lock], looks: Mapping[str, Op]
) -> tuple[str, str] | None:
    """Return why the objects of a part stay: a replica that another one has dropped still has a
    lock, and not the part."""
    for lock in locks:
        had = lock.replica in looks and lock.part in mapping_of(looks[lock.replica])["parts"]
        if lock.end_ns is None and not had and lock.replica in _dropped(history):
            text = (
                f"{lock.replica}, which another replica was to drop, has the lock of {lock.part} "
                "and not the part"
            )
            return DROPPED, text
    return None


def _released(
    history: History, of_blob: Sequence[Lock], locks: Sequence[Lock]
) -> tuple[str, str] | None:
    """Return why the objects of a part stay although their last lock was released."""
    last = max(of_blob, key=lambda lock: lock.end_ns or 0)
    if last.temporary or last.end_ns is None or any(lock.end_ns is None for lock in of_blob):
        return None
    others_ns = [
        lock.end_ns
        for lock in locks
        if lock.part == last.part and lock.blob != last.blob and lock.end_ns is not None
    ]
    why = released(history, last.replica, last.end_ns, others_ns)
    return None if why is None else (UNLOCK, f"{last.part}: {why}")


def _dropped(history: History) -> frozenset[str]:
    """Return the replicas that another one was to drop, without those that were created again."""
    return frozenset(
        str(pair.invoke.node)
        for pair in history.pairs
        if pair.invoke.f == REBUILD and pair.invoke.value is not None and pair.kind is not Kind.OK
    )


def _killed(history: History, group: OrphanGroup) -> Fault | None:
    """Return the fault that killed the writer while it had yet to commit what it wrote; None also
    if something else may have left these objects."""
    for fault in kills(history, group.writer):
        if _given_up(history, group, fault.invoked_ns):
            continue
        calls = (
            pair
            for pair in history.pairs
            if pair.invoke.f == "insert"
            and pair.invoke.node == group.writer
            and pair.invoke.time_ns <= group.begin_ns
            and (pair.end is None or pair.end.time_ns >= fault.invoked_ns)
        )
        soon = fault.begin_ns - group.end_ns
        if soon >= 0 and (any(calls) or fault.invoked_ns - group.end_ns <= MOMENT_NS):
            return fault
    return None


def _given_up(history: History, group: OrphanGroup, until_ns: int) -> bool:
    """Return whether the objects may be those of an insert that failed before a time, or of an
    empty part, which DROP PARTITION writes."""
    return any(
        pair.invoke.f == objects.DROP
        or (
            (pair.invoke.f == "insert" and pair.invoke.node == group.writer)
            and _failed(pair, until_ns)
        )
        for pair in history.pairs
        if pair.invoke.time_ns <= group.end_ns
        and (pair.end is None or pair.end.time_ns >= group.begin_ns)
    )


def _failed(pair: Pair, until_ns: int) -> bool:
    return pair.end is not None and pair.kind is not Kind.OK and pair.end.time_ns < until_ns


def _idle_locks(
    history: History, store: Op, looks: Mapping[str, Op], locks: Sequence[Lock]
) -> Iterator[Repair]:
    """Yield the locks that replicas hold of parts which they do not have: one that was dropped, and
    one that gave up a fetch and whose session goes on."""
    for part, blobs in mapping_of(store)["locks"].items():
        for blob, replicas in blobs.items():
            of_blob = [lock for lock in locks if (lock.part, lock.blob) == (part, blob)]
            why = _abandoned(history, of_blob) or _forgotten(history, of_blob, looks)
            if why is None:
                continue
            for replica in replicas:
                if replica in looks and part not in mapping_of(looks[replica])["parts"]:
                    change = partial(_without_lock, part=part, blob=blob, replica=replica)
                    yield Repair(store.index, why[0], why[1], change)


def _copies(history: History, looks: Mapping[str, Op], locks: Sequence[Lock]) -> Iterator[Repair]:
    """Yield the parts that a replica stored a second time because it could not ask the store for
    the first copy when it fetched them, or because it attached a copy of its own."""
    parts = {part for op in looks.values() for part in mapping_of(op)["parts"]}
    for part in sorted(parts):
        own = {n: mapping_of(op)["parts"].get(part) for n, op in looks.items()}
        had = {node: files for node, files in own.items() if files is not None}
        firsts = {
            lock.replica: lock
            for lock in reversed(locks)
            if lock.part == part
            and lock.blob in {_blob(k) for k in had.get(lock.replica, {}).values()}
        }
        if len(had) < 2 or had.keys() - firsts.keys():
            continue
        source = min(had, key=lambda node: firsts[node].at_ns)
        for node, files in had.items():
            if files == had[source] or firsts[node].at_ns <= firsts[source].at_ns:
                continue
            change = partial(_with_files, part=part, files=had[source])
            moved = paused_mover(history, (part, source, firsts[source].at_ns), node)
            if moved:
                yield Repair(looks[node].index, MOVED_TWICE, moved, change)
                continue
            fault = _unasked(history, node, firsts[source].at_ns, firsts[node].at_ns)
            change = partial(_with_files, part=part, files=had[source])
            if _attached(history, firsts[source], firsts[node], locks):
                why = (
                    f"{source} attached {part} at {seconds(firsts[source].at_ns)}, and {node} made "
                    f"it at {seconds(firsts[node].at_ns)}, without a fetch"
                )
                yield Repair(looks[node].index, ATTACHED, why, change)
            elif fault is not None:
                why = (
                    f"{node} stored {part} at {seconds(firsts[node].at_ns)}, which {source} had "
                    f"stored at {seconds(firsts[source].at_ns)}, as {fault.name} {fault.text} kept "
                    "it from the store"
                )
                yield Repair(looks[node].index, COPIED, why, change)


def _attached(history: History, first: Lock, second: Lock, locks: Sequence[Lock]) -> bool:
    """Return whether a replica made a part during a call that detaches and attaches its partition,
    and another one did not fetch it: a fetch begins with a temporary lock."""
    _, begin, end, *level = first.part.split("_")
    fetched = any(
        lock.temporary and (lock.part, lock.replica) == (second.part, second.replica)
        for lock in locks
    )
    return (
        (begin, level) == (end, ["0"])
        and not fetched
        and any(
            pair.invoke.f == REATTACH
            and _of(first.part, pair)
            and pair.invoke.time_ns <= first.at_ns
            and (pair.end is None or pair.kind is not Kind.OK or first.at_ns <= pair.end.time_ns)
            for pair in history.pairs
        )
    )


def _unasked(history: History, node: str, from_ns: int, to_ns: int) -> Fault | None:
    """Return the fault that kept a node from the store at some time of an interval."""
    return next(
        (
            fault
            for fault in history.faults
            if cuts_store(fault, node)
            and fault.invoked_ns <= to_ns
            and (fault.end_ns is None or fault.end_ns >= from_ns)
        ),
        None,
    )


def _without_object(value: Mapping[str, Any], *, key: str) -> Mapping[str, Any]:
    return {**value, "objects": {k: size for k, size in value["objects"].items() if k != key}}


def _without_lock(
    value: Mapping[str, Any], *, part: str, blob: str, replica: str
) -> Mapping[str, Any]:
    left = [name for name in value["locks"][part][blob] if name != replica]
    return {**value, "locks": {**value["locks"], part: {**value["locks"][part], blob: left}}}


def _with_files(
    value: Mapping[str, Any], *, part: str, files: Mapping[str, str]
) -> Mapping[str, Any]:
    held = [*value["held"], *value["parts"][part].values()]
    return {**value, "parts": {**value["parts"], part: dict(files)}, "held": held}

"""Explains objects that no replica refers to, by the store's log and the locks of zero-copy
replication.

The lock of a part names the object of the part's checksums (its blob). The files of a part are
written by one replica within a moment, so that the objects around that one are the same part's.

The locks are made in the transaction that registers the part, and released before the objects are
removed. A replica that finds no lock does not dare to remove objects.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from checkers.conclusion import mapping_of
from checkers.phrasing import seconds
from checkers.replication import objects
from checkers.replication.objects import FINAL_LOOK, FINAL_STORE, REBUILD, objects_in_use
from checkers.triage.events import (
    LOCK,
    TEMPORARY_LOCK,
    Event,
    Events,
    calls,
    claims,
    facts,
    is_acknowledged,
    kills,
    locks,
)
from checkers.triage.evidence import Evidence, evidence_of
from checkers.triage.repairs import Repair, answers_by_node, last_answer, remove
from harness.core.history import History
from harness.core.op import Kind, Op

MOMENT_NS: Final = 1_000_000_000
"""Time between two writes of one part at most, and between the last one and the moment at which the
part is the table's."""
SESSION_NS: Final = 10_000_000_000
"""Time within which the session of a replica ends that gets no answer: 5 s, and as much again for a
busy machine."""
DONE: Final = range(200, 300)
_ABSENT: Final = 404

Explanation = tuple[str, str]
"""A known defect and its evidence."""


@dataclass(slots=True)
class OrphanGroup:
    """Orphans that one replica wrote within a moment."""

    writer: str
    keys: list[str] = field(default_factory=list)
    begin_ns: int = 0
    end_ns: int = 0


@dataclass(frozen=True, slots=True)
class StoreAtRest:
    """What was there when the run had come to rest."""

    history: History
    store: Op
    """The look at the store."""
    looks: Mapping[str, Op]
    """The last look at each replica."""
    locks: Events

    def has(self, replica: str, part: str) -> bool:
        """Return whether a replica has a part."""
        return replica in self.looks and part in mapping_of(self.looks[replica])["parts"]


def orphans(history: History, _: Evidence) -> Iterator[Repair]:
    """Yield the objects to which no replica refers, and the locks of parts that their holders do
    not have."""
    store, looks = last_answer(history, FINAL_STORE), answers_by_node(history, FINAL_LOOK)
    if store is None or not looks:
        return
    rest = StoreAtRest(history, store, looks, locks(history, store.time_ns))
    used = {key for op in looks.values() for key in objects_in_use(op)}
    orphaned = [key for key in mapping_of(store)["objects"] if key not in used]
    refused = {key: why for key in orphaned if (why := _orphaned_drop(store, key))}
    for key, why in refused.items():
        yield Repair(store.index, "orphaned-drop", why, remove(key, "objects"))
    for group in _groups(store, [key for key in orphaned if key not in refused]):
        for (by, why), keys in _explained(rest, group):
            for key in keys:
                yield Repair(store.index, by, why, remove(key, "objects"))
    yield from _idle_locks(rest)


def requests_for(look: Op, key: str) -> Events:
    """Return the requests that write or delete an object, by the store's log as of a look: their
    node is the one that made them, their detail how they were answered."""
    return Events(
        Event(str(request["method"]), at_ns, at_ns, str(request["source"]), detail=request)
        for request in mapping_of(look).get("requests", {}).get(key, ())
        for at_ns in [look.time_ns - round(float(request["ago_s"]) * 1e9)]
    )


def _orphaned_drop(store: Op, key: str) -> str:
    """Return how the last request to delete an object failed; "" if there was none, or it did
    not."""
    last = requests_for(store, key).where(lambda request: request.kind != "PUT").last
    if last is None or last.detail["status"] in DONE or last.detail["status"] == _ABSENT:
        return ""
    why = f", during {last.detail['fault']}" if "fault" in last.detail else ""
    return (
        f"the store was asked to delete {key} at {seconds(last.begin_ns)} by {last.node}, and did "
        f"not{why}"
    )


def _groups(store: Op, keys: Sequence[str]) -> list[OrphanGroup]:
    writes: dict[str, list[tuple[int, str]]] = {}
    for key in keys:
        put = requests_for(store, key).of("PUT").where(lambda one: one.detail["status"] == 200).last
        if put is not None:
            writes.setdefault(put.node, []).append((put.begin_ns, key))
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
    rest: StoreAtRest, group: OrphanGroup
) -> Iterator[tuple[Explanation, Sequence[str]]]:
    """Yield explanations, each with the objects that it is of: as many as a part has files. A group
    is explained only if each of its parts of which a lock is known is."""
    parts = [files for op in rest.looks.values() for files in mapping_of(op)["parts"].values()]
    files_max = max(map(len, parts), default=0)
    blobs = {lock.blob for lock in rest.locks} & {blob_of(key) for key in group.keys}
    by_locks = [_by_locks(rest, rest.locks.about(blob)) for blob in sorted(blobs)]
    left = list(group.keys)
    if None in by_locks:
        return
    for explanation in (*filter(None, by_locks), *_orphaned_commit(rest.history, group)):
        yield explanation, left[:files_max]
        left = left[files_max:]
    for signature in (_orphaned_insert, _undropped):
        if left and (why := signature(rest.history, group, len(left))):
            yield why, left
            return


def blob_of(key: str) -> str:
    """Return what locks call an object."""
    return key.replace("/", "_")


def _by_locks(rest: StoreAtRest, of_blob: Events) -> Explanation | None:
    """Return why the objects of a part stay, by the locks that name one of them."""
    return (
        _orphaned_fetch(rest, of_blob)
        or _dropped_replica(rest, of_blob)
        or _orphaned_unlock(rest, of_blob)
    )


def _orphaned_fetch(rest: StoreAtRest, of_blob: Events) -> Explanation | None:
    """Return how the last replica with the part gave it up while another one, which never had it,
    held a temporary lock. It is `orphaned-move` if the part was to be moved."""
    owned = of_blob.of(LOCK)
    if not owned or not all(lock.is_over for lock in owned):
        return None
    last, owners = max(owned, key=lambda lock: lock.end_ns), {lock.node for lock in owned}
    for lock in of_blob.of(TEMPORARY_LOCK):
        if lock.begin_ns < last.end_ns < lock.end_ns and lock.node not in owners:
            moved = calls(rest.history, "move").about(partition_of(lock.part))
            why = (
                f"{last.node} gave up {lock.part} at {seconds(last.end_ns)}, while {lock.node}, "
                f"which never had it, held a temporary lock since {seconds(lock.begin_ns)}"
            )
            return "orphaned-move" if moved else "orphaned-fetch", why
    return None


def partition_of(part: str) -> str:
    """Return the partition of a part."""
    return part.split("_")[0]


def _dropped_replica(rest: StoreAtRest, of_blob: Events) -> Explanation | None:
    """Return how a replica that another one was to drop still has a lock, and not the part."""
    for lock in of_blob.on(*_to_be_dropped(rest.history)):
        if not lock.is_over and not rest.has(lock.node, lock.part):
            why = (
                f"{lock.node}, which another replica was to drop, has the lock of {lock.part} and "
                "not the part"
            )
            return "dropped-replica", why
    return None


def _undropped(history: History, group: OrphanGroup, count: int) -> Explanation | None:
    """Return how a replica that another one was to drop wrote objects, and could not drop its
    table."""
    if group.writer not in _to_be_dropped(history):
        return None
    why = (
        f"{group.writer}, which another replica was to drop, wrote {count} objects, which no lock "
        f"names, until {seconds(group.end_ns)}, and could not drop its table"
    )
    return "dropped-replica", why


def _to_be_dropped(history: History) -> frozenset[str]:
    """Return the replicas that another one was to drop, without those that were created again."""
    return frozenset(
        str(pair.invoke.node)
        for pair in history.calls(REBUILD)
        if pair.invoke.value is not None and pair.kind is not Kind.OK
    )


def _orphaned_unlock(rest: StoreAtRest, of_blob: Events) -> Explanation | None:
    """Return how the last lock was released by a replica whose session then ended, or at the same
    moment as another replica released the lock of its own copy."""
    last = max(of_blob, key=lambda lock: lock.end_ns)
    if not last.is_over or last.kind == TEMPORARY_LOCK:
        return None
    at_ns, replica = last.end_ns, last.node
    text = f"{last.part}: {replica} released the last lock at {seconds(at_ns)}"
    gone_ns = _session_lost_ns(rest.history, replica, at_ns, at_ns + SESSION_NS)
    if gone_ns is not None:
        return "orphaned-unlock", f"{text}, and its session ended at {seconds(gone_ns)}"
    about_ns = evidence_of(rest.history).error_ns(at_ns)
    if any(
        lock.part == last.part and lock.blob != last.blob and abs(lock.end_ns - at_ns) <= about_ns
        for lock in rest.locks
    ):
        why = f"{text}, and another replica that of its own copy at the same moment"
        return "orphaned-unlock", why
    return None


def _orphaned_commit(history: History, group: OrphanGroup) -> Iterator[Explanation]:
    """Yield each part that a replica may have written and did not register, because its session
    ended: first those that it had claimed, to merge or mutate them, then those of inserts that were
    not acknowledged. A session that ended with its server proves nothing."""
    writer, killed = group.writer, kills(history).on(group.writer).since(group.begin_ns)
    for claim in claims(history).on(writer):
        about_ns = evidence_of(history).error_ns(claim.begin_ns)
        if (
            claim.detail
            and claim.begin_ns - about_ns <= group.begin_ns
            and group.end_ns <= claim.end_ns + about_ns
            and not killed.until(claim.end_ns)
        ):
            why = (
                f"{writer} claimed {claim.part} at {seconds(claim.begin_ns)}, and its session "
                f"ended at {seconds(claim.end_ns)}, before it had registered the part"
            )
            yield "orphaned-commit", why
    gone_ns = _session_lost_ns(history, writer, group.begin_ns, group.end_ns + SESSION_NS)
    if gone_ns is None:
        return
    asked = calls(history, "insert").on(writer).until(group.begin_ns).ended_since(group.end_ns)
    for insert in asked:
        if not is_acknowledged(insert):
            why = (
                f"{writer} was asked for value {insert.detail.invoke.value} at "
                f"{seconds(insert.begin_ns)}, which was not acknowledged, and its session ended at "
                f"{seconds(gone_ns)}"
            )
            yield "orphaned-commit", why


def _session_lost_ns(history: History, replica: str, from_ns: int, to_ns: int) -> int | None:
    """Return when a session of a replica first ended in an interval; None without one, or if its
    server had been killed."""
    ends = facts(history, "inactive").on(replica).since(from_ns).until(to_ns)
    gone_ns = min((end.begin_ns for end in ends), default=None)
    if gone_ns is None or kills(history).on(replica).since(from_ns).until(gone_ns):
        return None
    return gone_ns


def _orphaned_insert(history: History, group: OrphanGroup, count: int) -> Explanation | None:
    """Return how the writer was killed within a second after it had written the objects, or during
    an insert that had begun before."""
    inserts = calls(history, "insert").on(group.writer).until(group.begin_ns)
    for kill in kills(history).on(group.writer).since(group.end_ns):
        inserting = inserts.ended_since(kill.maybe_ns)
        soon = kill.maybe_ns - group.end_ns <= MOMENT_NS
        if (inserting or soon) and not _may_be_given_up(history, group, kill.maybe_ns):
            why = (
                f"{group.writer} wrote {count} objects until {seconds(group.end_ns)}, which no "
                f"lock names, and was killed at {seconds(kill.begin_ns)}"
            )
            return "orphaned-insert", why
    return None


def _may_be_given_up(history: History, group: OrphanGroup, until_ns: int) -> bool:
    """Return whether the objects may be those of an insert that failed before a time, or of an
    empty part, which DROP PARTITION writes."""
    drops, inserts = calls(history, objects.DROP), calls(history, "insert").on(group.writer)
    return any(
        call.kind == objects.DROP or (call.end_ns < until_ns and not is_acknowledged(call))
        for call in Events((*drops, *inserts)).until(group.end_ns).ended_since(group.begin_ns)
    )


def _idle_locks(rest: StoreAtRest) -> Iterator[Repair]:
    """Yield the locks that replicas hold of parts which they do not have: one that was dropped, and
    one that gave up a fetch and whose session goes on."""
    for part, blobs in mapping_of(rest.store)["locks"].items():
        for blob, replicas in blobs.items():
            of_blob = rest.locks.about(part).about(blob)
            found = _orphaned_fetch(rest, of_blob) or _dropped_replica(rest, of_blob)
            if found is None:
                continue
            for replica in replicas:
                if replica in rest.looks and not rest.has(replica, part):
                    change = remove(replica, "locks", part, blob)
                    yield Repair(rest.store.index, *found, change)

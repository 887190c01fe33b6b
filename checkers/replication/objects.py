"""Checks that an object store has what replicas refer to, once, and nothing else.

A replica refers to the objects of its active parts and of its other files; a look lists them, and
those that the store does not have while the part is active. At rest the run also lists the whole
bucket and ZooKeeper's locks. An object goes if and only if the last lock of its part has gone.

Violated at any time: an active part refers to an object that does not exist ("dangling").
Violated at rest:
orphan     no replica refers to the object, such as that of a merge made twice
idle-lock  a replica holds a lock of a part that it does not have
unlocked   with zero copy, a replica has a part without a lock, so that another may delete its
           objects
copied     with zero copy, replicas refer to different data of one part, as after two merges or
           moves
shared     without zero copy, two replicas refer to one object
lost       a replica does not return an acknowledged row

Doubtful: a cluster that was not at rest, a replica or the store that was not looked at, a key that
was not read on a replica, and a run without references or acknowledged rows. Orphans, locks and
copies are judged only if every replica was looked at, because an object may be that of a replica
that did not answer. A part without a lock is a doubt if its insert may never have been committed,
because the transaction that commits a part makes its lock.

Rows are not judged if somebody asked to drop their key. If somebody asked to detach and attach it
("reattach"), only those rows are judged that each of these calls saw before and that ended ok: what
its replica did not have when it detached the partition stays detached elsewhere. A row that a
replica acknowledged while it was dropped and created again ("rebuild") is not judged, nor one that
a fault took from that replica's disk before another had to have it:
    rebuild on ch1 begins     insert 1 on ch1 → ok     rebuild → ok     final-read → nothing
A row that others return is a doubt where a replica fetches again what a fault of disks had struck.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from checkers.conclusion import Findings
from checkers.look import decode
from checkers.phrasing import during, number, seconds
from checkers.quiescence import quiescence_of
from checkers.replication.parts import uncommitted
from checkers.taken import fetching_again, not_promised, taken_of
from harness.core.history import History, Pair
from harness.core.op import Json, Kind, Op
from harness.core.verdict import Verdict

LOOK: Final = "objects"
FINAL_LOOK: Final = "final-objects"
FINAL_STORE: Final = "final-store"
FINAL_READ: Final = "final-read"
DROP: Final = "drop"
REATTACH: Final = "reattach"
REBUILD: Final = "rebuild"
_FEW_REQUESTS: Final = 4


class StoreRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Request to write or delete an object, by the store's log."""

    source: str
    """The replica that made it."""
    method: str
    status: int | None
    """Status of the answer; None if there was none."""
    fault: str | UnsetType = UNSET
    """The fault that struck it."""
    ago_s: float
    """Time from the request to the look, in seconds."""


Requests: TypeAlias = dict[str, list[StoreRequest]]
"""Requests by the key of their object, of objects in question."""


class ReferredObjects(msgspec.Struct, frozen=True):
    """Look at the objects of a replica, during the run without `parts` and `held`."""

    parts: dict[str, dict[str, str]] | UnsetType = UNSET
    """Key of each file's object, by active part."""
    held: list[str] | UnsetType = UNSET
    """Keys of the objects of its other files."""
    references: int = 0
    """Number of objects to which its active parts refer."""
    missing: dict[str, list[str]] = {}
    """Objects by part that the store did not have while the part was active."""
    requests: Requests = {}

    @property
    def by_part(self) -> dict[str, dict[str, str]]:
        """Return `parts`, of a look at rest."""
        return self.parts or {}

    def used(self) -> Iterator[str]:
        """Yield the keys of the objects to which the replica refers, of a look at rest."""
        yield from self.held or ()
        for files in self.by_part.values():
            yield from files.values()


class StoredObjects(msgspec.Struct, frozen=True):
    """Look at the whole bucket and ZooKeeper's locks, at rest."""

    objects: dict[str, int]
    """Size of each object in bytes."""
    locks: Mapping[str, Mapping[str, Sequence[str]]]
    """Replicas that hold a lock, by part and blob."""
    requests: Requests = {}
    written: dict[str, int] = {}
    """Number of objects that each replica ever wrote; {} if the store has no log of its requests,
    such as a user's own."""


@dataclass(frozen=True, slots=True)
class _AtRest:
    """Looks at rest, each with its op."""

    replicas: Mapping[str, tuple[Op, ReferredObjects]]
    store: tuple[Op, StoredObjects]

    @property
    def used(self) -> frozenset[str]:
        """Return the keys of the objects to which some replica refers."""
        return frozenset(key for _, look in self.replicas.values() for key in look.used())

    @property
    def locks(self) -> Iterator[tuple[str, str]]:
        """Yield each part with each replica that holds a lock of it."""
        for part, blobs in self.store[1].locks.items():
            for replicas in blobs.values():
                yield from ((part, replica) for replica in replicas)


class Objects:
    """Judges looks at the objects of one table on an object store: "objects" during the run,
    "final-objects" and "final-store" at rest."""

    name = "objects"

    def __init__(self, *, zero_copy: bool) -> None:
        self.zero_copy = zero_copy

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs rest, a look at every replica, one at the store, and
        acknowledged inserts that every replica was asked for."""
        rest = quiescence_of(history)
        looks = references = 0
        found = Findings(self.name)
        final: dict[str, tuple[Op, ReferredObjects]] = {}
        for _, op in history.answered(LOOK, FINAL_LOOK):
            look = decode(op, ReferredObjects)
            looks += 1
            references += look.references
            _judge_references(found, history, op, look)
            final |= {str(op.node): (op, look)} if op.f == FINAL_LOOK else {}
        stores = history.calls(FINAL_STORE, kinds=(Kind.OK,))
        store = stores[-1].end if stores else None
        found.doubts += rest.doubts
        unseen = [node for node in rest.nodes if node not in final]
        found.doubts += [f"{node} was not looked at" for node in unseen]
        found.doubts += [] if store else ["the store was not looked at"]
        parts = {node: look.by_part for node, (_, look) in final.items()}
        unsure = uncommitted(parts, rest.to_check)
        found.doubts += [f"part {part} is on {node} only, to be checked" for node, part in unsure]
        gone_by: list[str] = []
        dangling = found.counts.get("dangling", 0)
        figures: dict[str, Json] = {"looks": looks, "dangling_references": dangling}
        lost = Findings(self.name)
        judged = _judge_rows(lost, history, rest.nodes, gone_by)
        found.doubts += lost.doubts
        if rest.reached:
            found.extend(lost)
            if store and not unseen:
                at_rest = _AtRest(final, (store, decode(store, StoredObjects)))
                _judge_orphans(found, at_rest)
                _judge_locks(found, at_rest)
                if self.zero_copy:
                    _judge_unlocked(found, at_rest, but=unsure)
                    _judge_copies(found, at_rest)
                else:
                    _judge_shared(found, at_rest)
                figures |= _costs(at_rest, zero_copy=self.zero_copy)
        if not (references and judged):
            found.add_doubt("no object or no row was checked")
        return found.verdict(
            checked=references + judged,
            held=f"{number(references, 'reference')} in {number(looks, 'look')} and "
            f"{number(judged, 'acknowledged row')} on {number(len(final), 'replica')}",
            after=not_promised(gone_by),
            figures={**figures, "doubts": list(found.doubts)},
        )


def _judge_references(found: Findings, history: History, op: Op, look: ReferredObjects) -> None:
    for part, keys in look.missing.items():
        for key in keys:
            text = f"active part {part} of {op.node} refers to {key}, which does not exist"
            log = _described(op, look.requests.get(key, []))
            _add(found, "dangling", f"{text}{during(history, op.time_ns)}{log}", op)


def _judge_orphans(found: Findings, at_rest: _AtRest) -> None:
    op, store = at_rest.store
    proof = [op for op, _ in at_rest.replicas.values()]
    used = at_rest.used
    for key, size in store.objects.items():
        if key not in used:
            log = _described(op, store.requests.get(key, []))
            text = f"no replica refers to {key}, of {number(size, 'byte')}{log}"
            _add(found, "orphan", text, *proof, op)


def _judge_locks(found: Findings, at_rest: _AtRest) -> None:
    for part, replica in at_rest.locks:
        op, look = at_rest.replicas.get(replica, (None, None))
        if op is not None and look is not None and part not in look.by_part:
            text = f"{replica} holds the lock of part {part}, which it does not have"
            _add(found, "idle-lock", text, op, at_rest.store[0])


def _judge_unlocked(found: Findings, at_rest: _AtRest, *, but: Sequence[tuple[str, str]]) -> None:
    locked = set(at_rest.locks)
    for node, (op, look) in at_rest.replicas.items():
        for part in look.by_part:
            if (part, node) not in locked and (node, part) not in but:
                text = f"{node} has part {part} on the store without a lock"
                _add(found, "unlocked", text, op, at_rest.store[0])


def _judge_copies(found: Findings, at_rest: _AtRest) -> None:
    first: dict[tuple[str, str], tuple[str, str]] = {}
    for node, (op, look) in at_rest.replicas.items():
        for part, files in look.by_part.items():
            known = {name: first.setdefault((part, name), (node, files[name])) for name in files}
            differing = [name for name, (_, key) in known.items() if key != files[name]]
            if differing:
                name = differing[0]
                other, key = known[name]
                text = (
                    f"part {part} has two copies: {name} is {key} on {other} and {files[name]} "
                    f"on {node}"
                )
                _add(found, "copied", text, at_rest.replicas[other][0], op)


def _judge_shared(found: Findings, at_rest: _AtRest) -> None:
    owner: dict[str, str] = {}
    for node, (op, look) in at_rest.replicas.items():
        for part, files in look.by_part.items():
            for key in files.values():
                if owner.setdefault(key, node) != node:
                    text = f"part {part} of {node} refers to {key}, as {owner[key]} does"
                    _add(found, "shared", text, at_rest.replicas[owner[key]][0], op)


def _judge_rows(found: Findings, history: History, nodes: Sequence[str], gone_by: list[str]) -> int:
    """Add the rows that replicas lack at rest, and the reads that are missing. Return the number of
    acknowledged rows that every replica should have. For each row that a fault took, its name is
    added to `gone_by`."""
    dropped = {pair.invoke.key for pair in history.calls(DROP)}
    reattached = _reattached(history)
    rebuilds = list(history.calls(REBUILD))
    acknowledged: dict[int, dict[int, tuple[int, int]]] = {}
    reads: dict[tuple[str, int], int] = {}
    for invoke, op in history.answered("insert", FINAL_READ):
        key = op.key
        if key is None or key in dropped:
            continue
        if op.f == FINAL_READ:
            reads[str(op.node), key] = op.index
        elif isinstance(op.value, int):
            gone = any(_overlap(invoke, op, rebuild) for rebuild in rebuilds)
            if not gone and op.value in reattached.get(key, (op.value,)):
                acknowledged.setdefault(key, {})[op.value] = invoke.index, op.index
    fetching = fetching_again(history)
    for key, rows in acknowledged.items():
        of_key = [reads[at] for at in reads if at[1] == key]
        kept = _values_of(history, of_key)
        taken = _taken(history, rows, kept)
        gone_by += taken.values()
        for node in nodes:
            index = reads.get((node, key))
            if index is None:
                found.add_doubt(f"key {key} was not read on {node}")
                continue
            read = history[index]
            lacking = rows.keys() - _values_of(history, [index]) - taken.keys()
            if node in fetching and lacking & kept:
                found.add_doubt(f"{node} could not read what a fault had struck")
                lacking -= kept
            for value in sorted(lacking):
                text = f"{node} does not return value {value} of key {key}, which was acknowledged"
                _add(found, "lost", text, history[rows[value][1]], read)
    return sum(map(len, acknowledged.values()))


def _values_of(history: History, reads: Iterable[int]) -> frozenset[int]:
    """Return the values that some of these reads returned."""
    values = (history[index].value for index in reads)
    return frozenset(value for read in values if isinstance(read, tuple) for value in read)


def _taken(
    history: History, rows: Mapping[int, tuple[int, int]], kept: Collection[int]
) -> dict[int, str]:
    """Return the rows that no final read has and a fault took, with its name."""
    taken = taken_of(history)
    if not taken:
        return {}
    found = {}
    for value in rows.keys() - {*kept}:
        invoke, ack = (history[index] for index in rows[value])
        found[value] = taken.reason([ack.node], invoke.time_ns, ack.time_ns)
    return {value: reason for value, reason in found.items() if reason}


def _overlap(invoke: Op, end: Op, rebuild: Pair) -> bool:
    """Return whether a replica acknowledged an insert that was under way while it was rebuilt."""
    return (
        invoke.node == rebuild.invoke.node
        and rebuild.invoke.index < end.index
        and (rebuild.end is None or rebuild.kind is not Kind.OK or invoke.index < rebuild.end.index)
    )


def _reattached(history: History) -> Mapping[int, frozenset[int]]:
    """Return, for each key that was to be detached and attached, the values that must be back."""
    back: dict[int, frozenset[int]] = {}
    for pair in history.calls(REATTACH):
        key, op = pair.invoke.key, pair.end
        if key is not None:
            held = op.value if op is not None and pair.kind is Kind.OK else ()
            assert isinstance(held, tuple), f"op #{pair.invoke.index} has values"
            back[key] = back.get(key, frozenset(held)) & frozenset(held)
    return back


def _costs(at_rest: _AtRest, *, zero_copy: bool) -> dict[str, Json]:
    store, used = at_rest.store[1], at_rest.used
    orphaned = {key: size for key, size in store.objects.items() if key not in used}
    locked = set(at_rest.locks)
    parts = {(part, node) for node, (_, look) in at_rest.replicas.items() for part in look.by_part}
    return {
        "parts": len({part for part, _ in parts}),
        "objects": len(store.objects),
        "stored_bytes": sum(store.objects.values()),
        "orphaned_objects": len(orphaned),
        "orphaned_bytes": sum(orphaned.values()),
        "orphans_by_writer": {**_by_writer(store, orphaned)},
        **({"sole_writer": len(store.written) == 1} if store.written else {}),
        "locks": len(locked),
        "parts_without_lock": len(parts - locked) if zero_copy else 0,
    }


def _by_writer(store: StoredObjects, keys: Iterable[str]) -> dict[str, int]:
    """Return the number of objects by the replica that wrote them, "" if the log does not say, and
    whether somebody asked to delete them: "ch1", "ch1, delete failed"."""
    found: Counter[str] = Counter()
    for key in keys:
        requests = store.requests.get(key, [])
        writers = [request.source for request in requests if request.method == "PUT"]
        failed = any(request.method != "PUT" for request in requests)
        found[f"{writers[-1] if writers else ''}{', delete failed' if failed else ''}"] += 1
    return dict(sorted(found.items()))


def _described(op: Op, requests: Sequence[StoreRequest]) -> str:
    """Describe what the store's log says of an object, as the end of a sentence."""
    phrases = [
        f"{one.method} by {one.source} at {seconds(op.time_ns - round(one.ago_s * 1e9))}: "
        f"{one.status or 'not done'}{f', {one.fault}' if one.fault else ''}"
        for one in requests[-_FEW_REQUESTS:]
    ]
    return f"; the store's log has {'; '.join(phrases)}" if phrases else ""


def objects_in_use(op: Op) -> Iterator[str]:
    """Yield the keys of the objects to which a replica refers, by its look at rest."""
    yield from decode(op, ReferredObjects).used()


def _add(found: Findings, kind: str, text: str, *ops: Op) -> None:
    last = max(ops, key=lambda op: op.index)
    found.add_anomaly(kind, f"{text} (op #{last.index} at {seconds(last.time_ns)})", *ops)

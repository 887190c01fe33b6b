"""The protocol as a state machine that takes the steps of a real run, or says why it cannot.

The rules are those of the explorer's models `quorum`, `truncation` and `replication` at once, with
data left out: a part is its name. Two things are finer than there. A replica first pulls entries
of the log into its queue (which moves log_pointer) and later does them, in any order; and a fetch
may bring a part that covers the one that was asked for.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from harness.conform.entries import Entry, Part, Quorum


class Departure(Exception):  # noqa: N818 - a verdict, not an error of this program
    """The model cannot take this step."""


class Unmodelled(Exception):  # noqa: N818
    """The model has no such step, which says nothing of whether it was right."""


@dataclass
class Replica:
    """What ZooKeeper knows of one replica."""

    name: str
    session: int | None = None
    """That of is_active; None: not active. A server that has lost its session goes on in a new one,
    and is active as long as the old one has not expired."""
    closing: int | None = None
    """The session of a server that shuts down: it deletes is_active first, and then finishes what
    it has begun (StorageReplicatedMergeTree::partialShutdown)."""
    lost: bool = False
    pointer: int | None = None
    """The next log entry to pull; None: none was pulled yet."""
    queue: dict[str, Entry] = field(default_factory=dict)
    parts: dict[str, Part] = field(default_factory=dict)

    @property
    def works(self) -> bool:
        """Whether it may pull entries and register parts."""
        return self.session is not None or self.closing is not None

    def has(self, part: Part) -> bool:
        """The part, or one that covers it."""
        return part.name in self.parts or any(own.covers(part) for own in self.parts.values())


@dataclass
class Model:
    """The state of one table, and its steps. A step that cannot be taken raises Departure."""

    replicas: dict[str, Replica] = field(default_factory=dict)
    log: dict[int, Entry] = field(default_factory=dict)
    """The entries that are kept, by index."""
    length: int = 0
    """Entries that ever were."""
    made: dict[str, Part] = field(default_factory=dict)
    """Every part that an entry makes."""
    replaced: dict[str, int] = field(default_factory=dict)
    """Every part that a logged merge replaces, and the entry."""
    quorum: Quorum | None = None
    last: dict[str, Part] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    counted: set[tuple[str, str]] = field(default_factory=set)
    """Every replica that a quorum has counted, and the part."""
    leaders: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Candidates and their sessions by the name of their node: the first of these leads."""
    many_leaders: bool = False
    """Every replica leads, as on servers since 20.5; nobody stands for leader."""

    def of_session(self, session: int) -> Replica | None:
        """The active replica whose session it is."""
        return next((r for r in self.replicas.values() if r.session == session), None)

    # --- inserts and merges -------------------------------------------------------------------

    def append(self, index: int, entry: Entry) -> bool:
        """What every new entry of the log must satisfy. Returns whether its source is active and
        not lost: the server asks only where there is a quorum, and the model always."""
        _must(index == self.length, f"entry {index} follows entry {self.length - 1}")
        if entry.kind not in ("get", "merge") or entry.part is None:
            raise Unmodelled(f"an entry of type {entry.kind!r}")
        _must(entry.part.name not in self.made, f"{entry.part.name} was made before")
        source = self._replica(entry.source)
        plain = entry.kind == "get" and entry.quorum <= 1
        _must(source.session is not None or plain, f"{entry.source} is not active")
        _must(not source.lost or plain, f"{entry.source} is lost")
        if entry.kind == "merge":
            self._assign(entry)
        self.log[index] = entry
        self.length += 1
        self.made[entry.part.name] = entry.part
        return source.session is not None and not source.lost

    def insert(self, entry: Entry, begun: Quorum | None, parts: set[str]) -> None:
        """An insert's entry, with the quorum and the part that come in the same transaction."""
        assert entry.part is not None, "an insert makes a part"
        source = self._replica(entry.source)
        _must(entry.part.name in parts, f"{entry.source} does not register the part with it")
        if entry.quorum > 1:
            _must(self.quorum is None, f"the quorum of {_name(self.quorum)} is pending")
            _must(begun is not None, "a quorum insert without a quorum status")
        if begun is not None:
            _must(begun.part == entry.part, f"the quorum is of {begun.part.name}")
            _must(begun.replicas == {entry.source}, f"it begins with {_names(begun.replicas)}")
            _must(begun.required == entry.quorum, f"it requires {begun.required}")
            self.quorum = begun
        source.parts[entry.part.name] = entry.part

    def _assign(self, entry: Entry) -> None:
        part, source = entry.part, self._replica(entry.source)
        assert part is not None, "a merge makes a part"
        leader = self.leaders[min(self.leaders)][0] if self.leaders else None
        leads = self.many_leaders or leader == entry.source
        _must(leads, f"{entry.source} assigns a merge while {leader} leads")
        for old in entry.merged:
            _must(old.name in self.made, f"{old.name} was never made")
            by = self.replaced.get(old.name)
            _must(by is None, f"{old.name} is replaced by entry {by} already")
            _must(old.name in source.parts, f"{entry.source} does not have {old.name}")
            pending = self.quorum is not None and self.quorum.part == old
            _must(not pending, f"the quorum of {old.name} is pending")
            _must(part.covers(old), f"{part.name} does not cover {old.name}")
        ends = (min(old.low for old in entry.merged), max(old.high for old in entry.merged))
        _must((part.low, part.high) == ends, f"{part.name} covers more than what is merged")
        self.replaced |= dict.fromkeys((old.name for old in entry.merged), self.length)

    # --- a replica ----------------------------------------------------------------------------

    def become_active(self, name: str, session: int) -> tuple[str, ...]:
        """is_active is made. Returns the parts that it has and whose quorum has failed, which the
        server may keep and the model never should."""
        replica = self._replica(name)
        _must(replica.session is None, f"{name} is active already")
        replica.session, replica.closing = session, None
        return tuple(sorted(self.failed.intersection(replica.parts)))

    def become_inactive(self, name: str, *, closing: int | None = None) -> None:
        """is_active goes: its session ends, or it is deleted in the session `closing`."""
        replica = self._replica(name)
        replica.closing = closing if closing == replica.session else None
        replica.session = None

    def stand(self, node: str, name: str, session: int) -> None:
        """A replica stands for leader."""
        self.leaders[node] = (name, session)

    def stand_down(self, session: int) -> None:
        """The session ends, and with it every candidacy that it has, and all work in it."""
        for replica in self.replicas.values():
            if replica.closing == session:
                replica.closing = None
        self.leaders = {node: own for node, own in self.leaders.items() if own[1] != session}

    def pull(self, name: str, to: int, queued: Mapping[str, Entry]) -> None:
        """log_pointer moves, and what it moves past gets into the queue."""
        replica = self._replica(name)
        first = min(self.log, default=self.length)
        if replica.lost:
            others = [r.pointer for r in self.replicas.values() if r is not replica and not r.lost]
            _must(
                any(pointer is not None and pointer >= to for pointer in others) or to == first,
                f"no replica that is not lost has come to entry {to}",
            )
            _must(to >= first, f"entry {to} is deleted")
            replica.pointer = to
            self._enqueue(replica, queued)
            return
        since = first if replica.pointer is None else replica.pointer
        _must(replica.works, f"{name} is not active")
        _must(to >= since, f"its log_pointer goes back from {since} to {to}")
        _must(to <= self.length, f"its log_pointer goes past the log's end, {self.length}")
        gone = [index for index in range(since, to) if index not in self.log]
        _must(not gone, f"entry {gone[:1]} that it passes is deleted")
        wanted = [self.log[index] for index in range(since, to)]
        _must(
            list(queued.values()) == wanted,
            f"it queues {len(queued)} entries, and not the {len(wanted)} of the log from {since}",
        )
        replica.pointer = to
        replica.queue |= queued

    def clone(self, name: str, queued: Mapping[str, Entry]) -> None:
        """Entries get into the queue without the log: a lost replica copies another's."""
        replica = self._replica(name)
        _must(replica.lost, f"{name} queues what it has not pulled, and is not lost")
        self._enqueue(replica, queued)

    def _enqueue(self, replica: Replica, queued: Mapping[str, Entry]) -> None:
        for entry in queued.values():
            if entry.part is None:
                raise Unmodelled(f"an entry of type {entry.kind!r}")
            _must(entry.part.name in self.made, f"{entry.part.name} was never made")
        replica.queue |= queued

    def get_part(self, name: str, part: Part) -> None:
        """A part gets registered that is not the replica's own insert."""
        replica = self._replica(name)
        _must(part.name in self.made, f"{part.name} is in no entry of the log")
        _must(part.name not in self.failed, f"the quorum of {part.name} has failed")
        _must(replica.works, f"{name} is not active")
        asked = any(e.part is not None and part.covers(e.part) for e in replica.queue.values())
        _must(asked, f"nothing in the queue of {name} asks for {part.name}")
        replica.parts[part.name] = part

    def finish(self, name: str, queued: str) -> None:
        """An entry leaves the queue."""
        replica = self._replica(name)
        entry = replica.queue.pop(queued, None)
        _must(entry is not None, f"{queued} is not in the queue of {name}")
        assert entry is not None
        if replica.lost:
            return  # what it had to do is part of what it clones
        if entry.part is not None and entry.part.name not in self.failed:
            _must(replica.has(entry.part), f"{name} does not have {entry.part.name} after it")

    def undo_fetch(self, name: str, part: str) -> bool:
        """A server that does not hear that its fetch was registered undoes it, and does the entry
        again. False: it is no such step, for the entry is done or the replica was counted."""
        replica = self._replica(name)
        gone = replica.parts.get(part)
        asked = gone is not None and any(
            entry.part is not None and gone.covers(entry.part) for entry in replica.queue.values()
        )
        if not asked or (name, part) in self.counted:
            return False
        del replica.parts[part]
        return True

    def fetch_again(self, name: str, queued: str, entry: Entry) -> bool:
        """A server that finds that a part is registered and not on its disk takes it back, and
        queues an entry of its own to fetch it. Returns whether a quorum has counted the replica for
        it, which the server may do and the model never should."""
        replica = self._replica(name)
        assert entry.part is not None, "it asks for a part"
        gone = replica.parts.pop(entry.part.name, None)
        _must(gone is not None, f"{name} does not have {entry.part.name}")
        replica.queue[queued] = entry
        return (name, entry.part.name) in self.counted

    def remove_ahead(self, name: str, part: str) -> bool:
        """A server that was killed when a merged part was on its disk, and not yet in ZooKeeper,
        takes away what was merged when it starts, and registers the merged part later: for a moment
        ZooKeeper names neither, which the server does and the model never should. False: it is no
        such step, for another part covers it, or no merge of the queue does."""
        replica = self._replica(name)
        gone = replica.parts.get(part)
        if gone is None or any(own.covers(gone) for own in replica.parts.values() if own != gone):
            return False
        merges = [entry.part for entry in replica.queue.values() if entry.kind == "merge"]
        if not any(made is not None and made.covers(gone) for made in merges):
            return False
        del replica.parts[part]
        return True

    def remove_part(self, name: str, part: str) -> None:
        """A part is no longer registered: another covers it."""
        replica = self._replica(name)
        gone = replica.parts.pop(part, None)
        _must(gone is not None, f"{name} does not have {part}")
        assert gone is not None
        kept = replica.has(gone) or part in self.failed
        _must(kept, f"{name} loses {part}, and no part of it covers that")

    # --- the quorum ---------------------------------------------------------------------------

    def update_quorum(self, name: str | None, status: Quorum) -> None:
        """A replica adds itself."""
        replica = self._acting(name)
        pending = self._pending()
        _must(status.part == pending.part, f"the pending quorum is of {pending.part.name}")
        _must(replica.name not in pending.replicas, f"{replica.name} is counted already")
        joined = pending.replicas | {replica.name}
        _must(status.replicas == joined, f"{replica.name} writes {_names(status.replicas)}")
        _must(replica.has(pending.part), f"{replica.name} does not have {pending.part.name}")
        self.quorum = status
        self.counted.add((replica.name, pending.part.name))

    def end_quorum(self, name: str | None, last: dict[str, Part]) -> Part | None:
        """The replica that completes the count ends it. Returns what last_part was, if it goes back
        to a lower block, which the server does and the model never should."""
        replica, pending = self._acting(name), self._pending()
        counted = pending.replicas | {replica.name}
        enough = len(counted) >= pending.required
        _must(enough, f"{pending.required} are required, {_names(counted)} have it")
        for one in sorted(counted):
            _must(self._replica(one).has(pending.part), f"{one} does not have the part")
        before = self.last.get(pending.part.partition)
        _must(
            last == {**self.last, pending.part.partition: pending.part},
            f"last_part says {_names(part.name for part in last.values())}",
        )
        self.last, self.quorum = last, None
        self.counted |= {(one, pending.part.name) for one in counted}
        return before if before is not None and pending.part.low < before.low else None

    def fail_quorum(self, part: str) -> None:
        """Nobody who has the part is active."""
        pending = self._pending()
        _must(part == pending.part.name, f"the pending quorum is of {pending.part.name}")
        alive = [n for n in sorted(pending.replicas) if self._replica(n).session is not None]
        _must(not alive, f"{_names(alive)} has the part and is active")
        self.failed.add(part)
        self.quorum = None

    # --- the log's end ------------------------------------------------------------------------

    def clear(self, indices: set[int]) -> None:
        """Old entries are deleted."""
        for index in sorted(indices):
            _must(index in self.log, f"entry {index} is not in the log")
            first = min(self.log)
            _must(index == first, f"entry {index} goes before entry {first}")
            for replica in self.replicas.values():
                behind = replica.pointer is None or replica.pointer <= index
                needs = replica.session is not None and not replica.lost and behind
                _must(not needs, f"{replica.name} is active and has not pulled entry {index}")
                _must(
                    replica.lost or not behind,
                    f"{replica.name} has not pulled entry {index}, and is not marked lost",
                )
            del self.log[index]

    def mark_lost(self, name: str) -> None:
        """is_lost is set."""
        replica = self._replica(name)
        _must(replica.session is None, f"{name} is active and is marked lost")
        replica.lost = True

    def found(self, name: str) -> None:
        """is_lost is cleared: the clone is complete."""
        self._replica(name).lost = False

    # --- how ----------------------------------------------------------------------------------

    def _replica(self, name: str) -> Replica:
        _must(name in self.replicas, f"{name} is no replica of the table")
        return self.replicas[name]

    def _acting(self, name: str | None) -> Replica:
        if name is None:
            raise Departure("it is no replica that does it")
        replica = self._replica(name)
        _must(replica.works, f"{name} is not active")
        return replica

    def _pending(self) -> Quorum:
        if self.quorum is None:
            raise Departure("no quorum is pending")
        return self.quorum


def _must(holds: bool, why_not: str) -> None:
    if not holds:
        raise Departure(why_not)


def _name(of: Quorum | Part | None) -> str:
    return "nothing" if of is None else of.part.name if isinstance(of, Quorum) else of.name


def _names(names: Iterable[str]) -> str:
    return " ".join(sorted(names)) or "nobody"

"""The replication protocol as a state machine. It takes the steps of a real run, or says why not.

The rules combine those of the explorer's models `quorum`, `truncation` and `replication`, without
data: a part is its name. Two rules are finer than there. A replica first pulls entries of the log
into its queue (which moves log_pointer) and later executes them in any order; and a fetch may bring
a part that covers the requested one. Mutations, ALTERs and parallel quorums, which those models do
not have, follow the server's source; docs/conformance.md has the rules.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.conform import copies, forgetting, mutations
from harness.conform.entries import (
    DROPS,
    NEW_DATA,
    REPLACE,
    LogEntry,
    MutationEntry,
    PartName,
    QuorumStatus,
)
from harness.conform.forgetting import ForgottenPartition
from harness.conform.protocol import ServerProtocol
from harness.conform.replica import Replica
from harness.conform.rules import Departure, Unmodelled, name_of, names_of, require

SERIAL = "status"
"""Node below /quorum of the quorum of which one at a time is pending."""


@dataclass
class Model:
    """The state of one table, and its steps. A step that is not allowed raises Departure."""

    protocol: ServerProtocol
    replicas: dict[str, Replica] = field(default_factory=dict)
    log: dict[int, LogEntry] = field(default_factory=dict)
    """The entries in the log, by index."""
    length: int = 0
    """Number of entries that the log ever had."""
    created: dict[str, PartName] = field(default_factory=dict)
    """Every part that some entry makes."""
    replaced: dict[str, int] = field(default_factory=dict)
    """Index of the logged merge or mutation that replaces a part, by part."""
    removed: dict[str, frozenset[str]] = field(default_factory=dict)
    """Parts that the log had made before each drop, and that it removes, by the drop's range."""
    mutations: dict[str, MutationEntry] = field(default_factory=dict)
    """Every mutation that there was, by its node."""
    forgotten: dict[str, ForgottenPartition] = field(default_factory=dict)
    """Partitions that were forgotten."""
    altered: int = 0
    """Version of the metadata that the last logged ALTER brings about."""
    quorums: dict[str, QuorumStatus] = field(default_factory=dict)
    """Pending quorums by their node below /quorum: "status", or "parallel/" and the part."""
    last: dict[str, PartName] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    counted: set[tuple[str, str]] = field(default_factory=set)
    """Pairs of a replica and a part for which a quorum has counted the replica."""
    leaders: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Candidates and their sessions, by the name of their node. The first of these nodes leads."""
    many_leaders: bool = False
    """True if every replica leads, as on servers since 20.5, where none is elected."""

    def of_session(self, session: int) -> Replica | None:
        """Return the active replica that has this session."""
        return next((r for r in self.replicas.values() if r.session == session), None)

    # --- inserts and merges -------------------------------------------------------------------

    def append(self, index: int, entry: LogEntry) -> bool:
        """Append an entry to the log, and check what every new entry must satisfy. Return whether
        its source is active and not lost: the server checks this only with a quorum, the model
        always."""
        require(index == self.length, f"entry {index} follows entry {self.length - 1}")
        self._exists(entry.kind in self.protocol.entries, f"entries of type {entry.kind!r}")
        if entry.kind == "alter":
            after = f"after version {self.altered}"
            require(entry.alter_version > self.altered, f"version {entry.alter_version} {after}")
            self.altered = entry.alter_version
        elif entry.kind == REPLACE:
            copies.log(self, entry)
        elif entry.part is None:
            raise Unmodelled(f"an entry of type {entry.kind!r}")
        elif entry.kind in DROPS:
            self._leads(entry.source, "drops a partition")
            self.remove_range(entry.part)
        else:
            self._make(entry, entry.part)
        self.log[index] = entry
        self.length += 1
        source = self.replica(entry.source)
        return source.session is not None and not source.lost

    def remove_range(self, gone: PartName) -> None:
        """Log the removal of what a part covers."""
        forgetting.log_drop(self, gone)
        self.removed[gone.name] = frozenset(n for n, p in self.created.items() if gone.covers(p))

    def _make(self, entry: LogEntry, part: PartName) -> None:
        require(not forgetting.is_taken(self, part), f"{part.name} was created before")
        forgetting.make(self, part)
        source = self.replica(entry.source)
        plain = entry.kind in NEW_DATA and entry.quorum <= 1
        require(source.session is not None or plain, f"{entry.source} is not active")
        require(not source.lost or plain, f"{entry.source} is lost")
        if entry.replaces:
            self._leads(entry.source, f"assigns a {entry.kind.replace('mutate', 'mutation')}")
            self._replace(entry, part, source)
        if entry.kind == "mutate":
            mutations.mutate(self, part, entry.replaces[0])
        self.created[part.name] = part

    def insert(
        self, entry: LogEntry, begun: Mapping[str, QuorumStatus], parts: set[str], session: int = 0
    ) -> None:
        """Add an insert's part and quorum, which come in the same transaction as its entry."""
        assert entry.part is not None, "an insert makes a part"
        source = self.replica(entry.source)
        require(entry.part.name in parts, f"{entry.source} does not register the part with it")
        if entry.quorum > 1:
            require(bool(begun), "a quorum insert without a quorum status")
        for node, status in begun.items():
            serial = node == SERIAL
            self._exists(serial or self.protocol.parallel_quorums, "parallel quorums")
            pending = self.quorums.get(node)
            require(pending is None, f"the quorum of {name_of(pending)} is pending")
            require(status.part == entry.part, f"the quorum is of {status.part.name}")
            require(
                status.replicas == {entry.source}, f"it begins with {names_of(status.replicas)}"
            )
            require(status.required == entry.quorum, f"it requires {status.required}")
            self.quorums[node] = status
        source.parts[entry.part.name] = entry.part
        source.inserted[entry.part.name] = session

    def _leads(self, name: str, does: str) -> None:
        leader = self.leaders[min(self.leaders)][0] if self.leaders else None
        leads = self.many_leaders or leader == name
        require(leads, f"{name} {does} while {leader} leads")

    def _replace(self, entry: LogEntry, part: PartName, source: Replica) -> None:
        for old in entry.replaces:
            require(old.name in self.created, f"{old.name} was never created")
            by = self.replaced.get(old.name)
            require(by is None, f"{old.name} is already replaced by entry {by}")
            dropped = any(old.name in names for names in self.removed.values())
            require(not dropped, f"{old.name} was dropped before the {entry.kind} was assigned")
            require(old.name in source.parts, f"{entry.source} does not have {old.name}")
            pending = SERIAL in self.quorums and self.quorums[SERIAL].part == old
            require(not pending, f"the quorum of {old.name} is pending")
            require(part.covers(old), f"{part.name} does not cover {old.name}")
        ends = (min(old.low for old in entry.replaces), max(old.high for old in entry.replaces))
        require((part.low, part.high) == ends, f"{part.name} covers more than what it replaces")
        self.replaced |= dict.fromkeys((old.name for old in entry.replaces), self.length)

    # --- a replica ----------------------------------------------------------------------------

    def become_active(self, name: str, session: int) -> tuple[str, ...]:
        """Make a replica active. Return its parts whose quorum has failed, which the server may
        keep and the model never should."""
        replica = self.replica(name)
        require(replica.session is None, f"{name} is active already")
        replica.session, replica.closing = session, None
        return tuple(sorted(self.failed.intersection(replica.parts)))

    def become_inactive(self, name: str, *, closing: int | None = None) -> None:
        """Make a replica inactive: its session ends, or the session `closing` deletes is_active."""
        replica = self.replica(name)
        replica.closing = closing if closing == replica.session else None
        replica.session = None

    def lead_all(self) -> None:
        """Make every replica a leader."""
        self._exists(self.protocol.many_leaders, "leadership of every replica")
        self.many_leaders = True

    def add_candidate(self, node: str, name: str, session: int) -> None:
        """Make a replica a candidate for leader."""
        self._exists(self.protocol.elects, "elected leaders")
        self.leaders[node] = (name, session)

    def end_session(self, session: int) -> None:
        """End a session, with every candidacy and all work in it."""
        for replica in self.replicas.values():
            if replica.closing == session:
                replica.closing = None
        self.leaders = {node: own for node, own in self.leaders.items() if own[1] != session}

    def pull_log(self, name: str, to: int, queued: Mapping[str, LogEntry]) -> None:
        """Move log_pointer, and put the entries that it passes into the queue."""
        replica = self.replica(name)
        first = min(self.log, default=self.length)
        if replica.lost:
            others = [r.pointer for r in self.replicas.values() if r is not replica and not r.lost]
            require(
                any(pointer is not None and pointer >= to for pointer in others) or to == first,
                f"no replica that is not lost has reached entry {to}",
            )
            require(to >= first, f"entry {to} is deleted")
            replica.pointer = to
            self._enqueue(replica, queued)
            return
        since = first if replica.pointer is None else replica.pointer
        require(replica.may_write, f"{name} is not active")
        require(to >= since, f"its log_pointer goes back from {since} to {to}")
        require(to <= self.length, f"its log_pointer goes past the log's end, {self.length}")
        gone = [index for index in range(since, to) if index not in self.log]
        require(not gone, f"entry {gone[:1]} that it passes is deleted")
        wanted = [self.log[index] for index in range(since, to)]
        require(
            list(queued.values()) == wanted,
            f"the {len(queued)} queued entries are not the {len(wanted)} of the log from {since}",
        )
        replica.pointer = to
        replica.queue |= queued

    def clone_queue(self, name: str, queued: Mapping[str, LogEntry]) -> None:
        """Put entries into the queue that do not come from the log: a lost replica copies
        another's."""
        replica = self.replica(name)
        require(replica.lost, f"{name} queues entries that it has not pulled, and is not lost")
        self._enqueue(replica, queued)

    def _enqueue(self, replica: Replica, queued: Mapping[str, LogEntry]) -> None:
        for entry in queued.values():
            gone = entry.removed
            require(gone is None or gone.name in self.removed, f"{name_of(gone)} was never created")
            for part in entry.made:
                require(part.name in self.created, f"{part.name} was never created")
        replica.queue |= queued

    def get_part(self, name: str, part: PartName) -> None:
        """Register a part that is not the replica's own insert."""
        replica = self.replica(name)
        require(part.name in self.created, f"{part.name} is in no entry of the log")
        require(part.name not in self.failed, f"the quorum of {part.name} has failed")
        require(part.name not in replica.dropped, f"{part.name} comes back after it was dropped")
        require(replica.may_write, f"{name} is not active")
        wanted = any(part.covers(made) for e in replica.queue.values() for made in e.made)
        # A drop removes the entry of a fetch, then waits for the fetch, then removes the part.
        wanted = wanted or replica.drops(part)
        require(wanted, f"no entry in the queue of {name} needs {part.name}")
        replica.parts[part.name] = part

    def finish_entry(self, name: str, node: str, session: int = 0) -> tuple[str, ...]:
        """Remove an entry from the queue, in this session. Return the parts that a drop has missed,
        which the server may keep and the model never should."""
        replica = self.replica(name)
        entry = replica.queue.pop(node, None)
        require(entry is not None, f"{node} is not in the queue of {name}")
        assert entry is not None
        if replica.lost:
            return ()  # what it clones includes the result of the entry
        if entry.kind == "alter":
            queued = (e.alter_version for e in replica.queue.values() if e.kind == "alter")
            first = min(queued, default=entry.alter_version)
            require(entry.alter_version <= first, f"version {first} is not in force yet")
        elif entry.kind == REPLACE:
            return copies.finish(self, replica, entry, session)
        elif entry.removed is not None:
            return self.finish_drop(replica, entry.removed, session)
        elif entry.part is not None and replica.drops(entry.part):
            return ()  # a drop removes the entries whose parts it would remove
        elif entry.part is not None and entry.part.name not in self.failed:
            require(replica.has(entry.part), f"{name} does not have {entry.part.name} after it")
        return ()

    def give_up(self, name: str, node: str) -> str | None:
        """Remove a fetch from the queue whose part no replica has any more, which the server allows
        and the model never should. Return the part; None if this is no such step."""
        replica, part = self.replica(name), self.replica(name).fetches(node)
        had = part is None or any(one.has(part) for one in self.replicas.values())
        if part is None or had or replica.lost or part.name in self.failed or replica.drops(part):
            return None
        del replica.queue[node]
        return part.name

    def finish_drop(self, replica: Replica, range_: PartName, session: int) -> tuple[str, ...]:
        """Remove a range from a replica. Return the parts that it has missed."""
        gone = self.removed[range_.name]
        # Parts that a merge has replaced are registered until they are removed from the disk.
        left = gone.intersection(replica.parts) - self.replaced.keys()
        # An insert whose session was lost before its commit was answered shows its part only once
        # it has looked it up, which may be after the drop.
        missed = {part for part in left if replica.inserted.get(part, session) != session}
        require(left == missed, f"{replica.name} still has {names_of(left)} after it was dropped")
        replica.dropped |= gone
        done = replica.ranges.get(range_.partition)
        if done is None or done.high < range_.high:
            replica.ranges[range_.partition] = range_
        return tuple(sorted(missed))

    def undo_fetch(self, name: str, part: str) -> bool | None:
        """Undo a fetch: a server that does not learn that its fetch was registered undoes it and
        executes the entry again. Return whether a quorum has counted the replica for it, which the
        server allows and the model never should; None if this is no such step, because the entry is
        done, or the part has to go for another reason."""
        replica = self.replica(name)
        gone = replica.parts.get(part)
        wanted = gone is not None and any(
            gone.covers(made) for entry in replica.queue.values() for made in entry.made
        )
        if not wanted:
            return None
        assert gone is not None
        counted = (name, part) in self.counted
        covered = any(own.covers(gone) for own in replica.parts.values() if own != gone)
        if counted and (covered or part in self.failed or replica.drops(gone)):
            return None
        del replica.parts[part]
        return counted

    def fetch_again(self, name: str, queued: str, entry: LogEntry) -> bool:
        """Queue another fetch: a server that finds a registered part missing on its disk removes
        the part from ZooKeeper and queues an entry of its own to fetch it. Return whether a quorum
        has counted the replica for the part, which the server allows and the model never should."""
        replica = self.replica(name)
        assert entry.part is not None, "a fetch names a part"
        gone = replica.parts.pop(entry.part.name, None)
        require(gone is not None, f"{name} does not have {entry.part.name}")
        replica.queue[queued] = entry
        replica.again.add(queued)
        return (name, entry.part.name) in self.counted

    def remove_ahead(self, name: str, part: str) -> bool:
        """Remove a part before the one that covers it is registered.

        A server killed while a merged part was on its disk and not yet in ZooKeeper removes the
        source parts when it starts, and registers the merged part later. For a moment ZooKeeper
        names neither, which the server allows and the model never should. Return False if this is
        no such step: another part covers the removed one, a drop does, or no merge in the queue.
        """
        replica = self.replica(name)
        gone = replica.parts.get(part)
        if gone is None or replica.covered(gone) or replica.drops(gone):
            return False
        merges = [entry.part for entry in replica.queue.values() if entry.replaces]
        if not any(made is not None and made.covers(gone) for made in merges):
            return False
        del replica.parts[part]
        return True

    def remove_part(self, name: str, part: str) -> None:
        """Remove a part that is covered, unreadable or dropped. A lost replica removes the parts
        that the one which it clones does not have."""
        replica = self.replica(name)
        require(part in replica.parts, f"{name} does not have {part}")
        gone = replica.parts.pop(part)
        covered = replica.covered(gone) or replica.drops(gone)
        may = replica.lost or covered or part in self.failed
        require(may, f"{name} loses {part}, and none of its parts covers it")

    # --- the quorum ---------------------------------------------------------------------------

    def update_quorum(self, name: str | None, node: str, status: QuorumStatus) -> None:
        """Add a replica to a pending quorum."""
        replica = self._acting(name)
        pending = self._pending(node)
        require(status.part == pending.part, f"the pending quorum is of {pending.part.name}")
        require(replica.name not in pending.replicas, f"{replica.name} is counted already")
        joined = pending.replicas | {replica.name}
        require(status.replicas == joined, f"{replica.name} writes {names_of(status.replicas)}")
        require(replica.has(pending.part), f"{replica.name} does not have {pending.part.name}")
        self.quorums[node] = status
        self.counted.add((replica.name, pending.part.name))

    def end_quorum(self, name: str | None, node: str) -> PartName:
        """End a quorum, as the replica that completes the count does. Return its part."""
        replica, pending = self._acting(name), self._pending(node)
        counted = pending.replicas | {replica.name}
        enough = len(counted) >= pending.required
        require(
            enough, f"{pending.required} replicas are required, the part is on: {names_of(counted)}"
        )
        for one in sorted(counted):
            require(self.replica(one).has(pending.part), f"{one} does not have the part")
        del self.quorums[node]
        self.counted |= {(one, pending.part.name) for one in counted}
        return pending.part

    def end_another(
        self, name: str | None, node: str, last: Mapping[str, PartName]
    ) -> PartName | None:
        """End a quorum by the end of another one: the replica has read the status of an earlier
        quorum, and the node has begun anew since, with the same version. Return the part that it
        meant, which last_part names; None if this is no such end."""
        replica, pending = self._acting(name), self._pending(node)
        meant = last.get(pending.part.partition)
        if meant is None or meant == pending.part or meant.name not in self.created:
            return None
        if not replica.has(meant):
            return None
        del self.quorums[node]
        return meant

    def set_last(self, part: PartName, last: dict[str, PartName]) -> PartName | None:
        """Set last_part, when a quorum that is not parallel ends. Return the previous last_part of
        the partition if it goes back to a lower block, which the server allows and the model never
        should."""
        before = self.last.get(part.partition)
        require(
            last == {**self.last, part.partition: part},
            f"last_part says {names_of(part.name for part in last.values())}",
        )
        self.last = last
        forgotten = self.forgotten.get(part.partition)
        if before is None or (forgotten is not None and forgotten.last == before):
            return None
        return before if part.low < before.low else None

    def fail_quorum(self, part: str, node: str) -> bool:
        """Fail a quorum: no replica that has the part is active. Return whether one is active that
        the quorum had counted and that has removed the part since, which the server allows and the
        model never should."""
        pending = self._pending(node)
        require(part == pending.part.name, f"the pending quorum is of {pending.part.name}")
        active = [n for n in sorted(pending.replicas) if self.replica(n).session is not None]
        alive = [n for n in active if self.replica(n).has(pending.part)]
        require(not alive, f"{names_of(alive)} has the part and is active")
        self.failed.add(part)
        del self.quorums[node]
        return bool(active)

    # --- cleaning the log -----------------------------------------------------------------------

    def clear_log(self, indices: set[int]) -> None:
        """Delete old entries from the log."""
        for index in sorted(indices):
            require(index in self.log, f"entry {index} is not in the log")
            first = min(self.log)
            require(index == first, f"entry {index} goes before entry {first}")
            for replica in self.replicas.values():
                behind = replica.pointer is None or replica.pointer <= index
                needs = replica.session is not None and not replica.lost and behind
                require(not needs, f"{replica.name} is active and has not pulled entry {index}")
                require(
                    replica.lost or not behind,
                    f"{replica.name} has not pulled entry {index}, and is not marked lost",
                )
            del self.log[index]

    def mark_lost(self, name: str) -> None:
        """Mark a replica as lost."""
        replica = self.replica(name)
        require(replica.session is None, f"{name} is active and is marked lost")
        replica.lost = True

    def clear_lost(self, name: str) -> None:
        """Clear is_lost: the replica has cloned another one."""
        replica = self.replica(name)
        replica.lost = False
        replica.dropped.clear()
        replica.ranges.clear()

    # --- checks --------------------------------------------------------------------------------

    def _exists(self, there: bool, what: str) -> None:
        """Raise Departure unless servers of these versions have such a step."""
        require(there, f"ClickHouse {self.protocol.name} lacks {what}")

    def replica(self, name: str) -> Replica:
        """Return a replica. Raises Departure if there is none."""
        require(name in self.replicas, f"{name} is not a replica of the table")
        return self.replicas[name]

    def _acting(self, name: str | None) -> Replica:
        if name is None:
            raise Departure("the session belongs to no replica")
        replica = self.replica(name)
        require(replica.may_write, f"{name} is not active")
        return replica

    def _pending(self, node: str) -> QuorumStatus:
        if node not in self.quorums:
            raise Departure("no quorum is pending")
        return self.quorums[node]

"""Replays the transactions of one table as steps of the model, until a step that the model cannot
take."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from harness.conform.entries import (
    DROPS,
    LogEntry,
    PartName,
    QuorumStatus,
    UnreadableError,
    read_last_parts,
)
from harness.conform.model import Departure, Model, Replica, Unmodelled
from harness.conform.txnlog import Change, ChangeKind, Txn

FEW = 8
LAST_PART_BACK = "LastPartBack"
REMOVE_AHEAD = "RemoveAhead"
COUNTED_WITHOUT = "CountedWithout"
KEEP_FAILED = "KeepFailed"
INSERT_INACTIVE = "InsertInactive"
DEPARTURES = {
    LAST_PART_BACK: "last_part went back",
    REMOVE_AHEAD: "a part was removed before the merged part that covers it was registered",
    COUNTED_WITHOUT: "a replica counted by a quorum did not have the part, or lost it",
    KEEP_FAILED: "a replica became active with a part whose quorum had failed",
    INSERT_INACTIVE: "a replica inserted while it was inactive or lost",
}
"""Known departures of the server. Each is a step that is counted, and after which the replay
continues."""
MULTIPLE_LEADERS = "all (multiple leaders Ok)"
"""Value that servers since 20.5 write in place of a leader's name, so that no older server becomes
leader."""
_OWN = frozenset({"is_active", "log_pointer", "parts", "queue"})
"""Nodes of a replica that only the replica itself writes."""


@dataclass(frozen=True, slots=True)
class Step:
    """One transaction, as the model's names for what it does."""

    zxid: int
    time_ms: int
    actions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stopped:
    """Place at which the replay ended early, and the reason."""

    step: Step
    why: str
    changes: tuple[Change, ...]
    """The changes of the transaction in this table."""
    unmodelled: bool
    """True if the model has no such step, and therefore does not call it a departure."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """The result of replaying one table's trace."""

    root: str
    steps: int
    """Number of transactions that are steps of the model."""
    actions: Counter[str]
    stopped: Stopped | None
    before: tuple[Step, ...]
    """The last few steps before the stop."""

    @property
    def departures(self) -> dict[str, int]:
        """Return the known departures of the server that occurred, and how many times."""
        return {name: self.actions[name] for name in DEPARTURES if self.actions[name]}


def tables(txns: Iterable[Txn]) -> tuple[str, ...]:
    """Return the paths of the replicated tables that the trace creates, in that order."""
    made = (c.path for txn in txns for c in txn.changes if c.kind is ChangeKind.CREATE)
    return tuple(
        dict.fromkeys(path.removesuffix("/replicas") for path in made if path.endswith("/replicas"))
    )


def replay(root: str, txns: Sequence[Txn]) -> Replayed:
    """Replay every transaction of a table from its creation to the end of the trace, or to where
    the table is dropped."""
    state = _TableReplay(root)
    counts: Counter[str] = Counter()
    taken: list[Step] = []
    stopped = None
    for txn in _until_dropped(root, txns):
        changes = tuple(c for c in txn.changes if c.path.startswith(f"{root}/"))
        if not changes and not txn.ends_session:
            continue
        state.actions = []
        why, unmodelled = None, False
        try:
            state.take(txn, changes)
        except Departure as departure:
            why = str(departure)
        except (Unmodelled, UnreadableError) as other:
            why, unmodelled = str(other), True
        step = Step(txn.zxid, txn.time_ms, tuple(state.actions))
        if why is not None:
            stopped = Stopped(step, why, changes, unmodelled)
            break
        if state.actions:
            taken.append(step)
            counts.update(action.split(" ")[0] for action in state.actions)
    return Replayed(root, len(taken), counts, stopped, tuple(taken[-FEW:]))


def net_changes(root: str, changes: Iterable[Change]) -> dict[str, Change]:
    """Return the net changes of a transaction by path below the table.

    A node created and deleted in one transaction is only a check that it did not exist.
    """
    by_path: dict[str, Change] = {}
    for change in changes:
        path = change.path[len(root) + 1 :]
        made = path in by_path and by_path[path].kind is ChangeKind.CREATE
        if change.kind is ChangeKind.DELETE and made:
            del by_path[path]
        else:
            by_path[path] = change
    return by_path


def _until_dropped(root: str, txns: Sequence[Txn]) -> Sequence[Txn]:
    """Return the transactions before the table is dropped.

    Dropping a table removes its nodes one by one, which is no step of the protocol. The trace ends
    where the first dropped replica says that it is no longer active.
    """
    alive: dict[str, int] = {}
    prefix = f"{root}/replicas/"
    for at, txn in enumerate(txns):
        for change in txn.changes:
            if change.kind is not ChangeKind.DELETE or not change.path.startswith(prefix):
                continue
            name, _, what = change.path[len(prefix) :].partition("/")
            if what == "is_active":
                alive[name] = at
            elif what in ("", "host", "log_pointer", "queue", "parts", "columns", "flags"):
                return txns[: alive.get(name, at)]
    return txns


@dataclass
class _TableReplay:
    root: str
    model: Model = field(default_factory=Model)
    actions: list[str] = field(default_factory=list)
    owners: dict[int, str] = field(default_factory=dict)
    """The replica of each session, known from the nodes that only the replica writes."""

    def take(self, txn: Txn, changes: tuple[Change, ...]) -> None:
        """Take one transaction. Changes are taken in an order in which each refers only to earlier
        ones."""
        by_path = net_changes(self.root, changes)
        self._learn_owner(txn, by_path)
        self._fresh_replicas(by_path)
        self._lost(by_path)
        self._log(by_path)
        self._quorum(txn, by_path)
        self._queues(by_path)
        self._parts(by_path)
        self._activity(txn, by_path)

    def _record(self, *words: object) -> None:
        self.actions.append(" ".join(map(str, words)))

    def _learn_owner(self, txn: Txn, by_path: dict[str, Change]) -> None:
        for path in by_path:
            words = path.split("/")
            if words[0] == "replicas" and len(words) > 2 and words[2] in _OWN:
                self.owners[txn.session] = words[1]

    def _fresh_replicas(self, by_path: dict[str, Change]) -> None:
        for path, change in by_path.items():
            words = path.split("/")
            if change.kind is ChangeKind.CREATE and len(words) == 2 and words[0] == "replicas":
                self._record("AddReplica", words[1])
                lost = by_path.get(f"{path}/is_lost")
                fresh = Replica(words[1], lost=lost is not None and lost.data == b"1")
                self.model.replicas[words[1]] = fresh

    def _lost(self, by_path: dict[str, Change]) -> None:
        for name in self.model.replicas:
            change = by_path.get(f"replicas/{name}/is_lost")
            if change is None or f"replicas/{name}" in by_path:
                continue
            if change.data == b"1":
                self._record("MarkLost", name)
                self.model.mark_lost(name)
            else:
                self._record("CloneReplica", name)
                self.model.clear_lost(name)

    def _log(self, by_path: dict[str, Change]) -> None:
        cleared = set()
        for path, change in by_path.items():
            if not path.startswith("log/log-"):
                continue
            index = int(path.removeprefix("log/log-"))
            if change.kind is ChangeKind.DELETE:
                cleared.add(index)
            elif change.kind is ChangeKind.CREATE:
                self._append(index, LogEntry.read(change.data), by_path)
        if cleared:
            self._record("ClearOldLog", *sorted(cleared))
            self.model.clear_log(cleared)

    def _append(self, index: int, entry: LogEntry, by_path: dict[str, Change]) -> None:
        name = entry.part.name if entry.part else ""
        if entry.kind != "get":
            what = "DropRange" if entry.kind in DROPS else entry.kind
            self._record("AssignMerge" if what == "merge" else what, entry.source, name)
            self.model.append(index, entry)
            return
        if f"quorum/parallel/{name}" in by_path:
            raise Unmodelled("a parallel quorum")
        status = by_path.get("quorum/status")
        begun = (
            QuorumStatus.read(status.data) if status and status.kind is ChangeKind.CREATE else None
        )
        self._record("QuorumInsert" if entry.quorum > 1 else "Insert", entry.source, name)
        if not self.model.append(index, entry):
            self._record(INSERT_INACTIVE, entry.source, name)
        mine = f"replicas/{entry.source}/parts/"
        parts = {path.removeprefix(mine) for path in by_path if path.startswith(mine)}
        self.model.insert(entry, begun, parts)

    def _quorum(self, txn: Txn, by_path: dict[str, Change]) -> None:
        if any(path.startswith("quorum/parallel/") for path in by_path):
            raise Unmodelled("a parallel quorum")
        status, last = by_path.get("quorum/status"), by_path.get("quorum/last_part")
        failed = [
            p.removeprefix("quorum/failed_parts/")
            for p, change in by_path.items()
            if p.startswith("quorum/failed_parts/") and change.kind is ChangeKind.CREATE
        ]
        if status is None:
            if failed:
                raise Departure(f"{failed[0]} fails, but no quorum ends")
            if last is not None and last.kind is ChangeKind.SET:
                raise Departure("last_part changes, but no quorum ends")
        elif status.kind is ChangeKind.SET:
            self._record("UpdateQuorum", self._by(txn))
            self.model.update_quorum(self.owners.get(txn.session), QuorumStatus.read(status.data))
        elif status.kind is ChangeKind.DELETE:
            if failed:
                self._record("FailedQuorum", failed[0], "by", self._by(txn))
                self.model.fail_quorum(failed[0])
            elif last is not None:
                self._record("EndQuorum", self._by(txn))
                now = read_last_parts(last.data)
                was = self.model.end_quorum(self.owners.get(txn.session), now)
                if was is not None:
                    self._record(LAST_PART_BACK, "from", was.name)
            else:
                raise Departure(
                    "the quorum status is deleted, but the quorum has neither ended nor failed"
                )
        elif not any(path.startswith("log/") for path in by_path):
            raise Departure("a quorum begins without a log entry")

    def _queues(self, by_path: dict[str, Change]) -> None:
        for name in self.model.replicas:
            own = f"replicas/{name}/"
            queued = {
                path.removeprefix(own + "queue/"): LogEntry.read(change.data)
                for path, change in by_path.items()
                if path.startswith(own + "queue/") and change.kind is ChangeKind.CREATE
            }
            for node, entry in list(queued.items()):
                path = f"{own}parts/{entry.part.name}" if entry.part else ""
                if path in by_path and by_path[path].kind is ChangeKind.DELETE:
                    del by_path[path], queued[node]
                    self._fetch_again(name, node, entry)
            pointer = by_path.get(own + "log_pointer")
            if pointer is not None and pointer.data:
                to = int(pointer.data)
                self._record("PullLog", name, "to", to)
                self.model.pull_log(name, to, queued)
            elif queued:
                self._record("CloneQueue", name, len(queued))
                self.model.clone_queue(name, queued)

    def _fetch_again(self, name: str, node: str, entry: LogEntry) -> None:
        assert entry.part is not None, "a fetch names a part"
        self._record("FetchAgain", name, entry.part.name)
        if self.model.fetch_again(name, node, entry):
            self._record(COUNTED_WITHOUT, name, entry.part.name)

    def _parts(self, by_path: dict[str, Change]) -> None:
        for path, change in by_path.items():
            words = path.split("/")
            if words[0] != "replicas" or len(words) != 4:
                continue
            _, name, what, node = words
            replica = self.model.replicas.get(name)
            if what == "parts" and change.kind is ChangeKind.CREATE:
                if replica is None or node not in replica.parts:
                    self._record("GetPart", name, node)
                    self.model.get_part(name, PartName.named(node))
            elif what == "parts" and change.kind is ChangeKind.DELETE:
                if self.model.undo_fetch(name, node):
                    self._record("UndoFetch", name, node)
                elif self.model.remove_ahead(name, node):
                    self._record(REMOVE_AHEAD, name, node)
                else:
                    self._record("RemovePart", name, node)
                    self.model.remove_part(name, node)
            elif what == "queue" and change.kind is ChangeKind.DELETE:
                self._record("FinishEntry", name, node)
                self.model.finish_entry(name, node)

    def _activity(self, txn: Txn, by_path: dict[str, Change]) -> None:
        for path, change in by_path.items():
            words = path.split("/")
            if words[0] == "leader_election" and len(words) == 2:
                if change.kind is ChangeKind.CREATE:
                    name = change.data.decode(errors="replace")
                    if name == MULTIPLE_LEADERS:
                        self.model.many_leaders = True
                    else:
                        self.model.add_candidate(words[1], name, txn.session)
                elif change.kind is ChangeKind.DELETE:
                    self.model.leaders.pop(words[1], None)
            if words[0] == "replicas" and words[2:] == ["is_active"]:
                if change.kind is ChangeKind.CREATE:
                    self._record("BecomeActive", words[1])
                    for part in self.model.become_active(words[1], txn.session):
                        self._record(KEEP_FAILED, words[1], part)
                elif change.kind is ChangeKind.DELETE:
                    self._record("BecomeInactive", words[1])
                    self.model.become_inactive(words[1], closing=txn.session)
        if txn.ends_session:
            self._session_ends(txn.session)

    def _session_ends(self, session: int) -> None:
        self.model.end_session(session)
        gone = self.model.of_session(session)
        if gone is not None:
            self._record("BecomeInactive", gone.name)
            self.model.become_inactive(gone.name)

    def _by(self, txn: Txn) -> str:
        return self.owners.get(txn.session, f"session {txn.session:#x}")

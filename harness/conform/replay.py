"""The transactions of one table as steps of the model, until one that it cannot take."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from harness.conform.entries import Entry, Part, Quorum, UnreadableError, read_last_parts
from harness.conform.model import Departure, Model, Replica, Unmodelled
from harness.conform.txnlog import Change, Did, Txn

FEW = 8
LAST_PART_BACK = "LastPartBack"
REMOVE_AHEAD = "RemoveAhead"
COUNTED_WITHOUT = "CountedWithout"
KEEP_FAILED = "KeepFailed"
INSERT_INACTIVE = "InsertInactive"
DEPARTURES = {
    LAST_PART_BACK: "last_part went back",
    REMOVE_AHEAD: "a part went while the merged one that covers it was yet to come",
    COUNTED_WITHOUT: "a replica that a quorum counted did not have the part, or lost it",
    KEEP_FAILED: "a replica became active with a part that had failed",
    INSERT_INACTIVE: "a replica that was not active, or lost, inserted",
}
"""Known ones of the server, each a step that is counted, and behind which the replay goes on."""
_EVERYBODY = "all (multiple leaders Ok)"
"""What servers since 20.5 write in place of a leader's name, lest an older one lead."""
_OWN = frozenset({"is_active", "log_pointer", "parts", "queue"})
"""Nodes of a replica that only itself writes."""


@dataclass(frozen=True, slots=True)
class Step:
    """One transaction, by the model's names for what it does."""

    zxid: int
    time_ms: int
    actions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stopped:
    """Where and why the replay ended early."""

    step: Step
    why: str
    changes: tuple[Change, ...]
    """The transaction's, those of this table."""
    unmodelled: bool
    """The model has no such step, so that nothing is said against it."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """What became of one table's trace."""

    root: str
    steps: int
    """Transactions that are steps of the model."""
    actions: Counter[str]
    stopped: Stopped | None
    before: tuple[Step, ...]
    """The last few steps that were taken."""

    @property
    def departures(self) -> dict[str, int]:
        """The known departures of the server that were seen, and how many times."""
        return {name: self.actions[name] for name in DEPARTURES if self.actions[name]}


def tables(txns: Iterable[Txn]) -> tuple[str, ...]:
    """The paths of the replicated tables that the trace sees made, in that order."""
    made = (c.path for txn in txns for c in txn.changes if c.did is Did.CREATE)
    return tuple(
        dict.fromkeys(path.removesuffix("/replicas") for path in made if path.endswith("/replicas"))
    )


def replay(root: str, txns: Sequence[Txn]) -> Replayed:
    """Takes every transaction of a table from its making to its end, or to where it is dropped."""
    run = _Run(root)
    counts: Counter[str] = Counter()
    taken: list[Step] = []
    stopped = None
    for txn in _until_dropped(root, txns):
        changes = tuple(c for c in txn.changes if c.path.startswith(f"{root}/"))
        if not changes and not txn.ends_session:
            continue
        run.did = []
        why, unmodelled = None, False
        try:
            run.take(txn, changes)
        except Departure as departure:
            why = str(departure)
        except (Unmodelled, UnreadableError) as other:
            why, unmodelled = str(other), True
        step = Step(txn.zxid, txn.time_ms, tuple(run.did))
        if why is not None:
            stopped = Stopped(step, why, changes, unmodelled)
            break
        if run.did:
            taken.append(step)
            counts.update(action.split(" ")[0] for action in run.did)
    return Replayed(root, len(taken), counts, stopped, tuple(taken[-FEW:]))


def _until_dropped(root: str, txns: Sequence[Txn]) -> Sequence[Txn]:
    """Dropping a table takes its nodes away one by one, which is no step of the protocol: the
    trace ends where the first replica that is dropped says that it is no longer active."""
    alive: dict[str, int] = {}
    prefix = f"{root}/replicas/"
    for at, txn in enumerate(txns):
        for change in txn.changes:
            if change.did is not Did.DELETE or not change.path.startswith(prefix):
                continue
            name, _, what = change.path[len(prefix) :].partition("/")
            if what == "is_active":
                alive[name] = at
            elif what in ("", "host", "log_pointer", "queue", "parts", "columns", "flags"):
                return txns[: alive.get(name, at)]
    return txns


@dataclass
class _Run:
    root: str
    model: Model = field(default_factory=Model)
    did: list[str] = field(default_factory=list)
    owners: dict[int, str] = field(default_factory=dict)
    """Of each session the replica, known by what only itself writes."""

    def take(self, txn: Txn, changes: tuple[Change, ...]) -> None:
        """One transaction. Order: what is written first is what the rest refers to."""
        by_path = self._net(changes)
        self._learn_owner(txn, by_path)
        self._fresh_replicas(by_path)
        self._lost(by_path)
        self._log(by_path)
        self._quorum(txn, by_path)
        self._queues(by_path)
        self._parts(by_path)
        self._activity(txn, by_path)

    def _net(self, changes: tuple[Change, ...]) -> dict[str, Change]:
        """What is left of them, by path below the table: a node that is made and deleted in one
        transaction was only a question whether it is there."""
        by_path: dict[str, Change] = {}
        for change in changes:
            path = change.path[len(self.root) + 1 :]
            made = path in by_path and by_path[path].did is Did.CREATE
            if change.did is Did.DELETE and made:
                del by_path[path]
            else:
                by_path[path] = change
        return by_path

    def _say(self, *words: object) -> None:
        self.did.append(" ".join(map(str, words)))

    def _learn_owner(self, txn: Txn, by_path: dict[str, Change]) -> None:
        for path in by_path:
            words = path.split("/")
            if words[0] == "replicas" and len(words) > 2 and words[2] in _OWN:
                self.owners[txn.session] = words[1]

    def _fresh_replicas(self, by_path: dict[str, Change]) -> None:
        for path, change in by_path.items():
            words = path.split("/")
            if change.did is Did.CREATE and len(words) == 2 and words[0] == "replicas":
                self._say("AddReplica", words[1])
                lost = by_path.get(f"{path}/is_lost")
                fresh = Replica(words[1], lost=lost is not None and lost.data == b"1")
                self.model.replicas[words[1]] = fresh

    def _lost(self, by_path: dict[str, Change]) -> None:
        for name in self.model.replicas:
            change = by_path.get(f"replicas/{name}/is_lost")
            if change is None or f"replicas/{name}" in by_path:
                continue
            if change.data == b"1":
                self._say("MarkLost", name)
                self.model.mark_lost(name)
            else:
                self._say("CloneReplica", name)
                self.model.found(name)

    def _log(self, by_path: dict[str, Change]) -> None:
        cleared = set()
        for path, change in by_path.items():
            if not path.startswith("log/log-"):
                continue
            index = int(path.removeprefix("log/log-"))
            if change.did is Did.DELETE:
                cleared.add(index)
            elif change.did is Did.CREATE:
                self._append(index, Entry.read(change.data), by_path)
        if cleared:
            self._say("ClearOldLog", *sorted(cleared))
            self.model.clear(cleared)

    def _append(self, index: int, entry: Entry, by_path: dict[str, Change]) -> None:
        name = entry.part.name if entry.part else ""
        if entry.kind != "get":
            self._say("AssignMerge" if entry.kind == "merge" else entry.kind, entry.source, name)
            self.model.append(index, entry)
            return
        if f"quorum/parallel/{name}" in by_path:
            raise Unmodelled("a parallel quorum")
        status = by_path.get("quorum/status")
        begun = Quorum.read(status.data) if status and status.did is Did.CREATE else None
        self._say("QuorumInsert" if entry.quorum > 1 else "Insert", entry.source, name)
        if not self.model.append(index, entry):
            self._say(INSERT_INACTIVE, entry.source, name)
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
            if p.startswith("quorum/failed_parts/") and change.did is Did.CREATE
        ]
        if status is None:
            if failed:
                raise Departure(f"{failed[0]} becomes failed without the end of a quorum")
            if last is not None and last.did is Did.SET:
                raise Departure("last_part changes without the end of a quorum")
        elif status.did is Did.SET:
            self._say("UpdateQuorum", self._by(txn))
            self.model.update_quorum(self.owners.get(txn.session), Quorum.read(status.data))
        elif status.did is Did.DELETE:
            if failed:
                self._say("FailedQuorum", failed[0], "by", self._by(txn))
                self.model.fail_quorum(failed[0])
            elif last is not None:
                self._say("EndQuorum", self._by(txn))
                now = read_last_parts(last.data)
                was = self.model.end_quorum(self.owners.get(txn.session), now)
                if was is not None:
                    self._say(LAST_PART_BACK, "from", was.name)
            else:
                raise Departure("a quorum vanishes and has neither ended nor failed")
        elif not any(path.startswith("log/") for path in by_path):
            raise Departure("a quorum begins without an entry of the log")

    def _queues(self, by_path: dict[str, Change]) -> None:
        for name in self.model.replicas:
            own = f"replicas/{name}/"
            queued = {
                path.removeprefix(own + "queue/"): Entry.read(change.data)
                for path, change in by_path.items()
                if path.startswith(own + "queue/") and change.did is Did.CREATE
            }
            for node, entry in list(queued.items()):
                path = f"{own}parts/{entry.part.name}" if entry.part else ""
                if path in by_path and by_path[path].did is Did.DELETE:
                    del by_path[path], queued[node]
                    self._fetch_again(name, node, entry)
            pointer = by_path.get(own + "log_pointer")
            if pointer is not None and pointer.data:
                to = int(pointer.data)
                self._say("PullLog", name, "to", to)
                self.model.pull(name, to, queued)
            elif queued:
                self._say("CloneQueue", name, len(queued))
                self.model.clone(name, queued)

    def _fetch_again(self, name: str, node: str, entry: Entry) -> None:
        assert entry.part is not None, "it asks for a part"
        self._say("FetchAgain", name, entry.part.name)
        if self.model.fetch_again(name, node, entry):
            self._say(COUNTED_WITHOUT, name, entry.part.name)

    def _parts(self, by_path: dict[str, Change]) -> None:
        for path, change in by_path.items():
            words = path.split("/")
            if words[0] != "replicas" or len(words) != 4:
                continue
            _, name, what, node = words
            replica = self.model.replicas.get(name)
            if what == "parts" and change.did is Did.CREATE:
                if replica is None or node not in replica.parts:
                    self._say("GetPart", name, node)
                    self.model.get_part(name, Part.named(node))
            elif what == "parts" and change.did is Did.DELETE:
                if self.model.undo_fetch(name, node):
                    self._say("UndoFetch", name, node)
                elif self.model.remove_ahead(name, node):
                    self._say(REMOVE_AHEAD, name, node)
                else:
                    self._say("RemovePart", name, node)
                    self.model.remove_part(name, node)
            elif what == "queue" and change.did is Did.DELETE:
                self._say("FinishEntry", name, node)
                self.model.finish(name, node)

    def _activity(self, txn: Txn, by_path: dict[str, Change]) -> None:
        for path, change in by_path.items():
            words = path.split("/")
            if words[0] == "leader_election" and len(words) == 2:
                if change.did is Did.CREATE:
                    name = change.data.decode(errors="replace")
                    if name == _EVERYBODY:
                        self.model.many_leaders = True
                    else:
                        self.model.stand(words[1], name, txn.session)
                elif change.did is Did.DELETE:
                    self.model.leaders.pop(words[1], None)
            if words[0] == "replicas" and words[2:] == ["is_active"]:
                if change.did is Did.CREATE:
                    self._say("BecomeActive", words[1])
                    for part in self.model.become_active(words[1], txn.session):
                        self._say(KEEP_FAILED, words[1], part)
                elif change.did is Did.DELETE:
                    self._say("BecomeInactive", words[1])
                    self.model.become_inactive(words[1], closing=txn.session)
        if txn.ends_session:
            self._session_ends(txn.session)

    def _session_ends(self, session: int) -> None:
        self.model.stand_down(session)
        gone = self.model.of_session(session)
        if gone is not None:
            self._say("BecomeInactive", gone.name)
            self.model.become_inactive(gone.name)

    def _by(self, txn: Txn) -> str:
        return self.owners.get(txn.session, f"session {txn.session:#x}")

"""Replays the transactions of one table as steps of the model, until a step that the model cannot
take."""

import re
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

from harness.conform import copies, forgetting, mutations
from harness.conform.coverage import Coverage, state_of
from harness.conform.entries import (
    NEW_DATA,
    REPLACE,
    LogEntry,
    MutationEntry,
    PartName,
    QuorumStatus,
    UnreadableError,
    read_last_parts,
)
from harness.conform.model import SERIAL, Model
from harness.conform.protocol import (
    COUNTED_WITHOUT,
    DEPARTURES,
    DROP_MISSED,
    END_ANOTHER,
    FAIL_COUNTED,
    FORGET_MISSED,
    INSERT_INACTIVE,
    KEEP_FAILED,
    LAST_PART_BACK,
    PART_LOST,
    REMOVE_AHEAD,
    ServerProtocol,
)
from harness.conform.replica import Replica
from harness.conform.rules import Departure, Unmodelled
from harness.conform.steps import LOGGED, STEPS
from harness.conform.txnlog import Change, ChangeKind, Txn
from harness.core.verdict import Status

FEW = 8
MULTIPLE_LEADERS = "all (multiple leaders Ok)"
"""Value that servers since 20.5 write in place of a leader's name, so that no older server becomes
leader."""
_LASTING = frozenset({"host", "log_pointer", "queue", "parts", "columns", "flags"})
"""Nodes of a replica that are deleted only with it."""
_QUORUM = re.compile(r"quorum/(status|last_part|parallel/.+|failed_parts/.+)")
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
    departed: tuple[Step, ...]
    """The first steps with a known departure of the server, at most `FEW` of each."""
    stopped: Stopped | None
    before: tuple[Step, ...]
    """The last few steps before the stop."""
    digest: str
    """SHA-256 of the steps, as hexadecimal digits."""
    elements: tuple[str, ...] = ()
    """What the steps covered (`harness.conform.coverage`), in order."""

    @property
    def departures(self) -> dict[str, int]:
        """Return the known departures of the server that occurred, and how many times."""
        return {name: self.actions[name] for name in DEPARTURES if self.actions[name]}

    @property
    def status(self) -> Status:
        """Return the status of a trace without gaps. VALID needs a step."""
        if not self.steps or (self.stopped is not None and self.stopped.unmodelled):
            return Status.UNKNOWN
        return Status.INVALID if self.stopped or self.departures else Status.VALID


_OF_DATABASES: Final = "/max_log_ptr"
"""Node that a Replicated database has, and no table."""


def tables(txns: Iterable[Txn]) -> tuple[str, ...]:
    """Return the paths of the replicated tables that the trace creates, in that order. Replicated
    databases have replicas and a log as well, of statements."""
    made = [c.path for txn in txns for c in txn.changes if c.kind is ChangeKind.CREATE]
    roots = (path.removesuffix("/replicas") for path in made if path.endswith("/replicas"))
    databases = {path.removesuffix(_OF_DATABASES) for path in made if path.endswith(_OF_DATABASES)}
    return tuple(dict.fromkeys(root for root in roots if root not in databases))


def replay(root: str, txns: Iterable[Txn], protocol: ServerProtocol) -> Replayed:
    """Replay every transaction of a table from its creation to the end of the trace, or to where
    the table is dropped, on the model of its servers' protocol."""
    table = TableReplay(root, protocol)
    for txn in txns:
        table.take(txn)
    return table.result()


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


@dataclass
class TableReplay:
    """The replay of one table, a transaction at a time."""

    root: str
    protocol: ServerProtocol
    model: Model = field(init=False)
    actions: list[str] = field(default_factory=list)
    """Steps of the current transaction."""
    owners: dict[int, str] = field(default_factory=dict)
    """The replica of each session, known from the nodes that only the replica writes."""
    over: bool = False
    """True after a stop, or when the table was dropped: nothing more is taken."""
    coverage: Coverage = field(default_factory=Coverage)
    _retired: dict[str, bool] = field(default_factory=dict)
    """For each replica, false from when it says that it is no longer active."""
    _steps: int = 0
    _counts: Counter[str] = field(default_factory=Counter)
    _departed: list[Step] = field(default_factory=list)
    _stopped: Stopped | None = None
    _before: deque[Step] = field(default_factory=lambda: deque(maxlen=FEW))
    _digest: Any = field(default_factory=sha256)

    def __post_init__(self) -> None:
        self.model = Model(self.protocol)

    def result(self) -> Replayed:
        """Return the result up to here."""
        return Replayed(
            self.root,
            self._steps,
            self._counts.copy(),
            tuple(self._departed),
            self._stopped,
            tuple(self._before),
            self._digest.hexdigest(),
            tuple(sorted(self.coverage.elements)),
        )

    def take(self, txn: Txn) -> Sequence[str]:
        """Take the next transaction of the trace. Return the names of the departures in it, with
        "" for one that is not known."""
        changes = tuple(c for c in txn.changes if c.path.startswith(f"{self.root}/"))
        if self._ends(changes) or self.over or not (changes or txn.ends_session):
            return ()
        self.actions = []
        before = state_of(self.model)
        try:
            self._take(txn, changes)
        except (Departure, Unmodelled, UnreadableError) as why:
            step = Step(txn.zxid, txn.time_ms, tuple(self.actions))
            unmodelled = not isinstance(why, Departure)
            self._stopped = Stopped(step, str(why), changes, unmodelled)
            self.over = True
            return () if unmodelled else ("",)
        if not self.actions:
            return ()
        step = Step(txn.zxid, txn.time_ms, tuple(self.actions))
        names = [action.split(" ")[0] for action in self.actions]
        found = [name for name in names if name in DEPARTURES]
        if any(self._counts[name] < FEW for name in found):
            self._departed.append(step)
        assert set(names) <= STEPS | DEPARTURES.keys(), "docs and summaries list every name"
        self._steps += 1
        self._counts.update(names)
        self.coverage.take(before, self.actions, self.model)
        self._before.append(step)
        self._digest.update("\n".join((*self.actions, "")).encode())
        return found

    def _ends(self, changes: tuple[Change, ...]) -> bool:
        """Return whether a replica is being dropped, which ends the trace. It says that it is no
        longer active, then removes its nodes one by one, parts first. That is no step of the
        protocol, so that a stop at one of these is forgotten."""
        for change in changes:
            words = change.path[len(self.root) + 1 :].split("/")
            if words[0] != "replicas":
                continue
            if words[2:] == ["is_active"]:
                self._retired[words[1]] = change.kind is not ChangeKind.DELETE or self.over
            elif change.kind is not ChangeKind.DELETE:
                continue
            elif len(words) == 2 or (len(words) == 3 and words[2] in _LASTING):
                if not self._retired.get(words[1], True):
                    self._stopped = None
                self.over = True
        return self.over

    def _take(self, txn: Txn, changes: tuple[Change, ...]) -> None:
        """Take one transaction. Changes are taken in an order in which each refers only to earlier
        ones."""
        by_path = net_changes(self.root, changes)
        self._learn_owner(txn, by_path)
        self._fresh_replicas(by_path)
        self._lost(by_path)
        self._log(txn, by_path)
        self._quorum(txn, by_path)
        self._queues(by_path)
        self._parts(txn, by_path)
        self._mutations(by_path)
        self._forgotten(by_path)
        self._activity(txn, by_path)

    def _record(self, *words: object) -> None:
        self.actions.append(" ".join(map(str, words)))

    def _record_departure(self, kind: str, *words: object) -> None:
        """Record a departure of the server. Raises Departure for one that is not known of it."""
        self._record(kind, *words)
        if kind not in self.protocol.departures:
            who = f"a departure that is not known of ClickHouse {self.protocol.name}"
            raise Departure(f"{DEPARTURES[kind].text}: {who}")

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
                lost, start = (by_path.get(f"{path}/{one}") for one in ("is_lost", "log_pointer"))
                fresh = Replica(words[1], lost=lost is not None and lost.data == b"1")
                if start is not None and start.data:  # simulated servers make it with the replica
                    fresh.pointer = int(start.data)
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

    def _log(self, txn: Txn, by_path: dict[str, Change]) -> None:
        cleared = set()
        for path, change in by_path.items():
            if not path.startswith("log/log-"):
                continue
            index = int(path.removeprefix("log/log-"))
            if change.kind is ChangeKind.DELETE:
                cleared.add(index)
            elif change.kind is ChangeKind.CREATE:
                self._append(index, LogEntry.read(change.data), txn.session, by_path)
        if cleared:
            self._record("ClearOldLog", *sorted(cleared))
            self.model.clear_log(cleared)

    def _append(
        self, index: int, entry: LogEntry, session: int, by_path: dict[str, Change]
    ) -> None:
        name = entry.part.name if entry.part else ""
        if entry.kind not in NEW_DATA:
            names = [part.name for part in entry.copies]
            what = [name] if entry.part else names or [str(entry.alter_version)]
            self._record(LOGGED.get(entry.kind, entry.kind), entry.source, *what)
            self.model.append(index, entry)
            if entry.kind == REPLACE:
                copies.receive(self.model, entry, self._registered(entry.source, by_path), session)
            return
        begun = {
            node: QuorumStatus.read(by_path[f"quorum/{node}"].data)
            for node in (SERIAL, f"parallel/{name}")
            if f"quorum/{node}" in by_path
        }
        step = "AttachPart" if entry.kind == "attach" else "Insert"
        self._record("QuorumInsert" if entry.quorum > 1 else step, entry.source, name)
        if not self.model.append(index, entry):
            self._record_departure(INSERT_INACTIVE, entry.source, name)
        self.model.insert(entry, begun, self._registered(entry.source, by_path), session)

    @staticmethod
    def _registered(name: str, by_path: dict[str, Change]) -> set[str]:
        """Return the parts of a replica that a transaction names."""
        mine = f"replicas/{name}/parts/"
        return {path.removeprefix(mine) for path in by_path if path.startswith(mine)}

    def _quorum(self, txn: Txn, by_path: dict[str, Change]) -> None:
        of = {path.removeprefix("quorum/"): c for path, c in by_path.items() if _QUORUM.match(path)}
        failed = [
            node.removeprefix("failed_parts/")
            for node, change in of.items()
            if node.startswith("failed_parts/") and change.kind is ChangeKind.CREATE
        ]
        last = of.get("last_part")
        pending = {n: c for n, c in of.items() if n == SERIAL or n.startswith("parallel/")}
        if not pending and failed:
            raise Departure(f"{failed[0]} fails, but no quorum ends")
        if SERIAL not in pending and last is not None and last.kind is ChangeKind.SET:
            raise Departure("last_part changes, but no quorum ends")
        for node, change in pending.items():
            if change.kind is ChangeKind.SET:
                self._record("UpdateQuorum", self._by(txn))
                status = QuorumStatus.read(change.data)
                self.model.update_quorum(self.owners.get(txn.session), node, status)
            elif change.kind is ChangeKind.DELETE:
                self._quorum_ends(txn, node, failed, last)
            elif not any(path.startswith("log/") for path in by_path):
                raise Departure("a quorum begins without a log entry")

    def _quorum_ends(self, txn: Txn, node: str, failed: list[str], last: Change | None) -> None:
        if failed:
            self._record("FailedQuorum", failed[0], "by", self._by(txn))
            if self.model.fail_quorum(failed[0], node):
                self._record_departure(FAIL_COUNTED, failed[0])
            return
        if node == SERIAL and last is None:
            raise Departure(
                "the quorum status is deleted, but the quorum has neither ended nor failed"
            )
        self._record("EndQuorum", self._by(txn))
        owner = self.owners.get(txn.session)
        named = {} if node != SERIAL or last is None else read_last_parts(last.data)
        meant = self.model.end_another(owner, node, named)
        if meant is not None:
            self._record_departure(END_ANOTHER, self._by(txn), meant.name)
        part = meant or self.model.end_quorum(owner, node)
        if named:
            was = self.model.set_last(part, named)
            if was is not None:
                self._record_departure(LAST_PART_BACK, self._by(txn), "from", was.name)

    def _mutations(self, by_path: dict[str, Change]) -> None:
        for path, change in by_path.items():
            match path.split("/"):
                case ["mutations", node] if change.kind is ChangeKind.CREATE:
                    mutation = MutationEntry.read(change.data)
                    self._record("Mutation", mutation.source, node)
                    mutations.add(self.model, node, mutation)
                case ["replicas", name, "mutation_pointer"] if change.data:
                    self._record("FinishMutations", name, "to", change.data.decode())
                    mutations.finish(self.model, name, change.data.decode())

    def _forgotten(self, by_path: dict[str, Change]) -> None:
        for path, change in by_path.items():
            match path.split("/"):
                case ["block_numbers", partition] if change.kind is ChangeKind.DELETE:
                    forgetting.forget(self.model, partition)

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
            made = pointer is not None and f"replicas/{name}" in by_path
            if pointer is not None and pointer.data and not made:
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
            self._record_departure(COUNTED_WITHOUT, name, entry.part.name)

    def _parts(self, txn: Txn, by_path: dict[str, Change]) -> None:
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
                counted = self.model.undo_fetch(name, node)
                if counted is not None:
                    self._record("UndoFetch", name, node)
                    if counted:
                        self._record_departure(COUNTED_WITHOUT, name, node)
                elif self.model.remove_ahead(name, node):
                    self._record_departure(REMOVE_AHEAD, name, node)
                else:
                    self._record("RemovePart", name, node)
                    self.model.remove_part(name, node)
            elif what == "queue" and change.kind is ChangeKind.DELETE:
                lost = self.model.give_up(name, node)
                if lost is not None:
                    self._record_departure(PART_LOST, name, lost)
                    continue
                missed = forgetting.missed(self.model, name, node)
                self._record("FinishEntry", name, node)
                for part in self.model.finish_entry(name, node, txn.session):
                    self._record_departure(DROP_MISSED, name, part)
                if missed is not None:
                    self._record_departure(FORGET_MISSED, name, missed.name)

    def _activity(self, txn: Txn, by_path: dict[str, Change]) -> None:
        for path, change in by_path.items():
            words = path.split("/")
            if words[0] == "leader_election" and len(words) == 2:
                if change.kind is ChangeKind.CREATE:
                    name = change.data.decode(errors="replace")
                    if name == MULTIPLE_LEADERS:
                        self.model.lead_all()
                    else:
                        self.model.add_candidate(words[1], name, txn.session)
                elif change.kind is ChangeKind.DELETE:
                    self.model.leaders.pop(words[1], None)
            if words[0] == "replicas" and words[2:] == ["is_active"]:
                if change.kind is ChangeKind.CREATE:
                    self._record("BecomeActive", words[1])
                    for part in self.model.become_active(words[1], txn.session):
                        self._record_departure(KEEP_FAILED, words[1], part)
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

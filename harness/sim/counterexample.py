"""Histories of the explorer's counterexamples, which checkers judge like any other.

A history has what clients can see: inserts and how they ended, what reads returned, and which
replica was down meanwhile. A model's read returns one record; here a read returns the set that its
replica shows at that moment, as a select does. One client makes all reads, on one replica after the
other.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from harness.core.history import History
from harness.core.op import NEMESIS, Kind, Op, Process, Value
from harness.core.topology import Topology
from harness.native.explorer import Step

STEP_NS = 1_000_000
READER = 0
"""Process of every read. Process i inserts record i."""
_FAULT_BEGINS = {"BecomeInactive": "inactive", "Die": "dead"}
_FAULT_ENDS = frozenset({"BecomeActive", "Restart", "RestartOld"})
_ONCE = {"LoseSession": "session-lost"}
_SHOWS_AT_THE_END = frozenset({"replication", "zero-copy"})
"""Models without reads of their own; the final state of each replica is read instead."""


def topology_of(steps: Sequence[Step]) -> Topology:
    """Return the topology of a counterexample: its replicas and one ZooKeeper server."""
    return Topology.of(replicas=len(steps[0].visible), keepers=1)


def history_of(model: str, steps: Sequence[Step]) -> History:
    """Return the history of these steps, one millisecond each; the first has the initial state."""
    writer = _Writer()
    for at, step in enumerate(steps):
        writer.time_ns = at * STEP_NS
        writer.step(step, steps[at - 1] if at else step)
    if model in _SHOWS_AT_THE_END:
        writer.time_ns += STEP_NS
        for replica, visible in enumerate(steps[-1].visible):
            if visible:
                writer.call(READER, "read", _node(replica), None, tuple(visible))
    return History(writer.ops)


@dataclass
class _Writer:
    ops: list[Op] = field(default_factory=list)
    time_ns: int = 0
    pending: dict[int, str] = field(default_factory=dict)
    """Node of each quorum insert in flight, by record."""
    doubtful: set[int] = field(default_factory=set)
    """Records whose insert waits for the answer to its commit, or has ended without."""
    ended: set[int] = field(default_factory=set)
    """Records whose quorum has ended."""
    faults: dict[int, int] = field(default_factory=dict)
    """Number of the fault of each replica that is down."""
    fault: int = 0
    reading: str | None = None
    """Node of the read in progress, of models whose reads take several steps."""

    def step(self, step: Step, before: Step) -> None:
        """Add what clients see of a step; `before` is the step before."""
        if step.action is None:
            return
        node = _node(step.replica)
        record = (step.other or 0) + 1
        if step.action in ("QuorumInsert", "TakeNumber"):
            self.pending[record] = node
            self.op(record, Kind.INVOKE, "insert", node, record)
        elif step.action in ("EndQuorum", "FailedQuorum", "LoseAnswer", "LookUp"):
            self.insert(step.action, record)
        elif step.action == "Insert":
            self.call(record, "insert", node, record, record)
        elif step.action == "BeginRead":
            self.reading = node
            self.op(READER, Kind.INVOKE, "read", node, None)
        elif step.action in ("Read", "RefuseRead"):
            assert step.replica is not None, "a read is at a replica"
            if self.reading is None:
                self.op(READER, Kind.INVOKE, "read", node, None)
            self.reading = None
            if step.action == "Read":
                self.op(READER, Kind.OK, "read", node, tuple(before.visible[step.replica]))
            else:
                lacks = "the replica lacks the part that last_part names"
                self.op(READER, Kind.FAIL, "read", node, None, lacks)
        else:
            self.trouble(step, node)

    def insert(self, action: str, record: int) -> None:
        """Add how a quorum insert ends. One without an answer to its commit ends only once its
        replica has looked it up; until then, or if it never does, its outcome is unknown."""
        if action == "LoseAnswer":
            self.doubtful.add(record)
        elif action == "FailedQuorum":
            if record not in self.doubtful:
                why = "the quorum failed: no replica with the part is active"
                self.op(record, Kind.FAIL, "insert", self.pending.pop(record), record, why)
            return
        elif action == "EndQuorum":
            self.ended.add(record)
        else:
            self.doubtful.discard(record)
        if record in self.ended - self.doubtful and record in self.pending:
            self.op(record, Kind.OK, "insert", self.pending.pop(record), record)

    def trouble(self, step: Step, node: str) -> None:
        name = step.action or ""
        at = step.replica or 0
        if name in _FAULT_BEGINS:
            # A server whose session ended cannot say how its inserts end.
            self.doubtful.update(r for r, at_node in self.pending.items() if at_node == node)
            if self.reading == node:
                self.reading = None
                self.op(READER, Kind.FAIL, "read", node, None, "the session of the replica ended")
            self.fault += 1
            self.faults[at] = self.fault
            self.nemesis(_FAULT_BEGINS[name], "begin", self.fault, node)
        elif name in _FAULT_ENDS:
            self.nemesis("back", "end", self.faults.pop(at), node)
        elif name in _ONCE:
            self.fault += 1
            self.nemesis(_ONCE[name], "once", self.fault, node)

    def nemesis(self, f: str, edge: str, fault: int, node: str) -> None:
        value: Value = {"fault": fault, "edge": edge, "name": f, "text": node}
        self.call(NEMESIS, f, None, value, value)

    def call(
        self, process: Process, f: str, node: str | None, invoked: Value, returned: Value
    ) -> None:
        self.op(process, Kind.INVOKE, f, node, invoked)
        self.op(process, Kind.OK, f, node, returned)

    def op(
        self,
        process: Process,
        kind: Kind,
        f: str,
        node: str | None,
        value: Value,
        error: str | None = None,
    ) -> None:
        key = None if process == NEMESIS else 0
        self.ops.append(
            Op(
                index=len(self.ops), process=process, kind=kind, f=f, time_ns=self.time_ns,
                value=value, key=key, node=node, error=error,
            )
        )  # fmt: skip


def _node(replica: int | None) -> str:
    return f"ch{(replica or 0) + 1}"


def rows_of(steps: Sequence[Step]) -> Iterator[tuple[str, ...]]:
    """Yield the rows of a table for people: number, actor, action, and the columns of the state
    after it; a column that did not change is empty."""
    before: dict[str, str] = {}
    for at, step in enumerate(steps):
        now = dict(step.state)
        cells = tuple("" if before.get(name) == text else text for name, text in step.state)
        yield (str(at), *_words(step), *cells)
        before = now


def _words(step: Step) -> tuple[str, str]:
    if step.action is None:
        return "", "at the beginning"
    if step.action in ("FetchMetadata", "FetchWhole", "FetchFromDisk", "CloneReplica"):
        return _node(step.replica), f"{step.action} from {_node(step.other)}"
    what = "" if step.other is None else f" {step.other + 1}"
    who = "" if step.replica is None else _node(step.replica)
    return who, f"{step.action}{what}"

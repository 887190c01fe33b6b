"""The calls at rest of a reproduction, and what the tables may have then."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from checkers.look import decode
from checkers.replication.objects import FINAL_LOOK, FINAL_STORE
from checkers.statements.calls import FINAL_ROWS, StatementCall
from checkers.statements.effects import in_tables
from checkers.statements.orders import TooManyOrdersError, final_states
from checkers.statements.steps import RowState, Sees, StatementStep
from harness.clients.sent_statement import SentStatement
from harness.core.op import Call, Done, Kind, Op
from harness.core.protocols import Context, Generator, Pending, Ready, Worker
from harness.core.topology import Topology
from harness.export.errors import NotExportableError
from harness.export.play import ANY, AwaitedClient, Play, PlayedCall, PlayStep
from harness.export.stores import listed_objects, referred_objects
from workloads.scenarios.scenario import Scenario

_FINAL_CLIENT: Final = 100
"""Number of the client that makes the calls at rest on the first replica; the next one has the next
number, as each replica is read by a client of its own."""
_CALLS_MAX: Final = 10_000
"""Number of calls at rest above which a generator is taken for one without an end."""


@dataclass(frozen=True, slots=True)
class AllowedRow:
    """What the tables may have of a row."""

    partition: int
    row: int
    states: Sequence[str]


@dataclass(frozen=True, slots=True)
class RowsLook:
    """A look at the rows of a partition in each table."""

    node: str
    partition: int
    sent: tuple[SentStatement, ...]

    @property
    def by_table(self) -> Sequence[tuple[str, SentStatement]]:
        """Return the statements with the tables' short names."""
        databases = [one.text.split(" FROM ")[1].split(".")[0] for one in self.sent]
        names = [database.rpartition("_")[2] for database in databases]
        return list(zip(names, self.sent, strict=True))


@dataclass(frozen=True, slots=True)
class ObjectsLook:
    """A look at the objects of a store, and at those to which each replica refers."""

    listed: str
    """Query for the objects."""
    referred: str
    """Query for the objects to which the replica that is asked refers."""


@dataclass(frozen=True, slots=True)
class FinalCalls:
    """Calls at rest, in order, and what is expected of rows."""

    allowed: Sequence[AllowedRow]
    looks: Sequence[RowsLook | PlayedCall]
    objects: ObjectsLook | None = None
    """Look at the objects, in place of every other."""


def final_calls(
    scenario: Scenario, topology: Topology, play: Play, *, rows: bool, content: bool, objects: bool
) -> FinalCalls:
    """Return the calls at rest; with `rows` also what the tables may have: how many copies of each
    row, or with `content` which updates each copy has; with `objects` a look at the object store
    alone. Raises NotExportableError."""
    if objects:
        store, database = topology.stores[0], f"harness_{play.statements.token}"
        look = ObjectsLook(listed_objects(store), referred_objects(database))
        return FinalCalls([], [], look)
    made = list(play.calls)
    keys = list(dict.fromkeys(call.key for call, _ in made if call.key is not None))
    calls = list(dict.fromkeys(_calls(scenario.workload.final(keys, topology.replicas), topology)))
    looks: list[RowsLook | PlayedCall] = []
    for call in calls:
        if call.f in (FINAL_STORE, FINAL_LOOK):
            continue
        if call.f == FINAL_ROWS and rows:
            assert call.key is not None, "rows are in a partition"
            looks.append(RowsLook(str(call.node), call.key, play.statements.of(call)))
            continue
        by = _FINAL_CLIENT + topology.replicas.index(str(call.node))
        looks.append(play.played(call, by, ANY))
    return FinalCalls(list(_allowed(play.steps, content)) if rows else [], looks)


def _calls(generator: Generator, topology: Topology) -> Iterator[Call]:
    """Yield the calls of a generator all of whose calls end ok, each with its node."""
    workers = tuple(Worker(n, n, node) for n, node in enumerate(topology.replicas))
    now_ns = 0
    for number in range(_CALLS_MAX):
        context = Context(time_ns=now_ns, free=workers, busy=())
        step, generator = generator.op(context)
        if isinstance(step, Pending) and step.wake_ns is not None:
            now_ns = step.wake_ns
            continue
        if not isinstance(step, Ready):
            return
        call = step.call
        node = call.node or step.worker.node
        yield Call(f=call.f, value=call.value, key=call.key, node=node)
        done = Done(Kind.OK, ())
        for kind, value in ((Kind.INVOKE, call.value), (done.kind, done.value)):
            op = Op(
                index=number,
                process=step.worker.process,
                kind=kind,
                f=call.f,
                time_ns=now_ns,
                value=value,
                key=call.key,
                node=node,
            )
            generator = generator.update(context, op)


def _allowed(steps: Sequence[PlayStep], content: bool) -> Iterator[AllowedRow]:
    """Yield what the tables may have of each row after the statements, in every order in which they
    may have taken effect. Raises NotExportableError."""
    statements = list(_statements(steps))
    rows = dict.fromkeys((key, step.call.row) for key, step in statements)
    for partition, row in rows:
        if not isinstance(row, int):
            continue
        assert partition is not None, "a row is in a partition"
        touching = [
            step for key, step in statements if key in (partition, None) and step.call.touches(row)
        ]
        try:
            states = final_states(touching, Sees.ACKNOWLEDGED)
        except TooManyOrdersError:
            raise NotExportableError(
                f"row {row} of partition {partition}: its statements have too many orders"
            ) from None
        yield AllowedRow(partition, row, sorted({_state_text(one, content) for one in states}))


def _statements(steps: Sequence[PlayStep]) -> Iterator[tuple[int | None, StatementStep]]:
    """Yield the statements with their partitions. A call has ended when the next step begins, or
    the step that waits for its client; of unknown outcome is one that need not end ok."""
    for at, step in enumerate(steps):
        if not isinstance(step, PlayedCall):
            continue
        joins = (
            later for later in range(at + 1, len(steps)) if steps[later] == AwaitedClient(step.by)
        )
        last = at if step.wait else next(joins, len(steps))
        end = 2 * last + 1 if step.ends == "ok" else None
        call = decode(_op(step.call), StatementCall)
        yield step.call.key, StatementStep(at, 2 * at, end, step.call.node, call)


def _op(call: Call) -> Op:
    return Op(index=0, process=0, kind=Kind.INVOKE, f=call.f, time_ns=0, value=call.value)


def _state_text(state: RowState, content: bool) -> str:
    """Return what the tables have of a row, such as "t=2" of two copies; with `content` as arrays
    of the numbers of their updates, such as "t=[]*2+[7]"."""
    tables = (
        f"{table}={_copies_text(copies) if content else len(copies)}"
        for table, copies in in_tables(state)
    )
    return " ".join(tables) or "nothing"


def _copies_text(copies: Sequence[tuple[int, ...]]) -> str:
    groups = [(copy, copies.count(copy)) for copy in sorted(set(copies))]
    return "+".join(
        f"[{','.join(map(str, copy))}]{f'*{count}' if count > 1 else ''}" for copy, count in groups
    )

"""Scripts: calls and faults by named clients, one after the other or each at its time.

A `Script` has steps, each with the end that it must have. Only events move it on, so that folding
it over a stored history shows how far a run got, and why it broke off. A `Timetable` has times in
place of ends. Both are pure values, as every generator.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar, TypeAlias

import msgspec
from msgspec.structs import replace as replace_struct

from harness.core.history import History
from harness.core.op import NEMESIS, Call, Kind, Op, Process
from harness.core.protocols import Context, Generator, Pending, Ready, Step, Worker
from harness.generators.steps import EXHAUSTED, NEMESIS_NUMBER, PENDING, nanoseconds


@dataclass(frozen=True, slots=True)
class Do:
    """One call: of the client `by`, which roams, if the call names a node; else of the nemesis."""

    call: Call
    by: int = 0
    ends: tuple[Kind, ...] = (Kind.OK,)
    """The ends that it may have; any other breaks the script off."""
    wait: bool = True
    """True if the script goes on only when the call has ended; False: when it has begun."""


@dataclass(frozen=True, slots=True)
class Until:
    """A call that is repeated until its end is `seen`."""

    call: Call
    seen: Callable[[Op], bool]
    by: int = 0
    tries: int = 400
    """Number of tries after which the script breaks off."""
    pause_s: float = 0.0
    """Pause between two tries."""


OWN_NAME = "{name}"


@dataclass(frozen=True, slots=True)
class ShownState:
    """A query of a server, which returns 1 when a state has come. `OWN_NAME` in it stands for what
    names of databases and paths in ZooKeeper have of the run."""

    node: str
    sql: str


@dataclass(frozen=True, slots=True)
class Rest:
    """A pause that begins with the end of the last call."""

    seconds: float
    shown: ShownState | None = None
    """The state for which it gives time, where a server can be asked: a reproduction waits for the
    state and not for the time."""


@dataclass(frozen=True, slots=True)
class Joined:
    """Wait for the end of every call that has begun, or of those of one client."""

    by: int | None = None
    """Number of the client; None: everybody."""

    def waits(self, in_flight: Sequence[tuple[Process, "Do | Until"]]) -> bool:
        """Return whether a call that it waits for is in flight."""
        clients = (step.by for _, step in in_flight if not step.call.nemesis)
        return bool(in_flight) if self.by is None else self.by in clients


@dataclass(frozen=True, slots=True)
class Then:
    """Steps that depend on what has ended so far, such as on which server leads."""

    steps: Callable[[tuple[Op, ...]], Sequence["ScriptStep"]]


ScriptStep: TypeAlias = Do | Until | Rest | Joined | Then


@dataclass(frozen=True, slots=True)
class Script:
    """The generator of a script. See `script`."""

    left: tuple[ScriptStep, ...]
    in_flight: tuple[tuple[Process, Do | Until], ...] = ()
    ended: tuple[Op, ...] = ()
    """The ends of its own calls."""
    tries: int = 0
    """Number of tries of the current step."""
    since_ns: int = 0
    """Time at which its last call ended."""
    broken: str | None = None
    """Reason why it broke off."""

    def op(self, context: Context) -> tuple[Step, Generator]:
        """Return the call of the current step, as soon as it may begin."""
        now = self._ready(context.time_ns)
        if now.broken or not now.left:
            return (PENDING if now.in_flight else EXHAUSTED), now
        step = now.left[0]
        if now._waits or (isinstance(step, Joined) and step.waits(now.in_flight)):
            return PENDING, now
        if isinstance(step, Rest):
            return Pending(now.since_ns + nanoseconds(step.seconds)), now
        assert isinstance(step, Do | Until), "the others are over at once"
        due_ns = now.since_ns + nanoseconds(step.pause_s if isinstance(step, Until) else 0)
        if now.tries and context.time_ns < due_ns:
            return Pending(due_ns), now
        worker = _worker(step, context)
        if worker is None:
            return PENDING, now
        return Ready(step.call, worker), now._begun(
            NEMESIS if worker.number < 0 else worker.process
        )

    def update(self, context: Context, event: Op) -> Generator:  # noqa: ARG002
        """Go on when a call of the script has ended."""
        return self._ready(event.time_ns)._over(event)

    def told(self, op: Op) -> "Script":
        """Return the script after an op of its history."""
        if op.kind is not Kind.INVOKE:
            return self._ready(op.time_ns)._over(op)
        now = self._ready(op.time_ns)
        step = now.left[0] if now.left and not now.broken else None
        own = isinstance(step, Do | Until) and step.call.f == op.f
        return now._begun(op.process) if own else now

    def _begun(self, process: Process) -> "Script":
        """Return the script after this process began the call of the current step."""
        step = self.left[0]
        assert isinstance(step, Do | Until), "only these have a call"
        in_flight = (*self.in_flight, (process, step))
        # A step that is repeated stays the current one.
        left = self.left if isinstance(step, Until) else self.left[1:]
        return replace(self, in_flight=in_flight, left=left)

    def _over(self, op: Op) -> "Script":
        own = [step for process, step in self.in_flight if process == op.process]
        if not own:
            return self
        after = replace(
            self,
            in_flight=tuple(e for e in self.in_flight if e[0] != op.process),
            ended=(*self.ended, op),
            since_ns=op.time_ns,
        )
        step = own[0]
        if self.broken:  # for its first reason; calls that were in flight end as they may
            return after
        if isinstance(step, Do):
            return after if op.kind in step.ends else replace(after, broken=_unlike(step, op))
        if op.kind is Kind.OK and step.seen(op):
            return replace(after, left=self.left[1:], tries=0)
        if self.tries + 1 >= step.tries:
            why = f"{op.f} on {op.node} did not show in {step.tries} tries what was waited for"
            return replace(after, broken=f"{why}; the last ended {op.kind}: {op.error or op.value}")
        return replace(after, tries=self.tries + 1)

    @property
    def _waits(self) -> bool:
        """True while a call is in flight whose end the script waits for."""
        return any(isinstance(own, Until) or own.wait for _, own in self.in_flight)

    def _ready(self, now_ns: int) -> "Script":
        """Return the script past the steps that are over without a call."""
        after = self
        while after.left and not after.broken:
            step = after.left[0]
            if isinstance(step, Then) and not after.in_flight:
                after = replace(after, left=(*step.steps(after.ended), *after.left[1:]))
            elif (isinstance(step, Joined) and not step.waits(after.in_flight)) or (
                isinstance(step, Rest)
                and not after._waits
                and now_ns >= after.since_ns + nanoseconds(step.seconds)
            ):
                after = replace(after, left=after.left[1:])
            else:
                break
        return after


def script(steps: Iterable[ScriptStep]) -> Script:
    """Return a script; it is exhausted when all steps are done or one did not end as it must."""
    return Script(tuple(steps))


def broke_off(steps: Iterable[ScriptStep], history: History) -> str | None:
    """Return why the script of this history was not played to its end; None if it was."""
    state = script(steps)
    for op in history:
        if op.process == NEMESIS and op.f == "heal":
            break
        state = state.told(op)
    if state.broken:
        return state.broken
    left = [s for s in state.left if isinstance(s, Do | Until)]
    return f"the time was over before {left[0].call.f}" if left else None


def _worker(step: Do | Until, context: Context) -> Worker | None:
    number = NEMESIS_NUMBER if step.call.nemesis else step.by
    return next((worker for worker in context.free if worker.number == number), None)


def _unlike(step: Do, op: Op) -> str:
    wanted = " or ".join(step.ends)
    where = f" on {op.node}" if op.node else ""
    return f"{op.f}{where} ended {op.kind}, {wanted} expected: {op.error or op.value}"


class TimedCall(msgspec.Struct, frozen=True):
    """Call that begins at its time, or as soon after that as its client is free."""

    at_ns: int
    """Nanoseconds since the timetable was first asked."""
    by: int
    """Number of its client, which roams, or NEMESIS_NUMBER."""
    call: Call


class Timetable(msgspec.Struct, frozen=True):
    """The generator of timed calls. See `timetable`."""

    by_worker: Mapping[int, tuple[tuple[int, TimedCall], ...]]
    """Each worker's calls, in order, with their places in the order of all calls."""
    made: Mapping[int, int]
    """Number of calls that each worker has made."""
    zero_ns: int | None = None
    """Time of the first question; None before it."""
    listens: ClassVar[bool] = False

    def op(self, context: Context) -> tuple[Step, Generator]:
        """Return the first call that is due and whose worker is free."""
        zero_ns = context.time_ns if self.zero_ns is None else self.zero_ns
        now = self if self.zero_ns is not None else replace_struct(self, zero_ns=zero_ns)
        due: list[tuple[int, TimedCall, Worker]] = []
        wake_ns: list[int] = []
        for worker in context.free:
            calls, at = self.by_worker.get(worker.number, ()), self.made.get(worker.number, 0)
            if at == len(calls):
                continue
            place, one = calls[at]
            if one.at_ns + zero_ns <= context.time_ns:
                due.append((place, one, worker))
            else:
                wake_ns.append(one.at_ns + zero_ns)
        if due:
            _, one, worker = min(due, key=lambda entry: entry[0])
            made = {**self.made, worker.number: self.made.get(worker.number, 0) + 1}
            return Ready(one.call, worker), replace_struct(now, made=made)
        # Never exhausted: the run lasts for its time limit, whatever has ended by then.
        return Pending(min(wake_ns, default=None)), now

    def update(self, context: Context, event: Op) -> Generator:  # noqa: ARG002
        """Return itself."""
        return self


def timetable(calls: Sequence[TimedCall]) -> Timetable:
    """Return a generator of these calls, which are in order of time. A call that is late because
    its client is busy delays only the client's own later calls. It is never exhausted."""
    assert all(a.at_ns <= b.at_ns for a, b in pairwise(calls)), "calls are in order of time"
    by_worker: dict[int, list[tuple[int, TimedCall]]] = {}
    for place, one in enumerate(calls):
        by_worker.setdefault(one.by, []).append((place, one))
    return Timetable({number: tuple(own) for number, own in by_worker.items()}, {})

"""A scenario's script as the steps that a reproduction makes: calls with their statements, and
commands for faults. Writers make a shell script, a test in Python, and sentences of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from checkers.replication.objects import LOOK
from harness.clients.sent_statement import SentStatement
from harness.core.op import NEMESIS, Call, Kind, Op
from harness.export.errors import NotExportableError
from harness.export.faults import (
    ARM,
    BREAK_STORE,
    FaultCommand,
    Plan,
    awaited_command,
    begin_commands,
    end_commands,
    follower_of,
)
from harness.export.silent_cluster import StatementsOfCalls
from harness.generators.script import (
    OWN_NAME,
    Do,
    Joined,
    Rest,
    ScriptStep,
    ShownState,
    Then,
    Until,
)
from workloads.scenarios.steps import Condition, Ended, HasRows, Lacks, Repeats, Shows

ANY: Final = "any"
_ENDS: Final[Mapping[bool, Mapping[bool, str]]] = {
    True: {True: ANY, False: "ok"},
    False: {True: "error"},
}
"""Word for the ends that a call may have: by whether ok is one, and whether an error is."""
_CONDITIONS: Final = (Ended, Shows, Lacks, Repeats, HasRows)


@dataclass(frozen=True, slots=True)
class Repetition:
    """How often a call is made until what it waits for has come."""

    seen: Condition
    tries: int
    pause_s: float


@dataclass(frozen=True, slots=True)
class PlayedCall:
    """A call of a client."""

    number: int
    """Its place among the calls, from 1."""
    call: Call
    by: int
    """Number of the client."""
    sent: tuple[SentStatement, ...]
    ends: str
    """Ends that it may have: ok, error or any."""
    wait: bool = True
    """Whether the next step waits for its end."""
    until: Repetition | None = None
    patience_s: float = 0
    """Time for which it waits at least."""

    @property
    def values(self) -> Sequence[int]:
        """Return the numbers that it inserts."""
        values = self.call.value if isinstance(self.call.value, tuple) else (self.call.value,)
        return [value for value in values if isinstance(value, int)]

    @property
    def timeout_s(self) -> float:
        """Return for how long it waits for an answer."""
        return max(self.patience_s, *(one.timeout_s for one in self.sent))


@dataclass(frozen=True, slots=True)
class Sleep:
    """A pause after the end of the step before it, for what no query shows."""

    seconds: float


@dataclass(frozen=True, slots=True)
class AwaitedState:
    """A wait until a query of a server returns 1."""

    shown: ShownState
    seconds: float
    """Time for which a control waits, in which the state may not come."""


@dataclass(frozen=True, slots=True)
class AwaitedClient:
    """A wait for the call of a client that was not waited for."""

    by: int


PlayStep: TypeAlias = PlayedCall | FaultCommand | Sleep | AwaitedState | AwaitedClient


@dataclass
class Play:
    """Steps so far, and what is under way."""

    statements: StatementsOfCalls
    strict: bool = False
    """Whether each call must end ok, because what is expected in the end depends on all of them."""
    patience_s: float = 0
    """Time for which calls wait at least."""
    steps: list[PlayStep] = field(default_factory=list)
    calls: list[tuple[Call, tuple[SentStatement, ...]]] = field(default_factory=list)
    """Every call with its statements; a call's number is its place, from 1."""
    followers: list[str] = field(default_factory=list)
    """Servers of ZooKeeper that must not lead."""
    _open: dict[tuple[str, object], Plan] = field(default_factory=dict)
    """Faults that have begun, by their families and numbers."""
    _in_flight: set[int] = field(default_factory=set)
    """Clients whose calls have begun and not been waited for."""
    _awaited: list[FaultCommand] = field(default_factory=list)
    """Commands that wait for faults which have begun when a message was stopped."""
    _begun: tuple[Op, ...] = ()
    """Ends of faults, as the steps that depend on them see them."""

    def add(self, steps: Sequence[ScriptStep]) -> None:
        """Add the steps of a script. Raises NotExportableError."""
        for step in steps:
            if isinstance(step, Do | Until) and step.call.nemesis:
                self._fault(step.call, isinstance(step, Until) or step.wait)
            else:
                _TABLE[type(step)](self, step)

    @property
    def has_proxies(self) -> bool:
        """Return whether the proxy makes a fault."""
        return any(isinstance(step, FaultCommand) and step.is_of_proxy for step in self.steps)

    @property
    def breaks_store(self) -> bool:
        """Return whether the proxy before the object store makes a fault."""
        return any(
            isinstance(step, FaultCommand) and step.name == BREAK_STORE for step in self.steps
        )

    @property
    def heal(self) -> Sequence[FaultCommand]:
        """Return the commands that end the faults which no step ends, and remove what proxies know
        of rules that are over: one of the same name, of the next try on these servers, is counted
        by itself."""
        ends = [one for (f, _), plan in self._open.items() for one in end_commands(f, plan)]
        of_proxy = {
            step.node: step.name
            for step in (*self.steps, *ends)
            if isinstance(step, FaultCommand) and step.is_of_proxy
        }
        left = [node for node, last in of_proxy.items() if last != "clear"]
        return [*ends, *(FaultCommand("clear", node) for node in left)]

    def played(self, call: Call, by: int, ends: str, **more: Any) -> PlayedCall:
        """Return a call with its number and statements. Raises NotExportableError."""
        sent = self.statements.of(call)
        self.calls.append((call, sent))
        return PlayedCall(len(self.calls), call, by, sent, ends, patience_s=self.patience_s, **more)

    def _fault(self, call: Call, wait: bool) -> None:
        plan = call.value
        assert isinstance(plan, Mapping), "a fault has a plan"
        f, edge, number = call.f, plan["edge"], plan["fault"]
        if edge == "end":
            self.steps += end_commands(f, self._open.pop((f, number)))
            return
        self.steps += begin_commands(f, plan)
        if edge == "begin":
            self._open[f, number] = plan
        if awaited := awaited_command(f, plan):
            self._awaited.append(awaited)
            if wait:
                self._await_faults()
        if f == "partition":
            follower = follower_of(plan)
            plan = {**plan, "follower": follower}
            self.followers = [*dict.fromkeys([*self.followers, follower])]
        self._begun = (*self._begun, _fault_op(f, plan))

    def _do(self, step: Do) -> None:
        if step.call.f == LOOK:
            return  # it changes nothing, and objects are looked at when all is at rest
        self._await_client(step.by)
        ok, error = Kind.OK in step.ends, any(end is not Kind.OK for end in step.ends)
        ends = "ok" if self.strict and ok else _ENDS[ok][error]
        self.steps.append(self.played(step.call, step.by, ends, wait=step.wait))
        if not step.wait:
            self._in_flight.add(step.by)

    def _until(self, step: Until) -> None:
        self._await_client(step.by)
        if not isinstance(step.seen, _CONDITIONS):
            raise NotExportableError("it waits for what its statements do not show")
        until = Repetition(step.seen, step.tries, step.pause_s)
        self.steps.append(self.played(step.call, step.by, ANY, until=until))

    def _rest(self, step: Rest) -> None:
        last = self.steps[-1] if self.steps else None
        if step.shown:
            sql = step.shown.sql.replace(OWN_NAME, self.statements.token)
            self.steps.append(AwaitedState(replace(step.shown, sql=sql), step.seconds))
        elif not isinstance(last, FaultCommand) or last.name != ARM:
            # The proxy has its rule when the command ends.
            self.steps.append(Sleep(step.seconds))

    def _joined(self, step: Joined) -> None:
        clients = self._in_flight if step.by is None else self._in_flight & {step.by}
        if step.by is None:
            self._await_faults()
        self.steps += [AwaitedClient(client) for client in sorted(clients)]
        self._in_flight -= clients

    def _await_faults(self) -> None:
        """Wait for the faults that begin with a message."""
        self.steps += self._awaited
        self._awaited.clear()

    def _then(self, step: Then) -> None:
        last = self.steps[-1] if self.steps else None
        if not self._begun or not isinstance(last, FaultCommand) or last.name != "cut_off":
            raise NotExportableError("how it goes on depends on how a call ended")
        self.add(step.steps(self._begun))

    def _await_client(self, by: int) -> None:
        """Wait for the client's call before its next one."""
        self._joined(Joined(by))


_TABLE: Final[Mapping[type, Callable[[Play, Any], None]]] = {
    Do: Play._do,
    Until: Play._until,
    Rest: Play._rest,
    Joined: Play._joined,
    Then: Play._then,
}


def _fault_op(f: str, value: Mapping[str, Any]) -> Op:
    return Op(index=0, process=NEMESIS, kind=Kind.OK, f=f, time_ns=0, value=value)

"""A scenario's script as lines of a shell script, a table from the kind of step to its lines."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode

from harness.clients.sent_statement import SentStatement
from harness.core.op import NEMESIS, Call, Kind, Op
from harness.export.errors import NotExportableError
from harness.export.faults import Plan, end_lines, fault_lines, fault_text, follower_of
from harness.export.silent_cluster import StatementsOfCalls
from harness.generators.script import Do, Joined, Rest, ScriptStep, Then, Until
from workloads.scenarios.steps import Ended, HasRows, Lacks, Repeats, Shows

_ENDS: Final[Mapping[bool, Mapping[bool, str]]] = {
    True: {True: "any", False: "ok"},
    False: {True: "error"},
}
"""Word for the ends that a call may have: by whether ok is one, and whether an error is."""
_CONDITIONS: Final[Mapping[type, Callable[[Any], str]]] = {
    Ended: lambda _: "ok",
    Shows: lambda seen: " ".join(["shows", *map(str, sorted(seen.values))]),
    Lacks: lambda seen: f"lacks {seen.value}",
    Repeats: lambda seen: f"repeats {seen.value}",
    HasRows: lambda seen: "some" if seen.some else "none",
}
"""Words for the conditions of a call that is repeated, as the shell's function `seen` takes
them."""
_WORDS: Final[Mapping[type, str]] = {
    Ended: "succeeds",
    Shows: "returns what was inserted",
    Lacks: "lacks a row",
    Repeats: "returns a row twice",
    HasRows: "changes",
}
"""The same for a reader."""


@dataclass
class ScriptLines:
    """Lines of the steps so far, and what is under way."""

    statements: StatementsOfCalls
    strict: bool = False
    """Whether each call must end ok, because what is expected in the end depends on all of them."""
    lines: list[str] = field(default_factory=list)
    calls: list[tuple[Call, tuple[SentStatement, ...]]] = field(default_factory=list)
    """Every call with its statements; a call's number is its place, from 1."""
    told: list[str] = field(default_factory=list)
    """The steps for a reader."""
    followers: list[str] = field(default_factory=list)
    """Servers of ZooKeeper that must not lead."""
    _open: dict[object, tuple[str, Plan]] = field(default_factory=dict)
    """Faults that have begun, by their numbers."""
    _in_flight: set[int] = field(default_factory=set)
    """Clients whose calls have begun and not been waited for."""
    _begun: tuple[Op, ...] = ()
    """Ends of faults, as the steps that depend on them see them."""

    def add(self, steps: Sequence[ScriptStep]) -> None:
        """Add the lines of steps. Raises NotExportableError."""
        for step in steps:
            if isinstance(step, Do | Until) and step.call.nemesis:
                self._fault(step.call)
            else:
                _TABLE[type(step)](self, step)

    @property
    def heal(self) -> Sequence[str]:
        """Return the lines that end the faults which no step ends."""
        return [line for f, plan in self._open.values() for line in end_lines(f, plan)]

    def call_line(self, call: Call, by: int, ends: str, repeat: str = "") -> str:
        """Return the words that make a call: variables, what repeats it, a number, and its
        statements."""
        sent = self.statements.of(call)
        self.calls.append((call, sent))
        values = call.value if isinstance(call.value, tuple) else (call.value,)
        numbers = " ".join(str(v) for v in values if isinstance(v, int))
        words = [
            f"client={by} node={call.node} key={'' if call.key is None else call.key}",
            f"values={quote(numbers)} seconds={max(one.timeout_s for one in sent):.0f}",
            f"ends={ends} {repeat}call {len(self.calls)} {call.f}",
        ]
        statements = [f"{quote(settings_of(one))} {quote(one.text)}" for one in sent]
        return " \\\n    ".join([" ".join(words), *statements])

    def _fault(self, call: Call) -> None:
        plan = call.value
        assert isinstance(plan, Mapping), "a fault has a plan"
        f, edge, number = call.f, plan["edge"], plan["fault"]
        if edge == "end":
            self._make(end_lines(*self._open.pop(number)))
            return
        self._make(fault_lines(f, plan))
        if edge == "begin":
            self._open[number] = (f, plan)
        if f == "partition":
            follower = follower_of(plan)
            plan = {**plan, "follower": follower}
            self.followers = [*dict.fromkeys([*self.followers, follower])]
        self._begun = (*self._begun, _fault_op(f, plan))

    def _make(self, commands: Sequence[str]) -> None:
        self.lines += commands
        self.told += map(fault_text, commands)

    def _tell(self, more: str) -> None:
        """Tell a reader of the last call."""
        _, sent = self.calls[-1]
        for one in sent:
            settings = ", ".join(f"{name} = {value}" for name, value in one.settings.items())
            notes = "; ".join(filter(None, [settings, more]))
            self.told.append(f"{one.node}: `{one.text}`{f' ({notes})' if notes else ''}")

    def _do(self, step: Do) -> None:
        self._await_client(step.by)
        ok, error = Kind.OK in step.ends, any(end is not Kind.OK for end in step.ends)
        ends = "ok" if self.strict and ok else _ENDS[ok][error]
        line = self.call_line(step.call, step.by, ends)
        self._tell("" if step.wait else "the next step does not wait for it")
        if step.wait:
            self.lines.append(f"{line} || return")
        else:
            self.lines.append(f"{line} &")
            self.lines.append(f"begun {step.by} $!")
            self._in_flight.add(step.by)

    def _until(self, step: Until) -> None:
        self._await_client(step.by)
        repeat = f"until_seen {step.tries} {step.pause_s:g} {quote(_condition(step.seen))} "
        self.lines.append(f"{self.call_line(step.call, step.by, 'any', repeat)} || return")
        self._tell(f"repeated until it {_WORDS[type(step.seen)]}")

    def _rest(self, step: Rest) -> None:
        self.lines.append(f"sleep {step.seconds:g}")
        self.told.append(f"wait {step.seconds:g} s")

    def _joined(self, step: Joined) -> None:
        clients = self._in_flight if step.by is None else self._in_flight & {step.by}
        for client in sorted(clients):
            self.lines.append(f"join {client} || return")
            self.told.append("wait for the statement that was not waited for")
        self._in_flight -= clients

    def _then(self, step: Then) -> None:
        if not self.lines or not self._begun or not _is_fault_line(self.lines[-1]):
            raise NotExportableError("how it goes on depends on how a call ended")
        self.add(step.steps(self._begun))

    def _await_client(self, by: int) -> None:
        """Wait for the client's call before its next one."""
        self._joined(Joined(by))


_TABLE: Final[Mapping[type, Callable[[ScriptLines, Any], None]]] = {
    Do: ScriptLines._do,
    Until: ScriptLines._until,
    Rest: ScriptLines._rest,
    Joined: ScriptLines._joined,
    Then: ScriptLines._then,
}


def _is_fault_line(line: str) -> bool:
    return line.startswith("cut_off ")


def _condition(seen: object) -> str:
    """Return the words of a condition. Raises NotExportableError."""
    if type(seen) not in _CONDITIONS:
        raise NotExportableError("it waits for what its statements do not show")
    return _CONDITIONS[type(seen)](seen)


def _fault_op(f: str, value: Mapping[str, Any]) -> Op:
    return Op(index=0, process=NEMESIS, kind=Kind.OK, f=f, time_ns=0, value=value)


def settings_of(statement: SentStatement) -> str:
    """Return the settings of a statement as the parameters of an address."""
    return urlencode({name: str(value) for name, value in statement.settings.items()})


def quote(text: str) -> str:
    """Return a word for the shell, with double quotes where they suffice."""
    if "'" in text and not set(text) & set('"$`\\!'):
        return f'"{text}"'
    return "'" + text.replace("'", "'\\''") + "'"

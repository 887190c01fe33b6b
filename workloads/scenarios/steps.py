"""Building blocks of scripts: calls on a table of sets, and faults that begin and end."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from harness.core.op import Call, Json, Kind, Op
from harness.generators.script import Do, Rest, ScriptStep, Until

REPLICAS = ("ch1", "ch2", "ch3")
KILL = "kill-clickhouse-one"
MESSAGES = "message-hold"
"""Family of rules for single messages that a script gives (`nemesis/message_rules.py`)."""
SESSION_GONE_S = 7.0
"""Seconds after which the ZooKeeper session of a killed replica has expired (5 s) and others have
noticed."""
LOG_TRUNCATED_S = 3.0
"""The log is cut every second."""


@dataclass(frozen=True, slots=True)
class ScriptedFault:
    """One fault of a script."""

    begins: tuple[ScriptStep, ...]
    ends: Do


def fault(f: str, name: str, number: int = 1, **plan: Json) -> ScriptedFault:
    """Return a fault of a script; `number` identifies it, and `plan` is what its family takes."""
    begin = _edge(f, "begin", name, number, **plan)
    return ScriptedFault((Do(begin),), Do(_edge(f, "end", name, number)))


def message(name: str, node: str, number: int = 1) -> ScriptedFault:
    """Return a fault of messages that has begun when it has stopped one, so that the calls that
    send it come next, and a `Joined` waits for it."""
    begin = _edge(name, "begin", f"{name}-one", number, nodes=[node])
    end = _edge(name, "end", f"{name}-one", number)
    return ScriptedFault((Do(begin, wait=False), Rest(0.5)), Do(end))


def lurking(name: str, *nodes: str, number: int = 1) -> ScriptedFault:
    """Return a fault of messages that has begun when the proxies of these nodes have its rule."""
    return fault(name, f"{name}-one", number, nodes=list(nodes), lurks=True)


def killed(*nodes: str, number: int = 1) -> ScriptedFault:
    """Return the fault in which replicas are killed, and started again at its end."""
    return fault("kill", KILL, number, nodes=list(nodes))


COMMIT = ("/harness/", "/log/log-")
"""Words of the transaction that commits an insert."""


def held(do: str, number: int, node: str, op: str, words: Sequence[str], skip: int = 0) -> Do:
    """Return the step in which a proxy holds back a request to ZooKeeper that has these words,
    after so many of them, awaits it, or releases it or cuts its connection, as if the thread that
    sends it were slow."""
    rule: dict[str, Json] = {"fault": number, "edge": "once", "name": MESSAGES}
    rule |= {"do": do, "rule": "held", "node": node, "channel": "zookeeper", "side": "request"}
    rule |= {"op": op, "words": [*words], "skip": skip, "alone": True}
    return Do(Call(f=MESSAGES, nemesis=True, value=rule))


def once(f: str, number: int, name: str, nodes: Sequence[str]) -> Call:
    """Return the call of a fault that is over when it returns."""
    return _edge(f, "once", name, number, nodes=list(nodes))


def _edge(f: str, edge: str, name: str, number: int, **plan: Json) -> Call:
    return Call(f=f, nemesis=True, value={"fault": number, "edge": edge, "name": name, **plan})


PENDING = fault("stop-fetches", "stop-fetches-minority", nodes=["ch2", "ch3"])
"""Fault that keeps inserts on ch1, so that their quorum is pending."""


def insert(value: int, node: str, key: int = 0) -> Call:
    """Return an insert of one value."""
    return Call(f="insert", value=value, key=key, node=node)


def read(node: str, key: int = 0) -> Call:
    """Return a read of every value of the key."""
    return Call(f="read", key=key, node=node)


def everywhere(value: int, nodes: Sequence[str] = REPLICAS) -> tuple[ScriptStep, ...]:
    """Return steps that end when every replica returns the value."""
    return tuple(Until(read(node), shows(value), pause_s=0.05) for node in nodes)


@dataclass(frozen=True, slots=True)
class Ended:
    """The condition that a call ended ok."""

    def __call__(self, op: Op) -> bool:
        """Return whether it did."""
        return op.kind is Kind.OK


@dataclass(frozen=True, slots=True)
class Shows:
    """The condition that a read returned all of these values."""

    values: frozenset[int]

    def __call__(self, op: Op) -> bool:
        """Return whether the end of a read meets the condition."""
        return isinstance(op.value, tuple) and self.values <= set(op.value)


@dataclass(frozen=True, slots=True)
class Lacks:
    """The condition that a read was answered without a value."""

    value: int

    def __call__(self, op: Op) -> bool:
        """Return whether the end of a read meets the condition."""
        return isinstance(op.value, tuple) and self.value not in op.value


@dataclass(frozen=True, slots=True)
class Repeats:
    """The condition that a read returned a value more than once."""

    value: int

    def __call__(self, op: Op) -> bool:
        """Return whether the end of a read meets the condition."""
        return isinstance(op.value, tuple) and op.value.count(self.value) > 1


@dataclass(frozen=True, slots=True)
class HasRows:
    """The condition that a read was answered and returned some value, or none."""

    some: bool = True

    def __call__(self, op: Op) -> bool:
        """Return whether the end of a read meets the condition."""
        return op.kind is Kind.OK and isinstance(op.value, tuple) and bool(op.value) is self.some


Condition: TypeAlias = Ended | Shows | Lacks | Repeats | HasRows
"""Conditions that can be written down, in a script's file or for a shell."""


def shows(*values: int) -> Shows:
    """Return the condition that a read returned all of these values."""
    return Shows(frozenset(values))

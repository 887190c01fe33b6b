"""Whether the cluster came to rest, as the run recorded it, and which replicas there are.

The run writes, as ops of the process "nemesis":
  f="quiesce", value {"pending": [reasons], "replicas": {node: {"queue": entries, "to_check":
  parts}}}, where no reason is left when the cluster came to rest, and "to_check" are parts that
  the replica has yet to check, for which the run does not wait: one of an insert of unknown outcome
  is due five minutes later, and nothing wakes 18.16.1 to do it then
  (ReplicatedMergeTreePartCheckThread::run returns when no part is due, and is not scheduled again);
  f="observe", kind ok, the same value, for a run that looks again later.
The last of each counts, "replicas" may be left out, and so may "pending" of an observation.
Other entries of these objects are for people.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from checkers.per_history import per_history
from harness.core.history import History
from harness.core.op import Kind, Op


@dataclass(frozen=True, slots=True)
class Rest:
    """The end of a run, before its final reads."""

    nodes: tuple[str, ...]
    """Every replica that a client's call names or the run lists, ascending."""
    pending: tuple[str, ...] | None
    """Why it had not come to rest; () when it had; None when the run never said."""
    at_ns: int | None
    """When it said so."""
    to_check: Mapping[str, int] = field(default_factory=dict)
    """By replica that has any: parts that it has yet to check."""

    @property
    def reached(self) -> bool:
        """The run says that nothing was left to do."""
        return self.pending == ()


@per_history
def rest_of(history: History) -> Rest:
    """Read off the last "quiesce" and the last "observe" of the history."""
    quiesce = observe = None
    for op in history.nemesis:
        if op.kind is Kind.INVOKE:
            continue
        if op.f == "quiesce":
            quiesce = op
        elif op.f == "observe" and op.kind is Kind.OK:
            observe = op
    told = [op for op in (quiesce, observe) if op is not None]
    pending = tuple(reason for op in told for reason in _reasons(op))
    return Rest(
        _nodes(history, told),
        pending if told else None,
        max((op.time_ns for op in told), default=None),
        {
            node: count
            for op in told
            for node, state in _replicas(op).items()
            if isinstance(count := state.get("to_check"), int)
        },
    )


def _reasons(op: Op) -> tuple[str, ...]:
    value = op.value if isinstance(op.value, Mapping) else {}
    pending = value.get("pending")
    said: tuple[str, ...] = ()
    if isinstance(pending, list | tuple):
        said = tuple(str(reason) for reason in pending)
    elif op.f == "quiesce":
        # An observation may leave the reasons to quiesce; a quiesce without them is no rest.
        said = (f"quiesce ended {op.kind.value}: {op.error}",)
    return said + tuple(
        f"{node} has {state['queue']} queue entries"
        for node, state in _replicas(op).items()
        if state.get("queue")
    )


def _replicas(op: Op) -> dict[str, Mapping[str, object]]:
    """By node; a state that is no object (a replica that gave an error) is empty."""
    value = op.value if isinstance(op.value, Mapping) else {}
    replicas = value.get("replicas")
    if not isinstance(replicas, Mapping):
        return {}
    return {
        str(node): state if isinstance(state, Mapping) else {} for node, state in replicas.items()
    }


def _nodes(history: History, told: list[Op]) -> tuple[str, ...]:
    named = frozenset(history.columns.nodes())
    return tuple(sorted(named.union(*(_replicas(op) for op in told))))

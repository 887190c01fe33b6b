"""State of the cluster at rest, as the run recorded it: what was pending, and which replicas exist.

The run writes, as ops of the process "nemesis":
  f="quiesce", value {"pending": [reasons], "replicas": {node: {"queue": entries, "to_check":
  parts}}}, where no reason is left when the cluster came to rest, and "to_check" are parts that
  the replica has yet to check, for which the run does not wait: one of an insert of unknown outcome
  is due five minutes later, and nothing wakes 18.16.1 to do it then
  (ReplicatedMergeTreePartCheckThread::run returns when no part is due, and is not scheduled again);
  f="observe", kind ok, the same value, for a run that looks again later.
The last of each counts, "replicas" may be left out, and so may "pending" of an observation.
Other entries of these objects are for human readers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from checkers.phrasing import listed
from harness.core.history import History, memoize_per_history
from harness.core.op import Kind, Op


@dataclass(frozen=True, slots=True)
class Quiescence:
    """State of the cluster at the end of a run, before its final reads."""

    nodes: tuple[str, ...]
    """Every replica that a client's call names or the run lists, ascending."""
    pending: tuple[str, ...] | None
    """Reasons why the cluster had not come to rest; () if it had; None if none was recorded."""
    at_ns: int | None
    """Time at which the run recorded that."""
    to_check: Mapping[str, int] = field(default_factory=dict)
    """Number of parts that each replica has yet to check, without replicas that have none."""

    @property
    def reached(self) -> bool:
        """Return whether the run recorded that the cluster came to rest."""
        return self.pending == ()

    @property
    def doubts(self) -> list[str]:
        """Return the reason why the cluster was not at rest, in a list; empty if it was."""
        return [] if self.reached else [f"not at rest: {listed(self.pending or ('not recorded',))}"]


@memoize_per_history
def quiescence_of(history: History) -> Quiescence:
    """Return the state from the last "quiesce" and the last "observe" of the history."""
    quiesce = observe = None
    for op in history.nemesis:
        if op.kind is Kind.INVOKE:
            continue
        if op.f == "quiesce":
            quiesce = op
        elif op.f == "observe" and op.kind is Kind.OK:
            observe = op
    reports = [op for op in (quiesce, observe) if op is not None]
    pending = tuple(reason for op in reports for reason in _reasons(op))
    return Quiescence(
        _nodes(history, reports),
        pending if reports else None,
        max((op.time_ns for op in reports), default=None),
        {
            node: count
            for op in reports
            for node, state in _replicas(op).items()
            if isinstance(count := state.get("to_check"), int)
        },
    )


def _reasons(op: Op) -> tuple[str, ...]:
    value = op.value if isinstance(op.value, Mapping) else {}
    pending = value.get("pending")
    reasons: tuple[str, ...] = ()
    if isinstance(pending, list | tuple):
        reasons = tuple(str(reason) for reason in pending)
    elif op.f == "quiesce":
        # An observation may leave out the reasons; a quiesce without them did not reach rest.
        reasons = (f"quiesce ended {op.kind.value}: {op.error}",)
    return reasons + tuple(
        f"{node} has {state['queue']} queue entries"
        for node, state in _replicas(op).items()
        if state.get("queue")
    )


def _replicas(op: Op) -> dict[str, Mapping[str, object]]:
    """Return the states by node. A state that is not an object, such as an error, is empty."""
    value = op.value if isinstance(op.value, Mapping) else {}
    replicas = value.get("replicas")
    if not isinstance(replicas, Mapping):
        return {}
    return {
        str(node): state if isinstance(state, Mapping) else {} for node, state in replicas.items()
    }


def _nodes(history: History, reports: list[Op]) -> tuple[str, ...]:
    named = frozenset(history.columns.nodes())
    return tuple(sorted(named.union(*(_replicas(op) for op in reports))))

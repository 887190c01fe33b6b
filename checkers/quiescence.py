"""State of the cluster at rest, as the run recorded it: what was pending, and which replicas exist.

The run writes, as ops of the process "nemesis", `RestReport`: "quiesce", where no reason is left
when the cluster came to rest, and "observe", kind ok, for a run that looks again later. The last of
each counts, and an observation may leave out the reasons. The run does not wait for parts that a
replica has yet to check: one of an insert of unknown outcome is due five minutes later, and nothing
wakes 18.16.1 to do it then (ReplicatedMergeTreePartCheckThread::run returns when no part is due,
and is not scheduled again).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from checkers.look import decode
from checkers.phrasing import listed
from harness.core.history import History, memoize_per_history
from harness.core.op import Kind, Op


class ReplicaAtRest(msgspec.Struct, frozen=True):
    """State of a replica, of which a workload records what its checkers need."""

    queue: int | UnsetType = UNSET
    """Number of its queue entries."""
    to_check: int | UnsetType = UNSET
    """Number of parts that it has yet to check."""
    active: dict[str, Any] | UnsetType = UNSET
    """Its active parts, each with its rows and a hash of them."""
    keepers: list[str] | UnsetType = UNSET
    """ZooKeeper servers that it may connect to."""
    ensemble: int | UnsetType = UNSET
    """Number of ZooKeeper servers in the ensemble."""
    shard: int | UnsetType = UNSET
    broken_files: int | UnsetType = UNSET
    """Number of files of a Distributed table that it will never send."""
    unfinished: dict[str, dict[str, list[str]]] | UnsetType = UNSET
    """By table: the mutations that are not done, though no part is left to change, each with those
    of its partitions that have no numbers in ZooKeeper."""


class RestReport(msgspec.Struct, frozen=True):
    """What the run recorded when it waited for rest."""

    pending: list[str] | UnsetType = UNSET
    """Reasons why the cluster had not come to rest."""
    replicas: dict[str, ReplicaAtRest | str] | UnsetType = UNSET
    """State of each replica, or an error in its place."""

    @property
    def states(self) -> dict[str, ReplicaAtRest]:
        """Return the states by node; that of a replica that gave an error is empty."""
        return {
            node: ReplicaAtRest() if isinstance(state, str) else state
            for node, state in (self.replicas or {}).items()
        }


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
    ops = [op for op in (quiesce, observe) if op is not None]
    reports = [_report(op) for op in ops]
    pending = [
        reason for op, report in zip(ops, reports, strict=True) for reason in _reasons(op, report)
    ]
    states = [pair for report in reports for pair in report.states.items()]
    named = frozenset(history.columns.nodes())
    return Quiescence(
        tuple(sorted(named.union(node for node, _ in states))),
        tuple(pending) if ops else None,
        max((op.time_ns for op in ops), default=None),
        {node: state.to_check for node, state in states if state.to_check is not UNSET},
    )


def states_at_rest(history: History) -> tuple[Op, Mapping[str, ReplicaAtRest]] | None:
    """Return the last "quiesce" that has the replicas, and the state of each by node; None without
    any."""
    for op in reversed(history.nemesis):
        if op.f == "quiesce" and op.kind is not Kind.INVOKE:
            report = _report(op)
            if report.replicas is not UNSET:
                return op, report.states
    return None


def _report(op: Op) -> RestReport:
    return RestReport() if op.value is None else decode(op, RestReport)


def _reasons(op: Op, report: RestReport) -> list[str]:
    reasons: list[str] = []
    if report.pending is not UNSET:
        reasons = report.pending
    elif op.f == "quiesce":
        # An observation may leave out the reasons; a quiesce without them did not reach rest.
        reasons = [f"quiesce ended {op.kind.value}: {op.error}"]
    queues = [(node, state.queue) for node, state in report.states.items() if state.queue]
    return [*reasons, *(f"{node} has {queue} queue entries" for node, queue in queues)]

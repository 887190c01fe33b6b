"""Explains rows of a Distributed table that never arrive."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from checkers.phrasing import number, seconds
from checkers.quiescence import states_at_rest
from checkers.replication.distributed import inserts_by_value, replicas_by_shard
from checkers.sets.key_sets import FINAL_READ, read_values
from checkers.triage.breaks import kills
from checkers.triage.evidence import Evidence
from checkers.triage.repairs import Repair, answers_by_node
from harness.core.history import Fault, History
from harness.core.op import Kind

LOST: Final = "lost-distributed-insert"


def shard_repairs(history: History, _: Evidence) -> Iterator[Repair]:
    """Yield the acknowledged rows that are in a file which their sender has given up, because their
    receiver was killed: no more rows than there are such files."""
    shards, finals = replicas_by_shard(history), answers_by_node(history, FINAL_READ)
    if any(node not in finals for nodes in shards.values() for node in nodes):
        return
    counts = {node: Counter(read_values(end)) for node, end in finals.items()}
    seen = states_at_rest(history)
    broken = {n: s.broken_files or 0 for n, s in seen[1].items()} if seen is not None else {}
    left = dict(broken)
    for value, pair in inserts_by_value(history).items():
        sender, end = str(pair.invoke.node), pair.end
        if pair.kind is not Kind.OK or end is None:
            continue
        for nodes in shards.values():
            if any(counts[node][value] for node in nodes) or not left.get(sender):
                continue
            killed = _receiver_killed(history, nodes, pair.invoke.time_ns)
            if killed is None:
                continue
            node, fault = killed
            why = (
                f"{sender} acknowledged value {value} at {seconds(end.time_ns)}, {node}, which was "
                f"to have it, was killed at {seconds(fault.begin_ns)}, and {sender} has given up "
                f"{number(broken[sender], 'file')}"
            )
            left[sender] -= 1
            for replica in nodes:
                yield Repair(finals[replica].index, LOST, why, partial(_with_row, value=value))


def _receiver_killed(
    history: History, nodes: Sequence[str], from_ns: int
) -> tuple[str, Fault] | None:
    return next(
        ((n, one) for n in nodes for one in kills(history, n) if one.begin_ns >= from_ns), None
    )


def _with_row(values: tuple[int, ...], *, value: int) -> tuple[int, ...]:
    return (*values, value)

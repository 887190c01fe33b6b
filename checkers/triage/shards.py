"""Explains rows of a Distributed table that never arrive."""

from collections import Counter
from collections.abc import Iterator

from checkers.phrasing import number, seconds
from checkers.quiescence import states_at_rest
from checkers.replication.distributed import inserts_by_value, replicas_by_shard
from checkers.sets.key_sets import FINAL_READ, read_values
from checkers.triage.events import kills
from checkers.triage.evidence import Evidence
from checkers.triage.repairs import Repair, add, answers_by_node
from harness.core.history import History
from harness.core.op import Kind


def lost_distributed_insert(history: History, _: Evidence) -> Iterator[Repair]:
    """Yield the acknowledged rows that no replica of a shard has, no more than there are files
    which their sender has given up; a replica that was to have the row was killed after its insert
    began."""
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
            later = kills(history).since(pair.invoke.time_ns)
            killed = [kill for node in nodes for kill in later.on(node)]
            if any(counts[n][value] for n in nodes) or not left.get(sender) or not killed:
                continue
            why = (
                f"{sender} acknowledged value {value} at {seconds(end.time_ns)}, {killed[0].node}, "
                f"which was to have it, was killed at {seconds(killed[0].begin_ns)}, and {sender} "
                f"has given up {number(broken[sender], 'file')}"
            )
            left[sender] -= 1
            for replica in nodes:
                change = add([value])
                yield Repair(finals[replica].index, "lost-distributed-insert", why, change)

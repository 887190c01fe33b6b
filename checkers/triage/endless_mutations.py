"""Explains mutations that never end because a partition was forgotten before they did.

A mutation has a number in each partition that there is, and ends when no insert with a lower number
is under way in any of them. A replica asks ZooKeeper for these inserts; of a partition that
ZooKeeper has forgotten it gets no answer, and fails to end this mutation and all later ones.
"""

from collections.abc import Iterator

from checkers.phrasing import seconds
from checkers.statements.calls import Effect
from checkers.statements.endings import unfinished_of
from checkers.statements.partitions import partitions_of
from checkers.triage.evidence import Evidence
from checkers.triage.repairs import Repair, remove
from harness.core.history import History


def endless_mutation(history: History, _: Evidence) -> Iterator[Repair]:
    """Yield the mutations that a replica shows at rest if the first of them has a number in a
    partition that ZooKeeper has not, and that was forgotten by a statement of the run."""
    forgets = {
        (step.call.table, str(key)): step
        for key, partition in partitions_of(history)[0].items()
        for step in partition.statements
        if step.call.effect is Effect.FORGET
    }
    for one in unfinished_of(history):
        first = min(one.mutations)
        for partition in one.mutations[first]:
            step = forgets.get((one.table, partition))
            if step is None:
                continue
            pair = history.pairs[step.place]
            why = (
                f"mutation {first} of {one.table} has a number in partition {partition}, which op "
                f"#{pair.invoke.index} {pair.invoke.f} had ZooKeeper forget at "
                f"{seconds(pair.invoke.time_ns)}"
            )
            change = remove(one.table, "replicas", one.node, "unfinished")
            yield Repair(one.op.index, "endless-mutation", why, change)
            break

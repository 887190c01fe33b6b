"""Checks that mutations end.

A mutation is done when every part that it applies to is changed, and no insert is under way that
has a lower number. At rest no mutation is left that is not done: whoever waits for one, as an ALTER
with `mutations_sync = 1` does, would wait for good.

Violated:
unfinished  a table is at rest, no part is left that a mutation has to change, and it is not done on
            some replica, for as long as the run looks

Doubtful: a replica that was not asked, or a cluster that was not at rest.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from msgspec import UNSET

from checkers.conclusion import Findings, unjudged
from checkers.phrasing import listed, number
from checkers.quiescence import quiescence_of, states_at_rest
from harness.core.dialect import Mechanism
from harness.core.history import History
from harness.core.op import Op
from harness.core.verdict import Verdict


class Unfinished(NamedTuple):
    """Mutations of a table that are not done on a replica, though no part is left to change."""

    op: Op
    """Look at rest."""
    node: str
    table: str
    mutations: Mapping[str, list[str]]
    """By mutation, ascending: those of its partitions that have no numbers in ZooKeeper."""


def unfinished_of(history: History) -> Iterator[Unfinished]:
    """Yield what the last look at rest shows of each replica and table."""
    seen = states_at_rest(history)
    for node, state in sorted(seen[1].items()) if seen else ():
        for table, mutations in sorted((state.unfinished or {}).items()):
            assert seen is not None, "there is a state"
            yield Unfinished(seen[0], node, table, dict(sorted(mutations.items())))


class MutationEnds:
    """Judges the mutations that the replicas show at rest ("quiesce", "replicas",
    "unfinished")."""

    name = "mutation-ends"
    needs = (Mechanism.FORGET_PARTITION,)

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs rest, and a look at the mutations of every replica."""
        seen = states_at_rest(history)
        if seen is None:
            return unjudged(self.name, "nobody looked")
        found = Findings(self.name)
        found.doubts += quiescence_of(history).doubts
        silent = [node for node, state in sorted(seen[1].items()) if state.unfinished is UNSET]
        if silent:
            found.add_doubt(f"no mutations of {listed(silent)}")
        for one in unfinished_of(history):
            count, first = number(len(one.mutations), "mutation"), min(one.mutations)
            text = (
                f"{one.table}: {one.node} has {count}, from {first} on, that have nothing left to "
                "change and are not done"
            )
            found.add_anomaly("unfinished", text, one.op)
        return found.verdict(
            checked=len(seen[1]) - len(silent),
            held=f"no mutation is left on {number(len(seen[1]), 'replica')}",
        )

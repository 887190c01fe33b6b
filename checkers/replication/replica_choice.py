"""Checks that a Distributed table reads from the replica with the fewest errors.

A call "route" reads how many errors the asked server has counted of each replica, then selects
through the Distributed table to learn which hosts answer, and reads the counts again; its own shard
is left out.

Violated: a host answered although another replica of its shard had fewer errors ("not-fewest").
Doubtful: no host was chosen among replicas with different counts. A shard whose counts changed
during the call is not judged, because nobody knows when the choice was made:
    before: ch3 0, ch4 1     the query asks ch3, fails, and asks ch4     after: ch3 1, ch4 1
"""

from collections.abc import Iterable, Mapping

import msgspec

from checkers.conclusion import Findings
from checkers.look import decode
from checkers.phrasing import during, number, seconds, where
from harness.core.dialect import Mechanism
from harness.core.history import History
from harness.core.op import Op
from harness.core.verdict import Verdict

ROUTE = "route"


class Route(msgspec.Struct, frozen=True):
    """Look at which replicas a Distributed table reads from."""

    hosts: list[str]
    """Hosts that answered the query."""
    before: dict[str, dict[str, int]]
    """Errors that the server has counted of each host, by shard, before the query."""
    after: dict[str, dict[str, int]]


class ReplicaChoice:
    """Judges the calls "route"."""

    name = "replica-choice"
    needs = (Mechanism.REPLICA_ERRORS,)

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs a choice among replicas with different counts."""
        found = Findings(self.name, kinds=["not-fewest"])
        choices = 0
        for invoke, end in history.answered(ROUTE):
            for host, counts in _choices(end):
                choices += len(set(counts.values())) > 1
                if counts[host] > min(counts.values()):
                    _add(found, history, invoke, end, host, counts)
        return found.verdict(
            checked=choices,
            nothing="no replica had more errors than another",
            held=f"{number(choices, 'choice')} among replicas with different counts, each the "
            "lowest",
            figures={"choices": choices},
        )


def _choices(end: Op) -> Iterable[tuple[str, Mapping[str, int]]]:
    """Yield each host that answered, with the counts of its shard."""
    route = decode(end, Route)
    for shard, counts in route.before.items():
        if counts == route.after.get(shard):
            yield from ((host, counts) for host in route.hosts if host in counts)


def _add(
    found: Findings, history: History, invoke: Op, end: Op, host: str, counts: Mapping[str, int]
) -> None:
    errors = ", ".join(f"{node} {count:,}" for node, count in sorted(counts.items()))
    text = (
        f"op #{end.index} {end.f}{where(end)} was answered by {host} at "
        f"{seconds(end.time_ns)}; errors: {errors}{during(history, end.time_ns)}"
    )
    found.add_anomaly("not-fewest", text, invoke, end)

"""Checks that a Distributed table reads from the replica with the fewest errors."""

from collections.abc import Iterable, Mapping
from typing import Any

from checkers.conclusion import conclude
from checkers.phrasing import FEW, during, number, seconds, where
from harness.core.dialect import Mechanism
from harness.core.history import History
from harness.core.op import Op
from harness.core.verdict import Anomaly, Verdict

ROUTE = "route"


class ReplicaChoice:
    """Judges the calls "route": {"hosts": [hosts that answered a query through the Distributed
    table], "before", "after": {shard: {host: errors_count}}}, the counts of the server that was
    asked, without its own shard.

    INVALID: a host answered although another replica of its shard had fewer errors ("not-fewest").
    A shard whose counts changed during the query is not judged.
    """

    name = "replica-choice"
    needs = (Mechanism.REPLICA_ERRORS,)

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs a choice among replicas with different counts."""
        choices = 0
        broken: list[Anomaly] = []
        for invoke, end in history.answered(ROUTE):
            for host, counts in _choices(end):
                choices += len(set(counts.values())) > 1
                if counts[host] > min(counts.values()):
                    broken.append(_anomaly(history, invoke, end, host, counts))
        summary = (
            f"{number(choices, 'choice')} among replicas with different counts, each the lowest"
        )
        return Verdict(
            checker=self.name,
            status=conclude(broken, checked=choices),
            summary=broken[0].text
            if broken
            else summary
            if choices
            else "no replica had more errors than another",
            checked=choices,
            anomalies=tuple(broken[:FEW]),
            figures={"choices": choices, "anomalies": {"not-fewest": len(broken)}},
        )


def _choices(end: Op) -> Iterable[tuple[str, Mapping[str, int]]]:
    """Yield each host that answered, with the counts of its shard."""
    value: Any = end.value
    for shard, counts in value["before"].items():
        if counts != value["after"].get(shard):
            continue
        for host in value["hosts"]:
            if host in counts:
                yield str(host), counts


def _anomaly(
    history: History, invoke: Op, end: Op, host: str, counts: Mapping[str, int]
) -> Anomaly:
    errors = ", ".join(f"{node} {count:,}" for node, count in sorted(counts.items()))
    return Anomaly(
        kind="not-fewest",
        text=(
            f"op #{end.index} {end.f}{where(end)} was answered by {host} at "
            f"{seconds(end.time_ns)}; errors: {errors}{during(history, end.time_ns)}"
        ),
        ops=(invoke.index, end.index),
        time_ns=end.time_ns,
    )

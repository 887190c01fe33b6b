"""Clones that refuse to start: the signature `suspicious-clone`, of calls and of reads."""

from collections.abc import Mapping

from checkers.health import complaints_of
from checkers.phrasing import seconds
from checkers.triage.events import Event, kills, lost_periods, tables
from harness.core.history import History, memoize_per_history


@memoize_per_history
def refused_clones(history: History) -> Mapping[str, Event]:
    """Return the replicas that were lost, were killed while they cloned another one or later, have
    not become active since, and say that they refuse to start with the parts that they have: each
    with its kill, whose detail is the evidence, a sentence."""
    found: dict[str, Event] = {}
    for node, said in complaints_of(history).items():
        active = [one.begin_ns for table in tables(history) for one in table.of("active").on(node)]
        kill = kills(history).on(node).since(max(active, default=0)).first
        lost = lost_periods(history).on(node).before(kill.begin_ns).last if kill else None
        if kill and lost and "refused-start" in said:
            why = (
                f"{node} was lost from {seconds(lost.begin_ns)} on, was killed at "
                f"{seconds(kill.begin_ns)}, and has not become active since: "
                f"{said['refused-start'].text}"
            )
            found[node] = Event(kill.kind, kill.begin_ns, kill.end_ns, node, detail=why)
    return found

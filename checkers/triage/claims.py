"""Explains two replicas that claim at one time to lead, by who led in ZooKeeper."""

from collections.abc import Iterator
from typing import Final

from checkers.conclusion import mapping_of
from checkers.phrasing import seconds
from checkers.replication.leaders import LEADS
from checkers.triage.events import facts, pauses
from checkers.triage.evidence import Evidence
from checkers.triage.missing import LATE_NS
from checkers.triage.repairs import Repair, put
from harness.core.history import History

RESUMED_NS: Final = 1_000_000_000 + LATE_NS
"""Time within which a replica that is resumed looks at its session, see
`zookeeper_session_expiration_check_period`."""


def two_leaders(history: History, _: Evidence) -> Iterator[Repair]:
    """Yield the claims of a replica that led before, was paused while another one began to lead,
    and claims to lead at most a second after its resume."""
    terms = facts(history, "leads")
    for invoke, end in history.answered(LEADS):
        node, before = str(invoke.node), terms.until(invoke.time_ns)
        term = before.last
        if not mapping_of(end).get("leads") or term is None or not before.on(node):
            continue
        pause = (
            pauses(history)
            .on(node)
            .maybe_at(term.begin_ns)
            .ended_since(invoke.time_ns - RESUMED_NS)
            .over.first
        )
        if pause is not None and term.node not in ("", "*", node):
            why = (
                f"{term.node} led from {seconds(term.begin_ns)} on, and {node}, which had led "
                f"before and was paused until {seconds(pause.end_ns)}, claims to lead at "
                f"{seconds(end.time_ns)}"
            )
            yield Repair(end.index, "two-leaders", why, put(False, "leads"))

"""Explains two replicas that claim at one time to lead, by who led in ZooKeeper."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from checkers.conclusion import mapping_of
from checkers.phrasing import seconds
from checkers.replication.leaders import LEADS
from checkers.triage.breaks import nodes_in
from checkers.triage.evidence import Evidence, facts_of_tables
from checkers.triage.reads import LATE_NS
from checkers.triage.repairs import Repair
from harness.core.history import Fault, History
from harness.core.op import Kind

TWO: Final = "two-leaders"
_PAUSE: Final = "pause"
CHECK_NS: Final = 1_000_000_000
"""Time between two looks of a replica at its session, see
`zookeeper_session_expiration_check_period`."""


def claim_repairs(history: History, _: Evidence) -> Iterator[Repair]:
    """Yield the claims of a replica that had led, was paused until another one led, and claims to
    lead within a second after its resume."""
    terms = [
        (at_ns, str(rest[0]))
        for facts in facts_of_tables(history, frozenset({"leads"}))
        for at_ns, _, rest in facts
    ]
    for pair in history.pairs if terms else ():
        if pair.invoke.f != LEADS or pair.kind is not Kind.OK or pair.end is None:
            continue
        node = str(pair.invoke.node)
        before = [term for term in terms if term[0] <= pair.invoke.time_ns]
        if not mapping_of(pair.end).get("leads") or not before or before[-1][1] in ("", "*", node):
            continue
        at_ns, leader = before[-1]
        fault = _paused(history, node, at_ns, pair.invoke.time_ns)
        if fault is None or fault.end_ns is None or node not in {name for _, name in before}:
            continue
        why = (
            f"{leader} led from {seconds(at_ns)} on, and {node}, which had led before and was "
            f"paused until {seconds(fault.end_ns)}, claims to lead at {seconds(pair.end.time_ns)}"
        )
        yield Repair(pair.end.index, TWO, why, partial(_without_claim))


def _paused(history: History, node: str, at_ns: int, claim_ns: int) -> Fault | None:
    """Return the pause of a replica during which another one began to lead, and that ended at most
    a second before a claim."""
    return next(
        (
            fault
            for fault in history.faults
            if fault.name.startswith(_PAUSE)
            and node in nodes_in(fault.text)
            and fault.invoked_ns <= at_ns
            and fault.end_ns is not None
            and fault.end_ns >= at_ns
            and claim_ns - fault.end_ns <= CHECK_NS + LATE_NS
        ),
        None,
    )


def _without_claim(value: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**value, "leads": False}

"""Signatures of rows that are gone since ZooKeeper was put back to an older copy.

ZooKeeper forgot the row's part: the part was registered after the copy was made. A replica goes on
reading such a part until it starts again. Each replica that had the part must have started since,
and say in its log that it set aside a part which ZooKeeper does not know. What ZooKeeper's log says
later is not needed: numbers of transactions come twice, so that the record lacks some.
"""

from collections.abc import Callable, Iterator
from typing import Final

from checkers.forgotten import Rewind, rewinds
from checkers.health import complaints_of
from checkers.phrasing import listed, seconds
from checkers.triage.accused_rows import AccusedRow
from checkers.triage.events import Events, acknowledged_ns, calls, kills
from harness.core.rows import NEVER_NS

_SET_ASIDE: Final = "unexpected-part"
"""What a server says of itself that has set aside a part which ZooKeeper does not know."""


def rewound_insert(accused: AccusedRow) -> str:
    """Return how ZooKeeper forgot the row's part, and gave its number to another one: a replica
    that had the row's part got a part of that name once more; or a replica that had it not inserted
    another row of the partition since, for which ZooKeeper counts from the copy on."""
    for rewind, holds, why in _forgotten(accused):
        again = accused.facts(accused.source, "hold").since(rewind.end_ns)
        for hold in holds:
            if twice := again.on(hold.node).about(hold.part).first:
                return f"{why}; {hold.node} got another {hold.part} at {seconds(twice.begin_ns)}"
        for row, later in accused.violation.inserts.items():
            call = accused.pair(later)
            since = call.invoke.time_ns > rewind.end_ns and acknowledged_ns(call) < NEVER_NS
            if since and later.call.table == accused.source and not holds.on(str(later.node)):
                at = seconds(call.invoke.time_ns)
                return f"{why}; {later.node}, which had not, inserted row {row} at {at}"
    return ""


def rewound_restart(accused: AccusedRow) -> str:
    """Return how ZooKeeper forgot the row's part, and all replicas that had it set it aside."""
    return next((why for _, _, why in _forgotten(accused)), "")


def _forgotten(accused: AccusedRow) -> Iterator[tuple[Rewind, Events, str]]:
    """Yield the periods that ZooKeeper has forgotten, when each part that may be the row's is of
    one and all its replicas have set parts aside since: the period, when the replicas got the
    parts, and the evidence."""
    history, parts = accused.history, {part.name for part in accused.parts}
    insert = accused.pair(accused.violation.steps[0])
    held = accused.facts(accused.source, "hold").where(lambda hold: hold.part in parts)
    said = complaints_of(history)
    for rewind in rewinds(history) if parts and not accused.violation.shown else ():
        if insert.invoke.time_ns < rewind.begin_ns or acknowledged_ns(insert) > rewind.end_ns:
            continue
        holds = held.since(rewind.begin_ns).until(rewind.end_ns)
        nodes = sorted({hold.node for hold in holds})
        if all(_SET_ASIDE in said.get(node, {}) for node in nodes) and all(
            map(_starts_since(accused, rewind.end_ns), nodes)
        ):
            yield (
                rewind,
                holds,
                f"{' and '.join(sorted(parts))} came into ZooKeeper at "
                f"{seconds(holds[0].begin_ns)}, which was put back after "
                f"{seconds(rewind.end_ns)} to a copy of {seconds(rewind.begin_ns)}; "
                f"{listed(nodes)} started again since, with a part that ZooKeeper does not know",
            )


def _starts_since(accused: AccusedRow, time_ns: int) -> Callable[[str], bool]:
    """Return the condition that the row's table was started on a replica after a time."""
    history = accused.history
    restarts = calls(history, "restart-replica").since(time_ns).over

    def holds(node: str) -> bool:
        return bool(kills(history).on(node).since(time_ns) or restarts.on(node))

    return holds

"""Checks that no replica's position in the replication log goes back.

One process looks at the positions again and again, each time after a write of its own, so that each
look is no older than the one before.

Violated: from one look to the next a replica's pointer goes back, though the replica was not lost
and the version of its node "is_lost" is the same ("went-back"). That version changes when the
replica is marked lost and when it has cloned another. Doubtful: no pointer was seen to move.

A pointer goes back where a lost replica clones another, which may be behind its own old place:
    look: ch1 at 40, version 1     ch1 lost, clones ch2     look: ch1 at 35, version 3
"""

from collections.abc import Mapping
from dataclasses import dataclass

from checkers.conclusion import Findings
from checkers.phrasing import during, number, seconds
from harness.core.history import History
from harness.core.op import Op
from harness.core.verdict import Verdict

OBSERVE = "observe-log"


@dataclass(frozen=True, slots=True)
class LogPlace:
    """ZooKeeper's record of one replica's position."""

    pointer: int
    lost: bool
    lost_version: int
    """Version of the node "is_lost", which changes when the replica is marked lost and when it has
    cloned."""
    op: Op


class LogPointers:
    """Judges the calls "observe-log": {"replicas": {node: {"pointer", "lost", "lost_version"}}}."""

    name = "log-pointers"

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs a pointer that moved."""
        last: dict[str, LogPlace] = {}
        found = Findings(self.name, kinds=["went-back"])
        moved = looks = 0
        for _, end in history.answered(OBSERVE):
            looks += 1
            for node, now in _places(end).items():
                before = last.get(node)
                if before is not None:
                    moved += now.pointer > before.pointer
                    cloned = now.lost_version != before.lost_version or before.lost
                    if now.pointer < before.pointer and not cloned:
                        _add(found, history, node, before, now)
                last[node] = now
        return found.verdict(
            checked=moved,
            nothing="no pointer was seen to move",
            held=f"{number(moved, 'step')} of {number(len(last), 'replica')}, none back",
            figures={"looks": looks, "steps": moved},
        )


def _places(end: Op) -> dict[str, LogPlace]:
    value = end.value if isinstance(end.value, Mapping) else {}
    replicas = value.get("replicas")
    if not isinstance(replicas, Mapping):
        return {}
    return {
        str(node): LogPlace(int(s["pointer"]), bool(s["lost"]), int(s["lost_version"]), end)
        for node, s in replicas.items()
        if s.get("pointer") is not None
    }


def _add(found: Findings, history: History, node: str, before: LogPlace, now: LogPlace) -> None:
    text = (
        f"log_pointer of {node} went from {before.pointer} (op #{before.op.index}) to "
        f"{now.pointer} (op #{now.op.index} at {seconds(now.op.time_ns)}) and it had cloned "
        f"nobody{during(history, now.op.time_ns)}"
    )
    found.add_anomaly("went-back", text, before.op, now.op)

"""Checks that no replica's position in the replication log goes back."""

from collections.abc import Mapping
from dataclasses import dataclass

from checkers.conclusion import conclude
from checkers.phrasing import FEW, during, number, seconds
from harness.core.history import History
from harness.core.op import Op
from harness.core.verdict import Anomaly, Verdict

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
    """Judges the calls "observe-log": {"replicas": {node: {"pointer", "lost", "lost_version"}}},
    read by one process after a write of its own, so each is no older than the one before.

    A pointer goes back only when a lost replica clones another.
    """

    name = "log-pointers"

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs a pointer that moved."""
        last: dict[str, LogPlace] = {}
        moved = looks = 0
        back: list[Anomaly] = []
        for _, end in history.answered(OBSERVE):
            looks += 1
            for node, now in _places(end).items():
                before = last.get(node)
                if before is not None:
                    moved += now.pointer > before.pointer
                    cloned = now.lost_version != before.lost_version or before.lost
                    if now.pointer < before.pointer and not cloned:
                        back.append(_anomaly(history, node, before, now))
                last[node] = now
        status = conclude(back, checked=moved)
        summary = f"{number(moved, 'step')} of {number(len(last), 'replica')}, none back"
        return Verdict(
            checker=self.name,
            status=status,
            summary=back[0].text if back else summary if moved else "no pointer was seen to move",
            checked=moved,
            anomalies=tuple(back[:FEW]),
            figures={"looks": looks, "steps": moved, "anomalies": {"went-back": len(back)}},
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


def _anomaly(history: History, node: str, before: LogPlace, now: LogPlace) -> Anomaly:
    return Anomaly(
        kind="went-back",
        text=(
            f"log_pointer of {node} went from {before.pointer} (op #{before.op.index}) to "
            f"{now.pointer} (op #{now.op.index} at {seconds(now.op.time_ns)}) and it had cloned "
            f"nobody{during(history, now.op.time_ns)}"
        ),
        ops=(before.op.index, now.op.index),
        time_ns=now.op.time_ns,
    )

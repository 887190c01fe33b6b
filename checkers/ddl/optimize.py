"""Checks that OPTIMIZE returned only when it had promised to: after its merge was done, on its own
replica or on all."""

from collections import Counter
from collections.abc import Sequence, Set

from checkers.conclusion import conclude, mapping_of
from checkers.phrasing import FEW, during, listed, number, seconds, where
from checkers.replication.parts import Part
from harness.core.history import History
from harness.core.op import Op
from harness.core.verdict import Anomaly, Verdict

OPTIMIZE = "optimize"


class Optimize:
    """Judges the calls "optimize", each with a partition of its own that nothing else merges. An
    ok's value is {"sync": `replication_alter_partitions_sync`, "waits": [nodes that the server must
    wait for by its version and this setting], "parts": {node: [names]}}: the partition's active
    parts when OPTIMIZE had returned; a replica that did not answer is missing. An OPTIMIZE that
    finds nothing to merge is no ok (`optimize_throw_if_noop`).

    Each replica that must be waited for has a merged part, and every merged part that is on any
    replica. `Dialect.optimize_waits` has the rule.
    """

    name = "optimize"

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs an OPTIMIZE that waited for a merge."""
        broken: list[Anomaly] = []
        waited = merged_in_all = 0
        returned: Counter[int] = Counter()
        behind: Counter[int] = Counter()
        for invoke, end in history.answered(OPTIMIZE):
            sync, waits, parts = _promise(end)
            merged = {name for names in parts.values() for name in names if Part.of(name).level}
            merged_in_all += bool(merged)
            missing = {node: _missing(merged, own) for node, own in parts.items()}
            returned[sync] += 1
            behind[sync] += any(missing.values())
            awaited = {node: names for node, names in missing.items() if node in waits}
            waited += bool(awaited)
            for node, names in awaited.items():
                if names:
                    broken.append(_anomaly(history, invoke, end, sync, node, names))
        status = conclude(broken, checked=waited)
        said = f"{number(waited, 'merge')} waited for, each done when OPTIMIZE returned"
        lag = listed([f"{behind[s]} of {n} with {s}" for s, n in sorted(returned.items())])
        return Verdict(
            checker=self.name,
            status=status,
            summary=broken[0].text
            if broken
            else f"{said}; a replica was behind: {lag}"
            if waited
            else "no merge was waited for",
            checked=waited,
            anomalies=tuple(broken[:FEW]),
            figures={
                "merged": merged_in_all,
                "waited_for": waited,
                "returned": {str(sync): n for sync, n in sorted(returned.items())},
                "behind": {str(sync): behind[sync] for sync in sorted(returned)},
                "anomalies": {"not-done": len(broken)},
            },
        )


def _missing(merged: Set[str], own: Sequence[str]) -> list[str]:
    """Return the merged parts that a replica lacks; of a merge that is nowhere, any merged part."""
    return sorted(merged - set(own)) if merged else ["any merged part"]


def _promise(end: Op) -> tuple[int, frozenset[str], dict[str, list[str]]]:
    """Return the setting, the replicas that must be waited for, and the parts of each replica."""
    value = mapping_of(end)
    parts = {str(node): list(names) for node, names in value.get("parts", {}).items()}
    return int(value.get("sync", 0)), frozenset(value.get("waits") or ()), parts


def _anomaly(
    history: History, invoke: Op, end: Op, sync: int, node: str, missing: list[str]
) -> Anomaly:
    return Anomaly(
        kind="not-done",
        text=(
            f"op #{end.index} optimize{where(end)} with replication_alter_partitions_sync = {sync} "
            f"returned before {node} had {' '.join(missing)}, at {seconds(end.time_ns)}"
            f"{during(history, end.time_ns)}"
        ),
        ops=(invoke.index, end.index),
        time_ns=end.time_ns,
    )

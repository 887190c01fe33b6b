"""Checks that OPTIMIZE returned only when it had promised to: after its merge was done, on its own
replica or on all.

Each call has a partition of its own that nothing else merges. An OPTIMIZE that was ok says which
replicas its server must wait for, by the server's version and its setting
`replication_alter_partitions_sync` (`Dialect.optimize_waits` has the rule), and which active parts
each replica that answered had right after it had returned. A part of a level above 0 is *merged*.

Violated: a replica that must be waited for lacks a merged part that is on any replica, or no
replica has a merged part at all ("not-done"). Doubtful: no OPTIMIZE had to wait for a replica that
answered. One that finds nothing to merge is no ok (`optimize_throw_if_noop`).

That replicas differ is no anomaly by itself. With sync = 1 only the replica that was asked has to
be done, so that this is right:
    optimize on ch1 → ok     ch1 has 7_0_4_1     ch2 has 7_0_1_0 7_2_4_0
"""

from collections import Counter
from collections.abc import Sequence, Set

from msgspec import field

from checkers.conclusion import Findings
from checkers.look import decode
from checkers.phrasing import during, listed, number, seconds, where
from checkers.replication.merged_rows import FilledPartition
from checkers.replication.parts import Part
from harness.core.history import History
from harness.core.op import Op
from harness.core.verdict import Verdict

OPTIMIZE = "optimize"


class OptimizedPartition(FilledPartition, frozen=True):
    """Look at a partition right after its OPTIMIZE had returned."""

    sync: int = 0
    """The setting `replication_alter_partitions_sync`."""
    waits: list[str] = field(default_factory=list)
    """Replicas that the server must wait for."""
    parts: dict[str, list[str]] = field(default_factory=dict)
    """Names of the active parts on each replica that answered."""


class Optimize:
    """Judges the calls "optimize", each with a partition of its own that nothing else merges."""

    name = "optimize"

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs an OPTIMIZE that waited for a merge."""
        found = Findings(self.name, kinds=["not-done"])
        waited = merged_in_all = 0
        returned: Counter[int] = Counter()
        behind: Counter[int] = Counter()
        for invoke, end in history.answered(OPTIMIZE):
            look = decode(end, OptimizedPartition)
            own = look.parts.values()
            merged = {name for names in own for name in names if Part.of(name).level}
            merged_in_all += bool(merged)
            missing = {node: _missing(merged, names) for node, names in look.parts.items()}
            returned[look.sync] += 1
            behind[look.sync] += any(missing.values())
            awaited = {node: names for node, names in missing.items() if node in look.waits}
            waited += bool(awaited)
            for node, names in awaited.items():
                if names:
                    _add(found, history, invoke, end, look.sync, node, names)
        lag = listed([f"{behind[s]} of {n} with {s}" for s, n in sorted(returned.items())])
        return found.verdict(
            checked=waited,
            nothing="no merge was waited for",
            held=f"{number(waited, 'merge')} waited for, each done when OPTIMIZE returned; "
            f"a replica was behind: {lag}",
            figures={
                "merged": merged_in_all,
                "waited_for": waited,
                "returned": {str(sync): n for sync, n in sorted(returned.items())},
                "behind": {str(sync): behind[sync] for sync in sorted(returned)},
            },
        )


def _missing(merged: Set[str], own: Sequence[str]) -> list[str]:
    """Return the merged parts that a replica lacks; of a merge that is nowhere, any merged part."""
    return sorted(merged - set(own)) if merged else ["any merged part"]


def _add(
    found: Findings,
    history: History,
    invoke: Op,
    end: Op,
    sync: int,
    node: str,
    missing: list[str],
) -> None:
    text = (
        f"op #{end.index} optimize{where(end)} with replication_alter_partitions_sync = {sync} "
        f"returned before {node} had {' '.join(missing)}, at {seconds(end.time_ns)}"
        f"{during(history, end.time_ns)}"
    )
    found.add_anomaly("not-done", text, invoke, end)

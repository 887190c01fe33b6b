"""Checks what replicas write to ZooKeeper about mutations: pointers, and the names of parts.

One process looks again and again at each replica's mutation_pointer, the last mutation that it has
finished; at the version of its node "is_lost", which changes when it clones another; at the block
number of each mutation in each partition; and at the log's entries since its last look.

Violated: the pointer of a replica goes back from one look to the next, though the replica cloned
nobody ("went-back"); an entry mutates a part into one with other blocks or another level, whose
version is not the block number of a mutation seen so far, or whose version is no higher
("misnamed"). Doubtful: no entry of a mutation was seen, and pointers that never moved. Simulated
servers write neither pointers nor numbers of mutations; these are not judged then.

A pointer may go back where its replica was lost, for a clone starts with the pointer of its source:
    look: ch2 at 0000000007, is_lost version 1     look: ch2 at 0000000004, is_lost version 3
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from checkers.conclusion import Findings
from checkers.phrasing import during, listed, number, seconds
from harness.core.history import History
from harness.core.op import Op
from harness.core.verdict import Verdict

OBSERVE = "observe-mutations"
_NAME = re.compile(r"(?P<blocks>(?P<partition>[^_]+)_\d+_\d+_\d+)(_(?P<version>\d+))?$")


@dataclass(frozen=True, slots=True)
class VersionedPart:
    """The name of a part: blocks and level, then the block number of the last mutation in it."""

    blocks: str
    partition: str
    version: int

    @staticmethod
    def of(name: str) -> "VersionedPart":
        """Parse PARTITION_MIN_MAX_LEVEL or PARTITION_MIN_MAX_LEVEL_VERSION. Raises ValueError."""
        found = _NAME.match(name)
        if found is None:
            raise ValueError(f"part {name!r}: expected PARTITION_MIN_MAX_LEVEL[_VERSION]")
        return VersionedPart(found["blocks"], found["partition"], int(found["version"] or 0))


class MutationLog:
    """Judges the calls "observe-mutations", which one process makes: {"pointers": {replica: name of
    the last mutation that it has finished, or ""}, "lost": {replica: version of its node
    "is_lost"}, "mutations": {name: {partition: block number}}, "entries": [[source, part, mutated
    part]]}, where the entries are those that the log got since the call before."""

    name = "mutation-log"

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs an entry of a mutation, and a pointer that moved."""
        sources: Counter[str] = Counter()
        versions: dict[str, set[int]] = {}
        before: tuple[Op, Mapping[str, str], Mapping[str, int]] | None = None
        found = Findings(self.name)
        moved = 0
        for _, end in history.answered(OBSERVE):
            value: Any = end.value
            for numbers in value["mutations"].values():
                for partition, block in numbers.items():
                    versions.setdefault(str(partition), set()).add(int(block))
            for source, part, made in value["entries"]:
                sources[str(source)] += 1
                _judge_name(found, history, str(part), str(made), versions, end)
            now = end, value["pointers"], value["lost"]
            if before is not None:
                moved += sum(now[1][node] > at for node, at in before[1].items() if node in now[1])
                _judge_pointers(found, history, before, now)
            before = now
        entries = sum(sources.values())
        if not entries:
            found.add_doubt("no log entry of a mutation was seen")
        if before is not None and before[1] and not moved:
            found.add_doubt("no mutation_pointer was seen to move")
        by = listed([f"{source} {count:,}" for source, count in sorted(sources.items())])
        return found.verdict(
            checked=entries,
            broken=found.tally,
            held=f"{number(entries, 'log entry', 'log entries')} of mutations, by {by}; "
            f"{number(moved, 'step')} of mutation_pointer, none back",
            figures={"entries": entries, "sources": {**sources}, "steps": moved},
        )


def _judge_name(
    found: Findings,
    history: History,
    part: str,
    made: str,
    versions: Mapping[str, set[int]],
    end: Op,
) -> None:
    old, new = VersionedPart.of(part), VersionedPart.of(made)
    why = ""
    if old.blocks != new.blocks:
        why = "has other blocks or another level"
    elif versions and new.version not in versions.get(new.partition, ()):
        why = f"no mutation has number {new.version} in partition {new.partition}"
    elif new.version <= old.version:
        why = "its version is no higher"
    if why:
        text = f"{part} is mutated to {made}: {why}, seen at {seconds(end.time_ns)}"
        found.add_anomaly("misnamed", f"{text}{during(history, end.time_ns)}", end)


def _judge_pointers(
    found: Findings,
    history: History,
    before: tuple[Op, Mapping[str, str], Mapping[str, int]],
    now: tuple[Op, Mapping[str, str], Mapping[str, int]],
) -> None:
    for node, at in before[1].items():
        cloned = before[2].get(node) != now[2].get(node)
        if node in now[1] and now[1][node] < at and not cloned:
            text = (
                f"mutation_pointer of {node} went from {at} (op #{before[0].index}) to "
                f"{now[1][node] or 'nothing'} (op #{now[0].index} at {seconds(now[0].time_ns)})"
                f"{during(history, now[0].time_ns)}"
            )
            found.add_anomaly("went-back", text, before[0], now[0])

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

import msgspec

from checkers.conclusion import Findings
from checkers.look import decode
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


class MutationsInLog(msgspec.Struct, frozen=True):
    """Look at mutations in ZooKeeper."""

    pointers: dict[str, str]
    """Name of the last mutation that each replica has finished, or ""."""
    lost: dict[str, int]
    """Version of each replica's node "is_lost"."""
    mutations: dict[str, dict[str, int]]
    """Block number in each partition, by the mutation's name."""
    entries: list[tuple[str, str, str]]
    """Source, part and mutated part of the entries that the log got since the look before."""


class MutationLog:
    """Judges the calls "observe-mutations", which one process makes."""

    name = "mutation-log"

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs an entry of a mutation, and a pointer that moved."""
        sources: Counter[str] = Counter()
        versions: dict[str, set[int]] = {}
        before: tuple[Op, MutationsInLog] | None = None
        found = Findings(self.name)
        moved = 0
        for _, end in history.answered(OBSERVE):
            look = decode(end, MutationsInLog)
            for numbers in look.mutations.values():
                for partition, block in numbers.items():
                    versions.setdefault(partition, set()).add(block)
            for source, part, made in look.entries:
                sources[source] += 1
                _judge_name(found, history, part, made, versions, end)
            if before is not None:
                was, now = before[1].pointers, look.pointers
                moved += sum(now[node] > at for node, at in was.items() if node in now)
                _judge_pointers(found, history, before, (end, look))
            before = end, look
        entries = sum(sources.values())
        if not entries:
            found.add_doubt("no log entry of a mutation was seen")
        if before is not None and before[1].pointers and not moved:
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
    before: tuple[Op, MutationsInLog],
    now: tuple[Op, MutationsInLog],
) -> None:
    (first, was), (end, look) = before, now
    for node, at in was.pointers.items():
        to = look.pointers.get(node, at)
        if to < at and was.lost.get(node) == look.lost.get(node):
            text = (
                f"mutation_pointer of {node} went from {at} (op #{first.index}) to "
                f"{to or 'nothing'} (op #{end.index} at {seconds(end.time_ns)})"
                f"{during(history, end.time_ns)}"
            )
            found.add_anomaly("went-back", text, first, end)

"""Checks what replicas write to ZooKeeper about mutations: pointers, and the names of parts."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from checkers.conclusion import conclude, count_kinds, few_of_each_kind, summarize
from checkers.phrasing import during, listed, number, seconds
from harness.core.history import History
from harness.core.op import Op
from harness.core.verdict import Anomaly, Verdict

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
    part]]}, where the entries are those that the log got since the call before.

    Simulated servers write neither pointers nor numbers of mutations; these are not judged then.

    INVALID: the pointer of a replica that cloned nobody goes back ("went-back"); a mutated part has
    other blocks or another level than the part that it is made from, its version is not the block
    number of a mutation, or is no higher ("misnamed").
    """

    name = "mutation-log"

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs an entry of a mutation, and a pointer that moved."""
        sources: Counter[str] = Counter()
        versions: dict[str, set[int]] = {}
        before: tuple[Op, Mapping[str, str], Mapping[str, int]] | None = None
        broken: list[Anomaly] = []
        moved = 0
        for _, end in history.answered(OBSERVE):
            value: Any = end.value
            for numbers in value["mutations"].values():
                for partition, block in numbers.items():
                    versions.setdefault(str(partition), set()).add(int(block))
            for source, part, made in value["entries"]:
                sources[str(source)] += 1
                broken += _misnamed(history, str(part), str(made), versions, end)
            now = end, value["pointers"], value["lost"]
            if before is not None:
                moved += sum(now[1][node] > at for node, at in before[1].items() if node in now[1])
                broken += _went_back(history, before, now)
            before = now
        kinds = count_kinds(broken)
        entries = sum(sources.values())
        doubts = [] if entries else ["no log entry of a mutation was seen"]
        pointers = before is not None and bool(before[1])
        doubts += ["no mutation_pointer was seen to move"] if pointers and not moved else []
        by = listed([f"{source} {count:,}" for source, count in sorted(sources.items())])
        summary = (
            f"{number(entries, 'log entry', 'log entries')} of mutations, by {by}; "
            f"{number(moved, 'step')} of mutation_pointer, none back"
        )
        return Verdict(
            checker=self.name,
            status=conclude(broken, doubts=doubts),
            summary=summarize(broken, doubts, summary),
            checked=entries,
            anomalies=few_of_each_kind(broken),
            figures={
                "entries": entries,
                "sources": {**sources},
                "steps": moved,
                "anomalies": {**kinds},
            },
        )


def _misnamed(
    history: History, part: str, made: str, versions: Mapping[str, set[int]], end: Op
) -> Iterable[Anomaly]:
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
        yield _anomaly(history, "misnamed", text, end)


def _went_back(
    history: History,
    before: tuple[Op, Mapping[str, str], Mapping[str, int]],
    now: tuple[Op, Mapping[str, str], Mapping[str, int]],
) -> Iterable[Anomaly]:
    for node, at in before[1].items():
        cloned = before[2].get(node) != now[2].get(node)
        if node in now[1] and now[1][node] < at and not cloned:
            text = (
                f"mutation_pointer of {node} went from {at} (op #{before[0].index}) to "
                f"{now[1][node] or 'nothing'} (op #{now[0].index} at {seconds(now[0].time_ns)})"
            )
            yield _anomaly(history, "went-back", text, before[0], now[0])


def _anomaly(history: History, kind: str, text: str, *ops: Op) -> Anomaly:
    at = ops[-1].time_ns
    return Anomaly(
        kind=kind,
        text=f"{text}{during(history, at)}",
        ops=tuple(op.index for op in ops),
        time_ns=at,
    )

"""Explains values that a read must not return: those of parts that were never committed, or whose
quorum failed."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from checkers.phrasing import seconds
from checkers.replication.parts import parts_at_rest
from checkers.sets.key_sets import KeySet, key_sets
from checkers.triage.events import departures
from checkers.triage.evidence import Evidence
from checkers.triage.inserts import Inserted, Values
from harness.core.history import History

PHANTOM: Final = "phantom-part"
DOUBLED: Final = "doubled-insert"
DIRTY: Final = "dirty-read"
MISSED: Final = "failed-part-missed"
PENDING: Final = "pending-merged"
KEEP_FAILED: Final = "KeepFailed"
"""Departure from the model (`harness conform`): a replica becomes active with a part whose quorum
has failed."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A value in a part that some replicas show, and that is not the table's."""

    key: int | None
    value: int
    replicas: frozenset[str]
    """The replicas that may show it."""
    by: str
    """The known defect."""
    why: str
    since_ns: int
    """Time since which the value is the table's all the same, by another try."""
    twice: bool
    """True if the replica may show the value twice from then on."""


def kept(
    history: History, values: Values, evidence: Evidence, known: frozenset[str]
) -> Iterator[Kept]:
    """Yield the values of such parts, as far as the record proves them."""
    missed = departures(history, KEEP_FAILED)
    by_times: list[Kept] = []
    for one in values.values():
        by_times += (*_of(one, evidence), *_missed(one, evidence, missed), *_merged(one, evidence))
    found = [*by_times, *_on_disk(history, values, evidence, by_times)]
    yield from (one for one in found if one.by in known)


def _on_disk(
    history: History, values: Values, evidence: Evidence, by_times: Sequence[Kept]
) -> Iterator[Kept]:
    """Yield the values of parts that a replica has at rest and nobody ever registered, if times do
    not decide: those that at rest the replica alone returns, or once more than the others, and
    whose insert there had an unknown outcome. There are no more of them than such parts."""
    left = _unregistered(history, evidence)
    known = {(one.key, one.value) for one in by_times}
    for key in key_sets(history):
        extra = sorted(_extra(key), key=lambda one: (key.key, one[0]) not in known)
        for value, replica, times in extra:
            parts, insert = left.get((replica, str(key.key))), values.get((key.key, value))
            if (key.key, value) in known and parts:
                parts.pop()  # times have explained this one
                continue
            if not parts or insert is None:
                continue
            unsure = [a for a in insert.attempts if a.node == replica and not a.acknowledged]
            if not unsure:
                continue
            op, part = unsure[0].pair.invoke, parts.pop()
            committed = sorted(evidence.commits[name][0] for name in insert.parts)
            since_ns = committed[0] if committed and times else _NEVER
            text = (
                f"op #{op.index} insert {value} on {replica} has an unknown outcome, and at rest "
                f"{replica} has {part}, which was never registered"
            )
            by = DOUBLED if times else PHANTOM
            yield Kept(key.key, value, frozenset({replica}), by, text, since_ns, bool(times))


def _unregistered(history: History, evidence: Evidence) -> dict[tuple[str, str], list[str]]:
    """Return the parts of single blocks that replicas have at rest and that nobody registered, by
    replica and partition."""
    seen = parts_at_rest(history)
    found: dict[tuple[str, str], list[str]] = {}
    for replica, names in seen[1].items() if seen is not None else ():
        for name in sorted(names or ()):
            part = evidence.part(name)
            if part is None or part.low != part.high or name in evidence.commits:
                continue
            if not any(
                evidence.held(other, part.partition, part.low, -1) for other in evidence.acts
            ):
                found.setdefault((replica, part.partition), []).append(name)
    return found


def _extra(key: KeySet) -> Iterator[tuple[int, str, int]]:
    """Yield each value that one replica returns once more than every other one at rest, the
    replica, and how often the others return it."""
    counts = {str(read.invoke.node): Counter(read.values) for read in key.finals}
    for value in sorted({value for own in counts.values() for value in own}):
        times = sorted((own[value], node) for node, own in counts.items())
        least, (most, node) = times[0][0], times[-1]
        if len(times) > 1 and most == least + 1 and times[-2][0] == least:
            yield value, node, least


def _missed(one: Inserted, evidence: Evidence, missed: Sequence[tuple[str, str]]) -> Iterator[Kept]:
    for replica, name in missed:
        if name not in one.parts:
            continue
        others = [evidence.commits[other][0] for other in one.parts - {*evidence.failed}]
        text = f"{replica} became active with {name} of value {one.value}, whose quorum had failed"
        since_ns = min(others, default=_NEVER)
        yield Kept(one.key, one.value, frozenset({replica}), MISSED, text, since_ns, bool(others))


def _merged(one: Inserted, evidence: Evidence) -> Iterator[Kept]:
    """Yield a value whose part was merged before its quorum failed, so that the merged part has it
    on each replica."""
    others = [evidence.commits[other][0] for other in one.parts - {*evidence.failed}]
    for name in sorted(one.parts & {*evidence.failed}):
        failed_ns = evidence.failed[name]
        merge = evidence.merges(name).before(failed_ns).first
        if merge is not None:
            text = (
                f"{merge.node} merged {name} of value {one.value} into {merge.part} at "
                f"{seconds(merge.begin_ns)}, and its quorum failed at {seconds(failed_ns)}"
            )
            since_ns, nodes = min(others, default=_NEVER), frozenset(evidence.acts)
            yield Kept(one.key, one.value, nodes, PENDING, text, since_ns, bool(others))


def _of(one: Inserted, evidence: Evidence) -> Iterator[Kept]:
    committed = sorted(evidence.commits[name][0] for name in one.parts)
    never = [a for a in one.attempts if a.kept and not a.parts]
    if never and len(committed) <= 1:
        nodes = frozenset(attempt.node for attempt in never)
        op = never[0].pair.invoke
        text = (
            f"op #{op.index} insert {one.value} on {op.node} ended with {_code(never[0].pair.end)},"
            f" and {op.node} committed no part of partition {one.partition} that may be its"
        )
        since_ns = committed[0] if committed else _NEVER
        twice = bool(committed)
        yield Kept(one.key, one.value, nodes, DOUBLED if twice else PHANTOM, text, since_ns, twice)
    failed = [name for name in one.parts if name in evidence.failed]
    acknowledged = any(attempt.acknowledged for attempt in one.attempts)
    if failed and len(one.parts) == len(failed) and not acknowledged:
        at = seconds(max(evidence.failed[name] for name in failed))
        text = f"the quorum of {', '.join(sorted(failed))} of value {one.value} failed at {at}"
        holders = _holders(failed, evidence)
        yield Kept(one.key, one.value, frozenset(holders), DIRTY, text, _NEVER, False)


_NEVER: Final = 1 << 62


def _code(end: object) -> str:
    return str(getattr(end, "error", "")).split(":")[0]


def _holders(parts: Sequence[str], evidence: Evidence) -> set[str]:
    return {evidence.commits[name][1] for name in parts}

"""Explains values that a read must not return: those of parts that were never committed, or whose
quorum failed."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from checkers.phrasing import seconds
from checkers.replication.parts import parts_at_rest
from checkers.sets.key_sets import KeySet, key_sets
from checkers.triage.events import departures
from checkers.triage.evidence import Evidence
from checkers.triage.inserts import Inserted, Values
from harness.core.history import History
from harness.core.rows import NEVER_NS

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

    @staticmethod
    def of(
        one: Inserted, replicas: Iterable[str], by: str, why: str, commits_ns: Collection[int] = ()
    ) -> "Kept":
        """Return a value in such a part, whose other tries were committed at some times."""
        since_ns = min(commits_ns, default=NEVER_NS)
        return Kept(one.key, one.value, frozenset(replicas), by, why, since_ns, bool(commits_ns))


def kept(
    history: History, values: Values, evidence: Evidence, known: frozenset[str]
) -> Iterator[Kept]:
    """Yield the values of such parts, as far as the record proves them."""
    missed = departures(history, KEEP_FAILED)
    by_times: list[Kept] = []
    for one in values.values():
        by_times += _uncommitted(one, evidence)
        by_times += _dirty_read(one, evidence)
        by_times += _failed_part_missed(one, evidence, missed)
        by_times += _pending_merged(one, evidence)
    found = [*by_times, *_on_disk(history, values, evidence, by_times)]
    yield from (one for one in found if one.by in known)


def _uncommitted(one: Inserted, evidence: Evidence) -> Iterator[Kept]:
    """Yield `phantom-part`: an insert ended with 319, and its replica committed no part that may be
    the value's, so that it alone shows the value. It is `doubled-insert` if another try was
    committed."""
    never = [attempt for attempt in one.attempts if attempt.kept and not attempt.parts]
    if never and len(one.parts) <= 1:
        op, end = never[0].pair.invoke, never[0].pair.end
        code = ((end and end.error) or "").split(":")[0]
        why = (
            f"op #{op.index} insert {one.value} on {op.node} ended with {code}, and {op.node} "
            f"committed no part of partition {one.partition} that may be its"
        )
        nodes = [attempt.node for attempt in never]
        by = "doubled-insert" if one.parts else "phantom-part"
        yield Kept.of(one, nodes, by, why, _commits_ns(one, evidence))


def _dirty_read(one: Inserted, evidence: Evidence) -> Iterator[Kept]:
    """Yield a value of which no try was acknowledged, and the quorum of each part failed."""
    failed_ns = [evidence.failed[name] for name in one.parts if name in evidence.failed]
    acknowledged = any(attempt.acknowledged for attempt in one.attempts)
    if failed_ns and len(failed_ns) == len(one.parts) and not acknowledged:
        parts = ", ".join(sorted(one.parts))
        why = f"the quorum of {parts} of value {one.value} failed at {seconds(max(failed_ns))}"
        writers = [evidence.commits[name][1] for name in one.parts]
        yield Kept.of(one, writers, "dirty-read", why)


def _failed_part_missed(
    one: Inserted, evidence: Evidence, missed: Sequence[tuple[str, str]]
) -> Iterator[Kept]:
    """Yield a value that a replica has since it became active with a part whose quorum had
    failed."""
    for replica, name in missed:
        if name in one.parts:
            why = (
                f"{replica} became active with {name} of value {one.value}, whose quorum had failed"
            )
            others_ns = _commits_ns(one, evidence, but=evidence.failed)
            yield Kept.of(one, [replica], "failed-part-missed", why, others_ns)


def _pending_merged(one: Inserted, evidence: Evidence) -> Iterator[Kept]:
    """Yield a value whose part was merged before its quorum failed, so that the merged part has it
    on each replica."""
    for name in sorted(one.parts & {*evidence.failed}):
        failed_ns = evidence.failed[name]
        merge = evidence.merges(name).before(failed_ns).first
        if merge is not None:
            why = (
                f"{merge.node} merged {name} of value {one.value} into {merge.part} at "
                f"{seconds(merge.begin_ns)}, and its quorum failed at {seconds(failed_ns)}"
            )
            others_ns = _commits_ns(one, evidence, but=evidence.failed)
            yield Kept.of(one, evidence.acts, "pending-merged", why, others_ns)


def _commits_ns(one: Inserted, evidence: Evidence, but: Collection[str] = ()) -> list[int]:
    """Return when the parts of a value were committed."""
    return [evidence.commits[name][0] for name in one.parts if name not in but]


def _on_disk(
    history: History, values: Values, evidence: Evidence, by_times: Sequence[Kept]
) -> Iterator[Kept]:
    """Yield the values of parts that a replica has at rest and nobody ever registered, if times do
    not decide: those that at rest the replica alone returns, or once more than the others, and
    whose insert there had an unknown outcome. There are no more of them than such parts."""
    left = unregistered_parts(history, evidence)
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
            why = (
                f"op #{op.index} insert {value} on {replica} has an unknown outcome, and at rest "
                f"{replica} has {part}, which was never registered"
            )
            by = "doubled-insert" if times else "phantom-part"
            commits_ns = _commits_ns(insert, evidence) if times else ()
            since_ns = min(commits_ns, default=NEVER_NS)
            nodes = frozenset({replica})
            yield Kept(key.key, value, nodes, by, why, since_ns, twice=bool(times))


def unregistered_parts(history: History, evidence: Evidence) -> dict[tuple[str, str], list[str]]:
    """Return the parts of single blocks that replicas have at rest and that nobody registered, by
    replica and partition."""
    seen = parts_at_rest(history)
    found: dict[tuple[str, str], list[str]] = {}
    for replica, names in seen[1].items() if seen is not None else ():
        for name in sorted(names or ()):
            part = evidence.part(name)
            if part is None or part.low != part.high or name in evidence.commits:
                continue
            if not evidence.had(name):
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

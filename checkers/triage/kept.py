"""Explains values that a read must not return: those of parts that were never committed, or whose
quorum failed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from checkers.conclusion import mapping_of
from checkers.phrasing import seconds
from checkers.replication.conformance import DEPARTURE
from checkers.triage.evidence import Evidence
from checkers.triage.inserts import Inserted, Values
from harness.core.history import History
from harness.core.op import Kind

PHANTOM: Final = "phantom-part"
DOUBLED: Final = "doubled-insert"
DIRTY: Final = "dirty-read"
MISSED: Final = "failed-part-missed"
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
    missed = kept_failed(history)
    for one in values.values():
        found = (*_of(one, evidence), *_missed(one, evidence, missed))
        yield from (kept for kept in found if kept.by in known)


def kept_failed(history: History) -> list[tuple[str, str]]:
    """Return the replicas that became active with a part whose quorum had failed, and the parts."""
    found: list[tuple[str, str]] = []
    for op in history.nemesis:
        said = mapping_of(op)
        if op.f != DEPARTURE or op.kind is not Kind.OK or said.get("kind") != KEEP_FAILED:
            continue
        steps = [str(step).split() for step in said.get("step") or ()]
        found += [(words[1], words[2]) for words in steps if words[:1] == [KEEP_FAILED]]
    return found


def _missed(one: Inserted, evidence: Evidence, missed: Sequence[tuple[str, str]]) -> Iterator[Kept]:
    for replica, name in missed:
        if name not in one.parts:
            continue
        others = [evidence.commits[other][0] for other in one.parts - {*evidence.failed}]
        text = f"{replica} became active with {name} of value {one.value}, whose quorum had failed"
        since_ns = min(others, default=_NEVER)
        yield Kept(one.key, one.value, frozenset({replica}), MISSED, text, since_ns, bool(others))


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
    if failed and len(one.parts) == len(failed):
        at = seconds(max(evidence.failed[name] for name in failed))
        text = f"the quorum of {', '.join(sorted(failed))} of value {one.value} failed at {at}"
        holders = _holders(failed, evidence)
        yield Kept(one.key, one.value, frozenset(holders), DIRTY, text, _NEVER, False)


_NEVER: Final = 1 << 62


def _code(end: object) -> str:
    return str(getattr(end, "error", "")).split(":")[0]


def _holders(parts: Sequence[str], evidence: Evidence) -> set[str]:
    return {evidence.commits[name][1] for name in parts}

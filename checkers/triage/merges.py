"""Explains an OPTIMIZE that returned before a replica which it waits for had the merged part."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from checkers.conclusion import mapping_of
from checkers.ddl.optimize import OPTIMIZE
from checkers.phrasing import seconds
from checkers.replication.parts import Part
from checkers.triage.clones import Clone, clones_of
from checkers.triage.evidence import Evidence
from checkers.triage.repairs import Repair
from harness.core.history import History
from harness.core.op import Kind

UNWAITED: Final = "unwaited-clone"


def merge_repairs(history: History, evidence: Evidence) -> Iterator[Repair]:
    """Yield the parts that a replica lacked when OPTIMIZE returned, because it had taken over a log
    pointer behind the merge and not yet the part."""
    clones = clones_of(history)
    for pair in history.pairs if clones else ():
        if pair.invoke.f != OPTIMIZE or pair.kind is not Kind.OK or pair.end is None:
            continue
        parts: Mapping[str, Sequence[str]] = mapping_of(pair.end).get("parts") or {}
        merged = sorted({n for own in parts.values() for n in own if Part.of(n).level})
        for replica, own in parts.items():
            lacking = [name for name in merged if name not in own]
            clone = next(
                (
                    one
                    for one in clones
                    if one.replica == replica
                    and one.begin_ns < pair.end.time_ns
                    and _taken_over(evidence, lacking, one)
                ),
                None,
            )
            if not lacking or clone is None:
                continue
            why = (
                f"{replica} was lost from {seconds(clone.begin_ns)} on, and took over a log "
                f"pointer behind the merge into {lacking[0]}; OPTIMIZE returned at "
                f"{seconds(pair.end.time_ns)}"
            )
            change = partial(_with_parts, replica=replica, names=merged)
            yield Repair(pair.end.index, UNWAITED, why, change)


def _taken_over(evidence: Evidence, names: Sequence[str], clone: Clone) -> bool:
    """Return whether each merge was done somewhere before the end of the clone, so that its entry
    is before the pointer that was taken over."""
    done = [evidence.first_hold(name) for name in names]
    return all(
        at_ns is not None and (clone.end_ns is None or at_ns <= clone.end_ns) for at_ns in done
    )


def _with_parts(value: Mapping[str, Any], *, replica: str, names: Sequence[str]) -> Any:
    return {**value, "parts": {**value["parts"], replica: [*names]}}

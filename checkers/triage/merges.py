"""Explains an OPTIMIZE that returned before a replica which it waits for had the merged part."""

from collections.abc import Iterator, Mapping, Sequence

from checkers.conclusion import mapping_of
from checkers.ddl.optimize import OPTIMIZE
from checkers.phrasing import seconds
from checkers.replication.parts import Part
from checkers.triage.events import lost_periods
from checkers.triage.evidence import Evidence
from checkers.triage.repairs import Repair, put
from harness.core.history import History


def unwaited_clone(history: History, evidence: Evidence) -> Iterator[Repair]:
    """Yield the merged parts that a replica lacked when OPTIMIZE returned. It was lost before, and
    the merges had been done somewhere by the end of that: their entries are before the log pointer
    that it took over, and OPTIMIZE waits for the pointer."""
    for _, end in history.answered(OPTIMIZE):
        parts: Mapping[str, Sequence[str]] = mapping_of(end).get("parts") or {}
        merged = sorted({n for own in parts.values() for n in own if Part.of(n).level})
        for replica, own in parts.items():
            lacking = [name for name in merged if name not in own]
            merges = [evidence.merges(name).first for name in lacking]
            done = [merge.begin_ns for merge in merges if merge is not None]
            lost = lost_periods(history).on(replica).before(end.time_ns)
            lost = lost.ended_since(max(done, default=0))
            if not lacking or len(done) < len(lacking) or not lost:
                continue
            why = (
                f"{replica} was lost from {seconds(lost[0].begin_ns)} on, and took over a log "
                f"pointer behind the merge into {lacking[0]}; OPTIMIZE returned at "
                f"{seconds(end.time_ns)}"
            )
            yield Repair(end.index, "unwaited-clone", why, put([*merged], "parts", replica))

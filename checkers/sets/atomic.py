"""Checks that an insert of several values is seen as a whole or not at all."""

from array import array
from dataclasses import dataclass

from checkers.conclusion import conclude
from checkers.phrasing import FEW, listed, number, on_key, read_answered, seconds, where
from checkers.sets.key_sets import FINAL_READ, READS, read_values
from harness.core.errors import HistoryError
from harness.core.history import History, Pair
from harness.core.op import Op
from harness.core.verdict import Anomaly, Verdict

INSERT_MANY = "insert-many"
KINDS = ("torn", "half")


@dataclass(frozen=True, slots=True)
class Torn:
    """An insert, and a read that returned a part of it."""

    insert: Pair
    invoke: Op
    """The read."""
    end: Op
    seen: tuple[int, ...]

    @property
    def kind(self) -> str:
        """Return "half" for a final read, after which nothing more can come, else "torn"."""
        return "half" if self.end.f == FINAL_READ else "torn"


class Atomic:
    """Checker: a read returns all values of an `insert-many` or none ("torn"), and so do all reads
    at rest ("half").

    Values are unique. Which insert failed or not makes no difference: nothing of it may be seen
    alone. Linear in the values read.
    """

    name = "atomic"

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs an insert of several values, of which some read returned
        any."""
        inserts = history.calls(INSERT_MANY)
        sizes = array("q")
        owner: dict[int, int] = {}
        for at, insert in enumerate(inserts):
            sizes.append(len(_values(insert)))
            owner |= dict.fromkeys(_values(insert), at)
        torn: list[Torn] = []
        whole = 0
        for invoke, end in history.answered(*READS):
            seen: dict[int, list[int]] = {}
            for value in read_values(end):
                if value in owner:
                    seen.setdefault(owner[value], []).append(value)
            for at, values in seen.items():
                if len(set(values)) < sizes[at]:
                    torn.append(Torn(inserts[at], invoke, end, tuple(values)))
                else:
                    whole += 1
        status = conclude(torn, checked=whole)
        return Verdict(
            checker=self.name,
            status=status,
            summary=_summary(torn, whole),
            checked=len(inserts),
            anomalies=tuple(
                _anomaly(history, one)
                for kind in KINDS
                for one in [t for t in torn if t.kind == kind][:FEW]
            ),
            figures={
                "whole": whole,
                "anomalies": {kind: sum(one.kind == kind for one in torn) for kind in KINDS},
            },
        )


def _values(pair: Pair) -> tuple[int, ...]:
    value = pair.invoke.value
    if not isinstance(value, tuple):
        raise HistoryError(
            f"op #{pair.invoke.index}: an {INSERT_MANY} of {value!r}, expected a tuple of ints"
        )
    return value


def _summary(torn: list[Torn], whole: int) -> str:
    if torn:
        inserts = len({one.insert.invoke.index for one in torn})
        return f"{number(len(torn), 'read')} returned a part of {number(inserts, 'insert')}"
    return f"{number(whole, 'read')} returned whole inserts" if whole else "no read showed any"


def _anomaly(history: History, one: Torn) -> Anomaly:
    insert, invoke, end = one.insert.invoke, one.invoke, one.end
    many = len(_values(one.insert))
    part = f"with {len(one.seen)} of the {many} values: {listed(one.seen)}"
    ended = one.insert.end
    how = "never ended" if ended is None else f"ended {ended.kind} at {seconds(ended.time_ns)}"
    return Anomaly(
        kind=one.kind,
        text=f"op #{end.index} {end.f}{on_key(end)}{where(end)} "
        f"returned {len(one.seen)} of the {many} values of op #{insert.index}",
        ops=(insert.index, invoke.index, end.index),
        key=insert.key,
        time_ns=end.time_ns,
        steps=(
            f"op #{insert.index} {insert.f} of {many} values{where(insert)} began at "
            f"{seconds(insert.time_ns)} and {how}",
            read_answered(history, invoke, end, part),
        ),
    )

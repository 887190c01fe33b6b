"""Checks that an insert of several values is seen as a whole or not at all.

An `insert-many` inserts a tuple of values, each of which no other call inserts. Of these values an
answered read returns all or none.

Violated: an answered read returned some of them and not all, during the run ("torn") or at rest
("half"), after which the others cannot come. Doubtful: a run in which no read returned a whole
insert.

How the insert ended makes no difference. It may be thought that a refused one, or one of unknown
outcome, may leave a part behind; but its rows are one block, which is committed or not:
    insert-many 1 2 3 → info     read → 1 2 3     read → 1 2
The last read is torn.
"""

from array import array
from collections.abc import Iterator, Sequence

from checkers.conclusion import Findings, anomaly
from checkers.phrasing import listed, number, on_key, read_answered, seconds, where
from checkers.sets.key_sets import FINAL_READ, READS, read_values
from harness.core.errors import HistoryError
from harness.core.history import History, Pair
from harness.core.op import Op
from harness.core.verdict import Anomaly, Verdict

INSERT_MANY = "insert-many"
KINDS = ("torn", "half")


class Atomic:
    """Checker: a read returns all values of an `insert-many` or none. Linear in the values read."""

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
        found = Findings(self.name, kinds=KINDS)
        torn: set[int] = set()
        whole = 0
        for invoke, end in history.answered(*READS):
            seen: dict[int, list[int]] = {}
            for value in read_values(end):
                if value in owner:
                    seen.setdefault(owner[value], []).append(value)
            for at, values in seen.items():
                if len(set(values)) < sizes[at]:
                    torn.add(at)
                    kind = "half" if end.f == FINAL_READ else "torn"
                    found.add_anomalies(
                        kind, _torn(history, kind, inserts[at], invoke, end, values)
                    )
                else:
                    whole += 1
        if not whole:
            found.add_doubt("no read showed any")
        reads = number(sum(found.counts.values()), "read")
        return found.verdict(
            checked=len(inserts),
            broken=f"{reads} returned a part of {number(len(torn), 'insert')}",
            held=f"{number(whole, 'read')} returned whole inserts",
            figures={"whole": whole},
        )


def _values(pair: Pair) -> tuple[int, ...]:
    value = pair.invoke.value
    if not isinstance(value, tuple):
        raise HistoryError(
            f"op #{pair.invoke.index}: an {INSERT_MANY} of {value!r}, expected a tuple of ints"
        )
    return value


def _torn(
    history: History, kind: str, torn: Pair, invoke: Op, end: Op, seen: Sequence[int]
) -> Iterator[Anomaly]:
    insert, ended, many = torn.invoke, torn.end, len(_values(torn))
    part = f"with {len(seen)} of the {many} values: {listed(seen)}"
    how = "never ended" if ended is None else f"ended {ended.kind} at {seconds(ended.time_ns)}"
    yield anomaly(
        kind,
        f"op #{end.index} {end.f}{on_key(end)}{where(end)} "
        f"returned {len(seen)} of the {many} values of op #{insert.index}",
        *(insert, invoke, end),
        key=insert.key,
        time_ns=end.time_ns,
        steps=(
            f"op #{insert.index} {insert.f} of {many} values{where(insert)} began at "
            f"{seconds(insert.time_ns)} and {how}",
            read_answered(history, invoke, end, part),
        ),
    )

"""Checks that some order of the statements explains what became of each row.

A row is an object, and each statement is an operation on it: it takes effect once between its call
and its answer; one of unknown outcome at any later time, or never, for each row by itself; one that
was refused never. At rest all replicas show the same copies of the row, and some order that keeps
real time leads there. ClickHouse promises no atomicity beyond a block, so rows are judged one by
one; those for which the same calls can have the same effects, and that end alike, are one class,
which is judged once.

Violated, at rest:
diverged     two replicas show different copies of a row
lost         fewer copies are left, or none, than after any order
resurrected  there is a copy, though after every order there is none
doubled      there are more copies than after any order
refused      there is a copy of a row whose only insert was refused
misplaced    the copies are in other tables, or in other numbers, than after any order
undone       a copy lacks an update that it has after every order, or the value of its insert
changed      a copy has other updates than after any order
strayed      a copy has an update of a statement that does not touch the row
half-moved   one of these, which is explained if a MOVE of unknown outcome has added the copies and
             not removed them; no violation where statements take what is local
derived      the table of a materialized view has another number of copies than after any order,
             while the row itself is as after some order
unexpired    there is a copy of a row that had expired before its partition was merged at rest
unrefreshed  the table of a refreshable view shows other copies of a row than its replica may have
             had in the source at a moment of the last refresh, or, of an appending view, at those
             of all refreshes together
projected    the projection of a table shows other copies than the table, on the same replica
stale-copy   one of these, which is explained if a statement that takes rows from a table took an
             earlier state of it; no violation where statements take what is local
unexplained  one of these, and there was no time, or there were too many orders, to decide whether
             it is a stale copy; a doubt where statements take what is local

No manual says that a MOVE, REPLACE, ATTACH FROM or DETACH takes what another replica has
acknowledged, or takes it and puts it elsewhere in one moment. So this is a stale copy, which SYSTEM
SYNC REPLICA before the REPLACE prevents:
    insert 1 into t on ch1 → ok      REPLACE u FROM t on ch2 → ok      u is empty, t has row 1
But whatever the replica had, such a statement may not destroy what it did not take:
    insert 1 into t on ch1 → ok      MOVE t TO u on ch2 → ok           neither has row 1: lost

Where an engine keeps one row of equal keys, merges may leave one of the copies in a table at any
time. Of a row that has expired merges may leave any of the copies, or none, at a moment of their
own on each replica; so its replicas are not compared. But a merge of all parts of a partition,
which begins at rest and is acknowledged, leaves none. A row that expires after the last look at
rest is a row like any other.

What a fault took from the disk of a replica on which the row was inserted or copied was never
promised to survive, and no kind but diverged, resurrected and refused is said of such a row.

Doubtful: a cluster that was not at rest, a replica without final rows, no acknowledged statement
beside the inserts, or none that followed the insert of a row that it touches, a row with too many
orders to search, or for which no time was left.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from msgspec import UNSET, structs

from checkers.conclusion import Findings, anomaly
from checkers.phrasing import during, listed, number
from checkers.quiescence import quiescence_of
from checkers.statements.calls import Effect
from checkers.statements.effects import explains
from checkers.statements.names import tables_of
from checkers.statements.orders import TooManyOrdersError, final_states
from checkers.statements.partitions import (
    StatementPartition,
    is_touched,
    line_of,
    partitions_of,
)
from checkers.statements.projections import projected_rows
from checkers.statements.refreshed import ViewRow, is_refreshed, view_rows
from checkers.statements.shown_rows import is_derived, kind_of, told_of, unnamed, updates_of
from checkers.statements.steps import FOREVER, REFRESHING, RowState, Sees, Shown, StatementStep
from checkers.taken import not_promised, taken_of
from harness.core.clock import WallClock
from harness.core.history import History
from harness.core.time_limit import OutOfTime, time_limit
from harness.core.verdict import Anomaly, Verdict

HALF_MOVED = "half-moved"
STALE_COPY = "stale-copy"
UNEXPLAINED = "unexplained"
TOLD_MAX = 30
"""Number of statements on a row that a witness shows."""


class _Class(NamedTuple):
    """What the rows of one class have in common."""

    insert: tuple[int, int, frozenset[str], bool, bool]
    """Number of events of statements before the begin and the end of its insert, the tables that it
    may mean, whether it has a value, and whether it has expired."""
    touching: tuple[int, ...]
    """Places of the statements that touch it."""
    shown: Shown
    """Its copies, with -1 for the value of its insert."""


class RowViolation(NamedTuple):
    """A row that no order of the statements explains, and that all replicas show alike."""

    kind: str
    key: int
    row: int
    steps: Sequence[StatementStep]
    """Its insert, and the statements that may have touched it, in the order in which they began."""
    shown: Shown
    looks: Sequence[int]
    """Indices of the ops that end the last look of each replica."""
    strays: Sequence[StatementStep]
    """Statements that do not touch the row and whose updates it shows."""
    inserts: Mapping[int, StatementStep]
    """Inserts of the partition by row."""
    statements: Sequence[StatementStep]
    """Other statements of the partition."""


def violations_of(history: History) -> Iterator[RowViolation]:
    """Yield the rows that are shown as after no order of the statements, each of which sees all
    that was acknowledged; those that are refused or diverge are none of them."""
    for key, partition in sorted(partitions_of(history)[0].items()):
        judge = _Judge(
            history, key, partition, Sees.ACKNOWLEDGED, Findings(""), Counter(), left_s=lambda: inf
        )
        judge.judge()
        yield from judge.violations


class StatementRows:
    """Judges the calls of the workload `statements` by its last "final-rows"."""

    name = "statement-rows"

    def __init__(self, sees: Sees = Sees.ACKNOWLEDGED) -> None:
        """Create a checker; `sees` says what statements are expected to see."""
        self._sees = sees

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs rest, the rows of every replica, and an acknowledged
        statement beside the inserts."""
        return self.check_within(history, inf)

    def check_within(self, history: History, budget_s: float) -> Verdict:
        """Return the same verdict; rows for which no time is left are a doubt beside what the
        others show."""
        clock = WallClock()
        partitions, acknowledged = partitions_of(history)
        rest = quiescence_of(history)
        found, stale = Findings(self.name), Counter[str]()
        found.doubts += rest.doubts
        replicas = tuple(sorted(rest.nodes))
        silent = sorted({r for p in partitions.values() for r in replicas if r not in p.finals})
        if silent or not partitions:
            found.add_doubt(f"no final rows of {listed(silent) if silent else 'any replica'}")
        if not acknowledged.total() - acknowledged[Effect.INSERT]:
            found.add_doubt("no statement beside the inserts was acknowledged")
        elif not any(map(is_touched, partitions.values())):
            found.add_doubt("no acknowledged statement followed the insert of a row it touches")
        taken: list[str] = []
        rows = classes = undecided = late = expired = 0
        for key, partition in sorted(partitions.items()) if rest.reached else ():
            judge = _Judge(
                history, key, partition, self._sees, found, stale,
                left_s=lambda: budget_s - clock.now_ns() / 1e9,
            )  # fmt: skip
            expired += len(partition.expired)
            rows += len(partition.inserts) + len(partition.expired)
            classes += judge.judge()
            taken += judge.taken
            undecided += judge.undecided
            late += judge.late
        if late:
            found.add_doubt(f"no time left for {number(late, 'row')}")
        if undecided:
            found.add_doubt(f"{number(undecided, 'row')} with too many orders to search")
        told = ", ".join(f"{count} {kind}" for kind, count in sorted(stale.items()))
        return found.verdict(
            checked=rows - late,
            broken=found.tally,
            held=f"an order of the statements leads to what is shown of {number(rows, 'row')}",
            after=(f"; by what no manual rules out: {told}" if told else "") + not_promised(taken),
            figures={
                "rows": rows,
                "classes": classes,
                "acknowledged": dict(sorted(acknowledged.items())),
                "by_stale_copies": dict(sorted(stale.items())),
                **({"expired": expired} if expired else {}),
            },
            cut_short=late > 0,
        )


@dataclass(slots=True)
class _Judge:
    """Judges the rows of one partition."""

    history: History
    key: int
    partition: StatementPartition
    sees: Sees
    found: Findings
    stale: "Counter[str]"
    """Number of rows that a stale copy explains, by kind."""
    left_s: Callable[[], float]
    """Function that returns how many seconds are left."""
    late: int = 0
    """Number of rows for which no time was left."""
    taken: list[str] = field(default_factory=list)
    """Names of the faults that took rows, one a row."""
    undecided: int = 0
    """Number of rows with too many orders to search."""
    violations: list[RowViolation] = field(default_factory=list)
    _events: list[int] = field(default_factory=list)
    """Indices of the ops that begin or end a statement, ascending."""
    _known: dict[_Class, tuple[str, Sees | None]] = field(default_factory=dict)
    """Kind of violation of each class, "" for none, and what statements saw if that explains
    it."""
    _refreshed: dict[tuple[str, _Class | None], bool] = field(default_factory=dict)
    """Whether a refresh explains what the table of a view shows of each class."""

    def judge(self) -> int:
        """Judge every row. Return the number of classes."""
        statements = self.partition.statements
        ends = [step.end for step in statements if step.end is not None]
        self._events = sorted([*(step.begin for step in statements), *ends])
        shown = self.partition.shown
        numbers = {*self.partition.inserts, *(row for rows in shown.values() for row in rows)}
        for row in sorted(numbers - self.partition.expired.keys()):
            seen = {node: rows.get(row, ()) for node, rows in shown.items()}
            if self.left_s() <= 0:
                self.late += 1
            elif len(set(seen.values())) > 1:
                self._add("diverged", row, self._steps(row), seen)
            elif seen:
                self._judge(row, seen)
        for row in sorted(self.partition.expired):
            self._judge_expired(row)
        for row in sorted(self.partition.expiries):
            for node, copies in self.partition.left_by_merges(row):
                self._add("unexpired", row, self._steps(row), {node: copies})
        for view in view_rows(self.partition, self._all_steps):
            self._judge_view(view)
        for one in projected_rows(self.partition):
            self._add("projected", one.row, self._steps(one.row), {one.node: one.shown})
        return len(self._known)

    def _judge_expired(self, row: int) -> None:
        """Judge a row that has expired, on each replica by itself."""
        shown = self.partition.shown
        for copies in sorted({rows.get(row, ()) for rows in shown.values()}):
            seen = {node: copies for node, rows in shown.items() if rows.get(row, ()) == copies}
            if self.left_s() <= 0:
                self.late += 1
            else:
                self._judge(row, seen)

    def _judge_view(self, one: ViewRow) -> None:
        """Judge what a refreshable view shows of a row on its replica."""
        insert = self.partition.insert_of(one.row)
        class_ = self._class_of(insert, one.steps, one.shown) if insert else None
        if class_ is None or (one.place, class_) not in self._refreshed:
            try:
                held = is_refreshed(one, self._states)
            except TooManyOrdersError:
                is_late = self.left_s() <= 0
                self.late += is_late
                self.undecided += not is_late
                return
            self._refreshed[one.place, class_] = held
        if not self._refreshed[one.place, class_]:
            self._add("unrefreshed", one.row, one.steps, {one.node: one.shown})

    def _judge(self, row: int, seen: Mapping[str, Shown]) -> None:
        insert, shown = self.partition.insert_of(row), next(iter(seen.values()))
        if insert is None:
            self._add("refused", row, self._steps(row), seen)
            return
        steps = self._steps(row)
        class_ = self._class_of(insert, steps, shown)
        if class_ not in self._known:
            self._known[class_] = self._explained(steps, shown)
        kind, sees = self._known[class_]
        if sees is None and kind == "":
            is_late = self.left_s() <= 0
            self.late += is_late
            self.undecided += not is_late
        elif kind and kind != "resurrected" and (reason := self._taken(steps)):
            self.taken.append(reason)
        elif kind and sees is None:
            self._accuse(kind, row, steps, seen)
        elif kind:
            self.stale[kind] += 1
            if self.sees is Sees.ACKNOWLEDGED:
                self._accuse(kind if kind == HALF_MOVED else STALE_COPY, row, steps, seen)

    def _class_of(
        self, insert: StatementStep, steps: Sequence[StatementStep], shown: Shown
    ) -> _Class:
        begin = bisect_left(self._events, insert.begin)
        end = FOREVER if insert.end is None else bisect_left(self._events, insert.end)
        touching = tuple(step.place for step in steps if step is not insert)
        value = insert.call.update
        return _Class(
            (begin, end, tables_of(insert), value is not UNSET, insert.call.expires),
            touching,
            unnamed(shown, value),
        )

    def _accuse(
        self, kind: str, row: int, steps: Sequence[StatementStep], seen: Mapping[str, Shown]
    ) -> None:
        pairs = [self.history.pairs[self.partition.finals[node]] for node in seen]
        looks = [pair.end.index for pair in pairs if pair.end is not None]
        shown = next(iter(seen.values()))
        partition, strays = self.partition, self._strays(steps, seen)
        self.violations.append(
            RowViolation(
                kind, self.key, row, steps, shown, looks, strays,
                partition.inserts, partition.statements,
            )
        )  # fmt: skip
        self._add(kind, row, steps, seen)

    def _taken(self, steps: Sequence[StatementStep]) -> str:
        """Return the name of a fault that may have taken a copy of the row; "" if none did."""
        taken = taken_of(self.history)
        for step in steps if taken else ():
            pair = self.history.pairs[step.place]
            end = pair.end or pair.invoke
            reason = taken.reason([step.node], pair.invoke.time_ns, end.time_ns)
            if reason:
                return reason
        return ""

    def _steps(self, row: int) -> list[StatementStep]:
        """Return the insert of a row and the statements that may touch it in a table."""
        return [s for s in self._all_steps(row) if s.call.effect not in REFRESHING]

    def _all_steps(self, row: int) -> list[StatementStep]:
        """Return the same with the refreshes of views."""
        insert = self.partition.insert_of(row) or self.partition.refused.get(row)
        if insert is None:
            return []
        touching = [
            step
            for step in self.partition.statements
            if step.call.touches(row) and (step.end is None or step.end > insert.begin)
        ]
        return [insert, *touching]

    def _explained(self, steps: Sequence[StatementStep], shown: Shown) -> tuple[str, Sees | None]:
        """Return the kind of violation, "" if there is none, and what statements saw if that
        explains what is shown; "" and None if there are too many orders."""
        kind = ""
        if updates_of(shown) - {step.call.update for step in steps}:
            return "strayed", None
        try:
            states = self._states(steps, Sees.ACKNOWLEDGED)
            if explains(states, shown, steps, Sees.ACKNOWLEDGED):
                return "", Sees.ACKNOWLEDGED
            kind = kind_of(shown, states)
            halves = self._states(steps, Sees.ACKNOWLEDGED, halves=True)
            if explains(halves, shown, steps, Sees.ACKNOWLEDGED):
                return HALF_MOVED, Sees.LOCAL
            local = self._states(steps, Sees.LOCAL)
        except TooManyOrdersError:
            found = kind and self.sees is Sees.ACKNOWLEDGED
            return UNEXPLAINED if found else "", None
        if explains(local, shown, steps, Sees.LOCAL):
            # An INSERT SELECT that read nothing brings nothing to its target and to the view.
            return kind, Sees.LOCAL
        views = {str(step.call.view) for step in steps}
        return ("derived" if is_derived(shown, states, views) else kind), None

    def _states(
        self, steps: Sequence[StatementStep], sees: Sees, *, halves: bool = False
    ) -> set[RowState]:
        """Return the states after all orders. Raises TooManyOrdersError if there are too many for
        the time that is left, too."""
        left_s = self.left_s()
        if left_s <= 0:
            raise TooManyOrdersError
        try:
            with time_limit(left_s):
                return final_states(steps, sees, halves=halves)
        except OutOfTime:
            raise TooManyOrdersError from None

    def _add(
        self, kind: str, row: int, steps: Sequence[StatementStep], seen: Mapping[str, Shown]
    ) -> None:
        self.found.add_anomalies(kind, self._witness(kind, row, steps, seen))

    def _witness(
        self, kind: str, row: int, steps: Sequence[StatementStep], seen: Mapping[str, Shown]
    ) -> Iterator[Anomaly]:
        """Yield the anomaly, with every statement that touched the row or whose update it shows,
        and the final rows."""
        shown = next(iter(seen.values()))
        looks = self.partition.unexpired if kind == "unexpired" else self.partition.finals
        finals = [self.history.pairs[looks[node]] for node in seen]
        at_rest = finals[-1].end or finals[-1].invoke
        strays = self._strays(steps, seen)
        pairs = [self.history.pairs[step.place] for step in (*steps[:TOLD_MAX], *strays)]
        told = (
            "; ".join(f"{node}: {told_of(copies)}" for node, copies in sorted(seen.items()))
            if kind == "diverged"
            else told_of(shown)
        )
        by = f", touched by {number(len(steps) - 1, 'statement')}" if len(steps) > 1 else ""
        if kind == "projected":
            at = next(iter(seen))
            projected = self.partition.projected[at][1].get(row, ())
            told = f"{told} and {told_of(projected)} by the projection, on {at},"
        if kind not in ("diverged", "refused", "projected", "unexpired", "unrefreshed"):
            fewest = _fewest(kind, steps, shown, self._states)
            indices = listed([f"#{step.begin}" for step in fewest], TOLD_MAX)
            by += f"; no order of {indices} leads there" if len(fewest) < len(steps) else ""
        stale = self._stale(steps, shown) if kind == STALE_COPY else None
        by += f"; explained if #{stale.begin} took an earlier state" if stale else ""
        for step in strays:
            by += f"; update {step.call.update} is of #{step.begin}, which does not select the row"
        yield anomaly(
            kind,
            f"row {row} of partition {self.key} is {told} at rest (op #{at_rest.index}){by}"
            f"{during(self.history, at_rest.time_ns)}",
            *pairs,
            *(finals if kind == "diverged" else finals[-1:]),
            key=self.key,
            value=row,
            steps=[line_of(pair) for pair in pairs],
        )

    def _stale(self, steps: Sequence[StatementStep], shown: Shown) -> StatementStep | None:
        """Return the statement that explains what is shown if it alone took an earlier state."""
        for step in steps:
            others = [
                other._replace(call=structs.replace(other.call, synced=other is not step))
                for other in steps
            ]
            try:
                states = self._states(others, Sees.LOCAL) if step.is_taking else ()
            except TooManyOrdersError:
                return None
            if explains(states, shown, others, Sees.LOCAL):
                return step
        return None

    def _strays(
        self, steps: Sequence[StatementStep], seen: Mapping[str, Shown]
    ) -> list[StatementStep]:
        """Return the statements whose updates the row shows though they do not touch it."""
        updates = {update for shown in seen.values() for update in updates_of(shown)}
        return [
            step
            for step in self.partition.statements
            if step.call.update in updates and step not in steps
        ]


def fewest_of(violation: RowViolation) -> Sequence[StatementStep]:
    """Return the insert of a row and as few of its statements as still cannot be explained."""
    return _fewest(violation.kind, violation.steps, violation.shown, final_states)


def _fewest(
    kind: str,
    steps: Sequence[StatementStep],
    shown: Shown,
    states_of: Callable[[Sequence[StatementStep], Sees], set[RowState]],
) -> Sequence[StatementStep]:
    """Return the insert of a row, with a violation of a kind, and as few statements as still cannot
    be explained; `states_of` returns the states after all orders."""
    if kind == HALF_MOVED:
        return steps
    local = kind not in ("derived", STALE_COPY, UNEXPLAINED)
    sees = Sees.LOCAL if local else Sees.ACKNOWLEDGED
    left, updates = [*steps], updates_of(shown)
    for step in reversed(steps[1:]):
        if step.call.update in updates:
            continue  # without it what is shown could not be, whatever the others did
        without = [other for other in left if other is not step]
        try:
            states = states_of(without, sees)
        except TooManyOrdersError:
            continue
        if not explains(states, shown, without, sees):
            left = without
    return left

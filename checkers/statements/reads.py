"""Checks what reads show of rows while statements go on.

A read asks one replica for the rows of a partition. A replica may lag behind the others for as long
as it likes, so that nothing is promised of what it has yet to hear of. Three things are:

Violated:
impossible  a read shows a copy of a row that no statement which began before the read ended can
            have left there: the row was not inserted yet, or its insert was refused; nothing puts
            it into that table; or the copy has an update of a statement that began later, that does
            not touch the row, or that it shows twice; or it lacks the value of its insert, and no
            statement that clears the column had begun
returned    a read shows a row in a table in which the same replica had it and then did not show it;
            a statement that may have removed it began after its insert was acknowledged; and each
            that may bring it back had ended before. The replica may lag behind one that ended later
vanished    a read lacks a row in a table in which the same replica had it before: an insert into
            the table was acknowledged by that replica, which no other one can have made, or an
            earlier read on it showed the row; and no statement that may remove it from the table
            began before the read ended

So the reads of two replicas are not compared, and this is none:
    insert 1 into t on ch1 → ok      read on ch2 → nothing
but this is:
    insert 1 into t on ch1 → ok      read on ch1 → nothing                        vanished
This is none, either, if ch2's insert began before ch1's ended: ch1 may have taken its block, whose
first commit was lost, for a duplicate of the one that ch2 has inserted, and may lack that part:
    insert 1 into t on ch1 … ch2 inserts the block of 1 → ok … → ok      read on ch1 → nothing
A statement of unknown outcome may have removed a row at any time since it began; one that was
refused did nothing.

Not judged: rows that a TTL may have removed, and on a replica from whose disk a fault took
something what it had before. What such a fault took need not be gone for a statement, for it is
fetched again.

Doubtful: no read was answered, or no row was to be seen by any.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final

from checkers.conclusion import Findings, anomaly
from checkers.look import decode
from checkers.phrasing import number, seconds
from checkers.statements.calls import READ_ROWS, Effect, RowsShown
from checkers.statements.partitions import StatementPartition, partitions_of, rows_shown
from checkers.statements.steps import Copy, Shown, StatementStep
from checkers.taken import taken_of
from harness.core.clock import WallClock
from harness.core.history import History, Pair
from harness.core.op import Kind, Op
from harness.core.verdict import Anomaly, Verdict

_REMOVING: Final = (Effect.DELETE, Effect.MOVE, Effect.DETACH)
"""Effects that may remove a row from the table of their statement."""
_BRINGING: Final = (Effect.MOVE, Effect.COPY, Effect.SELECT, Effect.REPLACE)
"""Effects that may put a row into the table that receives it."""


@dataclass(frozen=True)
class Read:
    """A read of a partition that was answered."""

    invoke: Op
    end: Op
    shown: Mapping[int, Shown]

    @property
    def node(self) -> str:
        """Return the replica that answered."""
        return str(self.invoke.node)


class StatementReads:
    """Judges the reads of the workload `statements` during the run."""

    name = "statement-reads"

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs a read that had to show a row, or showed one."""
        return self.check_within(history, inf)

    def check_within(self, history: History, budget_s: float) -> Verdict:
        """Return the same verdict; reads for which no time is left are a doubt beside what the
        others show."""
        clock, late = WallClock(), 0
        found = Findings(self.name)
        partitions, _ = partitions_of(history)
        reads = reads_of(history)
        checked = Counter[str]()
        for key, of_key in sorted(reads.items()):
            judge = _ReadJudge(history, partitions.get(key, StatementPartition()), found, checked)
            for read in of_key:
                if clock.now_ns() > budget_s * 1e9:
                    late += 1
                else:
                    judge.judge(read)
        if late:
            found.add_doubt(f"no time left for {number(late, 'read')}")
        answered = sum(map(len, reads.values()))
        judged = number(answered - late, "read")
        return found.verdict(
            checked=checked.total(),
            broken=found.tally,
            nothing="no read showed a row" if answered else "no read was answered",
            held=f"{judged} show what their replicas had, and nothing else",
            figures={"reads": answered, **dict(sorted(checked.items()))},
        )


def reads_of(history: History) -> dict[int, list[Read]]:
    """Return the reads by partition, in the order in which they ended."""
    found: dict[int, list[Read]] = {}
    for pair in history.calls(READ_ROWS):
        if pair.kind is Kind.OK and pair.end is not None and pair.invoke.key is not None:
            read = Read(pair.invoke, pair.end, rows_shown(decode(pair.end, RowsShown)))
            found.setdefault(pair.invoke.key, []).append(read)
    return {key: sorted(reads, key=lambda read: read.end.index) for key, reads in found.items()}


@dataclass
class _ReadJudge:
    """Judges the reads of one partition."""

    history: History
    partition: StatementPartition
    found: Findings
    checked: Counter[str]
    """Number of rows of reads that were checked: copies "shown", and rows "expected"."""
    _had: dict[tuple[str, str, int], tuple[int, Op]] = field(default_factory=dict)
    """When a replica first had a row in a table for certain, as the index of an op, and that op; by
    replica, table and row."""
    _lacked: dict[tuple[str, str, int], Read] = field(default_factory=dict)
    """The last read that lacked a row which a statement may have removed, likewise."""

    def __post_init__(self) -> None:
        """Note what the replicas acknowledged."""
        self._taken = taken_of(self.history)
        self._struck = {take.node for take in self._taken.takes}
        self._begins = [step.begin for step in self.partition.statements]
        inserts = (*self.partition.inserts.values(), *self.partition.expired.values())
        self._acknowledged = sorted(
            (step for step in inserts if step.end is not None),
            key=lambda step: step.end or 0,
        )
        self._noted = 0

    def judge(self, read: Read) -> None:
        """Judge a read, the next one in the order of their ends."""
        for row, shown in read.shown.items():
            if not self.partition.has_expired(row, read.end.time_ns):
                self._judge_shown(read, row, shown)
        self._note_inserts(read.end.index)
        for (node, table, row), (since, proof) in self._had.items():
            if node != read.node or since > read.invoke.index:
                continue
            if self.partition.has_expired(row, read.end.time_ns):
                continue
            is_shown = table in dict(read.shown.get(row, ()))
            if self._may_be_removed(row, table, read.end.index):
                self._judge_removed(read, row, table, proof, is_shown=is_shown)
                continue
            if node in self._struck:
                continue
            self.checked["expected"] += 1
            if not is_shown:
                self._add("vanished", read, row, f"in {table}", proof, "had it since")
        for row, shown in read.shown.items():
            for table, _ in shown if self.partition.insert_of(row) else ():
                self._had.setdefault((read.node, table, row), (read.end.index, read.end))

    def _judge_shown(self, read: Read, row: int, shown: Shown) -> None:
        insert = self.partition.insert_of(row)
        begun = self._steps_until(row, read.end.index)
        for table, copies in shown:
            for copy in copies:
                self.checked["shown"] += 1
                why = self._impossible(insert, begun, read, table, copy)
                if why:
                    what = f"in {table}{f' {list(copy)}' if copy else ''}"
                    self._add("impossible", read, row, what, None, why)

    def _judge_removed(
        self, read: Read, row: int, table: str, proof: Op, *, is_shown: bool
    ) -> None:
        """Note a read that lacks a row which a statement may have removed, or judge one that shows
        it: it may not be back."""
        place, insert = (read.node, table, row), self.partition.insert_of(row)
        end = insert.end if insert is not None else None
        if not is_shown:
            if not self._taken.interrupts(read.node, proof.time_ns, read.end.time_ns):
                self._lacked[place] = read
            return
        lacked = self._lacked.get(place)
        if lacked is None or end is None or lacked.end.index > read.invoke.index:
            return
        del self._lacked[place]
        steps = self._steps_until(row, read.end.index)
        removing = (step.begin for step in steps if _removes(step, table))
        since = min((begin for begin in removing if end < begin < lacked.end.index), default=None)
        if since is None:
            return
        if not any(_brings(s, table) and (s.end is None or s.end > since) for s in steps):
            self._add("returned", read, row, f"in {table}", lacked.end, "did not show it at")

    def _impossible(
        self,
        insert: StatementStep | None,
        begun: Sequence[StatementStep],
        read: Read,
        table: str,
        copy: Copy,
    ) -> str:
        """Return why no statement can have left a copy in a table; "" if some can."""
        if insert is None or insert.begin > read.end.index:
            return "no insert of it had begun"
        brought = table in (insert.call.table, insert.call.view) or any(
            _brings(step, table) for step in begun
        )
        if not brought:
            return "nothing had put it there"
        if len(set(copy)) < len(copy):
            return "an update is there twice"
        cleared = any(step.call.effect is Effect.CLEAR for step in begun)
        value = insert.call.value
        if copy[: len(value)] == value:
            copy = copy[len(value) :]
        elif not cleared:
            return "it lacks the value with which it was inserted"
        updates = {step.call.update for step in begun if step.call.effect is Effect.APPEND}
        return "" if updates.issuperset(copy) else "no statement on it had made that update"

    def _note_inserts(self, index: int) -> None:
        """Note the rows whose inserts ended before an op, for the replicas that acknowledged
        them."""
        while self._noted < len(self._acknowledged):
            step = self._acknowledged[self._noted]
            end = self.history.pairs[step.place].end
            if end is None or end.index > index:
                return
            self._noted += 1
            if self._may_be_duplicate(step, end.index):
                continue
            for table in (step.call.table, step.call.view):
                if isinstance(table, str) and "@" not in table and isinstance(step.call.row, int):
                    known = (str(step.node), table, step.call.row)
                    self._had.setdefault(known, (end.index, end))

    def _may_be_duplicate(self, step: StatementStep, index: int) -> bool:
        """Return whether another replica may have inserted the block of an insert which ended with
        this op."""
        row = step.call.row
        return isinstance(row, int) and any(
            other.call.effect is Effect.AGAIN and other.call.row == row and other.node != step.node
            for other in self._steps_until(row, index)
        )

    def _may_be_removed(self, row: int, table: str, index: int) -> bool:
        """Return whether a statement that began before an op may remove a row from a table."""
        return any(_removes(step, table) for step in self._steps_until(row, index))

    def _steps_until(self, row: int, index: int) -> Sequence[StatementStep]:
        """Return the statements that touch a row and began before an op."""
        begun = self.partition.statements[: bisect_left(self._begins, index)]
        return [step for step in begun if step.call.touches(row)]

    def _add(self, kind: str, read: Read, row: int, what: str, proof: Op | None, why: str) -> None:
        self.found.add_anomalies(kind, self._witness(kind, read, row, what, proof, why))

    def _witness(
        self, kind: str, read: Read, row: int, what: str, proof: Op | None, why: str
    ) -> Iterator[Anomaly]:
        insert = self.partition.insert_of(row) or self.partition.refused.get(row)
        pairs: list[Pair | Op] = [self.history.pairs[insert.place]] if insert else []
        pairs += [proof] if proof is not None else []
        shows = "lacks" if kind == "vanished" else "shows"
        since = f" {seconds(proof.time_ns)} (op #{proof.index})" if proof is not None else ""
        yield anomaly(
            kind,
            f"the read #{read.invoke.index} of partition {read.invoke.key} on {read.node}, from "
            f"{seconds(read.invoke.time_ns)} to {seconds(read.end.time_ns)}, {shows} row {row} "
            f"{what}: {'the replica ' if proof is not None else ''}{why}{since}",
            *pairs,
            read.invoke,
            read.end,
            key=read.invoke.key,
            value=row,
        )


def _removes(step: StatementStep, table: str) -> bool:
    """Return whether a statement may remove rows from a table."""
    call = step.call
    return (call.effect in _REMOVING and call.table == table) or (
        call.effect is Effect.REPLACE and call.to == table
    )


def _brings(step: StatementStep, table: str) -> bool:
    """Return whether a statement may put rows that were inserted elsewhere, or before, into a
    table."""
    call = step.call
    return (call.effect in _BRINGING and table in (call.to, call.view)) or (
        call.effect in (Effect.ATTACH, Effect.AGAIN) and table in (call.table, call.view)
    )

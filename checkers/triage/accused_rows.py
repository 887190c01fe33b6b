"""A row that no order of its statements explains, and what the record of ZooKeeper's log says of
its parts and of its statements."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from checkers.phrasing import seconds
from checkers.statements.effects import explains
from checkers.statements.orders import TooManyOrdersError, final_states
from checkers.statements.rows import RowViolation
from checkers.statements.steps import Copies, Sees, Shown, StatementStep
from checkers.triage.events import Event, Events, early_tables_by_path, ended_ns, tables_by_path
from checkers.triage.evidence import BlockRange, version_of
from checkers.triage.missing import LATE_NS
from harness.core.history import History, Pair

DATED_NS: Final = 5_000_000
"""Time by which the date of a transaction may be wrong."""
_REMOVALS: Final = ("drop", "detach", "REPLACE_RANGE")
"""Entries of the log that remove the parts of a partition."""
_NOTHING: Final = Events()


@dataclass(frozen=True)
class AccusedRow:
    """A row that no order explains, and what the record says of its statements."""

    history: History
    tables: Mapping[str, Events]
    """Facts of each table, by its name in the calls."""
    violation: RowViolation

    @property
    def steps(self) -> Sequence[StatementStep]:
        """Return the statements after the insert."""
        return self.violation.steps[1:]

    @property
    def source(self) -> str:
        """Return the table into which the row was inserted."""
        return self.violation.steps[0].call.table

    @cached_property
    def parts(self) -> Sequence[BlockRange]:
        """Return the parts that may have been the row's: not those that are certainly of another
        row, which its replica inserted at the same time."""
        insert = self.violation.steps[0]
        own = self.parts_of(insert)
        others = self.violation.inserts.values() if len(own) > 1 else ()
        taken = {
            parts[0]
            for other in others
            if other is not insert and _is_block_beside(other, insert)
            for parts in [self.parts_of(other)]
            if len(parts) == 1
        }
        return [part for part in own if part not in taken] or own

    def parts_of(self, insert: StatementStep) -> Sequence[BlockRange]:
        """Return the parts that may have been those of an insert: of one block of the partition,
        as inserts make them, that its replica got while the insert went on, and nobody before. They
        have level 0, or 1 where an insert merges its rows as the engine of the table does."""
        call = self.pair(insert)
        new = self.facts(insert.call.table, "hold").on(str(insert.node))
        new = new.since(call.invoke.time_ns - DATED_NS).until(ended_ns(call) + DATED_NS)
        names = [hold.part for hold in new if not self._was_held(insert, hold)]
        own = rf"{self.violation.key}_(\d+)_\1_"
        levels = [[name for name in names if re.fullmatch(own + level, name)] for level in "01"]
        return [part for name in levels[0] or levels[1] if (part := BlockRange.named(name))]

    def _was_held(self, insert: StatementStep, hold: Event) -> bool:
        """Return whether another replica than that of an insert had a part before it."""
        holds = self.facts(insert.call.table, "hold").until(hold.begin_ns - DATED_NS)
        return any(one.part == hold.part and one.node != hold.node for one in holds)

    def is_of_partition(self, part: str) -> bool:
        """Return whether a part is of the row's partition."""
        return part.startswith(f"{self.violation.key}_")

    def pair(self, step: StatementStep) -> Pair:
        """Return the call of a statement."""
        return self.history.pairs[step.place]

    def facts(self, table: str, *kinds: str) -> Events:
        """Return the facts of some kinds about a table, of all kinds if none is named."""
        facts = self.tables.get(table, _NOTHING)
        return facts.of(*kinds) if kinds else facts

    def during(self, step: StatementStep, table: str, *kinds: str) -> Events:
        """Return the facts about a table that may be of a statement: on any replica, while it went
        on."""
        call = self.pair(step)
        every = self.facts(table, *kinds).since(call.invoke.time_ns - LATE_NS)
        return every.until(ended_ns(call) + LATE_NS)

    def came_ns(self, node: str | None, part: BlockRange) -> int | None:
        """Return when a replica first had a block of the source; None if it never did."""
        holds = self.facts(self.source, "hold").on(str(node))
        had = holds.where(
            lambda hold: (own := BlockRange.named(hold.part)) is not None and own.covers(part)
        )
        return had.first.begin_ns if had.first else None

    def makers(self, step: StatementStep) -> Sequence[str]:
        """Return the replicas that may have made a statement: the one that was asked; if it is made
        on all hosts those that wrote to the log of its tables, or all if none did."""
        if not step.call.is_on_all_hosts:
            return [str(step.node)]
        tables = [name for name in (step.call.table, step.call.to) if isinstance(name, str)]
        every = [self.during(step, table, "assign").where(_is_made) for table in tables]
        nodes = {entry.node for entries in every for entry in entries}
        return sorted(nodes or {fact.node for fact in self.facts(step.call.table, "hold")})

    def is_behind(self, step: StatementStep, node: str | None = None) -> bool:
        """Return whether a statement takes from the source what the replica has that makes it,
        `node` or any that may have, and that it had none of the parts that may be the row's when
        the call began."""
        if step.call.table != self.source or not step.is_taking or not self.parts:
            return False
        begin_ns = self.pair(step).invoke.time_ns
        return any(
            all(
                at_ns is None or at_ns > begin_ns
                for at_ns in [self.came_ns(maker, part) for part in self.parts]
            )
            for maker in ([node] if node else self.makers(step))
        )

    def is_replacing(self, facts: Events) -> Callable[[Event], bool]:
        """Return the condition that an entry of a log brought parts of the partition: its replica
        got one in the same transaction."""
        new = {hold.begin_ns for hold in facts.of("hold") if self.is_of_partition(hold.part)}
        return lambda entry: entry.detail == "REPLACE_RANGE" and entry.begin_ns in new

    def is_removing(self, entry: Event) -> bool:
        """Return whether an entry of a log removes parts of the partition."""
        dropped = BlockRange.named(entry.part) if entry.detail == "drop" else None
        return dropped is not None and dropped.partition == str(self.violation.key)

    def lags(self, step: StatementStep) -> bool:
        """Return whether a statement takes from a table what its replica has, and that one had yet
        to get or to remove a part of the partition that another replica had got before the call
        began, or had removed by a statement; or it never had that part, but one later that covers
        it."""
        if not step.is_taking:
            return False
        table, begin_ns = step.call.table, self.pair(step).invoke.time_ns
        removals = self.facts(table, "assign").where(lambda entry: entry.detail in _REMOVALS)
        facts = self.facts(table, "hold", "drop").where(
            lambda fact: self.is_of_partition(fact.part)
        )
        before = facts.before(begin_ns - DATED_NS)
        return any(
            other.kind == "hold"
            or removals.since(other.begin_ns - LATE_NS).until(other.begin_ns + DATED_NS)
            for maker in self.makers(step)
            for own in facts.on(maker).after(begin_ns)
            for other in before.about(own.part).of(own.kind)
            if other.node != own.node
        ) or any(
            self._came_late(facts.on(maker), part, begin_ns)
            for maker in self.makers(step)
            for part in _standing(before, removals.before(begin_ns))
        )

    @staticmethod
    def _came_late(own: Events, part: BlockRange, begin_ns: int) -> bool:
        """Return whether a replica had no part with the blocks and the mutations of another one
        before a time, and got one later, by what it held and dropped."""
        covering = own.of("hold").where(
            lambda hold: (
                (had := BlockRange.named(hold.part)) is not None
                and had.covers(part)
                and version_of(hold.part) >= version_of(part.name)
            )
        )
        return covering.first is not None and covering.first.begin_ns > begin_ns

    def is_explained_without(self, some: Sequence[StatementStep]) -> bool:
        """Return whether what is shown is as after some order of the other statements."""
        others = [step for step in self.violation.steps if step not in some]
        try:
            states = final_states(others, Sees.ACKNOWLEDGED)
        except TooManyOrdersError:
            return False
        return explains(states, self.violation.shown, others, Sees.ACKNOWLEDGED)

    def told(self, step: StatementStep) -> str:
        """Return a statement in words."""
        call = self.pair(step)
        at = seconds(call.invoke.time_ns)
        return f"op #{call.invoke.index} {call.invoke.f}, which began at {at} on {step.node},"


def tables_by_name(history: History) -> Mapping[str, Events]:
    """Return what the record says of each table, by its name in the calls."""
    return {_name(path): facts for path, facts in tables_by_path(history).items()}


def early_tables_by_name(history: History) -> Mapping[str, Events]:
    """Return the same, also of traces that end early, with what was before."""
    return {_name(path): facts for path, facts in early_tables_by_path(history).items()}


def with_row(value: Mapping[str, Any], *, row: int, shown: Shown) -> Mapping[str, Any]:
    """Return a look at rows that shows a row so, by projections, too."""
    expected: dict[str, Copies] = dict(shown)
    looks = {
        look: {
            table: [
                *(line for line in rows if line[0] != row),
                *([row, [*copy], 1] for copy in expected.get(table, ())),
            ]
            for table, rows in value[look].items()
        }
        for look in ("tables", "projections")
        if look in value
    }
    return {**value, **looks}


def _name(path: str) -> str:
    """Return the name in the calls of the table with a path in ZooKeeper."""
    return path.rstrip("/").rpartition("/")[0].rpartition("_")[2]


def _standing(facts: Events, removals: Events) -> Sequence[BlockRange]:
    """Return the parts that a replica held and did not drop, and that no entry of the log has
    removed, by what there was before a time."""
    dropped = {(fact.node, fact.part) for fact in facts.of("drop")}
    held = [(hold, BlockRange.named(hold.part)) for hold in facts.of("hold")]
    gone = [(one.begin_ns, BlockRange.named(one.part)) for one in removals]
    return [
        part
        for hold, part in held
        if part is not None
        and (hold.node, hold.part) not in dropped
        and not any(
            removed is not None and removed.covers(part) and at_ns >= hold.begin_ns
            for at_ns, removed in gone
        )
    ]


def _is_made(entry: Event) -> bool:
    """Return whether a statement on a partition writes such an entry of the log."""
    return entry.detail in _REMOVALS


def _is_block_beside(other: StatementStep, insert: StatementStep) -> bool:
    """Return whether an insert made a block of its own in the same table by the same replica, while
    another one was under way."""
    alike = (other.call.table, other.node) == (insert.call.table, insert.node)
    gathered = "async_insert" in other.call.settings
    if not alike or gathered or other.end is None:
        return False
    return (insert.end is None or other.begin < insert.end) and insert.begin < other.end

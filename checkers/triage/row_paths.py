"""Follows the copies of a row from table to table, by ZooKeeper's log.

The log says which parts of a table a REPLACE_RANGE makes of which parts of another one, which
blocks are removed, and which mutations apply to which blocks. So it decides which statements have
taken the row, whatever their calls allow, and with which updates; what replicas show at rest must
be that. A copy has an address: its table and the number of its block. A part of higher version has
taken the mutations up to that version.

What the log leaves open is tried in every way: in which of several parts a row was inserted, and
whether INSERT SELECT has copied it, unless its replica had the row all the time.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from checkers.statements.calls import Effect
from checkers.statements.steps import Copies, Copy, Shown, StatementStep
from checkers.triage.accused_rows import DATED_NS, AccusedRow
from checkers.triage.events import Event, ended_ns
from checkers.triage.evidence import BlockRange, version_of

WAYS_MAX: Final = 200
"""Number of ways after which a row is not followed."""
_FOLLOWED: Final = frozenset(
    {Effect.NONE, Effect.APPEND, Effect.DELETE, Effect.MOVE, Effect.COPY, Effect.REPLACE}
    | {Effect.DETACH, Effect.SELECT, Effect.FETCH, Effect.FORGET, Effect.REFRESH, Effect.EXTEND}
)
"""Effects that the log tells; those of the others are in the contents of new parts."""
_PUTS_ASIDE: Final = (Effect.DETACH, Effect.FETCH)


class UnknownPathError(Exception):
    """The record does not say where the copies of the row are."""


class RowMutation(NamedTuple):
    """A mutation that touches the row."""

    table: str
    number: int
    """It applies to the blocks of the partition below this."""
    update: int | None
    """The update that it appends; None if it deletes."""


class _Address(NamedTuple):
    """A place of a copy."""

    table: str
    block: int


@dataclass(frozen=True)
class _Way:
    """Where the copies of the row are, by one way to read the log."""

    born: Mapping[_Address, Copies]
    """What the copies had when they came, by their address; a part of several copies brings them
    under one."""
    live: frozenset[_Address]
    selected: frozenset[int] = frozenset()
    """Places of the INSERT SELECTs that have copied the row."""

    def put(self, address: _Address, copies: Copies) -> "_Way":
        """Return the way with these copies, too."""
        every = (*self.born.get(address, ()), *copies)
        return replace(self, born={**self.born, address: every}, live=self.live | {address})


def recorded(accused: AccusedRow) -> set[Shown]:
    """Return what the copies of the row may be at rest by ZooKeeper's log, without those in the
    table of a view. Raises UnknownPathError."""
    return _Paths(accused).at_rest()


def unmutated(accused: AccusedRow) -> Sequence[StatementStep]:
    """Return the statements that have taken a part with the row before a mutation which applies to
    it, by ZooKeeper's log; none if the log does not say."""
    try:
        paths = _Paths(accused)
        paths.at_rest()
    except UnknownPathError:
        return ()
    return [step for step in accused.steps if step.place in paths.early]


class _Paths:
    def __init__(self, accused: AccusedRow) -> None:
        """Prepare to follow the row. Raises UnknownPathError."""
        if any(
            facts.of("assign").where(accused.is_replacing(facts)) and not facts.of("copy")
            for facts in accused.tables.values()
        ):
            raise UnknownPathError  # the record is of an older harness
        self._accused = accused
        self._key = str(accused.violation.key)
        steps = accused.steps
        self._mutations = sorted(
            (mutation for step in steps for mutation in mutations_of(accused, step)),
            key=lambda mutation: mutation.number,
        )
        self._selects = [step for step in steps if step.call.effect is Effect.SELECT]
        self.early: set[int] = set()
        """Places of the statements that have taken a part before a mutation that applies."""

    def at_rest(self) -> set[Shown]:
        """Follow every entry, and return the copies by each way."""
        source = self._accused.source
        blocks = [_Address(source, part.low) for part in self._accused.parts]
        value = self._accused.violation.steps[0].call.value
        ways = [_Way({address: (value,)}, frozenset([address])) for address in blocks]
        for table, event in self._entries():
            if event.kind == "copy":
                ways = [self._copied(way, table, event) for way in ways]
            elif event.kind == "assign":
                ways = [self._removed(way, table, event.part) for way in ways]
            else:
                ways = [now for way in ways for now in self._inserted(way, table, event)]
            if len(ways) > WAYS_MAX:
                raise UnknownPathError
        ways = [way for way in ways if all(self._may_end(way, step) for step in self._selects)]
        if not ways:
            raise UnknownPathError
        return {self._shown(way) for way in ways}

    def _entries(self) -> list[tuple[str, Event]]:
        """Return the events of the log that matter, in order, each with its table."""
        removing = ("drop", "detach", "REPLACE_RANGE")
        inserting = {str(step.call.to) for step in self._selects}
        found = [
            (event.begin_ns, at, table, event)
            for table, facts in self._accused.tables.items()
            for at, event in enumerate(facts.of("assign", "copy", "hold"))
            if event.kind == "copy"
            or (event.kind == "assign" and event.detail in removing)
            or (event.kind == "hold" and table in inserting and _block(event, self._key) >= 0)
        ]
        return [(table, event) for _, _, table, event in sorted(found, key=lambda one: one[:2])]

    def _copied(self, way: _Way, table: str, event: Event) -> _Way:
        """Return the way after a part of another table was copied, which may have the row."""
        source, into = BlockRange.named(event.blob), BlockRange.named(event.part)
        if source is None or into is None or source.partition != self._key:
            return way
        origin = str(event.detail).rpartition("_")[2]
        for address in way.born:
            if address.table == origin and source.low <= address.block <= source.high:
                copies = self._content(way, address, version_of(event.blob))
                if copies != self._content(way, address, None):
                    self.early |= self._makers(table, event)
                if copies:
                    way = way.put(_Address(table, into.low), copies)
        return way

    def _makers(self, table: str, event: Event) -> set[int]:
        """Return the places of the statements that may have made an entry."""
        return {
            step.place
            for step in self._accused.steps
            if str(step.call.to) == table
            and event.node in self._accused.makers(step)
            and self._period(step)[0] - DATED_NS <= event.begin_ns <= self._period(step)[1]
        }

    def _removed(self, way: _Way, table: str, name: str) -> _Way:
        """Return the way after a range of blocks was removed."""
        gone = BlockRange.named(name)
        if gone is None or gone.partition != self._key:
            return way
        left = frozenset(
            address
            for address in way.live
            if address.table != table or not gone.low <= address.block <= gone.high
        )
        return replace(way, live=left)

    def _inserted(self, way: _Way, table: str, event: Event) -> Iterator[_Way]:
        """Yield the ways after a part was inserted: it may be that of an INSERT SELECT of its
        replica, which has copied a row that the replica had."""
        yield way
        for step in self._selects:
            began_ns, end_ns = self._period(step)
            during = began_ns - DATED_NS <= event.begin_ns <= end_ns + DATED_NS
            if step.call.to != table or step.node != event.node or not during:
                continue
            for address in way.born if step.place not in way.selected else ():
                if address.table != step.call.table:
                    continue
                for version in self._versions(step, address):
                    copies = self._content(way, address, version)
                    if copies:
                        into = _Address(table, _block(event, self._key))
                        yield replace(way.put(into, copies), selected=way.selected | {step.place})

    def _may_end(self, way: _Way, step: StatementStep) -> bool:
        """Return whether an INSERT SELECT has copied the row in this way, or may not have: it
        failed, its replica did not have the row all the time, or its block may be a duplicate."""
        if step.place in way.selected or step.end is None:
            return True
        others = [other for other in self._accused.violation.steps if other is not step]
        into = {str(other.call.to) for other in others if other.call.effect is Effect.SELECT}
        if step.call.to in into | {self._accused.source}:
            return True
        return not any(
            address.table == step.call.table and self._has_throughout(step, address)
            for address in way.born
        )

    def _has_throughout(self, step: StatementStep, address: _Address) -> bool:
        """Return whether the replica of a statement had a part with a copy all the time."""
        began_ns, end_ns = self._period(step)
        had: set[str] = set()
        for event in self._parts_with(step, address):
            if event.begin_ns > end_ns + DATED_NS:
                break
            if event.begin_ns > began_ns - DATED_NS and not had:
                return False
            if event.kind == "hold":
                had.add(event.part)
            else:
                had.discard(event.part)
        return bool(had)

    def _versions(self, step: StatementStep, address: _Address) -> set[int]:
        """Return the versions of the parts with a copy that the replica of a statement may have
        read."""
        end_ns = self._period(step)[1] + DATED_NS
        events = self._parts_with(step, address)
        return {version_of(e.part) for e in events if e.kind == "hold" and e.begin_ns <= end_ns}

    def _parts_with(self, step: StatementStep, address: _Address) -> Iterator[Event]:
        """Yield when the replica of a statement registered and removed parts with a copy."""
        for event in self._accused.facts(address.table, "hold", "drop").on(str(step.node)):
            part = BlockRange.named(event.part)
            if part and part.partition == self._key and part.low <= address.block <= part.high:
                yield event

    def _period(self, step: StatementStep) -> tuple[int, int]:
        call = self._accused.pair(step)
        return call.invoke.time_ns, ended_ns(call)

    def _content(self, way: _Way, address: _Address, version: int | None) -> Copies:
        """Return the copies of an address in a part of a version, at rest without one; none if they
        have been deleted."""
        copies = way.born[address]
        for mutation in self._mutations:
            applies = mutation.table == address.table and mutation.number > address.block
            if not applies or (version is not None and mutation.number > version):
                continue
            if mutation.update is None:
                return ()
            copies = tuple((*copy, mutation.update) for copy in copies)
        return copies

    def _shown(self, way: _Way) -> Shown:
        found: dict[str, list[Copy]] = {}
        for address in way.live:
            found.setdefault(address.table, []).extend(self._content(way, address, None))
        return tuple(sorted((t, tuple(sorted(copies))) for t, copies in found.items() if copies))


def mutations_of(accused: AccusedRow, step: StatementStep) -> Iterator[RowMutation]:
    """Yield the mutation that a statement on the row has made, if it made one. Raises
    UnknownPathError if the record does not tell which one, or what else it did."""
    call, made = step.call, accused.pair(step)
    lightweight = bool(call.settings.get("enable_lightweight_update"))
    attached = call.effect is Effect.ATTACH and any(
        other.call.effect in _PUTS_ASIDE and call.table in (other.call.table, other.call.to)
        for other in accused.steps
    )
    followed = call.effect in _FOLLOWED or (call.effect is Effect.ATTACH and not attached)
    if not followed or lightweight or "@" in call.table or step.is_partial:
        raise UnknownPathError
    if call.effect not in (Effect.APPEND, Effect.DELETE) or call.one_in == 1:
        return
    own = accused.facts(call.table, "mutation")
    own = own if call.is_on_all_hosts else own.on(str(step.node))
    own = own.since(made.invoke.time_ns - DATED_NS).until(ended_ns(made) + DATED_NS)
    condition = call.condition(accused.violation.key)
    appended = f", {call.update})" if call.effect is Effect.APPEND else ""
    alike = [
        event
        for event in own
        if condition in re.sub("[()]", "", event.blob) and appended in event.blob
    ]
    if len(alike) > 1 or (not alike and step.end is not None):
        raise UnknownPathError
    for event in alike:
        number = event.detail.get(str(accused.violation.key))
        if number is not None:
            update = call.update if isinstance(call.update, int) else None
            yield RowMutation(call.table, int(number), update)


def _block(event: Event, key: str) -> int:
    """Return the number of the block of which an event's part is, if it is one as inserts make
    them; -1 otherwise."""
    found = re.fullmatch(rf"{key}_(\d+)_\1_[01]", event.part)
    return int(found[1]) if found else -1

"""Explains columns that an ALTER made and that are gone at rest, or still there, by the lists of
columns that were written to ZooKeeper.

Until 20.3 an ALTER sets the whole list, made from that of its replica, whatever is there. So a list
that is no single change of the one before it, and one of an earlier list, was made from that: it
undoes what came in between.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from checkers.ddl.alters import COLUMNS
from checkers.phrasing import seconds
from checkers.triage.events import Event, Events, tables
from checkers.triage.evidence import Evidence
from checkers.triage.repairs import Repair, answers_by_node
from harness.core.history import History
from harness.core.rows import NEVER_NS

UNDONE: Final = "undone-alter"


@dataclass(frozen=True, slots=True)
class Undone:
    """A list of columns that undid changes because it was made from an earlier one."""

    list: Event
    made_from: Event
    added: frozenset[str]
    """Columns that had been added, and that no later list has."""
    dropped: frozenset[str]
    """Columns that had been dropped, and that every later list has."""

    def why(self, columns: frozenset[str]) -> str:
        """Return a sentence about some of the columns."""
        return (
            f"the list of columns of {seconds(self.list.begin_ns)} was made from that of "
            f"{seconds(self.made_from.begin_ns)}, and undid the ALTER of "
            f"{', '.join(sorted(columns))} in between"
        )


def _undone(table: Events) -> Iterator[Undone]:
    """Yield the lists that undid changes, with what is still undone at the end."""
    lists = table.of("columns")
    for at in range(1, len(lists)):
        before, now = names(lists[at - 1]), names(lists[at])
        earlier = [old for old in lists[: at - 1] if len(now ^ names(old)) == 1]
        if len(now ^ before) > 1 and earlier:
            old, later = names(earlier[-1]), [names(one) for one in lists[at:]]
            added = frozenset(c for c in before - old if not any(c in of for of in later))
            dropped = frozenset(c for c in old - before if all(c in of for of in later))
            yield Undone(lists[at], earlier[-1], added, dropped)


def names(event: Event) -> frozenset[str]:
    """Return the columns of a list."""
    return frozenset(event.detail)


def undone_alter(history: History, _: Evidence) -> Iterator[Repair]:
    """Yield the columns that are missing or kept on every replica because a list in ZooKeeper was
    not made from the one before it, but from an earlier one: it undid what came in between."""
    finals, every = answers_by_node(history, COLUMNS), tables(history)
    for undone in _undone(every[0]) if len(every) == 1 else ():
        changed = undone.added | undone.dropped
        for end in finals.values() if changed else ():
            yield Repair(end.index, UNDONE, undone.why(changed), partial(_without, undone=undone))


def _without(value: Mapping[str, Any], *, undone: Undone) -> Mapping[str, Any]:
    columns = [name for name in value["columns"] if name not in undone.dropped]
    return {**value, "columns": [*columns, *sorted(undone.added - {*columns})]}


def undone_columns(history: History) -> Iterator[tuple[str, str]]:
    """Yield each column whose ADD was undone for good, and how."""
    for table in tables(history):
        for undone in _undone(table):
            for column in sorted(undone.added):
                yield column, undone.why(frozenset({column}))


def deaf_replica(history: History, _: Evidence) -> Iterator[Repair]:
    """Yield the columns of replicas that became active once more, and have followed none of the
    lists since."""
    finals, every = answers_by_node(history, COLUMNS), tables(history)
    for replica in sorted(finals) if len(every) == 1 else ():
        lists, active, applied = (
            every[0].of("columns"),
            every[0].of("active").on(replica),
            every[0].of("applied").on(replica),
        )
        again_ns = active[-1].begin_ns if len(active) > 1 else NEVER_NS
        later = lists.after(again_ns)
        if later and not applied.since(again_ns):
            why = (
                f"{replica} became active once more at {seconds(again_ns)}, and followed none of "
                f"the lists of columns since, the first of {seconds(later[0].begin_ns)}"
            )
            change = partial(_following, columns=sorted(names(lists[-1])))
            yield Repair(finals[replica].index, "deaf-replica", why, change)


def _following(value: Mapping[str, Any], *, columns: Sequence[str]) -> Mapping[str, Any]:
    return {**value, "columns": [*columns], "version": value["shared"]}

"""Explains columns that an ALTER made and that are gone at rest, or still there, by the lists of
columns that were written to ZooKeeper.

Until 20.3 an ALTER sets the whole list, made from that of its replica, whatever is there. So a list
that is no single change of the one before it, and one of an earlier list, was made from that: it
undoes what came in between.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from checkers.ddl.alters import COLUMNS
from checkers.phrasing import seconds
from checkers.triage.evidence import Evidence, facts_of_tables
from checkers.triage.repairs import Repair, answers_by_node
from harness.core.history import History

UNDONE: Final = "undone-alter"
DEAF: Final = "deaf-replica"


@dataclass
class Undone:
    """The changes that a list of columns undid because it was made from an earlier one."""

    at_ns: int
    made_from_ns: int
    added: frozenset[str]
    """Columns that had been added."""
    dropped: frozenset[str]
    """Columns that had been dropped."""

    def why(self, columns: frozenset[str]) -> str:
        """Return a sentence about some of the columns."""
        return (
            f"the list of columns of {seconds(self.at_ns)} was made from that of "
            f"{seconds(self.made_from_ns)}, and undid the ALTER of {', '.join(sorted(columns))} in "
            "between"
        )


@dataclass
class ColumnFacts:
    """The lists of columns of one table, in time."""

    lists: list[tuple[int, frozenset[str]]] = field(default_factory=list)
    """Those in ZooKeeper."""
    applied: dict[str, int] = field(default_factory=dict)
    """Time at which each replica last set its own."""
    active: dict[str, list[int]] = field(default_factory=dict)
    """Times at which each replica became active."""

    @staticmethod
    def of(facts: Sequence[tuple[int, str, Sequence[Any]]]) -> "ColumnFacts":
        """Read the facts of one table."""
        found = ColumnFacts()
        for at_ns, name, rest in facts:
            if name == "columns":
                found.lists.append((at_ns, frozenset(map(str, rest[0]))))
            elif name == "applied":
                found.applied[str(rest[0])] = at_ns
            else:
                found.active.setdefault(str(rest[0]), []).append(at_ns)
        return found

    def undone(self) -> Iterator[Undone]:
        """Yield the lists that undid changes, with what is still undone at the end."""
        for at, (at_ns, now) in enumerate(self.lists):
            if at == 0 or len(now ^ self.lists[at - 1][1]) <= 1:
                continue
            before = self.lists[at - 1][1]
            earlier = [one for one in self.lists[: at - 1] if len(now ^ one[1]) == 1]
            if earlier:
                made_from_ns, old = earlier[-1]
                later = [names for _, names in self.lists[at:]]
                added = frozenset(c for c in before - old if not any(c in of for of in later))
                dropped = frozenset(c for c in old - before if all(c in of for of in later))
                yield Undone(at_ns, made_from_ns, added, dropped)

    def deaf(self) -> Iterator[tuple[str, str]]:
        """Yield the replicas that followed no list since they became active once more."""
        for replica, times in sorted(self.active.items()):
            again_ns, followed_ns = times[-1], self.applied.get(replica, -1)
            later = [at_ns for at_ns, _ in self.lists if at_ns > again_ns]
            if len(times) > 1 and later and followed_ns < again_ns:
                yield (
                    replica,
                    f"{replica} became active once more at {seconds(again_ns)}, and followed none "
                    f"of the lists of columns since, the first of {seconds(later[0])}",
                )


def column_facts(history: History) -> list[ColumnFacts]:
    """Return the lists of columns of each table."""
    return [
        ColumnFacts.of(facts)
        for facts in facts_of_tables(history, frozenset({"columns", "applied", "active"}))
    ]


def column_repairs(history: History, _: Evidence) -> Iterator[Repair]:
    """Yield what undone ALTERs and deaf replicas made wrong in the columns at rest."""
    finals = answers_by_node(history, COLUMNS)
    tables = column_facts(history)
    if not finals or len(tables) != 1:
        return
    for undone in tables[0].undone():
        changed = undone.added | undone.dropped
        for end in finals.values() if changed else ():
            change = partial(_with_columns, added=undone.added, dropped=undone.dropped)
            yield Repair(end.index, UNDONE, undone.why(changed), change)
    for replica, why in tables[0].deaf():
        if replica in finals:
            names = tables[0].lists[-1][1]
            yield Repair(finals[replica].index, DEAF, why, partial(_following, names=names))


def _with_columns(
    value: Mapping[str, Any], *, added: frozenset[str], dropped: frozenset[str]
) -> Mapping[str, Any]:
    columns = [name for name in value["columns"] if name not in dropped]
    return {**value, "columns": [*columns, *sorted(added - {*columns})]}


def _following(value: Mapping[str, Any], *, names: frozenset[str]) -> Mapping[str, Any]:
    return {**value, "columns": sorted(names), "version": value["shared"]}


def undone_columns(history: History) -> Iterator[tuple[str, str]]:
    """Yield each column whose ADD was undone for good, and how."""
    for table in column_facts(history):
        for undone in table.undone():
            for column in sorted(undone.added):
                yield column, undone.why(frozenset({column}))

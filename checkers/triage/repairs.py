"""Repairs of a record: what known defects made wrong in it, and the record without that."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, TypeAlias

from msgspec.structs import replace

from checkers.sets.key_sets import key_sets
from checkers.triage.defects import DEFECTS
from checkers.triage.explanation import Explained, explained_by
from checkers.triage.kept import Kept
from checkers.triage.reads import Miss
from harness.core.history import History
from harness.core.op import Op

Change: TypeAlias = Callable[[Any], Any]
"""Function of an op's value that returns another one."""


def put(item: object, *path: str) -> Change:
    """Return the change that sets what is at a path of nested mappings."""
    return _change_at(path, lambda _: item)


def add(items: Sequence[object], *path: str) -> Change:
    """Return the change that appends to the list at a path of nested mappings, or to the values of
    a read if the path is empty."""
    return _change_at(path, lambda every: type(every)((*every, *items)))


def remove(item: object, *path: str) -> Change:
    """Return the change that removes every such item from the list or mapping at a path of nested
    mappings, or from the values of a read if the path is empty."""

    def removed(every: Any) -> Any:
        if isinstance(every, Mapping):
            return {key: value for key, value in every.items() if key != item}
        return type(every)(one for one in every if one != item)

    return _change_at(path, removed)


def _change_at(path: Sequence[str], change: Change) -> Change:
    if not path:
        return change
    first, *rest = path
    return lambda value: {**value, first: _change_at(rest, change)(value[first])}


@dataclass(frozen=True, slots=True)
class Repair:
    """A change to the value of one op, for example a look at rest, that undoes what a known defect
    did to what the op saw."""

    op: int
    """Index of the op."""
    by: str
    """The known defect."""
    why: str
    """The evidence, a sentence."""
    change: Change


@dataclass
class Repairs:
    """What known defects made wrong: for each read the values to add, the values to remove, and
    changes to other ops."""

    misses: Mapping[int, Sequence[Miss]]
    """By index of the read's end."""
    kept: Sequence[Kept]
    others: Sequence[Repair]

    @cached_property
    def explained(self) -> Mapping[str, Explained]:
        """Return the defects that made something wrong by name, in the order of the catalogue."""
        misses = (miss.by.items() for _, of in sorted(self.misses.items()) for miss in of)
        kept = ((one.by, one.why) for one in self.kept)
        others = ((one.by, one.why) for one in self.others)
        found = explained_by(chain(chain.from_iterable(misses), kept, others))
        return {name: found[name] for name in DEFECTS if name in found}

    def repaired(self, history: History, defects: frozenset[str]) -> History:
        """Return the history without what these defects made wrong."""
        ops: list[Op] = list(history)
        for index, of_read in self.misses.items():
            added = tuple(miss.value for miss in of_read if defects & miss.by.keys())
            if added:
                value = ops[index].value
                assert isinstance(value, tuple), "an answered read returned values"
                ops[index] = replace(ops[index], value=(*value, *added))
        for one in self.kept:
            if one.by in defects:
                _remove(ops, history, one)
        for other in self.others:
            if other.by in defects:
                ops[other.op] = replace(ops[other.op], value=other.change(ops[other.op].value))
        return History(ops)


def last_answer(history: History, f: str) -> Op | None:
    """Return the last answer to a call of this kind."""
    ends = [end for _, end in history.answered(f)]
    return ends[-1] if ends else None


def answers_by_node(history: History, f: str) -> dict[str, Op]:
    """Return the last answer of each node to a call of this kind."""
    return {str(invoke.node): end for invoke, end in history.answered(f)}


def _remove(ops: list[Op], history: History, one: Kept) -> None:
    for key in key_sets(history):
        if key.key != one.key:
            continue
        for read in key.reads:
            end = ops[read.end.index]
            if end.node not in one.replicas or not isinstance(end.value, tuple):
                continue
            count = end.value.count(one.value)
            more = count - (1 if read.end.time_ns >= one.since_ns else 0)
            if more > 0 and (not one.twice or more == 1):
                left = [value for value in end.value if value != one.value]
                ops[end.index] = replace(end, value=(*left, *[one.value] * (count - more)))

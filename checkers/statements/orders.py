"""Searches the orders of the statements on one row for the states to which they lead."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from checkers.statements.effects import (
    RowModel,
    is_expiring,
    is_replacing,
    merged,
    model_of,
)
from checkers.statements.names import meanings
from checkers.statements.steps import RowState, Sees, StatementStep

STATES_MAX: Final = 20_000
"""Number of states after which a search gives up."""


class TooManyOrdersError(Exception):
    """There are too many orders to search."""


@dataclass(frozen=True, slots=True)
class _Reached:
    """A state, and the steps under way that have taken effect in it, by their places."""

    state: RowState
    done: frozenset[int]
    unsure: frozenset[int]
    """Those of them whose outcome is unknown."""

    def allows_all_of(self, other: "_Reached") -> bool:
        """Return whether whatever may follow the other may follow this one, too, where the row is
        in the same places: steps of unknown outcome need not take effect, and what is remembered
        need not be used."""
        return self.unsure <= other.unsure and self.state.memory >= other.state.memory


@dataclass(slots=True)
class _Search:
    model: RowModel
    budget: int

    def extended(
        self, reached: Iterable[_Reached], under_way: Sequence[StatementStep], must: int | None
    ) -> list[_Reached]:
        """Return what is reached when any of the steps under way have taken effect; if `must` is
        the place of one, only what is reached when that one has. What another allows as well is
        left out."""
        best: dict[tuple[object, frozenset[int]], list[_Reached]] = {}
        waiting = list(reached)
        while waiting:
            one = waiting.pop()
            known = best.setdefault((one.state.places, one.done - one.unsure), [])
            if any(other.allows_all_of(one) for other in known):
                continue
            known[:] = [other for other in known if not one.allows_all_of(other)] + [one]
            if must is not None and must in one.done:
                continue
            for step in under_way:
                if step.place in one.done:
                    continue
                meant = meanings(step)
                states = {s for one_of in meant for s in self.model.after(one_of, one.state)}
                unsure = one.unsure | {step.place} if step.end is None else one.unsure
                waiting += [_Reached(state, one.done | {step.place}, unsure) for state in states]
                self.budget -= len(states)
            if self.budget < 0:
                raise TooManyOrdersError
        every = (one for known in best.values() for one in known)
        return [one for one in every if must is None or must in one.done]


def final_states(
    steps: Sequence[StatementStep], sees: Sees, budget: int = STATES_MAX, *, halves: bool = False
) -> set[RowState]:
    """Return the states in which the row may be after all steps, in any order that keeps real time:
    a step takes effect once between its begin and its end; one of unknown outcome at any time after
    its begin, or never. `halves` is that of `model_of`. Raises TooManyOrdersError."""
    meant = [one for step in steps for one in meanings(step)]
    search = _Search(model_of(sees, meant, halves=halves), budget)
    reached = [_Reached(RowState(), frozenset(), frozenset())]
    under_way: list[StatementStep] = []
    events = [(step.begin, 0, step) for step in steps]
    events += [(step.end, 1, step) for step in steps if step.end is not None]
    for _, ends, step in sorted(events, key=lambda event: event[:2]):
        if not ends:
            under_way.append(step)
            continue
        reached = [
            _Reached(one.state, one.done - {step.place}, one.unsure)
            for one in search.extended(reached, under_way, step.place)
        ]
        under_way.remove(step)
    states = {one.state for one in search.extended(reached, under_way, None)}
    if is_expiring(steps):
        return merged(states, least=0)
    return merged(states) if is_replacing(steps) else states

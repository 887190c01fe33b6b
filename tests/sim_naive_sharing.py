"""The explorer's model `zero-copy` once more, in plain Python with sets and tuples.

Part 2 is 0 and 1 merged. Copies have the number of the replica that wrote them.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

from tests.sim_naive import put, search

IDLE: dict[str, Any] = {"doing": "", "what": None}
FETCHING = ("received", "looked", "locked", "renamed")


class Sharer(NamedTuple):
    """A replica."""

    active: bool = True
    doing: str = ""
    what: tuple[int, int] | None = None
    """Part and copy that it works on."""
    temporary: tuple[int, int] | None = None
    marker: bool = False
    has: tuple[Any, ...] = (None, None, None)
    """Copy of each part, or "disk"."""
    locks: tuple[int | None, ...] = (None, None, None)


class State(NamedTuple):
    """The table."""

    inserted: int = 0
    hybrid: bool = False
    dropped: bool = False
    whole: bool = False
    stored: frozenset[Any] = frozenset()
    """Parts and copies that are in S3."""
    replicas: tuple[Sharer, ...] = ()

    def to(self, at: int, **changes: Any) -> "State":
        """Return the state after a change of one replica."""
        changed = self.replicas[at]._replace(**changes)
        return self._replace(replicas=put(self.replicas, at, changed))

    def unused(self, part: int, at: int) -> bool:
        """Return whether nothing is called what a replica would write of a part."""
        named = any(
            r.has[part] == at or r.locks[part] == at or (part, at) in (r.temporary, r.what)
            for r in self.replicas
        )
        return (part, at) not in self.stored and not named


def zero_copy(replicas: int, records: int) -> tuple[int, int]:
    """Explore the states of the described protocol, without a fix."""
    return search(State(replicas=(Sharer(),) * replicas), partial(steps, records))


def steps(records: int, state: State) -> Iterator[State]:
    yield from table_steps(records, state)
    for at, one in enumerate(state.replicas):
        if not one.active:
            yield state.to(at, active=True)
            continue
        fetching = one.doing in (*FETCHING, "unlocked")
        yield state.to(at, marker=False, **(IDLE if fetching else {}))
        yield state.to(at, active=False, marker=False, **IDLE)
        if one.doing in FETCHING:
            yield from fetch_steps(state, at)
        if not one.doing:
            yield from fetches(state, at)
            yield from merges_and_moves(state, at)
            yield from removals(state, at)
        if one.what is not None:
            yield from write_steps(state, at)


def table_steps(records: int, state: State) -> Iterator[State]:
    """Inserts, the change to hybrid storage, and the drop."""
    if not state.hybrid and not state.dropped and state.inserted < records:
        if not state.inserted:
            old = tuple(r._replace(has=("disk", None, None)) for r in state.replicas)
            yield state._replace(inserted=1, hybrid=True, replicas=old)
        for at, one in enumerate(state.replicas):
            if one.active and not one.doing:
                part = state.inserted
                after = state._replace(inserted=part + 1, stored=state.stored | {(part, at)})
                yield after.to(at, has=put(one.has, part, at))
    if state.inserted and not state.dropped:
        yield state._replace(dropped=True)


def fetches(state: State, at: int) -> Iterator[State]:
    """An idle replica asks another one for a part."""
    one = state.replicas[at]
    for part in range(3):
        moves = state.hybrid and one.has[part] == "disk" and not state.dropped
        wants = not state.dropped and one.has[part] is None and one.has[2] is None
        for source, other in enumerate(state.replicas):
            copy = other.has[part]
            if source == at or not other.active or copy is None or not (moves or wants):
                continue
            if copy == "disk":
                if not moves:
                    yield state.to(at, has=put(one.has, part, copy))
                continue
            locked = state.to(source, locks=put(other.locks, part, copy))
            yield locked.to(at, doing="received", what=(part, copy))


def fetch_steps(state: State, at: int) -> Iterator[State]:
    one = state.replicas[at]
    assert one.what is not None, "it fetches a part"
    part, copy = one.what
    if one.doing == "received" and one.what in state.stored:
        yield state.to(at, doing="looked")
    elif one.doing == "received":
        yield from fetched_whole(state, at, part)
        yield state.to(at, temporary=None, **IDLE)
    elif one.doing == "looked":
        yield state.to(at, doing="locked", temporary=one.what)
    elif one.doing == "locked":
        has, locks = put(one.has, part, copy), put(one.locks, part, copy)
        marker = one.marker and not state.hybrid
        yield state.to(at, doing="renamed", has=has, locks=locks, marker=marker)
    else:
        yield state.to(at, temporary=None, **IDLE)


def fetched_whole(state: State, at: int, part: int) -> Iterator[State]:
    """Its files come instead, from a replica that can read them."""
    for source, other in enumerate(state.replicas):
        readable = (part, other.has[part]) in state.stored
        if source != at and other.active and readable and state.unused(part, at):
            after = state._replace(whole=True)
            yield after.to(at, doing="writing", what=(part, at), temporary=None)


def merges_and_moves(state: State, at: int) -> Iterator[State]:
    if state.dropped:
        return
    one = state.replicas[at]
    both = None not in one.has[:2] and not state.hybrid and one.has[2] is None
    if both and not any(r.marker for r in state.replicas) and state.unused(2, at):
        yield state.to(at, doing="writing", what=(2, at), marker=True)
    moved = any(r.locks[0] is not None for r in state.replicas)
    if state.hybrid and one.has[0] == "disk" and not moved and state.unused(0, at):
        yield state.to(at, doing="writing", what=(0, at))


def removals(state: State, at: int) -> Iterator[State]:
    one = state.replicas[at]
    for part, copy in enumerate(one.has):
        covered = part < 2 and one.has[2] is not None
        if copy is None or not (state.dropped or covered):
            continue
        gone: dict[str, Any] = {"has": put(one.has, part, None)}
        if copy != "disk":
            gone |= {"doing": "unlocked", "what": (part, copy)}
            gone |= {"locks": put(one.locks, part, None)}
        yield state.to(at, **gone)


def write_steps(state: State, at: int) -> Iterator[State]:
    """What it does to the files of the part that it works on."""
    one = state.replicas[at]
    assert one.what is not None, "it works on a part"
    part, copy = one.what
    if one.doing == "writing":
        yield state._replace(stored=state.stored | {one.what}).to(at, doing="wrote")
    if one.doing == "wrote":
        locks = put(one.locks, part, copy) if state.hybrid else one.locks
        marker = one.marker and not state.hybrid
        yield state.to(at, has=put(one.has, part, copy), locks=locks, marker=marker, **IDLE)
    if one.doing == "unlocked":
        others = [r for r in state.replicas if r is not one]
        used = any(r.locks[part] == copy or r.temporary == one.what for r in others)
        yield state.to(at, **(IDLE if used else {"doing": "deleting"}))
    if one.doing == "deleting":
        yield state._replace(stored=state.stored - {one.what}).to(at, **IDLE)

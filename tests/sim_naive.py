"""The models of the explorer once more, in the plainest Python, and the plainest search."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

State = Any
Steps = Callable[[State], Iterator[State]]


def search(initial: State, steps: Steps) -> tuple[int, int]:
    """Return the number of states, and the greatest distance from the first."""
    seen, level, depth = {initial}, [initial], 0
    while level:
        after = []
        for state in level:
            for found in steps(state):
                if found not in seen:
                    seen.add(found)
                    after.append(found)
        level = after
        depth += bool(after)
    return len(seen), depth


def put(chunks: tuple[Any, ...], at: int, chunk: Any) -> tuple[Any, ...]:
    return (*chunks[:at], chunk, *chunks[at + 1 :])


def quorum(
    replicas: int, records: int, reads: int, read: str, skip: bool = False
) -> tuple[int, int]:
    """Explore states (length, ((active, pointer, parts), …), quorum, failed, last added,
    history)."""

    def steps(state: State) -> Iterator[State]:
        length, chunks, pending, failed, last, history = state
        for at, (active, pointer, parts) in enumerate(chunks):
            toggled = put(chunks, at, (not active, pointer, parts))
            yield length, toggled, pending, failed, last, history
            if not active:
                continue
            if pending is None and length < records:
                new = length + 1
                has = put(chunks, at, (active, pointer, parts | {new}))
                yield new, has, (new, frozenset({at})), failed, last, (*history, ("start", new))
            if pointer <= length:
                got = put(chunks, at, (active, pointer + 1, parts | {pointer}))
                ours = pending is not None and pending[0] == pointer
                if (not ours and pointer not in failed) or (ours and at in pending[1]):
                    yield length, got, pending, failed, last, history
                if skip and pointer in failed:
                    passed = put(chunks, at, (active, pointer + 1, parts))
                    yield length, passed, pending, failed, last, history
                if ours and at not in pending[1]:
                    if any(chunks[r][0] for r in pending[1]):
                        joined = (pointer, pending[1] | {at})
                        yield length, got, joined, failed, last, history
                    else:
                        lost = (*history, ("failed", pointer))
                        yield length, chunks, None, failed | {pointer}, last, lost
            if pending and at in pending[1] and len(pending[1]) >= 2:
                yield length, chunks, None, failed, pending[0], (*history, ("end", pending[0]))
            hidden = failed | ({pending[0]} if pending else set())
            visible, committed = parts - hidden, set(range(1, length + 1)) - hidden
            count = sum(name == "read" for name, _ in history)
            whole = read == "server" or len(visible) == len(committed)
            if visible and whole and count < reads:
                seen = (*history, ("read", max(visible)))
                yield length, chunks, pending, failed, last, seen

    fresh = (True, 1, frozenset[int]())
    return search((0, (fresh,) * replicas, None, frozenset[int](), 0, ()), steps)


def truncation(replicas: int, records: int, worst: Any = min) -> tuple[int, int]:
    """Explore states (length, prefix, ((active, lost, pointer, parts), …))."""

    def steps(state: State) -> Iterator[State]:
        length, prefix, chunks = state
        for at, (active, lost, pointer, parts) in enumerate(chunks):
            if active or not lost:
                yield length, prefix, put(chunks, at, (not active, lost, pointer, parts))
            if active and not lost and length < records:
                yield length + 1, prefix, chunks
            if active and not lost and pointer <= length:
                got = (active, False, pointer + 1, parts | {pointer})
                yield length, prefix, put(chunks, at, got)
            for source_active, source_lost, there, theirs in chunks:
                if lost and not active and source_active and not source_lost:
                    yield length, prefix, put(chunks, at, (False, False, there, theirs))
        pointers = [pointer - 1 for active, _, pointer, _ in chunks if active]
        if pointers and length:
            after = max(prefix, worst(pointers))
            marked = ((a, pointer - 1 < after, pointer, parts) for a, _, pointer, parts in chunks)
            yield length, after, tuple(marked)

    return search((0, 0, ((True, False, 1, frozenset[int]()),) * replicas), steps)


def replication(replicas: int, records: int, *, many_leaders: bool = False) -> tuple[int, int]:
    """Explore states (log, leader, ((active, pointer, parts), …)); a log entry is () or the two
    merged parts."""

    def steps(state: State) -> Iterator[State]:
        log, leader, chunks = state

        def rows(entry: int) -> frozenset[int]:
            merged = log[entry]
            return frozenset().union(*map(rows, merged)) if merged else frozenset({entry})

        taken = {entry for merged in log for entry in merged}
        for at, (active, pointer, parts) in enumerate(chunks):
            if not active:
                yield log, leader, put(chunks, at, (True, pointer, parts))
                continue
            gone = None if leader == at else leader
            yield log, gone, put(chunks, at, (False, pointer, parts))
            if log.count(()) < records:
                yield (*log, ()), leader, put(chunks, at, (True, pointer, parts | {len(log)}))
            if leader is None and not many_leaders:
                yield log, at, chunks
            if pointer < len(log):
                covered = any(rows(pointer) <= rows(part) for part in parts)
                after = parts if covered else (parts - set(log[pointer])) | {pointer}
                yield log, leader, put(chunks, at, (True, pointer + 1, after))
            if leader == at or many_leaders:
                free = sorted(parts - taken)
                for i, a in enumerate(free):
                    for b in free[i + 1 :]:
                        merged = (parts - {a, b}) | {len(log)}
                        yield (*log, (a, b)), leader, put(chunks, at, (True, pointer, merged))

    return search(((), None, ((True, 0, frozenset[int]()),) * replicas), steps)


class Sharer(NamedTuple):
    """A replica of `zero_copy`. Copies have the number of who wrote them."""

    active: bool = True
    doing: str = ""
    what: tuple[int, int] | None = None
    """Part and copy that it works on."""
    temporary: tuple[int, int] | None = None
    marker: bool = False
    has: tuple[Any, ...] = (None, None, None)
    """Copy of each part, or "disk"."""
    locks: tuple[int | None, ...] = (None, None, None)


def zero_copy(replicas: int, records: int) -> tuple[int, int]:
    """Explore states (number inserted, hybrid, dropped, whole, copies in S3, replicas) of the
    described protocol, without a fix; part 2 is 0 and 1 merged."""

    def steps(state: State) -> Iterator[State]:
        inserted, hybrid, dropped, whole, stored, every = state

        def to(at: int, base: State = state, **changes: Any) -> State:
            return (*base[:5], put(base[5], at, base[5][at]._replace(**changes)))

        def unused(part: int, at: int) -> bool:
            named = any(
                r.has[part] == at or r.locks[part] == at or (part, at) in (r.temporary, r.what)
                for r in every
            )
            return (part, at) not in stored and not named

        def fetched_whole(at: int, part: int) -> Iterator[State]:
            for source, other in enumerate(every):
                readable = (part, other.has[part]) in stored
                if source != at and other.active and readable and unused(part, at):
                    base = (inserted, hybrid, dropped, True, stored, every)
                    yield to(at, base, doing="writing", what=(part, at), temporary=None)

        if not hybrid and not dropped and inserted < records:
            if not inserted:
                old = tuple(r._replace(has=("disk", None, None)) for r in every)
                yield 1, True, dropped, whole, stored, old
            for at, one in enumerate(every):
                if one.active and not one.doing:
                    base = (inserted + 1, hybrid, dropped, whole, stored | {(inserted, at)}, every)
                    yield to(at, base, has=put(one.has, inserted, at))
        if inserted and not dropped:
            yield inserted, hybrid, True, whole, stored, every
        for at, one in enumerate(every):
            if not one.active:
                yield to(at, active=True)
                continue
            idle: dict[str, Any] = {"doing": "", "what": None}
            fetching = one.doing in ("received", "looked", "locked", "renamed", "unlocked")
            yield to(at, marker=False, **(idle if fetching else {}))
            yield to(at, active=False, marker=False, **idle)
            if one.doing in ("", "received", "looked", "locked", "renamed"):
                yield from fetch(state, to, fetched_whole, at, idle)
            if not one.doing and not dropped:
                own: dict[str, Any] = {"doing": "writing", "what": (2, at), "marker": True}
                both = None not in one.has[:2] and not hybrid and one.has[2] is None
                if both and not any(r.marker for r in every) and unused(2, at):
                    yield to(at, **own)
                moved = any(r.locks[0] is not None for r in every)
                if hybrid and one.has[0] == "disk" and not moved and unused(0, at):
                    yield to(at, doing="writing", what=(0, at))
            for part, copy in enumerate(one.has):
                covered = part < 2 and one.has[2] is not None
                if one.doing or copy is None or not (dropped or covered):
                    continue
                gone: dict[str, Any] = {"has": put(one.has, part, None)}
                if copy != "disk":
                    gone |= {"doing": "unlocked", "what": (part, copy)}
                    gone |= {"locks": put(one.locks, part, None)}
                yield to(at, **gone)
            if one.what is None:
                continue
            part, copy = one.what
            base = state
            if one.doing == "writing":
                base = (inserted, hybrid, dropped, whole, stored | {one.what}, every)
                yield to(at, base, doing="wrote")
            if one.doing == "wrote":
                locks = put(one.locks, part, copy) if hybrid else one.locks
                marker = one.marker and not hybrid
                yield to(at, has=put(one.has, part, copy), locks=locks, marker=marker, **idle)
            if one.doing == "unlocked":
                others = [r for r in every if r is not one]
                used = any(r.locks[part] == copy or r.temporary == one.what for r in others)
                yield to(at, **(idle if used else {"doing": "deleting"}))
            if one.doing == "deleting":
                base = (inserted, hybrid, dropped, whole, stored - {one.what}, every)
                yield to(at, base, **idle)

    def fetch(state: State, to: Any, whole: Any, at: int, idle: dict[str, Any]) -> Iterator[State]:
        _, hybrid, dropped, _, stored, every = state
        one = every[at]
        if one.doing:
            part, copy = one.what
            if one.doing == "received" and one.what in stored:
                yield to(at, doing="looked")
            elif one.doing == "received":
                yield from whole(at, part)
                yield to(at, temporary=None, **idle)
            elif one.doing == "looked":
                yield to(at, doing="locked", temporary=one.what)
            elif one.doing == "locked":
                has, locks = put(one.has, part, copy), put(one.locks, part, copy)
                marker = one.marker and not hybrid
                yield to(at, doing="renamed", has=has, locks=locks, marker=marker)
            else:
                yield to(at, temporary=None, **idle)
            return
        for part in range(3):
            moves = hybrid and one.has[part] == "disk" and not dropped
            wants = not dropped and one.has[part] is None and one.has[2] is None
            for source, other in enumerate(every):
                copy = other.has[part]
                if source == at or not other.active or copy is None or not (moves or wants):
                    continue
                if copy == "disk":
                    if not moves:
                        yield to(at, has=put(one.has, part, copy))
                    continue
                locked = put(every, source, other._replace(locks=put(other.locks, part, copy)))
                yield to(at, (*state[:5], locked), doing="received", what=(part, copy))

    return search((0, False, False, False, frozenset[Any](), (Sharer(),) * replicas), steps)

"""The models of the explorer once more, in the plainest Python, and the plainest search."""

from collections.abc import Callable, Iterator
from typing import Any

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

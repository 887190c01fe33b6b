"""Judges the watches in a report of etcd's robustness tests (`client-N/watch.json`) by what the
clients wrote, and the revisions of their requests by real time.

Each change of the store has a revision, one more than that before it. etcd promises of a watch
(https://etcd.io/docs/v3.6/learning/api_guarantees/#watch-apis):

- ordered: events come in the order of their revisions.
- unique: none comes twice.
- reliable: none between two that came is missing.
- atomic: the events of a revision come together.
- resumable: a watch from a revision begins with the first event since then.
- bookmarkable: after a progress notification no event comes that is not newer.

The log of the store is what answered requests changed, whose revision their answers have, and what
watches saw of requests without an answer. So an event must be one that a request wrote: at the
revision of its answer, or, without an answer, at one revision. Keys with leases may be deleted at
any time. What neither an answer nor any watch shows is not missed.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pyporcupine.importers.etcd_forms import ABSENT, int_of, key_of, object_of, objects_of, value_of

EMPTY_REVISION: Final = 1
"""Revision of a store in which nothing was written."""


@dataclass(frozen=True, slots=True)
class AnsweredRequest:
    """A request whose answer has the current revision, or that of its changes."""

    where: str
    call: int
    ret: int
    revision: int
    changes: dict[str, str]
    """Keys and their new values; none if it only read."""


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """A change of one key. `previous` is None if the event does not say what the value was."""

    key: str
    value: str
    revision: int
    is_create: bool
    previous: str | None


@dataclass(frozen=True, slots=True)
class Watch:
    """What a client asked to see, and the lists of events that it got. `revision` is 0 for a watch
    of what changes from now on. A list without events is a progress notification, up to a revision.
    """

    where: str
    key: str
    is_prefix: bool
    revision: int
    lists: list[tuple[list[WatchEvent], int]]

    def is_of(self, key: str) -> bool:
        """Return whether a client asked for a key."""
        return key.startswith(self.key) if self.is_prefix else key == self.key

    def events(self) -> Iterator[WatchEvent]:
        """Yield the events in the order in which they came."""
        return (event for events, _ in self.lists for event in events)

    def span(self) -> tuple[int, int]:
        """Return the first and the last revision of which the watch must show all events."""
        ends = [
            (events[0].revision, events[-1].revision) if events else (upto + 1, upto)
            for events, upto in self.lists
        ]
        return (self.revision or ends[0][0], ends[-1][1]) if ends else (0, -1)


@dataclass(slots=True)
class _Log:
    changes: dict[int, dict[str, str]] = field(default_factory=dict)
    """Keys and their new values by revision."""
    written_at: dict[int, str] = field(default_factory=dict)
    """Where the request is that wrote a revision, if it was answered."""
    broken: list[str] = field(default_factory=list)


def watch_of(where: str, value: Any) -> Watch:
    """Return the watch in an object of a file. Raises FormError."""
    request = object_of(value, "Request")
    lists = []
    for response in objects_of(value, "Responses"):
        events = [_event(one) for one in objects_of(response, "Events")]
        if events or response.get("IsProgressNotify"):
            lists.append((events, 0 if events else int_of(response, "Revision")))
    revision = int_of(request, "Revision", 0)
    return Watch(where, key_of(request, "Key"), bool(request.get("WithPrefix")), revision, lists)


def _event(written: dict[str, Any]) -> WatchEvent:
    previous = written.get("PrevValue")
    return WatchEvent(
        key_of(written, "Key"),
        ABSENT if written.get("Type") == "delete-operation" else value_of(written),
        int_of(written, "Revision"),
        bool(written.get("IsCreate")),
        None if previous is None else value_of(previous),
    )


def broken_promises(
    answered: Sequence[AnsweredRequest],
    unanswered: Iterable[tuple[str, str]],
    leased: Collection[str],
    watches: Sequence[Watch],
) -> list[str]:
    """Return a sentence for each promise that a report breaks, which begins with the promise.

    `unanswered` are the keys and values of the writes whose revisions nobody was told, `leased` the
    keys that were put with a lease.
    """
    log = _log(answered, Counter(unanswered), leased, watches)
    revisions = sorted(log.changes)
    by_key: dict[str, list[int]] = {}
    for revision in revisions:
        for key in log.changes[revision]:
            by_key.setdefault(key, []).append(revision)
    broken = [*_steps_back(answered), *log.broken]
    for watch in watches:
        broken += [f"{what} ({watch.where})" for what in _of_order(watch)]
        broken += [f"{what} ({watch.where})" for what in _missing(watch, log, revisions)]
        broken += [f"{what} ({watch.where})" for what in _of_values(watch, log, by_key)]
    return broken


def _log(
    answered: Sequence[AnsweredRequest],
    unanswered: Counter[tuple[str, str]],
    leased: Collection[str],
    watches: Sequence[Watch],
) -> _Log:
    log = _Log()
    for one in answered:
        if one.changes and one.revision in log.written_at:
            both = f"{log.written_at[one.revision]}; {one.where}"
            log.broken.append(f"unique: two requests wrote revision {one.revision} ({both})")
        elif one.changes:
            log.written_at[one.revision] = one.where
            log.changes[one.revision] = dict(one.changes)
    for watch in watches:
        for event in watch.events():
            at = log.changes.setdefault(event.revision, {})
            change = (event.key, event.value)
            if at.get(event.key) == event.value:
                continue
            if event.key in at or event.revision in log.written_at:
                seen = f"{event.key!r} = {at[event.key]!r}" if event.key in at else "not that key"
                log.broken.append(f"event: {_shown(event)}, but it wrote {seen} ({watch.where})")
            elif unanswered[change] or (event.value == ABSENT and event.key in leased):
                at[event.key] = event.value
                unanswered[change] -= event.value != ABSENT
            else:
                log.broken.append(f"event: no request wrote {_shown(event)} ({watch.where})")
    return log


def _steps_back(answered: Sequence[AnsweredRequest]) -> Iterator[str]:
    """Yield the requests whose revision is less than one that was known before their call."""
    ended = iter(sorted(answered, key=lambda one: one.ret))
    latest: AnsweredRequest | None = None
    next_ = next(ended, None)
    for one in sorted(answered, key=lambda one: one.call):
        while next_ is not None and next_.ret < one.call:
            latest = next_ if latest is None or next_.revision > latest.revision else latest
            next_ = next(ended, None)
        if latest is not None and one.revision < latest.revision + bool(one.changes):
            what = "wrote" if one.changes else "read"
            yield (
                f"revision: a request {what} revision {one.revision} ({one.where}) after the "
                f"answer with {latest.revision} ({latest.where})"
            )


def _of_order(watch: Watch) -> Iterator[str]:
    last = bookmark = 0
    seen: set[tuple[int, str]] = set()
    for events, upto in watch.lists:
        before = last
        for event in events:
            if not watch.is_of(event.key):
                yield f"filter: {_shown(event)} is of a key that was not asked for"
            if (event.revision, event.key) in seen:
                yield f"unique: {_shown(event)} came twice"
            elif event.revision < last:
                yield f"ordered: {_shown(event)} came after revision {last}"
            elif event.revision == before:
                yield f"atomic: {_shown(event)} came apart from others of its revision"
            elif event.revision <= bookmark:
                yield f"bookmarkable: {_shown(event)} came after a progress to {bookmark}"
            seen.add((event.revision, event.key))
            last = max(last, event.revision)
        if not events and upto < max(last, bookmark):
            yield f"bookmarkable: a progress to {upto} came after revision {max(last, bookmark)}"
        bookmark = bookmark if events else upto


def _missing(watch: Watch, log: _Log, revisions: list[int]) -> Iterator[str]:
    seen = {(event.revision, event.key) for event in watch.events()}
    came = sorted({revision for revision, _ in seen})
    first, last = watch.span()
    for revision in revisions[bisect_left(revisions, first) : bisect_right(revisions, last)]:
        for key, value in log.changes[revision].items():
            if watch.is_of(key) and (revision, key) not in seen:
                is_first = watch.revision and (not came or revision < came[0])
                promise = "resumable" if is_first else "reliable"
                name = "atomic" if revision in came else promise
                where = log.written_at.get(revision, "another watch has it")
                yield f"{name}: revision {revision} of {key!r} = {value!r} is missing, {where}"


def _of_values(watch: Watch, log: _Log, by_key: dict[str, list[int]]) -> Iterator[str]:
    """Yield the events that are wrong about the value before them, where it is known: the watch has
    shown it, or shows all changes of the store."""
    first, _ = watch.span()
    for event in watch.events():
        revisions = by_key.get(event.key, [])
        at = bisect_left(revisions, event.revision)
        if at and revisions[at - 1] >= first:
            before = log.changes[revisions[at - 1]][event.key]
        elif not at and 0 < first <= EMPTY_REVISION + 1:
            before = ABSENT
        else:
            continue
        if event.is_create != (before == ABSENT):
            is_ = "a" if event.is_create else "no"
            yield f"value: {_shown(event)} is {is_} creation, and the value was {before!r}"
        if event.previous not in (None, before):
            yield f"value: {_shown(event)} says that it was {event.previous!r}, not {before!r}"


def _shown(event: WatchEvent) -> str:
    return f"revision {event.revision} of {event.key!r} = {event.value!r}"

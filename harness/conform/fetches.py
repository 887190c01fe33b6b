"""Reads where each fetch took its part from, in the servers' logs, and who could have given it, in
ZooKeeper's transactions.

A server says "Fetching part PART from PATH/replicas/REPLICA" when it has chosen. Both clocks are
those of one machine. The choice is compared with a rule that some descriptions of replication give:
the replica that has read most of the log, and of several the one with the shortest queue.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from harness.conform.entries import PartName, UnreadableError
from harness.conform.txnlog import ChangeKind, Txn

_LINE: Final = re.compile(
    r"(?P<time>\d{4}\.\d\d\.\d\d \d\d:\d\d:\d\d\.\d{3}).*Fetching part (?P<part>\S+) from "
    r"(?P<zookeeper>[^/\s]*)(?P<root>/\S+)/replicas/(?P<source>[^/\s.]+)"
)
_GONE_MS: Final = 5000
"""Time for which a replica counts as an active holder after its part or its is_active is gone: the
server looked before it wrote to its log, and on a busy machine that is long."""


@dataclass(frozen=True, slots=True)
class Fetch:
    """A line of a server's log."""

    time_ms: int
    """Wall-clock time."""
    node: str
    """The replica that fetches."""
    part: PartName
    source: str


@dataclass(slots=True)
class FetchSources:
    """Sources of the parts that one table's replicas fetched."""

    fetches: int = 0
    from_holder: int = 0
    """Fetches from an active replica that had the part, or one that covers it."""
    choices: int = 0
    """Fetches for which there were several such replicas."""
    most_advanced: int = 0
    """Choices of the replica with the largest log_pointer and, of several, the shortest queue."""
    strays: list[Fetch] = field(default_factory=list)
    """Fetches from another replica."""

    @property
    def text(self) -> str:
        """Return the numbers in words."""
        return (
            f"{self.fetches:,} fetches, {self.from_holder:,} of them from an active replica that "
            f"had the part; {self.choices:,} had a choice, of which {self.most_advanced:,} took "
            "the most advanced replica"
        )


@dataclass(slots=True)
class _Holder:
    """State of one replica in ZooKeeper."""

    session: int | None = None
    """Session of is_active; None if the replica is not active."""
    active_ms: int = 0
    """Time at which is_active was last there."""
    pointer: int = 0
    queue: set[str] = field(default_factory=set)
    parts: dict[str, PartName] = field(default_factory=dict)
    removed: dict[str, tuple[PartName, int]] = field(default_factory=dict)
    """Parts that were removed, and when."""

    def could_give(self, part: PartName, time_ms: int) -> bool:
        gone = (own for own, at in self.removed.values() if at + _GONE_MS >= time_ms)
        known = (*self.parts.values(), *gone)
        active = self.session is not None or self.active_ms + _GONE_MS >= time_ms
        return active and any(own.covers(part) for own in known)


def read_fetches(root: str, node: str, lines: Iterable[str]) -> Iterator[Fetch]:
    """Return the fetches of one table in a server's log."""
    for line in lines:
        found = _LINE.search(line)
        if found is None or found["root"] != root:
            continue
        at = datetime.strptime(f"{found['time']}+0000", "%Y.%m.%d %H:%M:%S.%f%z").astimezone(UTC)
        part = PartName.named(found["part"])
        yield Fetch(round(at.timestamp() * 1000), node, part, found["source"])


def fetch_sources(root: str, txns: Sequence[Txn], fetches: Iterable[Fetch]) -> FetchSources:
    """Return what was chosen in each fetch, from the state that ZooKeeper had at that time."""
    out = FetchSources()
    replicas: dict[str, _Holder] = {}
    at = 0
    for fetch in sorted(fetches, key=lambda fetch: fetch.time_ms):
        while at < len(txns) and txns[at].time_ms <= fetch.time_ms:
            _take(root, replicas, txns[at])
            at += 1
        _choose(out, replicas, fetch)
    return out


def _choose(out: FetchSources, replicas: Mapping[str, _Holder], fetch: Fetch) -> None:
    holders = {
        name: one
        for name, one in replicas.items()
        if name != fetch.node and one.could_give(fetch.part, fetch.time_ms)
    }
    out.fetches += 1
    if fetch.source not in holders:
        out.strays.append(fetch)
        return
    out.from_holder += 1
    ranks = {name: (one.pointer, -len(one.queue)) for name, one in holders.items()}
    best = [name for name, rank in ranks.items() if rank == max(ranks.values())]
    if len(holders) > len(best):
        out.choices += 1
        out.most_advanced += fetch.source in best


def _take(root: str, replicas: dict[str, _Holder], txn: Txn) -> None:
    """Take the changes of one transaction."""
    for change in txn.changes:
        if not change.path.startswith(f"{root}/replicas/"):
            continue
        name, _, rest = change.path.removeprefix(f"{root}/replicas/").partition("/")
        one = replicas.setdefault(name, _Holder())
        what, _, node = rest.partition("/")
        created = change.kind is ChangeKind.CREATE
        if what == "is_active":
            one.session, one.active_ms = (txn.session if created else None), txn.time_ms
        elif what == "log_pointer" and change.data:
            one.pointer = int(change.data)
        elif what == "queue" and node:
            (one.queue.add if created else one.queue.discard)(node)
        elif what == "parts" and node and "/" not in node:
            _take_part(one, node, txn.time_ms, created=created)
    if txn.ends_session:
        for one in replicas.values():
            if one.session == txn.session:
                one.session, one.active_ms = None, txn.time_ms


def _take_part(one: _Holder, name: str, time_ms: int, *, created: bool) -> None:
    try:
        part = PartName.named(name)
    except UnreadableError:
        return
    if created:
        one.parts[name] = part
    elif one.parts.pop(name, None) is not None:
        one.removed[name] = part, time_ms

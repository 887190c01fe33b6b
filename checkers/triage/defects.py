"""The known defects of real servers, as docs/track-record.md has them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from harness.core.dialect import FIRST, Version

_TODAY: Final = Version(24, 8)
"""The oldest version after 18.16.1 that was examined."""


@dataclass(frozen=True, slots=True)
class KnownDefect:
    """A defect that was traced, and the versions that have it."""

    name: str
    """Name of its entry in the track record."""
    text: str
    since: Version = FIRST
    """The first version on which it was seen."""
    fixed: Version | None = None
    """The first version without it; None if there is none."""
    setting: str = ""
    """The option that servers have it by, and the one that they do not, if it is no defect."""

    def in_(self, version: Version) -> bool:
        """Return whether the version has the defect."""
        return version.within(self.since, self.fixed)


_EVERY: Final = (
    KnownDefect(
        "stale-read", "a read's ZooKeeper server had not yet heard that the insert had its quorum"
    ),
    KnownDefect(
        "early-snapshot",
        "a read chose its parts before it looked for the last quorum part",
        since=_TODAY,
    ),
    KnownDefect("skipped-part", "a later part arrived before an earlier one, and nothing asks"),
    KnownDefect("lagging-writer", "a replica that lacks an insert answers after one of its own"),
    KnownDefect("overtaken-insert", "last_part went back, and hides the inserts above it"),
    KnownDefect(
        "merged-away", "a merge made one part of blocks below and above last_part", since=_TODAY
    ),
    KnownDefect("hidden-insert", "an insert without a quorum is above last_part"),
    KnownDefect("unseen-write", "a replica had not yet fetched an insert without a quorum"),
    KnownDefect("dirty-read", "a read showed an insert whose quorum failed later"),
    KnownDefect("phantom-part", "a replica keeps a part that was never committed"),
    KnownDefect("doubled-insert", "such a part, and the same block inserted again"),
    KnownDefect("failed-part-missed", "a replica came back with a part whose quorum had failed"),
    KnownDefect("uncounted-quorum", "a replica ended the quorum of another insert"),
    KnownDefect(
        "pending-merged",
        "a merge took a part whose quorum was pending, and then failed",
        since=_TODAY,
    ),
    KnownDefect(
        "acknowledged-failure",
        "an insert was acknowledged whose replica had removed its unreadable part",
    ),
    KnownDefect(
        "unreadable-part",
        "a replica answers without a part that it could not read",
    ),
    KnownDefect(
        "discarded-copy",
        "a replica that was lost removed the last copy of a part, because the one that it cloned "
        "could not read its own",
        since=_TODAY,
    ),
    KnownDefect(
        "failed-duplicate",
        "an insert was acknowledged as a duplicate of one whose quorum failed",
        since=_TODAY,
    ),
    KnownDefect(
        "lost-retry",
        "an insert was acknowledged as a duplicate of one that its replica had given up",
        since=_TODAY,
    ),
    KnownDefect(
        "deaf-replica", "a replica follows no ALTER since its session ended", fixed=Version(19, 1)
    ),
    KnownDefect(
        "undone-alter",
        "an ALTER was made from a replica's old list of columns",
        fixed=Version(20, 3),
    ),
    KnownDefect(
        "lost-distributed-insert",
        "a file was given up because its receiver was killed",
        fixed=Version(21, 1),
    ),
    KnownDefect("torn-insert", "an insert commits the part of each partition by itself"),
    KnownDefect("half-insert", "a replica was killed between the parts of one insert"),
    KnownDefect(
        "returned-rows",
        "a lost replica kept the parts of a partition that was dropped",
        fixed=Version(19, 14),
    ),
    KnownDefect(
        "missed-drop",
        "a replica dropped a partition while an insert of its own had yet to hear of its commit",
        since=_TODAY,
    ),
    KnownDefect(
        "missing-table",
        "a server does not load a table that three ALTERs have changed meanwhile",
        fixed=Version(20, 3),
    ),
    KnownDefect(
        "half-alter",
        "a replica was killed after it had written an ALTER to ZooKeeper alone",
        since=_TODAY,
    ),
    KnownDefect(
        "crashing-mutation", "a mutation beside an insert kills servers", fixed=Version(19, 11)
    ),
    KnownDefect(
        "two-leaders",
        "a leader that was paused past its session claims to lead",
        fixed=Version(20, 5),
    ),
    KnownDefect(
        "uncounted-clone",
        "a part that a lost replica fetched does not count for its quorum, which stays pending",
    ),
    KnownDefect(
        "unreadable-table",
        "the partition of the last quorum was dropped",
        fixed=Version(20, 5),
    ),
    KnownDefect("unwritable-table", "the partition of a pending quorum was dropped"),
    KnownDefect("unwaited-clone", "a replica took over a log pointer before it had the parts"),
    KnownDefect("ddl-twice", "a host was killed before it said that it had executed a statement"),
    KnownDefect("orphaned-insert", "a replica was killed while it wrote a part", since=_TODAY),
    KnownDefect("orphaned-drop", "the store refused to delete an object", since=_TODAY),
    KnownDefect(
        "orphaned-fetch",
        "a part was dropped while a replica fetched it that never had it",
        since=_TODAY,
    ),
    KnownDefect(
        "orphaned-commit",
        "a replica's session ended before it had registered a part that it had stored",
        since=_TODAY,
    ),
    KnownDefect(
        "orphaned-unlock",
        "a replica released the last lock of objects and was kept from removing them",
        since=_TODAY,
    ),
    KnownDefect(
        "orphaned-move", "a part was mutated while another replica took over its move", since=_TODAY
    ),
    KnownDefect(
        "restored-replica",
        "a replica that was restored deleted objects of another one",
        since=Version(25, 8),
    ),
    KnownDefect(
        "moved-twice",
        "two replicas moved a part, for the first was paused past its session",
        since=_TODAY,
        fixed=Version(25, 8),
    ),
    KnownDefect("dropped-replica", "a replica that was dropped keeps its locks", since=_TODAY),
    KnownDefect(
        "copied-part", "a replica could not ask the store for a part, and copied it", since=_TODAY
    ),
    KnownDefect(
        "unsynced-parts",
        "power was cut on every replica of a part before it was synced",
        setting="--fsync default; --fsync inserts makes acknowledged parts durable",
    ),
    KnownDefect(
        "attach-own-copy", "a replica attached its own copy of a detached part", since=_TODAY
    ),
)
DEFECTS: Final[Mapping[str, KnownDefect]] = {defect.name: defect for defect in _EVERY}
"""Known defects by name, in the order in which they are named."""


def title_of(name: str) -> str:
    """Return what a defect is called in prose: its name, or the setting that it is."""
    known = DEFECTS.get(name)
    return f"the setting {known.setting}" if known is not None and known.setting else name


def known_in(versions: Iterable[Version], names: Iterable[str] = DEFECTS) -> frozenset[str]:
    """Return those of the named defects that some of the versions have."""
    every = tuple(versions)
    return frozenset(name for name in names if any(DEFECTS[name].in_(version) for version in every))

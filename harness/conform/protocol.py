"""What the servers of a run do in ZooKeeper: which steps their versions have, and which departures
from the model they are known for."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from harness.core.dialect import Dialect, Mechanism, Version, dialect_of

LAST_PART_BACK: Final = "LastPartBack"
REMOVE_AHEAD: Final = "RemoveAhead"
COUNTED_WITHOUT: Final = "CountedWithout"
KEEP_FAILED: Final = "KeepFailed"
INSERT_INACTIVE: Final = "InsertInactive"
END_ANOTHER: Final = "EndAnother"
FAIL_COUNTED: Final = "FailCounted"
DROP_MISSED: Final = "DropMissed"
PART_LOST: Final = "PartLost"
FORGET_MISSED: Final = "ForgetMissed"

_FIRST: Final = Version(18, 16, 1)
_TODAY: Final = Version(24, 8)
"""The oldest version after 18.16.1 that was examined."""


@dataclass(frozen=True, slots=True)
class KnownDeparture:
    """A step that a server is known to make, and that the model does not have."""

    text: str
    allowed: str
    """What the model would have allowed."""
    since: Version = _FIRST
    """The first version of which it is known."""
    until: Version | None = None
    """The first version of which it is not known; None if there is none."""


DEPARTURES: Final[Mapping[str, KnownDeparture]] = {
    LAST_PART_BACK: KnownDeparture(
        "last_part went back", "last_part names the highest block of a partition with a quorum"
    ),
    REMOVE_AHEAD: KnownDeparture(
        "a part was removed before the merged part that covers it was registered",
        "the part that covers it is registered first",
    ),
    COUNTED_WITHOUT: KnownDeparture(
        "a replica counted by a quorum did not have the part, or lost it",
        "a quorum counts replicas that have the part and keep it",
    ),
    KEEP_FAILED: KnownDeparture(
        "a replica became active with a part whose quorum had failed",
        "such a part is removed first",
    ),
    INSERT_INACTIVE: KnownDeparture(
        "a replica inserted while it was inactive or lost",
        "only active replicas insert",
        until=_TODAY,
    ),
    END_ANOTHER: KnownDeparture(
        "a replica ended the quorum of another part than its own",
        "the end of a quorum sets last_part to its part",
    ),
    FAIL_COUNTED: KnownDeparture(
        "a quorum failed that had counted an active replica, which had removed the part",
        "a quorum fails when no replica that it has counted is active",
    ),
    PART_LOST: KnownDeparture(
        "a replica gave up the fetch of a part that no replica had any more",
        "some replica keeps a part that was registered",
        until=_TODAY,
    ),
    DROP_MISSED: KnownDeparture(
        "a replica executed a drop and kept an insert of its own whose commit was not answered",
        "no part is left that the log had made before the drop",
        since=_TODAY,
    ),
    FORGET_MISSED: KnownDeparture(
        "a replica gave up a part of after a FORGET PARTITION because of a drop of before it",
        "a drop removes what was inserted before it",
        since=_TODAY,
    ),
}
"""Known departures of servers. Each is a step that is counted, and after which the replay
continues; one that is not known of the run's versions ends it."""


@dataclass(frozen=True, slots=True)
class ServerProtocol:
    """The protocol of a run's servers. In a cluster of several versions a step is allowed if one of
    them has it."""

    name: str
    """The versions, for messages."""
    entries: frozenset[str]
    """Kinds of the entries in the log."""
    elects: bool
    """Whether one replica is elected to lead."""
    many_leaders: bool
    """Whether every replica leads."""
    parallel_quorums: bool
    departures: frozenset[str]
    """Names of the known departures."""


def protocol_of(dialect: Dialect) -> ServerProtocol:
    """Return the protocol of servers of these versions."""
    every = [dialect_of(version, dialect.coordination) for version in dialect.versions]
    known = frozenset(
        name
        for name, departure in DEPARTURES.items()
        if any(version.within(departure.since, departure.until) for version in dialect.versions)
    )
    return ServerProtocol(
        name=", ".join(map(str, dialect.versions)),
        entries=dialect.log_entries,
        elects=any(one.has(Mechanism.TABLE_LEADER) for one in every),
        many_leaders=any(not one.has(Mechanism.TABLE_LEADER) for one in every),
        parallel_quorums=any(one.has(Mechanism.PARALLEL_QUORUM) for one in every),
        departures=known,
    )

"""Options of faults: how often, for how long, on which links and nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from harness.core.errors import UsageError
from harness.core.link_quality import LinkAmounts
from harness.core.ranges import SECONDS, quoted
from harness.core.topology import LinkClass, Role

ROLES = ("clickhouse", "zookeeper", "both")
"""Roles of the nodes that a fault affects; "both" affects some of either role at once."""

TARGETS = ("one", "minority", "majority", "all", "leader")
"""Number of nodes that a fault affects. "leader" is the ZooKeeper server that leads at that moment;
with the role clickhouse it is the replica that leads the table."""

ENDS = ("new", "old")
"""Version that the servers run after a rolling upgrade has finished."""


CUTS = ("drop", "reject")
"""What a link that a partition cuts does with packets: it drops them, or it resets TCP connections
as well. Faults of messages that cut a connection close it, or reset it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultCommands:
    """Commands that make one kind of fault, each for one server at a time."""

    name: str
    begin: Sequence[str]
    end: Sequence[str]
    seen: Sequence[str] = ()
    """Command that succeeds while the fault is in force; (): nothing tells."""
    gone: Sequence[str] = ()
    """Command that succeeds while it is not in force; (): `seen` tells, by the exit status 1."""
    role: str | None = None
    """Role of the servers that it affects; None: any."""
    targets: Sequence[str] = ("one",)
    """How many it affects, drawn for each fault."""
    timeout_s: float = 30.0
    """Time limit of each command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultOptions:
    """Options of the faults of a run.

    The defaults suit runs of 30 s: about five faults, some shorter and some longer than ClickHouse
    waits for ZooKeeper (3 s). A replica that gave up its session may take ten seconds to come back,
    and would miss the faults in between.

    Raises UsageError for a value that cannot be used.
    """

    interval_s: float = 3.0
    """Time from the end of a fault to the next begin, over all families together."""
    duration_s: float = 3.0
    """Time from the moment that a fault's effect was seen to the call that ends it."""
    jitter: float = 0.5
    """Each interval and duration is multiplied by a factor in [1 - jitter, 1 + jitter)."""
    link_classes: tuple[LinkClass, ...] = tuple(LinkClass)
    """Classes of the links that partitions may cut, and that faults of links may degrade."""
    cut: str = CUTS[0]
    """What links that partitions cut do with packets, one of CUTS."""
    link_amounts: LinkAmounts = field(default_factory=LinkAmounts)
    """Amounts of the faults of links."""
    roles: tuple[str, ...] = ("clickhouse", "zookeeper")
    """Roles to choose from, for each fault, if the name of the nemesis has none."""
    targets: tuple[str, ...] = TARGETS
    """Targets to choose from, for each fault, if the name of the nemesis has none."""
    upgrade_to: Mapping[Role, str] = field(default_factory=dict)
    """Version that servers are upgraded to, as the topology names it."""
    upgrade_end: str = "new"
    """One of ENDS; with "old" the servers return to the versions that they had."""
    commands: Mapping[str, FaultCommands] = field(default_factory=dict)
    """Faults that commands of the user make, by name."""
    seen_within_s: float = 5.0
    """Time within which the effect of a fault must be seen, or the fault is info."""
    heal_within_s: float = 60.0
    """Time limit of a heal; it then reports what is still broken."""

    def __post_init__(self) -> None:
        for name in ("interval_s", "duration_s", "seen_within_s", "heal_within_s"):
            try:
                SECONDS.parse(getattr(self, name))
            except ValueError as error:
                raise UsageError(f"{name} {error}") from None
        if not 0 <= self.jitter < 1:
            raise UsageError(f"jitter: {self.jitter} given, a fraction in [0, 1) expected")
        if not self.link_classes:
            raise UsageError(f"link classes: none given, expected some of {' '.join(LinkClass)}")
        if self.upgrade_end not in ENDS:
            raise UsageError(f"upgrade end {quoted(self.upgrade_end)}: expected new or old")
        _subset("role", self.roles, ROLES)
        _subset("target", self.targets, TARGETS)


def _subset(what: str, given: tuple[str, ...], known: tuple[str, ...]) -> None:
    if not given:
        raise UsageError(f"{what}s of faults: none given, expected some of {' '.join(known)}")
    for name in given:
        if name not in known:
            raise UsageError(f"{what} {quoted(name)} of faults: expected one of {' '.join(known)}")

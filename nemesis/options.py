"""What a user may say about faults: how often, how long, on which links, on whom."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.core.errors import UsageError
from harness.core.ranges import SECONDS
from harness.core.topology import LinkClass, Role

ROLES = ("clickhouse", "zookeeper", "both")
"""Whose processes a fault strikes; "both" strikes some of either at once."""

TARGETS = ("one", "minority", "majority", "all", "leader")
"""How many of them; "leader" is the ZooKeeper server that leads at that moment, and with the role
clickhouse the replica that leads the table."""

ENDS = ("new", "old")
"""The version that the servers end on when they are upgraded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultOptions:
    """Made for runs of 30 s: about five faults, some shorter and some longer than ClickHouse waits
    for ZooKeeper (3 s). A replica that gave up its session comes back ten seconds later at worst,
    and would miss the faults between.

    Raises UsageError on what cannot be used.
    """

    interval_s: float = 3.0
    """From the end of a fault to the next begin, over all families together."""
    duration_s: float = 3.0
    """From the moment that a fault was seen to the call that ends it."""
    jitter: float = 0.5
    """Each interval and duration is stretched by a factor in [1 - jitter, 1 + jitter)."""
    link_classes: tuple[LinkClass, ...] = tuple(LinkClass)
    """The links that partitions may cut."""
    roles: tuple[str, ...] = ("clickhouse", "zookeeper")
    """For kill, pause, restart where the name says no role: one of these for each fault."""
    targets: tuple[str, ...] = TARGETS
    """Likewise where the name says no target."""
    upgrade_to: Mapping[Role, str] = field(default_factory=dict)
    """The version that upgraded servers get, as the topology names it."""
    upgrade_end: str = "new"
    """One of ENDS: with "old" the servers go back to the versions that they had."""
    seen_within_s: float = 5.0
    """A fault whose effect was not seen by then did not happen as asked."""
    heal_within_s: float = 60.0
    """What is still broken by then is reported as broken."""

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
            raise UsageError(f"upgrade end {self.upgrade_end!r}: expected new or old")
        _subset("role", self.roles, ROLES)
        _subset("target", self.targets, TARGETS)


def _subset(what: str, given: tuple[str, ...], known: tuple[str, ...]) -> None:
    if not given:
        raise UsageError(f"{what}s of faults: none given, expected some of {' '.join(known)}")
    for name in given:
        if name not in known:
            raise UsageError(f"{what} {name!r} of faults: expected one of {' '.join(known)}")

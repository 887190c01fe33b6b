"""Entries of the table of faults: all that there is to say of a name that a user can give."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from harness.core.errors import UsageError
from harness.core.ranges import quoted
from harness.core.topology import Topology
from nemesis import targets
from nemesis.family import Family
from nemesis.options import ROLES, TARGETS, FaultOptions
from nemesis.targets import NodeSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """Servers that a fault affects: what may follow its name, and what holds if nothing does.

    Where a role or a target is None, the user's options decide.
    """

    role: str | None = None
    target: str | None = None
    roles: tuple[str, ...] = ()
    """Roles that may follow the name."""
    targets: tuple[str, ...] = ()
    """Targets that may follow the name and the role."""

    def endings(self) -> Iterator[tuple[str | None, str | None]]:
        """Yield each role and target that may follow the name of a fault, as in
        "kill-clickhouse-one", with None in place of one that is left out."""
        for role in (None, *self.roles):
            for target in (None, *self.targets):
                if (role, target) != ("both", "leader"):
                    yield role, target

    def specs(
        self,
        name: str,
        role: str | None,
        target: str | None,
        topology: Topology,
        options: FaultOptions,
    ) -> tuple[NodeSpec, ...]:
        """Return the node specifications of a name with this role and target. A leader without a
        role is ZooKeeper's. Raises UsageError, with the name, if the topology has no such node."""
        aimed = role or (None if target == "leader" else self.role)
        try:
            return targets.node_specs(
                aimed, target or self.target, options.roles, options.targets, topology
            )
        except UsageError as error:
            raise UsageError(f"nemesis {quoted(name)}: {error}") from error


ANY: Final = Aim(roles=ROLES, targets=TARGETS)
"""Whatever the name says, or the options."""
ONE: Final = Aim(target="one", roles=ROLES, targets=TARGETS)
"""Whatever the name says, or one server."""
REPLICA: Final = Aim(role="clickhouse", target="one")
"""One replica."""


@dataclass(frozen=True, slots=True)
class FaultChoice:
    """What a user chose of one family: the names of entries, and the servers to affect, () if the
    entries have no aim."""

    names: tuple[str, ...]
    specs: tuple[NodeSpec, ...]
    topology: Topology
    options: FaultOptions

    @property
    def name(self) -> str:
        """Return the name of the first entry, which is the only one unless entries share an f."""
        return self.names[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultEntry:
    """One entry of the table of faults."""

    name: str
    text: str
    """Description for whoever chooses it."""
    seen: str
    """What was seen when it began, in words for the reader of a report."""
    gone: str
    """What was seen when it ended."""
    make: Callable[[FaultChoice], Family]
    """Makes the family. It raises UsageError for what the topology or the options do not allow."""
    f: str = ""
    """The f of its ops; "" if it is the name. Entries with the same f are drawn by one family: two
    of their faults at once would be one of another shape."""
    aim: Aim | None = None
    """None for a family that chooses servers by itself."""

    @property
    def family(self) -> str:
        """Return the f of its ops."""
        return self.f or self.name

    def names(self) -> "Iterator[FaultName]":
        """Yield the names by which a user can give it: its own, with the roles and targets that may
        follow."""
        for role, target in (self.aim or Aim()).endings():
            yield FaultName(self, role, target)


@dataclass(frozen=True, slots=True)
class FaultName:
    """Name that a user can give: an entry, and the role and the target that follow its name."""

    entry: FaultEntry
    role: str | None
    target: str | None

    @property
    def text(self) -> str:
        """Return the name as a user gives it."""
        return "-".join(filter(None, (self.entry.name, self.role, self.target)))

    def specs(self, topology: Topology, options: FaultOptions) -> tuple[NodeSpec, ...]:
        """Return the node specifications of its servers. Raises UsageError if there are none."""
        if self.entry.aim is None:
            return ()
        return self.entry.aim.specs(self.text, self.role, self.target, topology, options)

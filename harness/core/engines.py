"""Engines of a run's servers: which program each runs, and the dialect that follows from it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from harness.core.dialect import FIRST, Coordination, Dialect, Version, common_dialect, dialect_of
from harness.core.topology import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """Program of a server."""

    role: Role
    version: str
    """Version that the server reports, such as "25.8.2.1"; "" as long as it is unknown."""
    build: str = ""
    """Origin of the build, such as "as built in chdb 3.7.2"; "" if unknown."""
    coordination: Coordination = Coordination.ZOOKEEPER
    """Program of a server whose role is ZooKeeper."""

    @property
    def product(self) -> str:
        """Return the name of the program."""
        if self.role is Role.ZOOKEEPER:
            return self.coordination.value
        return {Role.CLICKHOUSE: "ClickHouse", Role.STORE: "moto"}[self.role]

    @property
    def dialect(self) -> Dialect:
        """Return the dialect of a ClickHouse server."""
        return dialect_of(Version.of(self.version))

    def __str__(self) -> str:
        return " ".join(filter(None, (self.product, self.version, self.build)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Engines:
    """Engines of the servers of a run, which decide its dialect and are part of a finding."""

    nodes: Mapping[str, Engine] = field(default_factory=dict)
    """Engine of each node."""
    others: tuple[Engine, ...] = ()
    """Engines that upgrades of the cluster start from or lead to."""

    @property
    def distinct(self) -> tuple[Engine, ...]:
        """Return every engine that nodes run at some time, once."""
        return tuple(dict.fromkeys((*self.nodes.values(), *self.others)))

    def only(self, role: Role) -> Engine | None:
        """Return the engine that all servers of a role always run; None if there is no such."""
        found = [engine for engine in self.distinct if engine.role is role]
        return found[0] if len(found) == 1 else None

    @property
    def dialect(self) -> Dialect:
        """Return the dialect that all servers have in common at any time."""
        found = {Version.of(e.version) for e in self.distinct if e.role is Role.CLICKHOUSE}
        others = {e.coordination for e in self.distinct if e.role is Role.ZOOKEEPER}
        keeper = Coordination.KEEPER in others
        coordination = Coordination.KEEPER if keeper else Coordination.ZOOKEEPER
        return common_dialect(frozenset(found or {FIRST}), coordination)

    def reporting(self, versions: Mapping[str, str]) -> "Engines":
        """Return the engines in which nodes run the versions that they report."""
        met = {
            node: replace(engine, version=versions.get(node, engine.version))
            for node, engine in self.nodes.items()
        }
        return replace(self, nodes=met)

    def on(self, node: str) -> Dialect:
        """Return the current dialect of one ClickHouse server."""
        return self.nodes[node].dialect if node in self.nodes else self.dialect

    def __str__(self) -> str:
        by_role: dict[Role, dict[Engine, list[str]]] = {}
        for node, engine in self.nodes.items():
            by_role.setdefault(engine.role, {}).setdefault(engine, []).append(node)
        return ", ".join(
            f"{engine} ({' '.join(nodes)})" if len(engines) > 1 else str(engine)
            for engines in by_role.values()
            for engine, nodes in engines.items()
        )

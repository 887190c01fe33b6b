"""Rolling upgrades: servers are restarted on another version, one after the other."""

from collections.abc import Mapping, Sequence
from typing import Final

from harness.core.capabilities import CanKill, CanUpgrade, ReportsLeader
from harness.core.errors import FaultError, StartError, UsageError
from harness.core.op import Json
from harness.core.protocols import Cluster
from harness.core.seed import Seed
from harness.core.topology import Topology
from nemesis.cluster_state import reaches_quorum, responsive
from nemesis.family import Needs, NotBegunError, Watch
from nemesis.fault import FaultChoice, FaultEntry

ACTIVE_S = 30.0
"""Time limit for the replicas of a server that answers to become active. Normally it takes 1 s."""


class Upgrade:
    """Rolling upgrade: restart one server per turn on the version `to[node]`, in a drawn order.

    With `back`, the servers then return to their former versions, one per turn. A server is
    touched only when the one before it is active. A server that does not start on a version is put
    back on its former one, and that version is not tried on any other server. The heal completes
    the upgrade, in the same direction.
    """

    f = "upgrade"
    once = True
    heal_rank = 2
    """Healed after links and paused processes, like everything that starts servers."""

    def __init__(self, to: Mapping[str, str], topology: Topology, *, back: bool) -> None:
        self.needs: Needs = (CanUpgrade, CanKill, ReportsLeader)
        self.turns = len(to) * (2 if back else 1)
        self._to = dict(to)
        self._had = {node: topology.node(node).version for node in to}
        self._back = back
        self._topology = topology
        self._first_reported: dict[str, str] = {}
        """Versions that servers reported before they were touched."""
        self._touched: list[str] = []
        """Servers that were moved to another version, in that order."""
        self._refused: dict[str, str] = {}
        """Errors by version: the server that did not start on it, and the data that it had."""
        self._refused_late: list[str] = []
        """Errors that a heal saw, so that no op of the history has them."""

    def plan(self, seed: Seed, turn: int) -> Mapping[str, Json]:
        """Return the server and the version of a turn."""
        direction, at = divmod(turn, len(self._to))
        node = seed.child("order", direction).shuffled(0, tuple(self._to))[at]
        name, version = ("downgrade", self._had[node]) if direction else (self.f, self._to[node])
        return {"name": name, "nodes": [node], "to": version}

    def begin(self, cluster: Cluster, plan: Mapping[str, Json], watch: Watch) -> dict[str, Json]:
        """Move one server to its version, and verify that it reports it and is active."""
        nodes, version = plan["nodes"], str(plan["to"])
        assert isinstance(nodes, list), "a plan has one node"
        node = str(nodes[0])
        self._check(cluster, node, version)
        watch.check()
        return {**self._move(cluster, node, version), "nodes": [node]}

    def end(self, cluster: Cluster, watch: Watch) -> dict[str, Json]:
        """Start what was touched and wait until it is active; called if a begin was info."""
        self.undo(cluster)
        watch.require_none(lambda: self._inactive(cluster))
        said = cluster.versions()
        return {"text": ", ".join(f"{node} runs {said.get(node)}" for node in self._touched[-1:])}

    def undo(self, cluster: Cluster) -> None:
        """Start the touched servers that do not run."""
        servers = cluster.part(CanKill)
        dead = [node for node in self._touched if not servers.running(node)]
        if dead:
            servers.start(dead)

    def finish(self, cluster: Cluster) -> None:
        """Move the servers that do not run their final version yet, one by one.

        With `back`, servers that were never touched are left alone.
        """
        goal = self._had if self._back else self._to
        for node in tuple(self._touched) if self._back else self._to:
            version = goal[node]
            if version in self._refused or self._runs(cluster, node, version):
                continue
            try:
                self._move(cluster, node, version)
            except FaultError as error:
                if version in self._refused:
                    self._refused_late.append(str(error))
                raise

    def broken(self, cluster: Cluster) -> Sequence[str]:
        """Return the servers that are not active, and those that refused their final version."""
        return (*self._inactive(cluster), *self._refused_late)

    def _check(self, cluster: Cluster, node: str, version: str) -> None:
        """Raise NotBegunError if the server must not or cannot be moved now."""
        if version in self._refused:
            raise NotBegunError(f"{node} stays: {self._refused[version]}")
        if not responsive(cluster, [node]):
            raise NotBegunError(f"{node}: other faults hold it")
        if node in self._topology.replicas and not reaches_quorum(cluster, self._topology, node):
            raise NotBegunError(f"{node}: no ZooKeeper server that it knows has a quorum now")
        before = self._touched[-1:]
        waiting = Watch(ACTIVE_S, clock=cluster.runtime.clock).until_none(
            lambda: [why for one in before for why in cluster.part(CanUpgrade).inactive(one)]
        )
        if waiting:
            raise NotBegunError(f"{node} waits for {before[0]}: {'; '.join(waiting)}")
        if self._runs(cluster, node, version):
            raise NotBegunError(f"{node} runs {self._reported(cluster, node)} already")

    def _move(self, cluster: Cluster, node: str, version: str) -> dict[str, Json]:
        """Restart a server on a version, and return what it reports then. Raises FaultError."""
        upgradable, clock = cluster.part(CanUpgrade), cluster.runtime.clock()
        was = self._reported(cluster, node)
        self._first_reported.setdefault(node, was)
        if node in self._touched:
            self._touched.remove(node)
        self._touched.append(node)
        former = cluster.topology.node(node).version
        try:
            away_s = upgradable.upgrade(node, version)
        except StartError as error:
            self._refused[version] = f"{node} does not start on {version} with the data of {was}"
            upgradable.upgrade(node, former)
            raise FaultError(
                f"{self._refused[version]}, and runs {self._reported(cluster, node)} again: {error}"
            ) from error
        now = self._reported(cluster, node)
        if not self._runs(cluster, node, version):
            raise FaultError(f"{node} says that it is {now}, not {version}")
        answered_ns = clock.now_ns()
        wrong = Watch(ACTIVE_S, clock=cluster.runtime.clock).until_none(
            lambda: upgradable.inactive(node)
        )
        if wrong:
            raise FaultError(
                f"{node} runs {now} after {away_s:.1f} s, and is not active {ACTIVE_S:g} s later: "
                f"{'; '.join(wrong)}"
            )
        active_s = away_s + (clock.now_ns() - answered_ns) / 1e9
        return {
            "was": was,
            "is": now,
            "away_s": round(away_s, 3),
            "active_s": round(active_s, 3),
            "text": f"{node} {was} → {now}, away {away_s:.1f} s, active after {active_s:.1f} s",
        }

    def _inactive(self, cluster: Cluster) -> list[str]:
        return [why for node in self._touched for why in cluster.part(CanUpgrade).inactive(node)]

    def _reported(self, cluster: Cluster, node: str) -> str:
        return cluster.versions().get(node, "a version that it does not say")

    def _runs(self, cluster: Cluster, node: str, version: str) -> bool:
        """Return whether the server reports this version; "25.8" stands for its whole series.

        The version "" is the one that the server had at first.
        """
        now = self._reported(cluster, node)
        version = version or self._first_reported.get(node, now)
        return f"{now}.".startswith(f"{version}.")


def _make(choice: FaultChoice) -> Upgrade:
    """Return the upgrade of the servers that do not run the version of the options yet."""
    options, topology = choice.options, choice.topology
    if not options.upgrade_to:
        raise UsageError("nemesis 'upgrade': no target version given, expected one in --upgrade-to")
    to = {
        node.name: options.upgrade_to[node.role]
        for node in topology.nodes
        if node.version != options.upgrade_to.get(node.role, node.version)
    }
    if not to:
        versions = " and ".join(options.upgrade_to.values())
        raise UsageError(
            f"nemesis 'upgrade': all servers run {versions} already; expected another --upgrade-to"
        )
    return Upgrade(to, topology, back=options.upgrade_end == "old")


FAULTS: Final = (
    FaultEntry(
        name=Upgrade.f,
        text="servers are restarted one by one on the version of --upgrade-to, with their data",
        seen="the server reports the new version, and its replicas are active",
        gone="over when the call returned",
        make=_make,
    ),
)

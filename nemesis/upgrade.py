"""Rolling upgrades: servers are restarted on another version, one after the other."""

from collections.abc import Mapping, Sequence
from functools import partial

from harness.core.dialect import Mechanism
from harness.core.errors import FaultError, StartError
from harness.core.op import Json
from harness.core.protocols import CanKill, CanLead, CanUpgrade, Cluster, clock_of
from harness.core.seed import Seed
from harness.core.topology import Topology
from nemesis.family import NotBegunError, Watch, standing
from nemesis.quorum import served

ACTIVE_S = 30.0
"""How long a server that answers may take until its replicas are active again: a second where
nothing is wrong."""


class Upgrade:
    """Restarts one server a turn on the version `to[node]`, in an order drawn from the seed; then,
    with `back`, one a turn on the version that it had.

    The next server is touched only when the one before it is active. A server that does not start
    on a version is put back on the one that it had, and no other is put on the version that it
    refused. The heal finishes the roll, in the same direction.
    """

    f = "upgrade"
    once = True
    heal_rank = 2
    """After the links and the frozen, as every start."""

    def __init__(self, to: Mapping[str, str], topology: Topology, *, back: bool) -> None:
        self.needs: tuple[type | Mechanism, ...] = (CanUpgrade, CanKill, CanLead)
        self.turns = len(to) * (2 if back else 1)
        self._to = dict(to)
        self._had = {node: topology.node(node).version for node in to}
        self._back = back
        self._topology = topology
        self._first_said: dict[str, str] = {}
        """What a server called itself before it was touched."""
        self._touched: list[str] = []
        """Every server that was told to move, in that order."""
        self._refused: dict[str, str] = {}
        """By version: which server did not start on it, and what became of it."""
        self._refused_late: list[str] = []
        """The same of what no op of the history says, for it was seen by a heal."""

    def plan(self, seed: Seed, turn: int) -> Mapping[str, Json]:
        """The server, and the version."""
        way, at = divmod(turn, len(self._to))
        node = seed.child("order", way).shuffled(0, tuple(self._to))[at]
        name, version = ("downgrade", self._had[node]) if way else (self.f, self._to[node])
        return {"name": name, "nodes": [node], "to": version}

    def begin(self, cluster: Cluster, plan: Mapping[str, Json], watch: Watch) -> dict[str, Json]:
        """Moves one server, and sees that it is what it was to become."""
        nodes, version = plan["nodes"], str(plan["to"])
        assert isinstance(nodes, list), "a plan has one node"
        node = str(nodes[0])
        self._check(cluster, node, version)
        watch.check()
        return {**self._moved(cluster, node, version), "nodes": [node]}

    def end(self, cluster: Cluster, watch: Watch) -> dict[str, Json]:
        """Only after a begin whose effect was not seen: what it touched is started and active."""
        self.undo(cluster)
        wrong = watch.until_none(lambda: self._inactive(cluster))
        if wrong:
            raise FaultError("; ".join(wrong))
        said = cluster.versions()
        return {"text": ", ".join(f"{node} runs {said.get(node)}" for node in self._touched[-1:])}

    def undo(self, cluster: Cluster) -> None:
        """Starts what does not run of the servers that were touched."""
        assert isinstance(cluster, CanKill), "capabilities are checked before the run"
        dead = [node for node in self._touched if not cluster.running(node)]
        if dead:
            cluster.start(dead)

    def finish(self, cluster: Cluster) -> None:
        """Upgrades the servers that are not yet what they are to be at the end, one by one. Those
        that were never touched stay as they are if the roll goes back."""
        goal = self._had if self._back else self._to
        for node in tuple(self._touched) if self._back else self._to:
            version = goal[node]
            if version in self._refused or self._runs(cluster, node, version):
                continue
            try:
                self._moved(cluster, node, version)
            except FaultError as error:
                if version in self._refused:
                    self._refused_late.append(str(error))
                raise

    def broken(self, cluster: Cluster) -> Sequence[str]:
        """The servers that are not active, and those that could not be left as they were to be."""
        return (*self._inactive(cluster), *self._refused_late)

    def _check(self, cluster: Cluster, node: str, version: str) -> None:
        """Raises NotBegunError where the server must not or cannot be moved now."""
        if version in self._refused:
            raise NotBegunError(f"{node} stays: {self._refused[version]}")
        if not standing(cluster, [node]):
            raise NotBegunError(f"{node}: other faults hold it")
        if node in self._topology.replicas and not served(cluster, self._topology, node):
            raise NotBegunError(f"{node}: no ZooKeeper server that it knows has a quorum now")
        before = self._touched[-1:]
        waiting = Watch(ACTIVE_S, clock=partial(clock_of, cluster)).until_none(
            lambda: [why for one in before for why in _upgradable(cluster).inactive(one)]
        )
        if waiting:
            raise NotBegunError(f"{node} waits for {before[0]}: {'; '.join(waiting)}")
        if self._runs(cluster, node, version):
            raise NotBegunError(f"{node} runs {self._said(cluster, node)} already")

    def _moved(self, cluster: Cluster, node: str, version: str) -> dict[str, Json]:
        """Restarts a server on a version, and returns what it says then. Raises FaultError."""
        upgradable, clock = _upgradable(cluster), clock_of(cluster)
        was = self._said(cluster, node)
        self._first_said.setdefault(node, was)
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
                f"{self._refused[version]}, and runs {self._said(cluster, node)} again: {error}"
            ) from error
        if not self._runs(cluster, node, version):
            said = self._said(cluster, node)
            raise FaultError(f"{node} says that it is {said}, not {version}")
        said = self._said(cluster, node)
        answered_ns = clock.now_ns()
        wrong = Watch(ACTIVE_S, clock=partial(clock_of, cluster)).until_none(
            lambda: upgradable.inactive(node)
        )
        if wrong:
            raise FaultError(
                f"{node} runs {said} after {away_s:.1f} s, and is not active {ACTIVE_S:g} s later: "
                f"{'; '.join(wrong)}"
            )
        active_s = away_s + (clock.now_ns() - answered_ns) / 1e9
        return {
            "was": was,
            "is": said,
            "away_s": round(away_s, 3),
            "active_s": round(active_s, 3),
            "text": f"{node} {was} → {said}, away {away_s:.1f} s, active after {active_s:.1f} s",
        }

    def _inactive(self, cluster: Cluster) -> list[str]:
        return [why for node in self._touched for why in _upgradable(cluster).inactive(node)]

    def _said(self, cluster: Cluster, node: str) -> str:
        return cluster.versions().get(node, "a version that it does not say")

    def _runs(self, cluster: Cluster, node: str, version: str) -> bool:
        """Whether the server itself says that it is of this version: "25.8" is any of the series.
        The version "" is the one that it had at first."""
        said = self._said(cluster, node)
        version = version or self._first_said.get(node, said)
        return f"{said}.".startswith(f"{version}.")


def _upgradable(cluster: Cluster) -> CanUpgrade:
    assert isinstance(cluster, CanUpgrade), "capabilities are checked before the run"
    return cluster

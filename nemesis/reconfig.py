"""Members of the ZooKeeper ensemble that leave and join it while it runs, by `reconfig`."""

from collections.abc import Mapping, Sequence
from typing import Final

from harness.core.capabilities import CanReconfigure, ReportsLeader
from harness.core.errors import ClusterError, UsageError
from harness.core.op import Json
from harness.core.protocols import Cluster
from harness.core.seed import Seed
from harness.core.topology import Topology
from nemesis.cluster_state import quorum
from nemesis.family import Needs, NotBegunError, Watch
from nemesis.fault import FaultChoice, FaultEntry

NAME: Final = "reconfig"
OBSERVER: Final = "reconfig-observer"
VARIANTS: Final[Mapping[str, str]] = {
    NAME: "a ZooKeeper server leaves the ensemble by reconfig, and joins it again at the end",
    OBSERVER: "a ZooKeeper server becomes an observer by reconfig, and a participant at the end",
}
KEEPERS_MIN: Final = 3
PARTICIPANT: Final = "participant"
_ROLES: Final = {NAME: "", OBSERVER: "observer"}


class Reconfig:
    """Family of changes of the ensemble: one server at a time, drawn by the seed."""

    f = NAME
    once = False
    heal_rank = 3
    """Healed when servers run again: a change needs a quorum."""
    needs: Needs = (CanReconfigure, ReportsLeader)

    def __init__(self, choice: FaultChoice) -> None:
        """Raise UsageError if there are too few ZooKeeper servers."""
        keepers = len(choice.topology.keepers)
        if keepers < KEEPERS_MIN:
            raise UsageError(
                f"nemesis {choice.name!r}: it needs {KEEPERS_MIN} ZooKeeper servers, {keepers} "
                "given"
            )
        self._names = choice.names
        self._topology = choice.topology
        self._begun = False

    def plan(self, seed: Seed, turn: int) -> Mapping[str, Json]:
        """Return the variant and the server."""
        name = seed.child("variant", turn).choice(0, self._names)
        node = seed.child("server", turn).choice(0, self._topology.keepers)
        return {"name": name, "nodes": [node]}

    def begin(self, cluster: Cluster, plan: Mapping[str, Json], watch: Watch) -> dict[str, Json]:
        """Change the ensemble, and see its new configuration."""
        nodes, role = plan["nodes"], _ROLES[str(plan["name"])]
        assert isinstance(nodes, list), "a plan has one node"
        node = str(nodes[0])
        if quorum(cluster, self._topology) != set(self._topology.keepers):
            raise NotBegunError(f"{node}: not all ZooKeeper servers serve")
        watch.check()
        self._begun = True
        target = cluster.part(CanReconfigure)
        target.reconfigure(node, role)
        watch.require_none(lambda: _differences(target, {node: role}, self._topology))
        return {"text": f"{node} is {'an observer' if role else 'no member'}"}

    def end(self, cluster: Cluster, watch: Watch) -> dict[str, Json]:
        """Make every server a participant, and see it."""
        watch.check()
        self.undo(cluster)
        watch.require_none(lambda: self.broken(cluster))
        return {"text": "every server is a participant"}

    def undo(self, cluster: Cluster) -> None:
        """Make every server a participant that is none."""
        if not self._begun:
            return
        target = cluster.part(CanReconfigure)
        members = target.ensemble()
        for node in self._topology.keepers:
            if members.get(node) != PARTICIPANT:
                target.reconfigure(node, PARTICIPANT)

    def broken(self, cluster: Cluster) -> Sequence[str]:
        """Return which servers are no participants, or do not serve."""
        if not self._begun:
            return ()
        serving = cluster.part(ReportsLeader).serving()
        silent = [f"{n} does not serve" for n in self._topology.keepers if n not in serving]
        return (*_differences(cluster.part(CanReconfigure), {}, self._topology), *silent)


def _differences(
    cluster: CanReconfigure, changed: Mapping[str, str], topology: Topology
) -> tuple[str, ...]:
    try:
        members = cluster.ensemble()
    except ClusterError as error:  # while the leader changes
        return (str(error),)
    wanted = {node: changed.get(node, PARTICIPANT) for node in topology.keepers}
    return tuple(
        f"{node} is {members.get(node) or 'no member'}, {role or 'no member'} expected"
        for node, role in wanted.items()
        if members.get(node, "") != role
    )


FAULTS: Final = tuple(
    FaultEntry(
        name=name,
        text=text,
        seen="the configuration that the ensemble has agreed on names the server no more, or as an "
        "observer",
        gone="the configuration names every server as a participant, and all serve",
        make=Reconfig,
        f=Reconfig.f,
    )
    for name, text in VARIANTS.items()
)

"""Clusters and the parts that have their capabilities."""

import inspect

import pytest

from harness.clusters.docker_cluster import DockerCluster
from harness.clusters.external import ExternalCluster
from harness.clusters.sim_cluster import SimCluster
from harness.core import capabilities, connection_capabilities, record_capabilities
from harness.core.capabilities import (
    CanKill,
    CanUpgrade,
    Conditional,
    ReportsLeader,
    ReportsTableLeader,
)
from harness.core.errors import UsageError
from harness.core.parts import HasParts
from harness.core.seed import Seed
from harness.core.topology import Topology

CAPABILITIES = [
    kind
    for module in (capabilities, connection_capabilities, record_capabilities)
    for kind in vars(module).values()
    if inspect.isclass(kind) and kind.__module__ == module.__name__ and kind is not Conditional
]


@pytest.mark.parametrize("kind", [DockerCluster, SimCluster, ExternalCluster])
def test_each_part_has_capabilities_that_no_other_has(kind: type[HasParts]) -> None:
    homes = {need: [p for p in kind.parts if issubclass(p, need)] for need in CAPABILITIES}
    assert all(len(parts) <= 1 for parts in homes.values()), homes
    assert {part for parts in homes.values() for part in parts} == set(kind.parts)


def test_a_cluster_refuses_a_capability_that_it_lacks() -> None:
    cluster = SimCluster(Topology.of(), Seed(1))
    assert SimCluster.has(CanKill)
    assert isinstance(cluster.part(CanKill), CanKill)
    assert not SimCluster.has(CanUpgrade)
    with pytest.raises(UsageError, match="cluster sim lacks CanUpgrade; choose another cluster"):
        cluster.part(CanUpgrade)


def test_a_class_says_what_its_clusters_can_before_one_is_made() -> None:
    every = {need for need in CAPABILITIES if DockerCluster.has(need)}
    assert {need.__name__ for need in set(CAPABILITIES) - every} == {"CanSlowFetches"}
    external = {need for need in CAPABILITIES if ExternalCluster.has(need)}
    assert external == {ReportsLeader, ReportsTableLeader}


def test_a_cluster_has_the_parts_that_its_class_declares() -> None:
    class Partial(HasParts):
        parts = (str, int)

    with pytest.raises(AssertionError, match="the parts that it declares"):
        Partial("")

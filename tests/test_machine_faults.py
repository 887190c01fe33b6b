"""Clocks and resources of real servers: each fault is seen, each is over when it has ended."""

import pytest
from cluster_pool import Shape
from real_servers import wait_until

from compose.releases import DEFAULT_CLICKHOUSE, ImageChoice
from compose.settings import Settings
from harness.clusters.docker_cluster import DockerCluster
from harness.clusters.images import build_images
from harness.core.errors import UsageError
from harness.core.resources import Resource
from harness.core.seed import Seed
from harness.core.topology import Topology
from nemesis.catalogue import parse_nemesis
from nemesis.composed import Composed, check_capabilities
from nemesis.family import Watch
from nemesis.options import FaultOptions

pytestmark = pytest.mark.containers

PAIR = Topology.of(replicas=1, keepers=1)
SHAPE = Shape(topology=PAIR, settings=Settings(wrong_clocks=True))
SEEN_S = 60.0


def parsed(name: str) -> Composed:
    return parse_nemesis(name, PAIR, Seed(3), FaultOptions(targets=("all",)))


@pytest.mark.parametrize("name", ["clock-jump", "clock-drift", "clock-strobe", *Resource])
def test_a_fault_bites_and_heals_on_every_server(servers: DockerCluster, name: str) -> None:
    roles = ("",) if name == Resource.CONNECTIONS else ("-clickhouse", "-zookeeper")
    for role in roles:
        wait_until(lambda: not servers.unready(), "the cluster is whole before the fault")
        nemesis = parsed(f"{name}{role}")
        check_capabilities(nemesis, servers)
        (family,) = nemesis.families
        done = family.begin(servers, family.plan(Seed(3), 0), Watch(SEEN_S))
        assert done["nodes"] == (["zk1"] if role == "-zookeeper" else ["ch1"])
        family.end(servers, Watch(SEEN_S))
        assert not family.broken(servers)


def test_what_was_interrupted_is_undone(servers: DockerCluster) -> None:
    nemesis = parsed("clock-jump,cpu-limit,dns-failure")
    for family in reversed(nemesis.families):  # a server without CPU time may not say its time
        family.begin(servers, family.plan(Seed(3), 0), Watch(SEEN_S))
    nemesis.heal(servers)
    assert [reason for family in nemesis.families for reason in family.broken(servers)] == []


def test_a_cluster_without_the_library_is_refused_by_name(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    images = build_images(lambda text: None, ImageChoice(clickhouse=DEFAULT_CLICKHOUSE))
    plain = DockerCluster(PAIR, tmp_path_factory.mktemp("plain"), images=images)
    with pytest.raises(UsageError, match="cannot set clocks: its servers were started without"):
        check_capabilities(parsed("clock-jump"), plain)
    plain.close()

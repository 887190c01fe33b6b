"""Lost packets on real servers: how many, beside a cut, over a restart, and where none can be."""

import subprocess
from collections.abc import Iterator

import docker
import pytest
from real_servers import THREE, wait_until

from harness.clusters.docker_cluster import DockerCluster
from harness.clusters.links import LinkProbes
from harness.clusters.pods import PodAgent
from harness.core.errors import UsageError
from harness.core.seed import Seed
from harness.core.topology import Link
from nemesis.catalogue import parse_nemesis
from nemesis.composed import check_capabilities
from nemesis.options import FaultOptions

pytestmark = pytest.mark.containers

TO, FROM, BESIDE = Link("ch1", "zk1"), Link("zk1", "ch1"), Link("zk1", "zk2")
STATISTIC = "/usr/lib/$(uname -m)-linux-gnu/xtables/libxt_statistic.so"


@pytest.fixture
def cluster(servers: DockerCluster) -> Iterator[DockerCluster]:
    wait_until(lambda: not servers.unready(), "the cluster is whole before the test")
    yield servers
    servers.mend()
    servers.stop_packet_loss(THREE.names)


@pytest.fixture
def probes(cluster: DockerCluster) -> Iterator[LinkProbes]:
    """Yield probes that send datagrams of this test from pod to pod."""
    client = docker.from_env()
    pods = {node: PodAgent(client, f"{cluster.name}-{node}-pod", node) for node in THREE.names}
    addresses = {node: in_pod(cluster, node, "hostname -i").strip() for node in THREE.names}
    yield LinkProbes(pods, addresses)
    for pod in pods.values():
        pod.close()
    client.close()


def in_pod(cluster: DockerCluster, node: str, script: str) -> str:
    command = ("docker", "exec", f"{cluster.name}-{node}-pod", "sh", "-c", script)
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def arrived(probes: LinkProbes, link: Link) -> int:
    """Return how many of 200 datagrams arrived."""
    return len(probes.exchange(probes.new([link], 200), wait_s=0.2))


def lossy(cluster: DockerCluster, node: str) -> bool:
    """Return whether every link of the node loses packets; each call adds to the losses seen."""
    return all(cluster.losing_packets(node).values())


def test_three_of_ten_packets_are_lost_each_way(cluster: DockerCluster, probes: LinkProbes) -> None:
    arrived(probes, TO)  # resolves addresses
    assert [arrived(probes, link) for link in (TO, FROM, BESIDE)] == [200, 200, 200]
    cluster.lose_packets(["ch1"])
    # Six standard deviations about 140.
    assert all(101 <= arrived(probes, link) <= 179 for link in (TO, FROM))
    assert arrived(probes, BESIDE) == 200
    cluster.stop_packet_loss(["ch1"])
    assert [arrived(probes, link) for link in (TO, FROM, BESIDE)] == [200, 200, 200]


@pytest.mark.parametrize("cut_first", [True, False])
def test_loss_and_cut_begin_and_end_without_each_other(
    cluster: DockerCluster, probes: LinkProbes, cut_first: bool
) -> None:
    if cut_first:
        cluster.cut([TO])
        cluster.lose_packets(["ch1"])
    else:
        cluster.lose_packets(["ch1"])
        cluster.cut([TO])
    wait_until(lambda: lossy(cluster, "ch1"), "loss is seen on the cut link too")
    assert arrived(probes, TO) == 0
    cluster.mend()
    assert 101 <= arrived(probes, TO) <= 179
    cluster.cut([TO])
    cluster.stop_packet_loss(["ch1"])
    assert not any(cluster.losing_packets("ch1").values())
    assert [arrived(probes, link) for link in (TO, FROM)] == [0, 200]


def test_loss_outlives_the_server(cluster: DockerCluster) -> None:
    """A ZooKeeper server: a replica may give up its start if it hears too little of ZooKeeper."""
    cluster.lose_packets(["zk1"])
    cluster.kill(["zk1"])
    wait_until(lambda: lossy(cluster, "zk1"), "the dead server's links lose packets")
    cluster.start(["zk1"])
    assert lossy(cluster, "zk1")


def test_a_pod_without_the_match_is_refused_by_name(cluster: DockerCluster) -> None:
    nemesis = parse_nemesis("loss", THREE, Seed(1), FaultOptions())
    check_capabilities(nemesis, cluster)
    in_pod(cluster, "ch1", f"mv {STATISTIC} {STATISTIC}.away")
    try:
        with pytest.raises(
            UsageError, match=r"nemesis loss: cluster harness-\w+ cannot lose packets: .*statistic"
        ):
            check_capabilities(nemesis, cluster)
    finally:
        in_pod(cluster, "ch1", f"mv {STATISTIC}.away {STATISTIC}")
    check_capabilities(nemesis, cluster)

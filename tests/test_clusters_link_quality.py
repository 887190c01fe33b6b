"""Degraded links on real servers: by how much, beside a cut, without their program, and where there
can be none."""

import subprocess
from collections.abc import Iterator, Mapping

import pytest
from real_servers import THREE, seen_on, wait_until

from harness.clusters.docker_cluster import DockerCluster
from harness.core.capabilities import CanDegradeLinks, CanKill, CanPartition
from harness.core.errors import UsageError
from harness.core.link_quality import LinkFault
from harness.core.seed import Seed
from harness.core.topology import Link
from nemesis.catalogue import parse_nemesis
from nemesis.composed import check_capabilities
from nemesis.options import FaultOptions

pytestmark = pytest.mark.containers

TO, FROM, BESIDE = Link("ch1", "zk1"), Link("zk1", "ch1"), Link("zk1", "zk2")
PROGRAM = "/usr/local/bin/packet-queue"


@pytest.fixture
def cluster(servers: DockerCluster) -> Iterator[DockerCluster]:
    wait_until(lambda: not servers.unready(), "the cluster is whole before the test")
    yield servers
    servers.part(CanPartition).mend()
    servers.part(CanDegradeLinks).restore_links()


def in_pod(cluster: DockerCluster, node: str, script: str) -> str:
    command = ("docker", "exec", f"{cluster.name}-{node}-pod", "sh", "-c", script)
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def amounts(cluster: DockerCluster, link: Link, given: Mapping[LinkFault, float]) -> None:
    for fault, amount in given.items():
        cluster.part(CanDegradeLinks).degrade_links([link], fault, amount, seed=7)


def text(cluster: DockerCluster, link: Link, fault: LinkFault, amount: float) -> str:
    return cluster.part(CanDegradeLinks).link_evidence([link], fault, amount)[link].text


def measured(cluster: DockerCluster, link: Link, fault: LinkFault, amount: float) -> float:
    """Return the number with which what was seen begins."""
    return float(text(cluster, link, fault, amount).split()[0])


def test_a_delay_has_a_direction_and_the_asked_length(cluster: DockerCluster) -> None:
    amounts(cluster, TO, {LinkFault.DELAY: 250})
    assert 250 <= measured(cluster, TO, LinkFault.DELAY, 250) < 1_000
    wait_until(lambda: not seen_on(cluster, [FROM, BESIDE], LinkFault.DELAY), "others have none")
    assert cluster.part(CanPartition).reachable([TO]) == {TO: True}


def test_a_slow_link_carries_what_was_asked(cluster: DockerCluster) -> None:
    amounts(cluster, TO, {LinkFault.RATE: 256})
    assert 100 < measured(cluster, TO, LinkFault.RATE, 256) < 300


@pytest.mark.parametrize("cut_first", [True, False])
def test_a_fault_and_a_cut_begin_and_end_without_each_other(
    cluster: DockerCluster, cut_first: bool
) -> None:
    def begin_loss() -> None:
        amounts(cluster, TO, {LinkFault.LOSS: 0.3})

    first, then = (lambda: cluster.part(CanPartition).cut([TO]), begin_loss)[
        :: 1 if cut_first else -1
    ]
    first()
    then()
    wait_until(lambda: TO in seen_on(cluster, [TO], LinkFault.LOSS), "loss on the cut link")
    assert "packets lost" in text(cluster, TO, LinkFault.LOSS, 0.3)
    assert cluster.part(CanPartition).reachable([TO, FROM]) == {TO: False, FROM: True}
    cluster.part(CanDegradeLinks).restore_links()
    assert cluster.part(CanPartition).reachable([TO]) == {TO: False}
    cluster.part(CanPartition).mend()
    assert cluster.part(CanPartition).reachable([TO]) == {TO: True}


def test_one_fault_ends_beside_another(cluster: DockerCluster) -> None:
    amounts(cluster, TO, {LinkFault.DELAY: 100, LinkFault.DUPLICATE: 0.5})
    for fault in (LinkFault.DELAY, LinkFault.DUPLICATE):
        wait_until(lambda f=fault: TO in seen_on(cluster, [TO], f), f"{fault} is seen")
    cluster.part(CanDegradeLinks).restore_links([LinkFault.DELAY])
    wait_until(lambda: TO not in seen_on(cluster, [TO], LinkFault.DELAY), "the delay is over")
    wait_until(lambda: TO in seen_on(cluster, [TO], LinkFault.DUPLICATE), "copies go on")


def test_packets_pass_when_the_program_has_died_and_the_next_fault_starts_it(
    cluster: DockerCluster,
) -> None:
    amounts(cluster, TO, {LinkFault.DELAY: 2_000})
    in_pod(cluster, "zk1", "kill -9 $(pidof packet-queue)")
    wait_until(
        lambda: cluster.part(CanPartition).reachable([TO])[TO], "the rules let everything pass"
    )
    assert "NFQUEUE" in in_pod(cluster, "zk1", "iptables -t raw -S HARNESS-QUALITY")
    amounts(cluster, TO, {LinkFault.DELAY: 50})
    wait_until(lambda: TO in seen_on(cluster, [TO], LinkFault.DELAY), "it delays again")
    cluster.part(CanDegradeLinks).restore_links()
    assert "NFQUEUE" not in in_pod(cluster, "zk1", "iptables -t raw -S HARNESS-QUALITY")


def test_a_degraded_link_outlives_the_server(cluster: DockerCluster) -> None:
    """A ZooKeeper server: a replica may give up its start if it hears too little of ZooKeeper."""
    amounts(cluster, TO, {LinkFault.DELAY: 100})
    cluster.part(CanKill).kill(["zk1"])
    assert seen_on(cluster, [TO], LinkFault.DELAY) == {TO}
    cluster.part(CanKill).start(["zk1"])
    assert seen_on(cluster, [TO], LinkFault.DELAY) == {TO}


def test_a_pod_without_the_program_is_refused_by_name(cluster: DockerCluster) -> None:
    nemesis = parse_nemesis("delay", THREE, Seed(1), FaultOptions())
    check_capabilities(nemesis, cluster)
    in_pod(cluster, "ch1", f"kill -9 $(pidof packet-queue); mv {PROGRAM} {PROGRAM}.away")
    try:
        with pytest.raises(
            UsageError, match=r"nemesis delay: cluster harness-\w+ cannot degrade links: .*packet-q"
        ):
            check_capabilities(nemesis, cluster)
    finally:
        in_pod(cluster, "ch1", f"mv {PROGRAM}.away {PROGRAM}")
    check_capabilities(nemesis, cluster)

"""Members without a disk, with an old one, and new ones, on real servers; and who is refused."""

from pathlib import Path

import pytest
from cluster_pool import Shape
from nemesis_record import call
from real_servers import THREE, wait_until

from compose.settings import Settings
from harness.clusters.docker_cluster import DockerCluster
from harness.clusters.images import build_images
from harness.clusters.replica import execute, query
from harness.core.capabilities import CanReconfigure, CanReplaceReplicas, CanRestart, ReportsLeader
from harness.core.errors import UsageError
from harness.core.seed import Seed
from nemesis import reconfig
from nemesis.catalogue import parse_nemesis
from nemesis.composed import Composed, check_capabilities
from nemesis.options import FaultOptions

SHAPE = Shape(settings=Settings(reconfig=True))
QUORUM = {"insert_quorum": 2, "insert_quorum_timeout": 10_000}


def nemesis_of(name: str) -> Composed:
    return parse_nemesis(name, THREE, Seed(1), FaultOptions(seen_within_s=30))


@pytest.fixture(scope="module")
def members(servers: DockerCluster) -> DockerCluster:
    """Return a cluster whose ensemble can be changed, with a replicated table `members`."""
    for node in THREE.replicas:
        engine = f"ReplicatedMergeTree('/harness/members', '{node}')"
        statement = f"CREATE TABLE members (x UInt32) ENGINE = {engine} ORDER BY x"
        execute(servers.endpoint(node), statement, timeout_s=30)
    return servers


@pytest.fixture
def cluster(members: DockerCluster) -> DockerCluster:
    """Return the cluster, whole."""
    wait_until(lambda: not members.unready(), "the cluster is whole before the test")
    return members


def insert(cluster: DockerCluster, node: str, value: int) -> None:
    execute(cluster.endpoint(node), "INSERT INTO members VALUES", rows=[(value,)], settings=QUORUM)


def in_zookeeper(cluster: DockerCluster, request: str, path: str, **named: bool) -> list[str]:
    session = cluster.zookeeper(THREE.keepers)
    try:
        return session.ask(request, path, **named)
    finally:
        session.close()


def rows(cluster: DockerCluster, node: str) -> set[int]:
    return {value for (value,) in query(cluster.endpoint(node), "SELECT x FROM members", (int,))}


@pytest.mark.containers
@pytest.mark.parametrize("name", ["empty-disk", "old-disk", "replace"])
def test_a_replica_has_every_row_again_when_the_fault_has_ended(
    cluster: DockerCluster, name: str
) -> None:
    nemesis = nemesis_of(name if name == "empty-disk" else f"{name}-clickhouse")
    check_capabilities(nemesis, cluster)
    before = rows(cluster, "ch1")
    first = max(before, default=0) + 1
    insert(cluster, "ch1", first)
    call(cluster, nemesis, "begin", "ch1")
    insert(cluster, "ch2", first + 1)
    call(cluster, nemesis, "end", "ch1")
    expected = before | {first, first + 1}
    wait_until(lambda: rows(cluster, "ch1") == expected, "every row is on ch1 again")
    nemesis.heal(cluster)
    insert(cluster, "ch1", first + 2)


@pytest.mark.containers
@pytest.mark.parametrize("name", ["old-disk", "replace"])
def test_a_zookeeper_server_follows_again_when_the_fault_has_ended(
    cluster: DockerCluster, name: str
) -> None:
    nemesis = nemesis_of(f"{name}-zookeeper")
    check_capabilities(nemesis, cluster)
    call(cluster, nemesis, "begin", "zk2")
    call(cluster, nemesis, "end", "zk2")
    wait_until(
        lambda: cluster.part(ReportsLeader).serving() == set(THREE.keepers), "all three serve"
    )
    assert cluster.part(CanReplaceReplicas).registered("zk2")


@pytest.mark.containers
@pytest.mark.parametrize(("name", "kept"), [("keeper-rewound", ["before"]), ("keeper-lost", [])])
def test_all_of_zookeeper_has_lost_what_came_later_when_the_fault_has_ended(
    members: DockerCluster, name: str, kept: list[str]
) -> None:
    nemesis = nemesis_of(name)
    check_capabilities(nemesis, members)
    told = f"told-{name}"
    in_zookeeper(members, "create", f"/{told}/before", makepath=True)
    call(members, nemesis, "begin", THREE.keepers)
    if kept:
        in_zookeeper(members, "create", f"/{told}/later")
    call(members, nemesis, "end", THREE.keepers)
    assert (told in in_zookeeper(members, "get_children", "/")) is bool(kept)
    if kept:
        assert in_zookeeper(members, "get_children", f"/{told}") == kept


@pytest.mark.containers
def test_a_zookeeper_server_leaves_joins_and_observes(cluster: DockerCluster) -> None:
    nemesis = nemesis_of("reconfig,reconfig-observer")
    check_capabilities(nemesis, cluster)
    everyone = dict.fromkeys(THREE.keepers, reconfig.PARTICIPANT)
    call(cluster, nemesis, "begin", "zk2", reconfig.NAME)
    assert cluster.part(CanReconfigure).ensemble() == {
        node: r for node, r in everyone.items() if node != "zk2"
    }
    cluster.part(CanRestart).restart(["zk2"])
    call(cluster, nemesis, "end", "zk2", reconfig.NAME)
    assert cluster.part(CanReconfigure).ensemble() == everyone
    call(cluster, nemesis, "begin", "zk2", reconfig.OBSERVER)
    assert cluster.part(CanReconfigure).ensemble() == {**everyone, "zk2": "observer"}
    nemesis.heal(cluster)
    assert cluster.part(CanReconfigure).ensemble() == everyone


@pytest.mark.containers
def test_an_ensemble_that_cannot_be_changed_is_refused_by_name(tmp_path: Path) -> None:
    unlike = DockerCluster(THREE, tmp_path, images=build_images(lambda text: None))
    with pytest.raises(UsageError, match=r"cannot change the members .* reconfigEnabled"):
        check_capabilities(nemesis_of("reconfig"), unlike)

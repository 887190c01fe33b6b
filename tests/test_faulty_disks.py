"""Disks that fail on command: what is planned, and on real servers that each fault bites and
heals, what a power cut loses, and that nothing outlives a run that is killed."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cluster_pool import Shape
from real_servers import things

from compose.settings import Settings, Storage
from harness.clusters.docker_cluster import DockerCluster
from harness.clusters.engine import engine
from harness.clusters.fault_means import FAULTY_DISKS, why_none
from harness.clusters.images import build_images, pod_image
from harness.clusters.removal import clean
from harness.clusters.replica import execute, query
from harness.core.capabilities import CanKill, HasFaultyDisks
from harness.core.errors import UsageError
from harness.core.op import NEMESIS, Done, Json, Kind, Op
from harness.core.seed import Seed
from harness.core.topology import Topology
from nemesis.catalogue import parse_nemesis
from nemesis.composed import Composed, check_capabilities
from nemesis.disk import FAULTS, VARIANTS
from nemesis.options import FaultOptions

SMALL = Topology.of(replicas=1, keepers=1)
SHAPE = Shape(topology=SMALL, settings=Settings(storage=Storage.FAULTY))


def nemesis_of(text: str, topology: Topology = SMALL) -> Composed:
    return parse_nemesis(text, topology, Seed(5), FaultOptions())


@pytest.mark.parametrize(
    ("name", "families", "nodes"),
    [
        ("power-cut", {"power-cut"}, 1),
        ("power-cut-all", {"power-cut"}, 3),
        ("power-cut-torn-zookeeper-majority", {"power-cut-torn"}, 2),
        ("disk-eio-fsync-zookeeper", {"disk-eio-fsync"}, 1),
        ("disk-eio-both-all", {"disk-eio"}, 6),
        ("disk-eio-log", {"disk-eio-log"}, 1),
        ("disk-slow-log", {"disk-slow-log"}, 1),
    ],
)
def test_a_name_says_which_disks(name: str, families: set[str], nodes: int) -> None:
    nemesis = nemesis_of(name, Topology.of())
    assert nemesis.fs == families
    (family,) = nemesis.families
    plan = family.plan(Seed(1), 0)
    assert isinstance(plan["nodes"], list)
    assert len(plan["nodes"]) == nodes
    assert plan == family.plan(Seed(1), 0)
    role = "zk" if "zookeeper" in name or name.endswith("-log") else "ch"
    assert "both" in name or all(str(node).startswith(role) for node in plan["nodes"])


def test_each_fault_draws_every_kind_it_has() -> None:
    (family,) = nemesis_of("disk-eio").families
    drawn = {str(family.plan(Seed(1), turn)["kind"]) for turn in range(40)}
    assert drawn == set(VARIANTS["disk-eio"][1])


@pytest.fixture(scope="module")
def cluster(servers: DockerCluster) -> DockerCluster:
    """Return servers whose faulty disks have all that was written."""
    servers.part(HasFaultyDisks).sync_disks()
    return servers


def call(cluster: DockerCluster, nemesis: Composed, edge: str, **plan: Json) -> dict[str, Json]:
    (family,) = nemesis.families
    value: dict[str, Json] = {"fault": 1, "edge": edge, **family.plan(Seed(1), 0), **plan}
    op = Op(index=0, process=NEMESIS, kind=Kind.INVOKE, f=family.f, time_ns=0, value=value)
    done: Done = nemesis.invoke(cluster, op)
    assert done.kind is Kind.OK, done.error
    assert isinstance(done.value, dict)
    return done.value


def sql(cluster: DockerCluster, text: str) -> None:
    execute(cluster.endpoint("ch1"), text)


def numbers(cluster: DockerCluster) -> list[int]:
    return [x for (x,) in query(cluster.endpoint("ch1"), "SELECT x FROM t ORDER BY x", (int,))]


@pytest.mark.containers
def test_this_machine_can_have_faulty_disks() -> None:
    client = engine()
    assert why_none(client, pod_image(), FAULTY_DISKS) == ""
    client.close()


@pytest.mark.containers
@pytest.mark.parametrize(
    "name",
    [
        *(
            f"{entry.name}-clickhouse" if entry.aim.roles else entry.name
            for entry in FAULTS
            if entry.name not in ("disk-eio", "power-cut")
        ),
        *("power-cut-zookeeper", "disk-full-zookeeper", "disk-flip-zookeeper"),
    ],
)
def test_a_fault_is_seen_and_healed(cluster: DockerCluster, name: str) -> None:
    if name == "disk-flip-clickhouse":
        sql(cluster, "CREATE TABLE m (x UInt8) ENGINE = MergeTree ORDER BY x")
        sql(cluster, "INSERT INTO m SELECT number FROM numbers(100)")
    nemesis = nemesis_of(name)
    check_capabilities(nemesis, cluster)
    begun = call(cluster, nemesis, "begin")
    assert begun["text"]
    call(cluster, nemesis, "end")
    nemesis.heal(cluster)
    assert all(
        not met["error"] for met in cluster.part(HasFaultyDisks).probe_disk(SMALL.names[0]).values()
    )
    assert cluster.part(CanKill).running("ch1")
    assert cluster.part(CanKill).running("zk1")


@pytest.mark.containers
def test_a_power_cut_loses_rows_that_no_fsync_made_durable(cluster: DockerCluster) -> None:
    sql(cluster, "CREATE TABLE t (x UInt8) ENGINE = MergeTree ORDER BY x")
    sql(cluster, "INSERT INTO t SELECT 1 FROM numbers(1)")
    cluster.part(HasFaultyDisks).sync_disks()
    sql(cluster, "INSERT INTO t SELECT 2 FROM numbers(1)")
    assert numbers(cluster) == [1, 2]
    nemesis = nemesis_of("power-cut")
    begun = call(cluster, nemesis, "begin")
    lost = begun["lost"]
    assert isinstance(lost, dict)
    assert lost["ch1"]["pages"] > 0
    call(cluster, nemesis, "end")
    assert numbers(cluster) == [1]


def test_a_cluster_whose_disks_do_not_fail_is_refused_by_name(tmp_path: Path) -> None:
    made = DockerCluster(SMALL, tmp_path, images=build_images(lambda text: None))
    with pytest.raises(UsageError, match=r"cannot make disks fail: .*--storage faulty"):
        check_capabilities(nemesis_of("power-cut"), made)


PROGRAM = """
import sys, time
from pathlib import Path
from compose.settings import Settings, Storage
from harness.clusters.docker_cluster import DockerCluster
from harness.clusters.images import build_images
from harness.core.capabilities import HasFaultyDisks
from harness.core.topology import Topology
cluster = DockerCluster(
    Topology.of(replicas=1, keepers=1),
    Path(sys.argv[1]),
    images=build_images(lambda text: None),
    settings=Settings(storage=Storage.FAULTY),
)
cluster.up()
disks = cluster.part(HasFaultyDisks)
disks.set_disk_fault(["ch1", "zk1"], "disk-slow", {"kind": "slow", "delay_ms": 2000})
print(cluster.name, flush=True)
time.sleep(600)
"""


def pids(name: str) -> list[str]:
    """Return the processes of a cluster's pods, as this machine numbers them."""
    out = []
    for pod in (one for one in things(name) if one.endswith("-pod")):
        top = subprocess.run(("docker", "top", pod, "-eo", "pid"), capture_output=True, text=True)
        out += top.stdout.split()[1:]
    return out


def mounts() -> str:
    """Return what is mounted outside of containers."""
    return Path("/proc/self/mounts").read_text()


@pytest.mark.containers
@pytest.mark.usefixtures("orphans")
def test_nothing_is_left_of_a_process_that_is_killed_in_the_middle_of_a_fault(
    tmp_path: Path,
) -> None:
    argv = (sys.executable, "-c", PROGRAM, str(tmp_path / "cluster"))
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        name = process.stdout.readline().strip()
        assert "faulty-disk" not in mounts()
        running = pids(name)
        process.send_signal(signal.SIGKILL)
    assert clean([name])
    assert things(name) == []
    assert len(running) >= 4
    assert not [pid for pid in running if Path(f"/proc/{pid}").exists()]
    assert "faulty-disk" not in mounts()
    assert not (tmp_path / "cluster").exists()

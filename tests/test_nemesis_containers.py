"""Every family of faults on real servers: that it bites, and that it heals."""

import threading
import time
from collections.abc import Iterator, Sequence

import pytest
from msgspec.structs import replace
from real_servers import THREE, seen_on, wait_until

from harness.clusters import keeper
from harness.clusters.docker_cluster import DockerCluster
from harness.clusters.replica import execute, is_alive, query, query_value
from harness.core.capabilities import CanKill, CanPartition, CanPause, CanStopFetches, ReportsLeader
from harness.core.clock import WallClock
from harness.core.errors import ClusterError
from harness.core.history import History
from harness.core.link_quality import LinkFault
from harness.core.op import NEMESIS, Call, Done, Json, Kind, Op
from harness.core.protocols import Context, Ready, Worker
from harness.core.seed import Seed
from harness.core.topology import Link
from nemesis.catalogue import parse_nemesis
from nemesis.composed import Composed, check_capabilities
from nemesis.options import FaultOptions
from nemesis.partition import VARIANTS

pytestmark = pytest.mark.containers

KEEPERS = set(THREE.keepers)
ALL = "partition,loss,delay,kill,pause,restart,stop-fetches"


@pytest.fixture
def cluster(servers: DockerCluster) -> Iterator[DockerCluster]:
    """Yield the cluster, healthy before each test and again after the test's own heal."""
    wait_until(lambda: not servers.unready(), "the cluster is whole before the test")
    yield servers
    everything = parse_nemesis(ALL, THREE, Seed(0), FaultOptions())
    everything.heal(servers)


class Faults:
    """One nemesis on one cluster, and the faults that its seed draws."""

    def __init__(self, cluster: DockerCluster, text: str, seed: int = 1) -> None:
        self.cluster = cluster
        self.nemesis: Composed = parse_nemesis(text, THREE, Seed(seed), FaultOptions())
        check_capabilities(self.nemesis, cluster)

    def drawn(self) -> Call:
        """Return the first call of the schedule."""
        context = Context(0, (Worker(-1, -1, ""),), ())
        _, generator = self.nemesis.generator().op(context)
        step, _ = generator.op(replace(context, time_ns=10**11))
        assert isinstance(step, Ready)
        return step.call

    def call(self, f: str, edge: str, **plan: Json) -> Done:
        value: dict[str, Json] = {"fault": 1, "edge": edge, "name": f, **plan}
        op = Op(index=0, process=NEMESIS, kind=Kind.INVOKE, f=f, time_ns=0, value=value)
        return self.nemesis.invoke(self.cluster, op)

    def begin(self) -> dict[str, Json]:
        """Begin the drawn fault, and return what was done."""
        call = self.drawn()
        assert isinstance(call.value, dict)
        op = Op(index=0, process=NEMESIS, kind=Kind.INVOKE, f=call.f, time_ns=0, value=call.value)
        return value_of(self.nemesis.invoke(self.cluster, op))

    def end(self, f: str) -> dict[str, Json]:
        return value_of(self.call(f, "end"))

    def heal(self) -> None:
        self.nemesis.heal(self.cluster)


def value_of(done: Done) -> dict[str, Json]:
    assert done.kind is Kind.OK, done.error
    assert isinstance(done.value, dict)
    return done.value


def struck(value: dict[str, Json]) -> set[str]:
    nodes = value["nodes"]
    assert isinstance(nodes, list)
    return set(nodes)


def answers(cluster: DockerCluster, node: str) -> bool:
    """Return whether the server itself answers a client's query."""
    endpoint = cluster.endpoint(node)
    if node in KEEPERS:
        return keeper.is_alive(endpoint) is None
    return is_alive(endpoint) is None


def serves(cluster: DockerCluster, node: str) -> bool:
    """Return whether a ZooKeeper server serves with a quorum."""
    state = keeper.state(cluster.endpoint(node))
    return state is not None and state.mode != ""


def whole(cluster: DockerCluster) -> None:
    # A ZooKeeper server that looks for a leader waits up to a minute between its questions.
    wait_until(lambda: not cluster.unready(), f"every server serves: {cluster.unready()}")
    assert all(cluster.part(CanPartition).reachable(THREE.links()).values())
    assert all(cluster.part(CanKill).running(node) for node in THREE.names)
    assert not any(cluster.part(CanPause).paused(node) for node in THREE.names)


# --- partition ------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_shape_drops_its_links_and_no_others_and_is_mended(
    cluster: DockerCluster, variant: str
) -> None:
    faults = Faults(cluster, variant)
    value = faults.begin()
    grudge = value["grudge"]
    assert isinstance(grudge, dict)
    alive = cluster.part(CanPartition).reachable(THREE.links())
    dead: dict[str, list[str]] = {}
    for link in sorted(link for link, arrived in alive.items() if not arrived):
        dead.setdefault(link.target, []).append(link.source)
    assert dead == grudge
    assert dead
    assert value["text"]
    faults.end("partition")
    assert all(cluster.part(CanPartition).reachable(THREE.links()).values())


def test_a_pair_alone_answers_old_reads_but_its_zookeeper_has_no_quorum(
    cluster: DockerCluster,
) -> None:
    faults = Faults(cluster, "partition-pair")
    value = faults.begin()
    replica = str(value["text"])[1:4]
    server = replica.replace("ch", "zk")
    assert str(value["text"]).startswith(f"{{{replica} {server} | ")
    wait_until(lambda: not serves(cluster, server), f"{server} has lost its quorum")
    others = KEEPERS - {server}
    wait_until(lambda: all(serves(cluster, other) for other in others), "the others have theirs")
    assert answers(cluster, replica)
    faults.heal()
    whole(cluster)


def test_a_follower_cut_from_its_peers_stops_serving_while_its_replica_still_reaches_it(
    cluster: DockerCluster,
) -> None:
    faults = Faults(cluster, "partition-keeper-follower")
    leader = cluster.part(ReportsLeader).leader()
    value = faults.begin()
    follower = str(value["follower"])
    assert value["leader"] == leader
    assert follower != leader
    links = [k for k in THREE.links() if follower in (k.source, k.target) and "ch" in f"{k}"]
    assert all(cluster.part(CanPartition).reachable(links).values())
    wait_until(lambda: not serves(cluster, follower), f"{follower} has noticed")
    assert all(serves(cluster, other) for other in KEEPERS - {follower})
    faults.end("partition")
    wait_until(lambda: serves(cluster, follower), f"{follower} follows again")
    whole(cluster)


# --- kill, pause, restart -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("kill-clickhouse-one", 1),
        ("kill-clickhouse-all", 3),
        ("kill-zookeeper-majority", 2),
        ("kill-leader", 1),
        ("kill-both-all", 6),
    ],
)
def test_the_killed_do_not_answer_and_come_back(
    cluster: DockerCluster, name: str, count: int
) -> None:
    faults = Faults(cluster, name)
    leader = cluster.part(ReportsLeader).leader()
    value = faults.begin()
    dead = struck(value)
    assert len(dead) == count
    assert {node for node in THREE.names if not answers(cluster, node)} == dead
    if name == "kill-leader":
        assert dead == {leader}
        wait_until(
            lambda: cluster.part(ReportsLeader).leader() not in (None, leader), "another leads"
        )
    wait_until(lambda: faults.call("kill", "end").kind is Kind.OK, "the killed are started")
    assert all(answers(cluster, node) for node in THREE.names)
    whole(cluster)


@pytest.mark.parametrize(
    "name", ["pause-clickhouse-majority", "pause-zookeeper-leader", "pause-both-one"]
)
def test_the_paused_do_not_answer_and_go_on_where_they_were(
    cluster: DockerCluster, name: str
) -> None:
    uptimes = {node: uptime(cluster, node) for node in THREE.replicas}
    faults = Faults(cluster, name)
    frozen = struck(faults.begin())
    assert {node for node in frozen if not answers(cluster, node)} == frozen
    assert faults.end("pause")["text"] == " ".join(n for n in THREE.names if n in frozen)
    assert all(answers(cluster, node) for node in THREE.names)
    assert all(uptime(cluster, node) >= uptimes[node] for node in THREE.replicas), "same process"
    whole(cluster)


def uptime(cluster: DockerCluster, node: str) -> int:
    return int(query_value(cluster.endpoint(node), "SELECT uptime()", int))


@pytest.mark.parametrize("name", ["restart-clickhouse-majority", "restart-both-all"])
def test_the_restarted_are_new_processes_that_answer(cluster: DockerCluster, name: str) -> None:
    faults = Faults(cluster, name)
    before = time.monotonic()
    value = faults.begin()
    assert value["edge"] == "once"
    for node in THREE.replicas:
        started = time.monotonic() - uptime(cluster, node)
        assert (started > before - 1) == (node in struck(value))
    whole(cluster)


# --- stop-fetches ---------------------------------------------------------------------------


def test_a_replica_without_fetches_lags_until_it_may_fetch_again(cluster: DockerCluster) -> None:
    for node in THREE.replicas:
        execute(
            cluster.endpoint(node),
            "CREATE TABLE lag (value UInt64) ENGINE = "
            f"ReplicatedMergeTree('/nemesis/lag', '{node}') PARTITION BY tuple() ORDER BY value",
            timeout_s=20,
        )
    faults = Faults(cluster, "stop-fetches")
    (lagging,) = struck(faults.begin())
    other = next(node for node in THREE.replicas if node != lagging)
    execute(cluster.endpoint(other), "INSERT INTO lag VALUES", rows=[(7,)])

    def has(node: str) -> bool:
        return query(cluster.endpoint(node), "SELECT value FROM lag", (int,)) == [(7,)]

    third = next(node for node in THREE.replicas if node not in (lagging, other))
    wait_until(lambda: has(third), "the third replica has fetched it")
    assert not has(lagging)
    faults.end("stop-fetches")
    wait_until(lambda: has(lagging), "the lagging replica has fetched it")


# --- degraded links -------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["delay-zookeeper", "rate-clickhouse-all", "duplicate-leader"])
def test_the_links_of_servers_are_degraded_until_the_end(
    cluster: DockerCluster, fault: str
) -> None:
    faults, kind = Faults(cluster, fault), LinkFault(fault.partition("-")[0])
    nodes = set(struck(faults.begin()))
    theirs = {link for link in THREE.links() if {link.source, link.target} & nodes}
    # Probes of a busy machine may miss a fault that is in force, and show one that has ended.
    wait_until(lambda: seen_on(cluster, theirs, kind) == theirs, "each of their links shows it")
    assert faults.end(kind)["text"]
    wait_until(lambda: not seen_on(cluster, theirs, kind), "no link shows the fault any more")
    whole(cluster)


def lossy(cluster: DockerCluster) -> set[Link]:
    return seen_on(cluster, THREE.links(), LinkFault.LOSS)


# --- faults that meet -----------------------------------------------------------------------


def test_a_paused_server_is_killed_and_both_faults_end(cluster: DockerCluster) -> None:
    faults = Faults(cluster, "kill,pause")
    value_of(faults.call("pause", "begin", nodes=["ch1", "zk2"]))
    value_of(faults.call("kill", "begin", nodes=["ch1"]))
    faults.end("pause")
    assert not cluster.part(CanKill).running("ch1")
    faults.end("kill")
    whole(cluster)


def test_a_replica_whose_zookeeper_is_cut_off_starts_when_the_partition_has_ended(
    cluster: DockerCluster,
) -> None:
    faults = Faults(cluster, "partition,kill")
    value_of(faults.call("kill", "begin", nodes=["ch1"]))
    value_of(
        faults.call("partition", "begin", grudge={"ch1": ["zk1"], "zk1": ["ch1"]}, text="ch1|zk1")
    )
    during = faults.call("kill", "end")
    assert during.kind is Kind.INFO
    assert str(during.error).startswith("ch1: not started, no ZooKeeper server")
    faults.end("partition")
    faults.end("kill")
    whole(cluster)


def test_a_replica_whose_zookeeper_leads_nobody_any_more_is_not_started_in_vain(
    cluster: DockerCluster,
) -> None:
    """The start follows the cut at once, while the server that was cut off still calls itself
    leader."""
    leader = str(cluster.part(ReportsLeader).leader())
    replica = leader.replace("zk", "ch")
    faults = Faults(cluster, "partition,kill")
    value_of(faults.call("kill", "begin", nodes=[replica]))
    shape = {leader: list(KEEPERS - {leader})}
    value_of(faults.call("partition", "begin", grudge=shape, text=f"{leader} is deaf to peers"))
    before = time.monotonic()
    assert faults.call("kill", "end").kind is Kind.INFO
    assert time.monotonic() - before < 30
    faults.heal()
    whole(cluster)


def test_heal_ends_all_families_at_once(cluster: DockerCluster) -> None:
    faults = Faults(cluster, ALL)
    value_of(faults.call("stop-fetches", "begin", nodes=["ch3"]))
    value_of(faults.call("pause", "begin", nodes=["ch2", "zk2"]))
    value_of(faults.call("kill", "begin", nodes=["ch1", "zk1", "zk3"]))
    grudge = {"ch1": ["zk1", "zk2", "zk3"], "zk2": ["zk1", "zk3"]}
    value_of(faults.call("partition", "begin", grudge=grudge, text="apart"))
    value_of(faults.call("loss", "begin", nodes=["ch1"]))
    faults.heal()
    assert all(cluster.part(CanStopFetches).fetching(node) for node in THREE.replicas)
    wait_until(lambda: not lossy(cluster), "no link loses packets")
    whole(cluster)
    faults.heal()
    whole(cluster)


def test_heal_from_another_thread_while_a_fault_is_under_way(cluster: DockerCluster) -> None:
    faults = Faults(cluster, ALL)
    value_of(faults.call("kill", "begin", nodes=["ch1", "ch2", "zk1"]))
    ends: list[Done] = []
    caller = threading.Thread(target=lambda: ends.append(faults.call("kill", "end")))
    caller.start()
    faults.heal()
    whole(cluster)
    caller.join(30)
    assert [end.kind for end in ends] in ([Kind.OK], [Kind.INFO])


def test_a_fault_that_breaks_off_half_way_is_undone(
    cluster: DockerCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = cluster.part(CanKill)
    kill = servers.kill

    def break_off(nodes: Sequence[str]) -> None:
        kill(nodes[:1])
        raise ClusterError("the engine went away")

    monkeypatch.setattr(servers, "kill", break_off)
    done = Faults(cluster, "kill").call("kill", "begin", nodes=["ch2", "ch3"])
    assert done.kind is Kind.INFO
    assert done.error == "ClusterError: the engine went away"
    whole(cluster)


# --- the whole ------------------------------------------------------------------------------


def test_twenty_seconds_of_every_fault_and_then_all_is_well(cluster: DockerCluster) -> None:
    faults = Faults(cluster, ALL, seed=11)
    clock, worker = WallClock(), Worker(-1, -1, "")
    ops: list[Op] = []

    def record(call: Call, kind: Kind, done: Done | None = None) -> Op:
        ops.append(
            Op(
                index=len(ops),
                process=NEMESIS,
                kind=kind,
                f=call.f,
                time_ns=clock.now_ns(),
                value=done.value if done else call.value,
                error=done.error if done else None,
            )
        )
        return ops[-1]

    generator = faults.nemesis.generator()
    while clock.now_ns() < 20e9:
        step, generator = generator.op(Context(clock.now_ns(), (worker,), ()))
        if not isinstance(step, Ready):
            time.sleep(0.05)
            continue
        op = record(step.call, Kind.INVOKE)
        done = faults.nemesis.invoke(cluster, op)
        end = record(step.call, done.kind, done)
        generator = generator.update(Context(clock.now_ns(), (worker,), ()), end)
    faults.heal()
    whole(cluster)
    assert History(ops).faults, "some took effect, how many depends on the machine"
    assert all(op.error for op in ops if op.kind in (Kind.INFO, Kind.FAIL))

"""Real servers on Docker: each thing that a cluster can do, by its effect."""

import subprocess
import threading
from pathlib import Path

import pytest
from real_servers import THREE, wait_until

from compose.releases import (
    DEFAULT_CLICKHOUSE,
    DEFAULT_ZOOKEEPER,
    clickhouse_release,
    zookeeper_release,
)
from harness.clusters import keeper, replica
from harness.clusters.docker_cluster import DockerCluster
from harness.clusters.fetches import Fetches
from harness.clusters.logs import TRANSACTIONS_FILE
from harness.conform.ensemble import read_archive
from harness.core.capabilities import (
    CanKill,
    CanPartition,
    CanPause,
    CanReject,
    CanRestart,
    CanStopFetches,
    ReportsLeader,
)
from harness.core.connection_capabilities import CanMisname, CanSilence
from harness.core.errors import ClusterError, FaultError, UsageError
from harness.core.topology import Link

pytestmark = pytest.mark.containers


@pytest.fixture
def cluster(servers: DockerCluster) -> DockerCluster:
    """Return the cluster, healed from the previous test; tables may be read-only for some seconds
    more."""
    servers.part(CanPartition).mend()
    servers.part(CanPause).resume(THREE.names)
    servers.part(CanKill).start(THREE.names)
    servers.part(CanStopFetches).start_fetches(THREE.replicas)
    wait_until(lambda: not unserving(servers), "every server serves")
    return servers


@pytest.fixture
def writable(cluster: DockerCluster) -> DockerCluster:
    """Return the healed cluster once its replicated tables accept inserts."""
    wait_until(lambda: not cluster.unready(), "the cluster is whole")
    return cluster


def unserving(cluster: DockerCluster) -> list[str]:
    return [reason for reason in cluster.unready() if not reason.endswith("read-only tables")]


def between(left: set[str], right: set[str]) -> set[Link]:
    return {Link(a, b) for a in left for b in right} | {Link(b, a) for a in left for b in right}


def in_pod(cluster: DockerCluster, node: str, *argv: str) -> str:
    command = ("docker", "exec", f"{cluster.name}-{node}-pod", *argv)
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


# --- up -------------------------------------------------------------------------------------


def test_it_has_every_capability(cluster: DockerCluster) -> None:
    for capability in (CanPartition, CanKill, CanRestart, CanPause, ReportsLeader, CanStopFetches):
        assert isinstance(cluster.part(capability), capability)


def test_every_server_serves_after_up(writable: DockerCluster) -> None:
    cluster = writable
    assert cluster.unready() == []
    assert dict(cluster.versions()) == {
        **dict.fromkeys(THREE.replicas, clickhouse_release(DEFAULT_CLICKHOUSE).version),
        **dict.fromkeys(THREE.keepers, zookeeper_release(DEFAULT_ZOOKEEPER).version),
    }


def test_ports_are_on_the_loopback_alone(cluster: DockerCluster) -> None:
    assert {cluster.endpoint(node).host for node in THREE.names} == {"127.0.0.1"}
    assert len({cluster.endpoint(node).port for node in THREE.names}) == 6
    with pytest.raises(UsageError, match="node 'ch9'"):
        cluster.endpoint("ch9")


def test_a_replica_reads_through_the_keeper_of_its_route(cluster: DockerCluster) -> None:
    for name, through in (("ch1", "zk1"), ("ch2", "zk2"), ("ch3", "zk3")):
        clients = keeper.request(cluster.endpoint(through), "cons")
        address = in_pod(cluster, name, "hostname", "-i").strip()
        assert f"/{address}:" in clients


def test_before_up_there_are_no_ports(tmp_path: Path, cluster: DockerCluster) -> None:
    idle = DockerCluster(THREE, tmp_path, images=cluster.images)
    with pytest.raises(ClusterError, match=r"ch1: has no port, the cluster harness-.* is not up"):
        idle.endpoint("ch1")
    idle.down()


# --- cut ------------------------------------------------------------------------------------


def test_every_link_carries_packets(cluster: DockerCluster) -> None:
    assert set(cluster.part(CanPartition).reachable(THREE.links()).values()) == {True}


def test_a_cut_stops_the_links_that_are_named_and_no_other(cluster: DockerCluster) -> None:
    cut = between({"ch1", "zk1"}, {"ch2", "ch3", "zk2", "zk3"})
    cluster.part(CanPartition).cut(cut)
    reached = cluster.part(CanPartition).reachable(THREE.links())
    assert {link for link, arrived in reached.items() if not arrived} == cut
    cluster.part(CanPartition).mend()
    assert all(cluster.part(CanPartition).reachable(THREE.links()).values())


def test_a_cut_adds_to_those_before_it_and_mending_twice_is_mending_once(
    cluster: DockerCluster,
) -> None:
    first, second = Link("ch1", "ch2"), Link("ch3", "ch2")
    cluster.part(CanPartition).cut([first])
    cluster.part(CanPartition).cut([first, second])
    assert set(cluster.part(CanPartition).reachable([first, second]).values()) == {False}
    cluster.part(CanPartition).mend()
    cluster.part(CanPartition).mend()
    assert set(cluster.part(CanPartition).reachable([first, second]).values()) == {True}
    assert "DROP" not in in_pod(cluster, "ch2", "iptables", "-S")


def test_a_cut_that_rejects_resets_connections_of_these_links_alone(
    cluster: DockerCluster,
) -> None:
    both = {Link("ch1", "zk1"), Link("zk1", "ch1")}
    one_way, dropped, alive = Link("ch2", "ch3"), Link("ch3", "ch2"), Link("ch1", "ch2")
    cluster.part(CanReject).reject([*both, one_way])
    cluster.part(CanPartition).cut([dropped])
    asked = [*both, one_way, dropped, alive]
    reached = cluster.part(CanPartition).reachable(asked)
    assert {link for link, arrived in reached.items() if arrived} == {alive}
    resetting = cluster.part(CanReject).resetting(asked)
    # Nothing gets back to ch2 over the link that drops, but for the reset.
    assert {link for link, reset in resetting.items() if reset} == both
    cluster.part(CanPartition).mend()
    assert set(cluster.part(CanReject).resetting(asked).values()) == {False}
    assert all(cluster.part(CanPartition).reachable(asked).values())


def test_connections_that_are_open_fall_silent_and_new_ones_work(cluster: DockerCluster) -> None:
    connections = cluster.part(CanSilence)
    links = [link for link in THREE.links() if "ch1" in (link.source, link.target)]
    connections.silence(["ch1"])
    # Pings of its session are dropped, and it opens another one while the fault is in force.
    wait_until(lambda: connections.silenced("ch1"), "a packet was dropped")
    wait_until(lambda: "DROP" in in_pod(cluster, "ch1", "iptables", "-S"), "the rules are there")
    assert all(cluster.part(CanPartition).reachable(links).values())
    wait_until(lambda: replica.has_session(cluster.endpoint("ch1")) is None, "a session works")
    assert not connections.silenced("ch2")
    connections.end_silence(["ch1"])
    connections.end_silence(["ch1"])
    assert not connections.silenced("ch1")
    assert "DROP" not in in_pod(cluster, "ch1", "iptables", "-S")


def test_names_of_zookeeper_servers_lead_one_replica_to_the_next(cluster: DockerCluster) -> None:
    names = cluster.part(CanMisname)
    other = in_pod(cluster, "ch2", "getent", "ahostsv4", "zk2").split()[0]
    names.misname(["ch1"])
    assert in_pod(cluster, "ch1", "getent", "ahostsv4", "zk1").split()[0] == other
    assert (names.misnamed("ch1"), names.misnamed("ch2")) == (True, False)
    names.end_misnaming(["ch1"])
    names.end_misnaming(["ch1"])
    assert not names.misnamed("ch1")


def test_a_one_way_cut_is_one_way(cluster: DockerCluster) -> None:
    there, back = Link("zk1", "zk2"), Link("zk2", "zk1")
    cluster.part(CanPartition).cut([there])
    assert cluster.part(CanPartition).reachable([there, back]) == {there: False, back: True}


def test_a_cut_stops_connections_that_are_established(cluster: DockerCluster) -> None:
    assert replica.has_session(cluster.endpoint("ch1")) is None
    cluster.part(CanPartition).cut(between({"ch1"}, set(THREE.keepers)))
    wait_until(
        lambda: replica.has_session(cluster.endpoint("ch1")) is not None,
        "the session of ch1 breaks, though it was open before the cut",
    )
    cluster.part(CanPartition).mend()
    wait_until(lambda: not unserving(cluster), "ch1 has a session again")


@pytest.mark.parametrize("node", ["ch2", "zk2"])
def test_links_are_cut_and_probed_while_servers_are_dead_or_paused(
    cluster: DockerCluster, node: str
) -> None:
    link, back = Link("ch1", node), Link(node, "ch1")
    cluster.part(CanPause).pause([node])
    cluster.part(CanPartition).cut([link])
    assert cluster.part(CanPartition).reachable([link, back]) == {link: False, back: True}
    cluster.part(CanKill).kill([node])
    assert cluster.part(CanPartition).reachable([link, back]) == {link: False, back: True}
    cluster.part(CanPartition).mend()
    assert cluster.part(CanPartition).reachable([link, back]) == {link: True, back: True}


def test_two_halves_are_cut_from_each_other_and_nothing_else(cluster: DockerCluster) -> None:
    cut = between({"ch1", "zk1", "ch2"}, {"zk2", "ch3", "zk3"})
    cluster.part(CanPartition).cut(cut)
    reached = cluster.part(CanPartition).reachable(THREE.links())
    assert {link for link, arrived in reached.items() if not arrived} == cut


# --- kill, restart, pause -------------------------------------------------------------------


def test_a_killed_replica_is_gone_and_keeps_its_data_and_its_cuts(cluster: DockerCluster) -> None:
    endpoint, link = cluster.endpoint("ch1"), Link("ch3", "ch1")
    replica.execute(endpoint, "CREATE TABLE IF NOT EXISTS kept (x UInt8) ENGINE = Log")
    replica.execute(endpoint, "INSERT INTO kept VALUES", rows=[(7,)])
    cluster.part(CanPartition).cut([link])
    cluster.part(CanKill).kill(["ch1"])
    assert not cluster.part(CanKill).running("ch1")
    assert cluster.part(CanKill).running("ch2")
    assert replica.is_alive(endpoint) is not None
    cluster.part(CanKill).kill(["ch1"])  # gone already: nothing happens
    cluster.part(CanKill).start(["ch1"])
    assert cluster.part(CanKill).running("ch1")
    assert cluster.endpoint("ch1") == endpoint
    assert replica.query(endpoint, "SELECT x FROM kept", (int,)) == [(7,)]
    assert cluster.part(CanPartition).reachable([link]) == {link: False}
    replica.execute(endpoint, "DROP TABLE kept")


def test_all_keepers_killed_come_back_with_their_data(cluster: DockerCluster) -> None:
    before = replica.query(
        cluster.endpoint("ch1"),
        "SELECT name, czxid FROM system.zookeeper WHERE path = '/'",
        (str, int),
    )
    cluster.part(CanKill).kill(THREE.keepers)
    assert cluster.part(ReportsLeader).leader() is None
    assert {cluster.part(CanKill).running(node) for node in THREE.keepers} == {False}
    cluster.part(CanKill).start(THREE.keepers)
    wait_until(lambda: not unserving(cluster), "every server serves")
    after = replica.query(
        cluster.endpoint("ch1"),
        "SELECT name, czxid FROM system.zookeeper WHERE path = '/'",
        (str, int),
    )
    assert after == before


def test_everything_killed_at_once_comes_back(cluster: DockerCluster) -> None:
    cluster.part(CanKill).kill(THREE.names)
    assert len(cluster.unready()) == 6
    cluster.part(CanKill).start(THREE.names)
    wait_until(lambda: not unserving(cluster), "every server serves")


def test_a_started_server_answers_without_a_quorum(cluster: DockerCluster) -> None:
    cluster.part(CanKill).kill(THREE.keepers)
    cluster.part(CanKill).start(["zk1"])
    assert cluster.part(CanKill).running("zk1")
    assert "zk1 has no leader" in cluster.unready()


@pytest.mark.parametrize("node", ["ch2", "zk2"])
def test_a_paused_server_is_stopped_as_the_kernel_says(cluster: DockerCluster, node: str) -> None:
    cluster.part(CanPause).pause([node])
    assert cluster.part(CanPause).paused(node)
    # The engine reads the host's process table: another witness than the pod's.
    command = ("docker", "top", f"{cluster.name}-{node}", "-eLo", "pid,stat,comm")
    rows = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    states = {row.split()[1][0] for row in rows[1:]}
    assert len(rows) > 10
    assert states == {"T"}
    assert any(reason.startswith(f"{node} does not answer") for reason in cluster.unready())
    cluster.part(CanPause).resume([node])
    assert not cluster.part(CanPause).paused(node)
    assert cluster.part(CanKill).running(node)
    wait_until(lambda: not unserving(cluster), "every server serves")
    cluster.part(CanPause).resume([node])  # is not paused: nothing happens


def test_what_does_not_run_cannot_be_paused(cluster: DockerCluster) -> None:
    cluster.part(CanKill).kill(["ch3"])
    with pytest.raises(FaultError, match="ch3: cannot be paused, its server does not run"):
        cluster.part(CanPause).pause(["ch3"])
    assert not cluster.part(CanPause).paused("ch3")


def test_what_is_paused_cannot_be_started(cluster: DockerCluster) -> None:
    cluster.part(CanPause).pause(["ch3"])
    with pytest.raises(ClusterError, match="ch3: cannot answer, it is paused; resume it first"):
        cluster.part(CanKill).start(["ch3"])


@pytest.mark.parametrize("nodes", [["ch1"], ["zk1", "zk2", "zk3"], ["ch2", "zk2"]])
def test_a_restart_is_graceful(cluster: DockerCluster, nodes: list[str]) -> None:
    before = {node: born(cluster, node) for node in nodes}
    cluster.part(CanRestart).restart(nodes)
    assert all(born(cluster, node) != before[node] for node in nodes)
    assert all(cluster.part(CanKill).running(node) for node in nodes)
    wait_until(lambda: not unserving(cluster), "every server serves")


def test_a_restart_ends_a_pause(cluster: DockerCluster) -> None:
    cluster.part(CanPause).pause(["ch1"])
    cluster.part(CanRestart).restart(["ch1"])
    assert cluster.part(CanKill).running("ch1")
    assert not cluster.part(CanPause).paused("ch1")


def born(cluster: DockerCluster, node: str) -> str:
    command = ("docker", "inspect", "-f", "{{.State.StartedAt}}", f"{cluster.name}-{node}")
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


HOLDS_PORT = "import socket; socket.create_server(('', 9009)).accept()"


def test_a_replica_that_cannot_start_is_named_with_its_log(
    cluster: DockerCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.part(CanKill).kill(["ch1"])
    holder = ("docker", "exec", f"{cluster.name}-ch1-pod", "python3", "-c", HOLDS_PORT)
    with subprocess.Popen(holder) as held:
        wait_until(lambda: ":9009" in in_pod(cluster, "ch1", "ss", "-tln"), "the port is taken")
        result = (
            r"(?s)ch1: does not answer \d+ s and \d+ starts on: .+; the end of its log:.*Code: "
        )
        with monkeypatch.context() as patch:
            patch.setattr("harness.clusters.processes._START_S", 3.0)
            patch.setattr("harness.clusters.processes._EXITS_S", 3.0)
            with pytest.raises(ClusterError, match=result):
                cluster.part(CanKill).start(["ch1"])
        in_pod(cluster, "ch1", "pkill", "-f", "create_server")
        held.wait(timeout=60)
    cluster.part(CanKill).start(["ch1"])
    assert cluster.part(CanKill).running("ch1")


# --- leader, fetches ------------------------------------------------------------------------


def test_another_leads_when_the_leader_is_dead(cluster: DockerCluster) -> None:
    first = cluster.part(ReportsLeader).leader()
    assert first in THREE.keepers
    cluster.part(CanKill).kill([first])
    wait_until(
        lambda: cluster.part(ReportsLeader).leader() not in (None, first), "another keeper leads"
    )


def test_the_newest_leader_leads_while_the_deposed_one_is_frozen(cluster: DockerCluster) -> None:
    first = cluster.part(ReportsLeader).leader()
    assert first is not None
    cluster.part(CanPause).pause([first])
    wait_until(
        lambda: cluster.part(ReportsLeader).leader() not in (None, first), "another keeper leads"
    )
    second = cluster.part(ReportsLeader).leader()
    cluster.part(CanPause).resume([first])
    assert cluster.part(ReportsLeader).leader() == second


def test_fetches_stop_and_start(writable: DockerCluster) -> None:
    cluster = writable
    assert cluster.part(CanStopFetches).fetching("ch2")
    cluster.part(CanStopFetches).stop_fetches(["ch2"])
    assert not cluster.part(CanStopFetches).fetching("ch2")
    assert not cluster.part(CanStopFetches).fetching("ch2")
    assert cluster.part(CanStopFetches).fetching("ch3")
    cluster.part(CanStopFetches).start_fetches(["ch2"])
    cluster.part(CanStopFetches).start_fetches(["ch2"])
    assert cluster.part(CanStopFetches).fetching("ch2")


def test_a_replica_without_its_session_has_read_only_tables_until_it_has_one(
    writable: DockerCluster,
) -> None:
    fetches = Fetches(THREE.replicas, writable.endpoint)
    assert fetches.refusal("ch1") is None
    writable.part(CanPartition).cut(between({"ch1"}, {"zk1"}))
    wait_until(
        lambda: fetches.refusal("ch1") == "has read-only tables", "the table refuses inserts"
    )
    writable.part(CanPartition).mend()
    wait_until(lambda: not writable.unready(), "the cluster is whole")
    assert fetches.refusal("ch1") is None


def test_a_replica_without_its_tables_is_not_ready(writable: DockerCluster) -> None:
    replica.execute(writable.endpoint("ch1"), "DETACH TABLE harness_probe.fetches")
    (reason,) = writable.unready()
    assert reason == "ch1 has come up without harness_probe.fetches: restart it"
    writable.part(CanRestart).restart(["ch1"])
    wait_until(lambda: not writable.unready(), "the cluster is whole")


def test_fetches_that_no_link_lets_through_do_not_arrive(writable: DockerCluster) -> None:
    cluster = writable
    cluster.part(CanPartition).cut(between({"ch2"}, {"ch1", "ch3"}))
    assert not cluster.part(CanStopFetches).fetching("ch2")


def test_a_dead_replica_does_not_fetch(writable: DockerCluster) -> None:
    cluster = writable
    cluster.part(CanKill).kill(["ch2"])
    assert not cluster.part(CanStopFetches).fetching("ch2")


def test_without_another_replica_nobody_can_say(cluster: DockerCluster) -> None:
    cluster.part(CanKill).kill(["ch1", "ch3"])
    with pytest.raises(ClusterError, match="ch2: cannot ask whether it fetches"):
        cluster.part(CanStopFetches).fetching("ch2")


def test_a_ban_on_fetches_covers_the_tables_of_today_and_ends_with_the_server(
    writable: DockerCluster,
) -> None:
    """This is how the server behaves, which limits what `stop_fetches` can promise."""
    cluster = writable
    cluster.part(CanStopFetches).stop_fetches(["ch2"])
    for node in ("ch1", "ch2"):
        replica.execute(
            cluster.endpoint(node),
            f"CREATE TABLE later (x UInt8) ENGINE = ReplicatedMergeTree('/later', '{node}') "
            "PARTITION BY tuple() ORDER BY x",
            timeout_s=20,
        )
    replica.execute(cluster.endpoint("ch1"), "INSERT INTO later VALUES", rows=[(1,)])
    wait_until(
        lambda: replica.query(cluster.endpoint("ch2"), "SELECT x FROM later", (int,)) == [(1,)],
        "the later table fetches",
    )
    for node in ("ch1", "ch2"):
        replica.execute(cluster.endpoint(node), "DROP TABLE later", timeout_s=20)
    assert not cluster.part(CanStopFetches).fetching("ch2")
    cluster.part(CanRestart).restart(["ch2"])
    wait_until(lambda: cluster.part(CanStopFetches).fetching("ch2"), "the restarted server fetches")


# --- logs, threads --------------------------------------------------------------------------


def test_logs_are_collected_of_dead_servers_too(cluster: DockerCluster, tmp_path: Path) -> None:
    cluster.part(CanKill).kill(["ch1", "zk1"])
    cluster.collect(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(THREE.names)
    for name in THREE.replicas:
        text = (tmp_path / name / "clickhouse-server.log").read_text()
        assert "Ready for connections" in text
        assert (tmp_path / name / "clickhouse-server.err.log").exists()
    for name in THREE.keepers:
        assert "QuorumPeer" in (tmp_path / name / "stdout.log").read_text()
        assert len(read_archive(tmp_path / name / TRANSACTIONS_FILE)) > 0


def test_faults_and_questions_come_from_several_threads(cluster: DockerCluster) -> None:
    stop, failures = threading.Event(), []

    def ask() -> None:
        try:
            while not stop.is_set():
                cluster.unready()
                cluster.part(CanPartition).reachable(THREE.links())
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        cluster.part(CanPartition).cut(between({"zk1"}, {"zk2", "zk3"}))
        cluster.part(CanPause).pause(["ch2"])
        cluster.part(CanPartition).mend()
        cluster.part(CanPause).resume(["ch2"])
    stop.set()
    for thread in threads:
        thread.join()
    assert failures == []
    assert all(cluster.part(CanPartition).reachable(THREE.links()).values())

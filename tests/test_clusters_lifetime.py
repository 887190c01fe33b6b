"""Clusters side by side, kept, orphaned, and without an engine."""

import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from real_servers import seen_on, things, wait_until

from harness.clusters import replica
from harness.clusters.docker_cluster import DockerCluster
from harness.clusters.images import build_images
from harness.clusters.removal import clean
from harness.core.capabilities import CanDegradeLinks, CanKill, CanPartition, CanPause, CanRestart
from harness.core.errors import ClusterError, UsageError
from harness.core.link_quality import LinkFault
from harness.core.topology import Link, Topology

pytestmark = pytest.mark.containers

SMALL = Topology.of(replicas=1, keepers=1)

PROGRAM = """
import sys, time
from pathlib import Path
from harness.clusters.docker_cluster import DockerCluster
from harness.clusters.images import build_images
from harness.core.topology import Topology
cluster = DockerCluster(
    Topology.of(replicas=1, keepers=1),
    Path(sys.argv[1]),
    images=build_images(lambda text: None),
    keep=sys.argv[2] == "keep",
)
cluster.up()
print(cluster.name, flush=True)
if sys.argv[2] == "keep":
    cluster.close()
else:
    time.sleep(600)
"""


def small(directory: Path, **more: bool) -> DockerCluster:
    return DockerCluster(SMALL, directory, images=build_images(lambda text: None), **more)


def everything_of(name: str) -> list[str]:
    volumes = ("ch1-data", "ch1-log", "zk1-data", "zk1-datalog", "zk1-log")
    containers = ("ch1", "ch1-pod", "zk1", "zk1-pod")
    return sorted([name, *(f"{name}-{what}" for what in (*volumes, *containers))])


def other_process(directory: Path, how: str) -> subprocess.Popen[str]:
    argv = (sys.executable, "-c", PROGRAM, str(directory), how)
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)


def name_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.usefixtures("orphans")
def test_clusters_live_side_by_side_and_clean_takes_only_what_a_dead_process_left(
    tmp_path: Path,
) -> None:
    mine = small(tmp_path / "mine")
    with other_process(tmp_path / "other", "live") as process:
        try:
            mine.up()
            theirs = name_of(process)
            assert mine.unready() == []
            assert things(mine.name) == everything_of(mine.name)
            assert things(theirs) == everything_of(theirs)
            removed = clean()
            assert not [name for name in removed if name.startswith((theirs, mine.name))]
            process.kill()
            process.wait()
            removed = [name for name in clean() if name.startswith(theirs)]
            assert sorted(removed) == everything_of(theirs)
            assert things(theirs) == []
            assert mine.unready() == []
        finally:
            process.kill()
            mine.down()
            clean()
    assert things(mine.name) == []
    mine.down()


def test_a_kept_cluster_outlives_its_process_and_is_healed_when_it_is_attached(
    tmp_path: Path,
) -> None:
    with other_process(tmp_path, "keep") as process:
        name = name_of(process)
    try:
        assert process.returncode == 0
        assert not [removed for removed in clean() if removed.startswith(name)]
        assert things(name) == everything_of(name)
        cluster = DockerCluster.attach(tmp_path)
        cluster.up()
        replica.execute(cluster.endpoint("ch1"), "CREATE TABLE kept (x UInt8) ENGINE = Log")
        cluster.part(CanPartition).cut([Link("zk1", "ch1")])
        cluster.part(CanDegradeLinks).degrade_links(SMALL.links(), LinkFault.LOSS, 0.3, seed=1)
        cluster.part(CanKill).kill(["zk1"])
        cluster.part(CanPause).pause(["ch1"])
        again = DockerCluster.attach(tmp_path)
        with pytest.raises(ClusterError, match="another process uses this cluster"):
            again.up()
        with pytest.raises(UsageError, match="a running process uses it"):
            clean([name])
        cluster.close()
        again.up()
        assert again.name == name
        assert again.topology == SMALL
        assert again.unready() == []
        assert all(again.part(CanPartition).reachable(SMALL.links()).values())
        assert not seen_on(again, SMALL.links(), LinkFault.LOSS)
        assert replica.query(again.endpoint("ch1"), "EXISTS TABLE kept", (int,)) == [(1,)]
        again.close()
    finally:
        removed = clean([name])
    assert sorted(removed) == everything_of(name)
    with pytest.raises(UsageError, match=f"{name}.*no such cluster"):
        clean([name])


def test_a_cluster_that_is_up_executes_statements_on_cluster(tmp_path: Path) -> None:
    """Each server executes one as soon as it is up; a server that is asked earlier crashes."""
    cluster = DockerCluster(Topology.of(), tmp_path, images=build_images(lambda text: None))
    try:
        cluster.up()
        for node in cluster.topology.replicas:
            on_each_host = f"CREATE DATABASE by_{node} ON CLUSTER harness_each"
            replica.execute(cluster.endpoint(node), on_each_host, timeout_s=20)
        for node in cluster.topology.replicas:
            made = "SELECT count() FROM system.databases WHERE name LIKE 'by_ch%'"
            assert replica.query(cluster.endpoint(node), made, (int,)) == [(3,)]
    finally:
        cluster.down()


def test_where_no_cluster_was_kept_there_is_none_to_attach(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="no cluster was kept there"):
        DockerCluster.attach(tmp_path)


def test_a_server_that_does_not_come_up_is_one_error_with_its_log_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = small(tmp_path)
    monkeypatch.setattr(
        "compose.plan._environment", lambda topology, node, engine, settings: {"X": "1"}
    )
    broken = small(tmp_path)  # a keeper without a number
    with pytest.raises(ClusterError, match=r"(?s)zk1: did not come up.*the number of this server"):
        broken.up()
    broken.down()
    assert things(broken.name) == []
    assert things(cluster.name) == []


INTERRUPTED = """
import signal, sys
from pathlib import Path
from harness.clusters.docker_cluster import DockerCluster
from harness.clusters.images import build_images
from harness.core.topology import Topology
cluster = DockerCluster(
    Topology.of(), Path(sys.argv[1]), images=build_images(lambda text: None)
)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
print(cluster.name, flush=True)
try:
    cluster.up()
except KeyboardInterrupt:
    cluster.down()
"""


@pytest.mark.parametrize("at", [1, 12, 20])
def test_up_that_is_interrupted_leaves_nothing(tmp_path: Path, at: int) -> None:
    """It is interrupted after the first network, the last volume, and the first containers."""
    argv = (sys.executable, "-c", INTERRUPTED, str(tmp_path))
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        name = name_of(process)
        wait_until(lambda: len(things(name)) >= at, f"{at} objects are there", during=process)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=300) == 0
    time.sleep(1)
    assert things(name) == []


# --- an engine that dies --------------------------------------------------------------------


class Relay:
    """A door to the engine that can be shut: what is behind it is then gone at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._pairs: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def shut(self) -> None:
        self.path.unlink(missing_ok=True)
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        for one in self._pairs:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        threads = []
        while True:
            try:
                here, _ = self._listener.accept()
            except OSError:
                break
            there = socket.socket(socket.AF_UNIX)
            there.connect("/var/run/docker.sock")
            self._pairs += [here, there]
            threads.append(threading.Thread(target=self._carry, args=(here, there)))
            threads[-1].start()
        for thread in threads:
            thread.join()

    @staticmethod
    def _carry(here: socket.socket, there: socket.socket) -> None:
        other = {here: there, there: here}
        with here, there, selectors.DefaultSelector() as ready, suppress(OSError):
            ready.register(here, selectors.EVENT_READ)
            ready.register(there, selectors.EVENT_READ)
            while ready.get_map():
                for key, _ in ready.select():
                    one = key.fileobj
                    assert isinstance(one, socket.socket)
                    if data := one.recv(65536):
                        other[one].sendall(data)
                    else:
                        ready.unregister(one)
                        other[one].shutdown(socket.SHUT_WR)


@pytest.fixture
def relay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Relay]:
    relay = Relay(tmp_path / "door.sock")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{relay.path}")
    yield relay
    monkeypatch.undo()
    relay.shut()


def test_when_the_engine_dies_every_method_says_so_at_once(
    tmp_path: Path, relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = small(tmp_path / "cluster")
    try:
        cluster.up()
        assert all(cluster.part(CanPartition).reachable(SMALL.links()).values())
        relay.shut()
        monkeypatch.setattr("harness.clusters.engine._RESTART_S", 1)
        for do in (
            lambda: cluster.part(CanPartition).cut(SMALL.links()),
            cluster.part(CanPartition).mend,
            lambda: cluster.part(CanPartition).reachable(SMALL.links()),
            lambda: cluster.part(CanKill).kill(["ch1"]),
            lambda: cluster.part(CanKill).start(["ch1"]),
            lambda: cluster.part(CanRestart).restart(["ch1"]),
            lambda: cluster.part(CanPause).pause(["ch1"]),
            lambda: cluster.part(CanPause).resume(["ch1"]),
            lambda: cluster.part(CanKill).running("ch1"),
            lambda: cluster.part(CanPause).paused("ch1"),
            lambda: cluster.collect(tmp_path / "logs"),
            cluster.down,
            clean,
        ):
            began = time.monotonic()
            with pytest.raises(ClusterError, match=r"Docker engine|pod of (ch1|zk1)"):
                do()
            assert time.monotonic() - began < 30
    finally:
        monkeypatch.setenv("DOCKER_HOST", "unix:///var/run/docker.sock")
        cluster.down()
    assert things(cluster.name) == []

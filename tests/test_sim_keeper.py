"""The simulated ZooKeeper: what its clients may rely on, and what not."""

import pytest

from harness.core.seed import Seed
from harness.core.topology import Link, Topology
from harness.sim.simulation import KeeperError, KeeperSession, Simulation
from harness.sim.world import SECOND

THREE = Topology.of()


@pytest.fixture
def simulation() -> Simulation:
    """Return a simulation of three ZooKeeper servers that serve."""
    made = Simulation(THREE, Seed(1))
    made.up()
    assert made.wait_until(lambda: not made.servers.unready(), 30 * SECOND)
    return made


def created(path: str, data: str, ephemeral: bool = False) -> tuple[str, str, str, bool, bool]:
    return "create", path, data, ephemeral, False


def put(path: str, data: str) -> tuple[str, str, str, None]:
    return "put", path, data, None


def got(session: KeeperSession, path: str) -> tuple[str, int] | None:
    """Return data and version."""
    found: list[tuple[str, int] | None] = session.read(("get", path))
    return found[0]


def others(simulation: Simulation) -> tuple[str, str, str]:
    """Return the leader and its followers."""
    leader = simulation.servers.leader()
    assert leader is not None
    first, second = (name for name in THREE.keepers if name != leader)
    return leader, first, second


def peer_links(name: str) -> list[Link]:
    near = [other for other in THREE.keepers if other != name]
    return [Link(name, other) for other in near] + [Link(other, name) for other in near]


def test_a_follower_reads_the_past_until_it_syncs(simulation: Simulation) -> None:
    leader, follower, _ = others(simulation)
    writer, reader = simulation.session([leader]), simulation.session([follower])
    writer.multi(created("/a", "1"))
    reader.sync()
    assert got(reader, "/a") == ("1", 0)
    simulation.cut(peer_links(follower))
    writer.multi(put("/a", "2"))
    assert got(reader, "/a") == ("1", 0), "cut off, it does not know"
    simulation.servers.mend()
    reader.sync()
    assert got(reader, "/a") == ("2", 1)


def test_a_deposed_leader_answers_a_sync_and_no_barrier(simulation: Simulation) -> None:
    """This is why the linearizable reading writes. The old leader's clock is slow, so that it
    notices last."""
    old, _, _ = others(simulation)
    simulation.skew(old, 0.1)
    reader = simulation.session([old])
    reader.multi(created("/a", "1"))
    simulation.cut(peer_links(old))
    leader = simulation.servers.leader
    assert simulation.wait_until(lambda: leader() not in (old, None), 10 * SECOND)
    simulation.session([str(leader())]).multi(put("/a", "2"))
    reader.sync()
    assert got(reader, "/a") == ("1", 0), "acknowledged elsewhere, and missing after a sync"
    with pytest.raises(KeeperError, match="CONNECTIONLOSS"):
        reader.multi()


def test_ephemeral_nodes_end_with_a_silent_session(simulation: Simulation) -> None:
    """Its connection is lost with the server that it had."""
    leader, follower, _ = others(simulation)
    silent, other = simulation.session([follower]), simulation.session([leader])
    silent.multi(created("/e", "1", ephemeral=True))
    simulation.servers.kill(follower)
    simulation.world.sleep(2 * SECOND)
    assert got(other, "/e") == ("1", 0)
    simulation.world.sleep(8 * SECOND)
    assert got(other, "/e") is None


def test_a_minority_commits_nothing(simulation: Simulation) -> None:
    leader, first, second = others(simulation)
    client = simulation.session([leader])
    for name in (first, second):
        simulation.servers.kill(name)
    with pytest.raises(KeeperError, match="CONNECTIONLOSS"):
        client.multi(created("/a", "1"))
    for name in (first, second):
        simulation.servers.start(name)
    assert simulation.wait_until(lambda: simulation.servers.leader() is not None, 20 * SECOND)


def test_what_was_committed_survives_the_death_of_all(simulation: Simulation) -> None:
    leader = others(simulation)[0]
    simulation.session([leader]).multi(created("/a", "1"))
    for name in THREE.keepers:
        simulation.servers.kill(name)
    for name in THREE.keepers:
        simulation.servers.start(name)
    assert simulation.wait_until(lambda: simulation.servers.leader() is not None, 20 * SECOND)
    again = simulation.session([str(simulation.servers.leader())])
    again.multi()
    assert got(again, "/a") == ("1", 0)

"""The simulated ZooKeeper: what its clients may rely on, and what not."""

import pytest

from harness.core.seed import Seed
from harness.core.topology import Link, Topology
from harness.sim.keeper.session import KeeperSession
from harness.sim.keeper.tree import Absent, Check, Create, KeeperError, Put, Remove, Tree
from harness.sim.network import Network
from harness.sim.simulation import Simulation
from harness.sim.world import SECOND, Future, Process, World

THREE = Topology.of()


def applied(tree: Tree, *operations: Create | Put | Remove | Check | Absent) -> list[object]:
    return tree.planned(operations, session=1)[1]


def test_a_multi_is_all_or_nothing() -> None:
    tree = Tree()
    applied(tree, Create("/a"), Create("/a/b", 1))
    before = {path: (node.data, node.version) for path, node in tree.nodes.items()}
    with pytest.raises(KeeperError) as error:
        applied(tree, Put("/a/b", 2), Create("/a/n-", sequential=True), Remove("/a"), Check("/no"))
    assert (error.value.code, error.value.at, error.value.path) == ("NONODE", 3, "/no")
    assert {path: (node.data, node.version) for path, node in tree.nodes.items()} == before
    assert applied(tree, Create("/a/n-", sequential=True)) == ["/a/n-0000000000"]


def test_versions_count_and_are_checked() -> None:
    tree = Tree()
    applied(tree, Create("/a", 1))
    assert applied(tree, Put("/a", 2, version=0)) == [1]
    for operation in (Put("/a", 3, version=0), Remove("/a", 0), Check("/a", 0)):
        with pytest.raises(KeeperError, match="BADVERSION"):
            applied(tree, operation)
    with pytest.raises(KeeperError, match="NODEEXISTS"):
        applied(tree, Absent("/a"))


@pytest.fixture
def simulation() -> Simulation:
    """Three ZooKeeper servers that serve."""
    made = Simulation(THREE, Seed(1))
    made.up()
    assert made.wait_until(lambda: not made.unready(), 30 * SECOND)
    return made


def session(simulation: Simulation, server: str) -> KeeperSession:
    number = simulation.ensemble.fresh_session()
    opened = KeeperSession(
        "ch1", Process("client"), simulation.ensemble, simulation.keepers[server], number
    )
    opened.open()
    return opened


def others(simulation: Simulation) -> tuple[str, str, str]:
    """The leader and its followers."""
    leader = simulation.leader()
    assert leader is not None
    first, second = (name for name in THREE.keepers if name != leader)
    return leader, first, second


def peer_links(name: str) -> list[Link]:
    near = [other for other in THREE.keepers if other != name]
    return [Link(name, other) for other in near] + [Link(other, name) for other in near]


def test_a_follower_reads_the_past_until_it_syncs(simulation: Simulation) -> None:
    leader, follower, _ = others(simulation)
    writer, reader = session(simulation, leader), session(simulation, follower)
    writer.multi((Create("/a", 1),))
    reader.sync()
    assert reader.get("/a") == (1, 0)
    simulation.network.cut(peer_links(follower))
    writer.put("/a", 2)
    assert reader.get("/a") == (1, 0), "cut off, it does not know"
    simulation.network.mend()
    reader.sync()
    assert reader.get("/a") == (2, 1)


def test_a_deposed_leader_answers_a_sync_and_no_barrier(simulation: Simulation) -> None:
    """Why the linearizable reading writes. The old leader's clock is slow, so that it notices
    last."""
    old, _, _ = others(simulation)
    simulation.keepers[old]._tick_ns *= 10
    reader = session(simulation, old)
    reader.multi((Create("/a", 1),))
    simulation.network.cut(peer_links(old))
    assert simulation.wait_until(lambda: simulation.leader() not in (old, None), 10 * SECOND)
    new = simulation.leader()
    assert new is not None
    session(simulation, new).put("/a", 2)
    reader.sync()
    assert reader.get("/a") == (1, 0), "acknowledged elsewhere, and missing after a sync"
    with pytest.raises(KeeperError, match="CONNECTIONLOSS"):
        reader.barrier()


def test_ephemeral_nodes_end_with_a_silent_session(simulation: Simulation) -> None:
    leader, follower, _ = others(simulation)
    dead, watching = session(simulation, follower), session(simulation, leader)
    dead.multi((Create("/e", 1, ephemeral=True),))
    gone = Future()
    assert watching.get("/e", watch=gone) == (1, 0)
    simulation.world.kill(dead.process)
    simulation.world.wait(gone, 10 * SECOND)
    assert watching.get("/e") is None


def test_a_minority_commits_nothing(simulation: Simulation) -> None:
    leader, first, second = others(simulation)
    client = session(simulation, leader)
    for name in (first, second):
        simulation.kill(name)
    with pytest.raises(KeeperError, match="CONNECTIONLOSS"):
        client.multi((Create("/a", 1),))
    for name in (first, second):
        simulation.start(name)
    assert simulation.wait_until(lambda: simulation.leader() is not None, 20 * SECOND)


def test_what_was_committed_survives_the_death_of_all(simulation: Simulation) -> None:
    leader = others(simulation)[0]
    session(simulation, leader).multi((Create("/a", 1),))
    for name in THREE.keepers:
        simulation.kill(name)
    for name in THREE.keepers:
        simulation.start(name)
    assert simulation.wait_until(lambda: simulation.leader() is not None, 20 * SECOND)
    again = session(simulation, str(simulation.leader()))
    again.barrier()
    assert again.get("/a") == (1, 0)


@pytest.mark.parametrize("seed", range(40))
def test_no_packet_overtakes_another_when_a_cut_ends(seed: int) -> None:
    world = World(Seed(seed))
    network = Network(world, THREE)
    link, came = Link("zk1", "zk2"), []

    def send(many: int, every_ns: int) -> None:
        for _ in range(many):
            sent[0] += 1
            network.send("zk1", "zk2", None, came.append, sent[0])
            world.sleep(every_ns)

    sent = [0]
    send(3, 1000)
    network.cut([link])
    send(5, 50_000)
    network.mend()
    send(60, 10_000_000)
    world.sleep(5 * SECOND)
    assert came == list(range(1, sent[0] + 1))

"""Rolling upgrades: one server after the other, each seen; and on real servers."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import docker
import pytest
from cluster_pool import Shape
from nemesis_record import Bare, Record, op
from real_servers import wait_until

from compose.plan import RUN
from compose.releases import ImageChoice
from harness.clusters.docker_cluster import DockerCluster
from harness.clusters.replica import execute, query
from harness.clusters.sim_cluster import SimCluster
from harness.core.capabilities import CanUpgrade
from harness.core.errors import FaultError, StartError, UsageError
from harness.core.op import Done, Json, Kind
from harness.core.seed import Seed
from harness.core.topology import Role, Topology
from nemesis import upgrade
from nemesis.catalogue import parse_nemesis
from nemesis.composed import Composed, check_capabilities
from nemesis.family import Stepwise
from nemesis.options import FaultOptions

THREE = Topology.of(clickhouse="24.8", zookeeper="3.8")
CHOICE = ImageChoice(clickhouse="24.8", upgrade_to=("25.8",))
SHAPE = Shape(topology=Topology.of(replicas=2, keepers=1, **CHOICE.versions), choice=CHOICE)
PATCH = {"24.8": "24.8.4.1", "25.8": "25.8.2.1", "3.8": "3.8.0", "3.9": "3.9.5"}


class Upgradable(Record):
    """Its servers run what they are told to, but for those that refuse it."""

    def __init__(self, topology: Topology = THREE) -> None:
        super().__init__()
        self.topology = topology
        self.refuses: set[tuple[str, str]] = set()
        self.slow: set[str] = set()
        """Servers that are not active."""

    def upgrade(self, node: str, version: str) -> float:
        self._called(f"upgrade {node} to {version}")
        self.topology = self.topology.with_version(node, version)
        if (node, version) in self.refuses:
            self.dead.add(node)
            raise StartError(f"{node}: does not answer 30 s and 9 starts on: it ended")
        self.dead.discard(node)
        return 1.25

    def inactive(self, node: str) -> Sequence[str]:
        if node in self.dead:
            return [f"{node} does not answer"]
        return [f"{node}: default.t is not active"] if node in self.slow else []

    def versions(self) -> dict[str, str]:
        nodes = self.topology.nodes
        return {n.name: PATCH[n.version] for n in nodes if n.name not in self.dead}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upgrade, "ACTIVE_S", 0.0)


def nemesis(topology: Topology = THREE, *, end: str = "new", to: str = "25.8") -> Composed:
    role = Role.ZOOKEEPER if to.startswith("3.") else Role.CLICKHOUSE
    options = FaultOptions(
        seen_within_s=0.2, heal_within_s=0.5, upgrade_to={role: to}, upgrade_end=end
    )
    return parse_nemesis("upgrade", topology, Seed(3), options)


def plans(of: Composed, count: int) -> list[dict[str, Json]]:
    (family,) = of._families.values()
    return [dict(family.plan(Seed(7), turn)) for turn in range(count)]


def move(of: Composed, cluster: Record, node: str, to: str) -> Done:
    return of.invoke(cluster, op("upgrade", "once", nodes=[node], to=to))


def moves(cluster: Record) -> list[str]:
    return [deed for deed in cluster.did if deed.startswith("upgrade")]


def value_of(done: Done) -> dict[str, Any]:
    assert done.kind is Kind.OK, done.error
    assert isinstance(done.value, dict)
    return done.value


def test_every_server_gets_its_turn_in_an_order_that_the_seed_draws() -> None:
    (family,) = nemesis()._families.values()
    assert isinstance(family, Stepwise)
    assert family.turns == 3
    drawn = plans(nemesis(), 3)
    assert sorted(plan["nodes"] for plan in drawn) == [["ch1"], ["ch2"], ["ch3"]]
    assert {plan["to"] for plan in drawn} == {"25.8"}
    assert drawn == plans(nemesis(), 3)


def test_a_roll_that_goes_back_gives_each_server_what_it_had() -> None:
    mixed = Topology.of(clickhouse="24.8,25.5,25.8", zookeeper="3.8")
    drawn = plans(nemesis(mixed, end="old"), 4)
    back = {(str(plan["nodes"]), plan["name"], plan["to"]) for plan in drawn[2:]}
    assert back == {
        ("['ch1']", "downgrade", "24.8"),
        ("['ch2']", "downgrade", "25.5"),
    }, "ch3 runs the new version from the start"


def test_servers_of_zookeeper_are_upgraded_by_a_version_of_zookeeper() -> None:
    drawn = plans(nemesis(to="3.9"), 3)
    assert sorted(str(plan["nodes"]) for plan in drawn) == ["['zk1']", "['zk2']", "['zk3']"]


def test_an_upgrade_is_ok_when_the_server_itself_says_the_new_version() -> None:
    cluster = Upgradable()
    value = value_of(move(nemesis(), cluster, "ch2", "25.8"))
    assert (value["was"], value["is"], value["away_s"]) == ("24.8.4.1", "25.8.2.1", 1.25)
    assert value["text"] == "ch2 24.8.4.1 → 25.8.2.1, away 1.2 s, active after 1.3 s"
    assert moves(cluster) == ["upgrade ch2 to 25.8"]


def test_a_server_that_says_another_version_was_not_upgraded() -> None:
    class Deaf(Upgradable):
        def upgrade(self, node: str, version: str) -> float:
            return 1.0

    done = move(nemesis(), Deaf(), "ch2", "25.8")
    assert (done.kind, done.error) == (Kind.INFO, "ch2 says that it is 24.8.4.1, not 25.8")


def test_the_next_server_waits_until_the_one_before_it_is_active() -> None:
    cluster, roll = Upgradable(), nemesis()
    move(roll, cluster, "ch2", "25.8")
    cluster.slow = {"ch2"}
    done = move(roll, cluster, "ch1", "25.8")
    assert (done.kind, done.error) == (Kind.FAIL, "ch1 waits for ch2: ch2: default.t is not active")
    cluster.slow = set()
    value_of(move(roll, cluster, "ch1", "25.8"))


def test_a_server_that_is_not_active_again_is_said_to_be_so() -> None:
    cluster = Upgradable()
    cluster.slow = {"ch2"}
    done = move(nemesis(), cluster, "ch2", "25.8")
    assert done.kind is Kind.INFO
    assert str(done.error).startswith(
        "ch2 runs 25.8.2.1 after 1.2 s, and is not active 0 s later: ch2: default.t is not active"
    )


def test_a_server_that_refuses_a_version_goes_on_with_its_own_and_no_other_is_tried() -> None:
    cluster, roll = Upgradable(), nemesis()
    cluster.refuses = {("ch2", "25.8")}
    done = move(roll, cluster, "ch2", "25.8")
    assert done.kind is Kind.INFO
    assert done.error == (
        "ch2 does not start on 25.8 with the data of 24.8.4.1, and runs 24.8.4.1 again: "
        "ch2: does not answer 30 s and 9 starts on: it ended"
    )
    assert moves(cluster) == ["upgrade ch2 to 25.8", "upgrade ch2 to 24.8"]
    assert value_of(roll.invoke(cluster, op("upgrade", "end")))["text"] == "ch2 runs 24.8.4.1"
    again = move(roll, cluster, "ch1", "25.8")
    assert (again.kind, again.error) == (
        Kind.FAIL,
        "ch1 stays: ch2 does not start on 25.8 with the data of 24.8.4.1",
    )
    roll.heal(cluster)
    assert len(moves(cluster)) == 2, "the heal does not try it again either"
    assert not cluster.dead


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda cluster: cluster.dead.add("ch2"), "ch2: other faults hold it"),
        (lambda cluster: cluster.frozen.add("ch2"), "ch2: other faults hold it"),
        (
            lambda cluster: cluster.dead.update({"zk2", "zk3"}),
            "ch2: no ZooKeeper server that it knows has a quorum now",
        ),
    ],
)
def test_a_server_that_other_faults_hold_is_not_touched(spoil: Any, why: str) -> None:
    cluster = Upgradable()
    spoil(cluster)
    done = move(nemesis(), cluster, "ch2", "25.8")
    assert (done.kind, done.error) == (Kind.FAIL, why)
    assert moves(cluster) == []


def test_a_heal_finishes_the_roll() -> None:
    cluster, roll = Upgradable(), nemesis()
    move(roll, cluster, "ch2", "25.8")
    roll.heal(cluster)
    assert {cluster.versions()[node] for node in THREE.replicas} == {"25.8.2.1"}
    assert moves(cluster) == [f"upgrade {node} to 25.8" for node in ("ch2", "ch1", "ch3")]
    roll.heal(cluster)
    assert len(moves(cluster)) == 3


def test_a_heal_takes_back_what_a_roll_that_goes_back_has_begun() -> None:
    cluster, roll = Upgradable(), nemesis(end="old")
    move(roll, cluster, "ch2", "25.8")
    roll.heal(cluster)
    assert moves(cluster) == ["upgrade ch2 to 25.8", "upgrade ch2 to 24.8"]


def test_a_heal_says_which_server_could_not_be_left_as_it_was_to_be() -> None:
    cluster, roll = Upgradable(), nemesis(end="old")
    move(roll, cluster, "ch2", "25.8")
    cluster.refuses = {("ch2", "24.8")}
    with pytest.raises(FaultError, match=r"ch2 does not start on 24\.8 with the data of 25\.8"):
        roll.heal(cluster)
    assert cluster.versions()["ch2"] == "25.8.2.1"
    assert not cluster.dead


def test_a_heal_starts_a_server_whose_upgrade_was_interrupted() -> None:
    class Interrupted(Upgradable):
        def upgrade(self, node: str, version: str) -> float:
            if not self.did:
                self.dead.add(node)
                self._called("interrupted")
                raise KeyboardInterrupt
            return super().upgrade(node, version)

    cluster, roll = Interrupted(), nemesis(end="old")
    with pytest.raises(KeyboardInterrupt):
        move(roll, cluster, "ch2", "25.8")
    roll.heal(cluster)
    assert not cluster.dead
    assert cluster.versions()["ch2"] == "24.8.4.1"


def test_a_cluster_that_cannot_upgrade_refuses_before_the_run() -> None:
    message = "cluster {} lacks CanUpgrade.*choose another nemesis or another cluster"
    with pytest.raises(UsageError, match=message.format("sim")):
        check_capabilities(nemesis(), SimCluster(THREE, Seed(1)))
    with pytest.raises(UsageError, match=message.format("bare")):
        check_capabilities(nemesis(), Bare())


# --- on real servers ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pair(servers: DockerCluster) -> Iterator[DockerCluster]:
    """Yield two replicas of 24.8 that may become 25.8."""
    yield servers
    servers.down()
    with closing(docker.from_env()) as client:
        filters: dict[str, Any] = {"label": f"{RUN}={servers.name}"}
        assert client.containers.list(all=True, filters=filters) == [], "all have its labels"


@pytest.mark.containers
def test_two_replicas_go_from_24_8_to_25_8_with_their_data_and_cannot_come_back(
    pair: DockerCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upgrade, "ACTIVE_S", 30.0)
    for node in pair.topology.replicas:
        execute(
            pair.endpoint(node),
            "CREATE TABLE t (value UInt64) ENGINE = "
            f"ReplicatedMergeTree('/upgrade/t', '{node}') ORDER BY value",
            timeout_s=20,
        )
    dialect = pair.engines.dialect
    roll = nemesis(pair.topology, end="old")
    check_capabilities(roll, pair)

    def insert(node: str, value: int) -> None:
        execute(pair.endpoint(node), "INSERT INTO t VALUES", rows=[(value,)], timeout_s=20)

    def has(node: str, *values: int) -> bool:
        found = query(pair.endpoint(node), "SELECT value FROM t ORDER BY value", (int,))
        return found == [(value,) for value in values]

    insert("ch1", 1)
    value_of(move(roll, pair, "ch1", "25.8"))
    assert pair.versions() == {"ch1": "25.8.2.1", "ch2": "24.8.4.1", "zk1": "3.8.0"}
    insert("ch2", 2)
    wait_until(
        lambda: has("ch1", 1, 2), "the new server has what it had, and fetches from the old one"
    )
    value_of(move(roll, pair, "ch2", "25.8"))
    assert pair.engines.dialect is dialect, "the cluster claims no more than before"
    insert("ch1", 3)
    wait_until(lambda: has("ch2", 1, 2, 3), "both are new")
    refused = move(roll, pair, "ch1", "24.8")
    assert refused.kind is Kind.INFO
    result = str(refused.error)
    assert result.startswith(
        "ch1 does not start on 24.8 with the data of 25.8.2.1, and runs 25.8.2.1 again: ch1: does "
        "not answer"
    )
    assert "Unknown mark file extension: '4'" in result, "a part that 25.8 wrote"
    wait_until(lambda: has("ch1", 1, 2, 3), "it goes on where it was")
    assert pair.part(CanUpgrade).inactive("ch1") == []

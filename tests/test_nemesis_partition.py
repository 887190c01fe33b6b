"""The shapes of partitions, as plans: what a seed decides before any server is touched."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.clusters.docker_cluster import DockerCluster
from harness.clusters.sim_cluster import SimCluster
from harness.core.capabilities import CanPartition, CanReject, ReportsLeader
from harness.core.errors import UsageError
from harness.core.seed import Seed
from harness.core.topology import Link, LinkClass, Topology
from nemesis.grudge import from_json
from nemesis.partition import FOLLOWER, FOREMOST, SHAPES, VARIANTS, Partition, unsupported

THREE = Topology.of()
EVERY = tuple(LinkClass)


def planned(variant: str, seed: int, topology: Topology = THREE) -> tuple[str, frozenset[Link]]:
    plan = Partition([variant], topology, EVERY).plan(Seed(seed), 0)
    assert plan["name"] == variant
    shape = plan["grudge"]
    assert isinstance(shape, dict)
    return str(plan["text"]), from_json(shape)


def sides(text: str) -> tuple[set[str], set[str]]:
    found = re.match(r"\{(.*) \| (.*)\}", text)
    assert found, text
    return set(found[1].split()), set(found[2].split())


def crossing(one: set[str], other: set[str]) -> set[Link]:
    return {Link(a, b) for x, y in ((one, other), (other, one)) for a in x for b in y}


@pytest.mark.parametrize(
    ("variant", "sizes"),
    [
        ("partition-one", {1}),
        ("partition-majority", {2}),
        ("partition-halves", {3}),
        ("partition-pair", {2}),
    ],
)
def test_two_sided_shapes_of_six_nodes(variant: str, sizes: set[int]) -> None:
    seen = set()
    for seed in range(50):
        text, dropped = planned(variant, seed)
        one, other = sides(text)
        assert one | other == set(THREE.names)
        assert min(len(one), len(other)) in sizes
        assert dropped == crossing(one, other)
        seen.add(text)
    assert len(seen) > 1, "the seed chooses"


@pytest.mark.parametrize(
    ("variant", "role", "sizes"),
    [
        ("partition-clickhouse-one", THREE.replicas, {1}),
        ("partition-zookeeper-one", THREE.keepers, {1}),
        ("partition-zookeeper-minority", THREE.keepers, {1}),
        ("partition-clickhouse-minority", THREE.replicas, {1}),
    ],
)
def test_an_aimed_partition_cuts_off_nodes_of_a_role(
    variant: str, role: tuple[str, ...], sizes: set[int]
) -> None:
    seen = set()
    for seed in range(50):
        text, dropped = planned(variant, seed)
        alone, others = sides(text)
        assert alone <= set(role)
        assert len(alone) in sizes
        assert others == set(THREE.names) - alone
        assert dropped == crossing(alone, others)
        seen |= alone
    assert seen == set(role)


def test_a_replica_can_be_cut_off_from_zookeeper_alone() -> None:
    partition = Partition(["partition-clickhouse-one"], THREE, (LinkClass.KEEPER,))
    plan = partition.plan(Seed(1), 0)
    alone, others = sides(str(plan["text"]))
    assert others == set(THREE.keepers)
    assert from_json(plan["grudge"]) == crossing(alone, others)


def test_the_partitions_in_turn_are_those_without_an_aim() -> None:
    assert "partition-clickhouse-one" in SHAPES
    assert "partition-clickhouse-one" not in VARIANTS


def test_one_is_now_a_replica_and_now_a_zookeeper_server() -> None:
    alone = {min(sides(planned("partition-one", seed)[0]), key=len).pop() for seed in range(100)}
    assert alone == set(THREE.names)


def test_a_pair_is_a_replica_and_the_server_that_it_reads_through() -> None:
    pairs = {frozenset(sides(planned("partition-pair", seed)[0])[0]) for seed in range(100)}
    assert pairs == {frozenset({f"ch{n}", f"zk{n}"}) for n in (1, 2, 3)}


def test_a_bridge_is_the_one_node_that_the_text_leaves_out() -> None:
    text, dropped = planned("partition-bridge", 7)
    one, other = sides(text)
    middle = text.rpartition(" ")[2]
    assert {middle} == set(THREE.names) - one - other
    assert dropped == crossing(one, other)


def test_one_way_is_both_deaf_and_mute_over_the_seeds() -> None:
    texts = {
        planned("partition-one-way", seed)[0].replace("hears nobody", "deaf") for seed in range(100)
    }
    assert len(texts) == 12
    text, dropped = planned("partition-one-way", 0)
    node = re.search(r"(ch|zk)\d", text)
    assert node
    ends = {k.target if text.endswith("hears nobody") else k.source for k in dropped}
    assert ends == {node[0]}


def test_a_follower_is_chosen_when_it_is_known_who_leads() -> None:
    plan = Partition([FOLLOWER], THREE, EVERY).plan(Seed(1), 0)
    order = plan["order"]
    assert isinstance(order, list)
    assert plan == {"name": FOLLOWER, "order": order}
    assert sorted(order) == ["zk1", "zk2", "zk3"]


def test_every_variant_comes_once_a_round_and_the_two_that_matter_most_first() -> None:
    family = Partition(list(VARIANTS), THREE, EVERY)
    firsts = set()
    for seed in range(50):
        names = [str(family.plan(Seed(seed), turn)["name"]) for turn in range(2 * len(VARIANTS))]
        for one_round in (names[: len(VARIANTS)], names[len(VARIANTS) :]):
            assert sorted(one_round) == sorted(VARIANTS)
            assert set(one_round[:2]) == set(FOREMOST)
            firsts.add(tuple(one_round))
    assert len(firsts) > 90, "the order is drawn"


@given(
    st.sampled_from(tuple(SHAPES)),
    st.integers(1, 4),
    st.integers(1, 5),
    st.lists(st.sampled_from(EVERY), min_size=1, unique=True),
    st.integers(0, 999),
)
def test_a_plan_is_json_cuts_something_and_only_what_may_be_cut(
    variant: str, replicas: int, keepers: int, classes: list[LinkClass], seed: int
) -> None:
    topology = Topology.of(replicas=replicas, keepers=keepers)
    if variant in unsupported(topology, tuple(classes)):
        with pytest.raises(UsageError, match=variant):
            Partition([variant], topology, classes)
        return
    plan = Partition([variant], topology, classes).plan(Seed(seed), 0)
    assert json.loads(json.dumps(plan)) == plan
    assert plan == Partition([variant], topology, classes).plan(Seed(seed), 0)
    shape = plan["grudge"]
    assert isinstance(shape, dict)
    dropped = from_json(shape)
    assert dropped
    assert {topology.link_class(link) for link in dropped} <= set(classes)


@pytest.mark.parametrize(
    ("variant", "topology", "classes", "message"),
    [
        ("partition-ring", THREE, (LinkClass.PEER,), "needs 4 nodes with such links, 3 given"),
        (FOLLOWER, THREE, (LinkClass.KEEPER,), "it cuts peer links, which are not among"),
        (FOLLOWER, Topology.of(keepers=1), EVERY, "needs 2 ZooKeeper servers, 1 given"),
        ("partition-pair", Topology.of(replicas=1, keepers=1), EVERY, "needs 3 nodes"),
        ("partition-one", Topology.of(replicas=1, keepers=3), (LinkClass.INTERSERVER,), "needs 2"),
    ],
)
def test_a_shape_without_room_is_refused(
    variant: str, topology: Topology, classes: tuple[LinkClass, ...], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        Partition([variant], topology, classes)


def test_a_cut_that_rejects_needs_a_cluster_that_can() -> None:
    assert Partition(["partition-one"], THREE, EVERY, "reject").needs == (CanPartition, CanReject)
    assert not SimCluster.has(CanReject)
    assert DockerCluster.has(CanReject)


def test_only_a_shape_that_asks_who_leads_needs_a_leader() -> None:
    assert Partition(["partition-one"], THREE, EVERY).needs == (CanPartition,)
    assert Partition(["partition-one", FOLLOWER], THREE, EVERY).needs == (
        CanPartition,
        ReportsLeader,
    )

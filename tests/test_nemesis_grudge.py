"""Grudges: which links a shape drops, and which it must leave."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.seed import Seed
from harness.core.topology import Link, LinkClass, Topology
from nemesis import grudge

SMALL = Topology.of(replicas=2, keepers=1)

topologies = st.builds(
    lambda shards, replicas, keepers: Topology.of(
        shards=shards, replicas=replicas, keepers=keepers
    ),
    st.integers(1, 2),
    st.integers(1, 4),
    st.integers(1, 5),
)
class_sets = st.lists(st.sampled_from(tuple(LinkClass)), min_size=1, unique=True)


def links(*pairs: str) -> frozenset[Link]:
    return frozenset(Link(*pair.split(">")) for pair in pairs)


def neighbours(topology: Topology, dropped: frozenset[Link], node: str) -> set[str]:
    return {other for other in topology.names if Link(other, node) not in dropped}


def shuffled(topology: Topology, number: int) -> tuple[str, ...]:
    return Seed(number).shuffled(0, topology.names)


def halves(order: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    return order[: len(order) // 2], order[len(order) // 2 :]


def test_one_replica_from_the_rest() -> None:
    assert grudge.complete(SMALL.links(), [["ch1"], ["ch2", "zk1"]]) == links(
        "ch1>ch2", "ch2>ch1", "ch1>zk1", "zk1>ch1"
    )


def test_only_links_of_the_chosen_classes_are_dropped() -> None:
    sides = [["ch1"], ["ch2", "zk1"]]
    assert grudge.complete(SMALL.links([LinkClass.KEEPER]), sides) == links("ch1>zk1", "zk1>ch1")
    assert grudge.complete(SMALL.links([LinkClass.PEER]), sides) == frozenset()


def test_a_deaf_node_hears_nobody_and_a_mute_one_is_heard_by_nobody() -> None:
    assert grudge.deaf(SMALL.links(), "ch1") == links("ch2>ch1", "zk1>ch1")
    assert grudge.mute(SMALL.links(), "ch1") == links("ch1>ch2", "ch1>zk1")


def test_a_ring_of_six_parts_each_node_from_the_opposite_one_only() -> None:
    order = ["ch1", "zk1", "ch2", "zk2", "ch3", "zk3"]
    assert grudge.ring(Topology.of().links(), order) == links(
        "ch1>zk2", "zk2>ch1", "zk1>ch3", "ch3>zk1", "ch2>zk3", "zk3>ch2"
    )


def test_overlapping_components_are_a_mistake_of_the_caller() -> None:
    with pytest.raises(AssertionError, match="overlap"):
        grudge.complete(SMALL.links(), [["ch1"], ["ch1", "ch2"]])


@given(topologies, class_sets, st.integers(0, 99), st.integers(1, 4))
def test_a_complete_grudge_is_symmetric_and_leaves_components_whole(
    topology: Topology, classes: list[LinkClass], number: int, parts: int
) -> None:
    order = shuffled(topology, number)
    components = [order[at::parts] for at in range(parts)]
    dropped = grudge.complete(topology.links(classes), components)
    home = {node: at for at, nodes in enumerate(components) for node in nodes}
    for link in topology.links():
        apart = home[link.source] != home[link.target]
        wanted = topology.link_class(link) in classes
        assert (link in dropped) == (apart and wanted)
        assert (link in dropped) == (Link(link.target, link.source) in dropped)


@given(topologies, st.integers(0, 99))
def test_in_a_ring_every_node_hears_a_majority_and_any_two_views_overlap(
    topology: Topology, number: int
) -> None:
    order = shuffled(topology, number)
    dropped = grudge.ring(topology.links(), order)
    views = [neighbours(topology, dropped, node) for node in order]
    majority = len(order) // 2 + 1
    assert all(len(view) >= majority for view in views)
    assert all(a & b for a in views for b in views)
    if len(order) >= 4:
        assert len({frozenset(view) for view in views}) == len(order), "no two views are the same"
    assert dropped == {Link(link.target, link.source) for link in dropped}, "symmetric"


@given(topologies.filter(lambda t: len(t.names) >= 3), st.integers(0, 99))
def test_a_bridge_hears_all_and_is_the_only_way_across(topology: Topology, number: int) -> None:
    middle, *rest = shuffled(topology, number)
    sides = halves(rest)
    dropped = grudge.bridge(topology.links(), middle, sides)
    assert neighbours(topology, dropped, middle) == set(topology.names)
    for side in sides:
        for node in side:
            assert neighbours(topology, dropped, node) == {*side, middle}


@given(topologies, class_sets, st.integers(0, 99))
def test_one_way_drops_one_direction_only(
    topology: Topology, classes: list[LinkClass], number: int
) -> None:
    node = shuffled(topology, number)[0]
    deaf = grudge.deaf(topology.links(classes), node)
    mute = grudge.mute(topology.links(classes), node)
    assert deaf == {link for link in topology.links(classes) if link.target == node}
    assert mute == {Link(link.target, link.source) for link in deaf}
    assert not deaf & mute


@given(topologies, class_sets, st.integers(0, 99))
def test_json_keeps_every_link(topology: Topology, classes: list[LinkClass], number: int) -> None:
    dropped = grudge.complete(topology.links(classes), halves(shuffled(topology, number)))
    assert grudge.from_json(grudge.to_json(dropped)) == dropped


def test_json_is_the_nodes_that_a_node_does_not_hear() -> None:
    assert grudge.to_json(grudge.deaf(SMALL.links(), "ch1")) == {"ch1": ["ch2", "zk1"]}

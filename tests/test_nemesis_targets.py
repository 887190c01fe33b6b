"""Whom a process fault strikes."""

import pytest

from harness.core.errors import UsageError
from harness.core.seed import Seed
from harness.core.topology import Topology
from nemesis.options import ROLES, TARGETS
from nemesis.targets import NodeSpec, node_specs, nodes

FIVE = Topology.of(replicas=3, keepers=5)


def drawn(role: str, target: str) -> set[tuple[str, ...]]:
    return {nodes(NodeSpec(role, target), FIVE, Seed(seed)) for seed in range(300)}


@pytest.mark.parametrize(
    ("role", "target", "sizes"),
    [
        ("clickhouse", "one", {1}),
        ("clickhouse", "minority", {1}),
        ("clickhouse", "majority", {2}),
        ("clickhouse", "all", {3}),
        ("zookeeper", "one", {1}),
        ("zookeeper", "minority", {1, 2}),
        ("zookeeper", "majority", {3, 4}),
        ("zookeeper", "all", {5}),
        ("both", "one", {2}),
        ("both", "all", {8}),
    ],
)
def test_how_many_a_target_is(role: str, target: str, sizes: set[int]) -> None:
    assert {len(chosen) for chosen in drawn(role, target)} == sizes


def test_every_node_of_the_role_is_struck_over_the_seeds_and_no_other() -> None:
    assert drawn("clickhouse", "one") == {("ch1",), ("ch2",), ("ch3",)}
    assert {a[:2] + b[:2] for a, b in drawn("both", "one")} == {"chzk"}


def test_a_name_leaves_open_what_it_does_not_say() -> None:
    roles, three = ("clickhouse", "zookeeper"), Topology.of()
    assert node_specs("zookeeper", "one", roles, TARGETS, three) == (NodeSpec("zookeeper", "one"),)
    assert node_specs(None, "one", roles, TARGETS, three) == (
        NodeSpec("clickhouse", "one"),
        NodeSpec("zookeeper", "one"),
    )
    assert [spec.target for spec in node_specs("clickhouse", None, roles, TARGETS, three)] == [
        "one",
        "minority",
        "majority",
        "all",
    ]
    assert node_specs(None, "leader", ("clickhouse",), TARGETS, three) == (
        NodeSpec("zookeeper", "leader"),
    )
    named = node_specs("clickhouse", "leader", ROLES, TARGETS, three)
    assert named == (NodeSpec("clickhouse", "leader"),)


@pytest.mark.parametrize(
    ("role", "target", "message"),
    [
        ("both", "leader", "no leader is drawn among both nodes"),
        ("zookeeper", "minority", "1 zookeeper nodes have no minority, at least 3 are needed"),
    ],
)
def test_a_node_spec_without_nodes_is_refused(role: str, target: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        node_specs(role, target, ("both",), TARGETS, Topology.of(keepers=1))

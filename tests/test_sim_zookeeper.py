"""The workload `zookeeper` on simulated servers: right ones, and ones with a planted bug."""

import re
from pathlib import Path
from typing import Any

import pytest
from sim_play import play

from checkers.ladder import Level
from harness.core.errors import UsageError
from harness.core.topology import Topology
from workloads.zookeeper import SHAPES, ZooKeeperOptions

JUDGES = {
    "multi": "multi",
    "sequence": "sequential-nodes",
    "children": "set-full",
    "register": "linearizable",
}
"""Checker of each shape that simulated servers answer."""
RUN: dict[str, Any] = {"name": "zookeeper", "protocol": "repaired", "time_limit_s": 8.0}


@pytest.mark.parametrize("shape", JUDGES)
def test_a_leader_that_commits_alone_is_found_by_each_shape(shape: str) -> None:
    cut: dict[str, Any] = {"rate": 100.0, "interval_s": 1.0, "shape": shape, **RUN}
    seeds = range(1, 6)
    found = [
        seed
        for seed in seeds
        if JUDGES[shape] in play(seed, "partition-pair", bug="keeper-minority", **cut).accusers
    ]
    assert found
    assert not play(found[0], "partition-pair", **cut).accusers


@pytest.mark.parametrize("shape", JUDGES)
@pytest.mark.parametrize("reads", ["sync", "plain"])
def test_reads_keep_what_is_promised_with_and_without_a_sync(shape: str, reads: str) -> None:
    level = "linearizable" if reads == "sync" else "sequential"
    run: dict[str, Any] = {"rate": 60.0, "shape": shape, "read": reads, **RUN}
    assert not play(3, "partition,kill", promise=level, **run).accusers


def test_shapes_that_need_more_of_a_session_name_themselves() -> None:
    lacking = {name: ZooKeeperOptions(shape=name).unsimulated for name in SHAPES}
    assert {name: text for name, text in lacking.items() if text} == {
        "ephemeral": "-o shape=ephemeral",
        "watch": "-o shape=watch",
    }
    assert JUDGES.keys() == {name for name, text in lacking.items() if not text}


def test_the_page_has_each_shape_with_its_checkers() -> None:
    page = (Path(__file__).parent.parent / "docs" / "zookeeper.md").read_text(encoding="utf-8")
    lines = [line for line in page.splitlines() if line.startswith("| `")]
    for name, shape in SHAPES.items():
        judges = {one.name for one in shape.checkers(ZooKeeperOptions(), Level.LINEARIZABLE, False)}
        line = next(line for line in lines if line.startswith(f"| `{name}` |"))
        shown = set(re.findall(r"`([^`]+)`", line.rpartition("|")[0].rpartition("|")[2]))
        assert shown
        assert shown <= judges


def test_an_unknown_shape_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(
        UsageError, match="shape 'tree' is unknown; expected one of register, multi"
    ):
        ZooKeeperOptions(shape="tree").validate(Topology.of())

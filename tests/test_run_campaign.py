"""Runs of a campaign: which of them share a cluster."""

import gc
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from real_servers import THREE

from harness.clusters.sim_cluster import SimCluster
from harness.core.capabilities import CanPartition
from harness.core.errors import ClusterError
from harness.core.protocols import Cluster
from harness.core.seed import Seed
from harness.core.topology import LinkClass
from harness.run.campaign import Campaign, ClusterSource, FinishedRun
from harness.run.stop import Stop
from harness.spec.run_spec import RunSpec
from harness.spec.workload_options import workload_of
from harness.store.store import Store

SPEC = RunSpec(
    workload="quorum-set", nemesis="none", seed=Seed(1), promise="eventual",
    time_limit_s=0.3, quiesce_s=2, workload_options={"insert": "plain", "read": "plain"},
)  # fmt: skip
TWO = (SPEC, structs.replace(SPEC, seed=Seed(2)))


def campaign(store: Path, **more: Any) -> Campaign:
    return Campaign(
        **{
            "store": Store(store),
            "workload": workload_of,
            "commands": {},
            "shown": lambda _: nullcontext(),
            "draw": lambda *_: None,
            "stop": Stop(),
            **more,
        }
    )


def played(store: Path, *, parted: int = 0, leave: bool = False) -> list[tuple[int, bool]]:
    """Return the number of the cluster of each of two runs, and whether it came to rest. On the
    first `parted` clusters no replica reaches another, and there is no nemesis to mend that."""
    output: list[tuple[int, bool]] = []
    made: list[SimCluster] = []

    def make(_: RunSpec, __: Callable[[str], None]) -> Cluster:
        made.append(SimCluster(THREE, Seed(len(made))))
        made[-1].up()
        if len(made) <= parted:
            made[-1].part(CanPartition).cut(THREE.links([LinkClass.INTERSERVER]))
        return made[-1]

    def finished(run: FinishedRun) -> None:
        output.append((len(made), not run.outcome.troubles))

    clusters = ClusterSource(make=make, leave=leave)
    campaign(store, clusters=clusters).run(TWO, finished)
    return output


def test_runs_share_a_cluster_that_comes_to_rest(tmp_path: Path) -> None:
    assert played(tmp_path) == [(1, True), (1, True)]


def test_what_keeps_a_run_from_its_rest_does_not_keep_the_next(tmp_path: Path) -> None:
    """Examples are a host that left the DDL queue, and a link that stays cut."""
    assert played(tmp_path, parted=1) == [(1, False), (2, True)]


def test_a_cluster_that_is_to_be_left_is_left(tmp_path: Path) -> None:
    assert played(tmp_path, parted=1, leave=True) == [(1, False), (1, False)]


def test_a_cluster_that_does_not_come_up_is_not_taken_down_again(tmp_path: Path) -> None:
    """It has tried that itself, and the second error would hide why it did not come up."""

    class Failing(SimCluster):
        def up(self) -> None:
            raise ClusterError("ch1 does not answer\nch1-data is left")

        def down(self) -> None:
            raise ClusterError("ch1-data is left")

    clusters = ClusterSource(make=lambda plan, _: Failing(THREE, plan.seed))
    with pytest.raises(ClusterError, match="ch1 does not answer"):
        campaign(tmp_path, clusters=clusters).run(TWO, lambda _: None)


def test_a_simulated_cluster_is_freed_at_its_end(tmp_path: Path) -> None:
    """It is not left to the garbage collector, so the next cluster can use its memory."""
    made: list[weakref.ref[SimCluster]] = []

    def make(spec: RunSpec, _: Callable[[str], None]) -> Cluster:
        assert all(one() is None for one in made)
        cluster = SimCluster(THREE, spec.seed)
        made.append(weakref.ref(cluster))
        return cluster

    gc.disable()
    try:
        clusters = ClusterSource(make=make, per_run=True)
        campaign(tmp_path, clusters=clusters).run(TWO, lambda _: None)
    finally:
        gc.enable()
    assert len(made) == 2

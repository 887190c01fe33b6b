"""Scenarios of real servers, played on simulated ones."""

import pytest

from compose.releases import ImageChoice
from harness.clusters.sim_cluster import SimCluster
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.generators.script import script
from harness.run.phases import execute
from harness.run.run_context import RunContext
from harness.run.scenario_runs import scenario_spec
from harness.sim.bugs import PROTOCOLS
from workloads.scenarios.catalogue import SCENARIOS


def reproduced(name: str, protocol: str, number: int = 1) -> bool:
    """Play a scenario, and return whether it shows its finding. It must not break off."""
    one, seed = SCENARIOS[name], Seed(number)
    topology = Topology.of(shards=one.shards, replicas=one.replicas)
    cluster = SimCluster(topology, seed, protocol=protocol)
    cluster.up()
    spec = scenario_spec(one, seed, ImageChoice())
    outcome = execute(RunContext.of(spec, cluster, script=script(one.steps)))
    assert one.broke_off(outcome.history) is None
    return one.found(outcome.judgement) is not None


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("name", ["torn-insert", "half-insert"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_an_insert_into_several_partitions_is_not_atomic(
    name: str, protocol: str, seed: int
) -> None:
    assert reproduced(name, protocol, seed)


@pytest.mark.parametrize(("protocol", "found"), [("18.16", True), ("repaired", False)])
def test_a_leader_that_was_paused_past_its_session_claims_to_lead(
    protocol: str, found: bool
) -> None:
    assert reproduced("two-leaders", protocol) == found


@pytest.mark.parametrize(("protocol", "found"), [("25.8", True), ("repaired-25.8", False)])
def test_an_insert_that_is_sent_again_doubles_the_table_of_a_view(
    protocol: str, found: bool
) -> None:
    assert reproduced("doubled-view", protocol) == found


@pytest.mark.parametrize(("protocol", "found"), [("25.8", True), ("repaired-25.8", False)])
def test_a_deleted_row_whose_block_is_sent_again_is_not_there(protocol: str, found: bool) -> None:
    assert reproduced("forgotten-insert", protocol) == found


@pytest.mark.parametrize("name", ["moved-away", "stale-replace"])
def test_statements_that_take_rows_of_a_replica_that_lacks_some(name: str) -> None:
    """Repaired, a statement waits for these rows, so that these scripts break off."""
    assert reproduced(name, "25.8")

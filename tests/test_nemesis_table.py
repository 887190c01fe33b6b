"""A fault of a known shape is one entry of the table of faults."""

from functools import partial

import pytest
from sim_play import THREE, play

from harness.clusters.sim_cluster import SimCluster
from harness.core.capabilities import CanPause
from harness.core.errors import UsageError
from harness.core.seed import Seed
from harness.core.verdict import Status
from harness.report.fault_table import rows
from nemesis.catalogue import FAULTS, nemesis_names, parse_nemesis
from nemesis.composed import check_kind
from nemesis.degraded import Degradation, Degraded
from nemesis.fault import Aim, FaultEntry
from nemesis.options import FaultOptions

FREEZE = FaultEntry(
    name="freeze",
    text="a server stands still",
    seen="it was seen to stand still",
    gone="it was seen to go on",
    make=partial(
        Degraded,
        Degradation(
            CanPause,
            inject=lambda servers, nodes: servers.pause(nodes),
            revert=lambda servers, nodes: servers.resume(nodes),
            shows=lambda servers, node: servers.paused(node),
        ),
    ),
    aim=Aim(role="clickhouse", target="one", roles=("zookeeper",)),
)


@pytest.fixture(autouse=True)
def entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FAULTS, FREEZE.name, FREEZE)


def test_its_names_can_be_given_and_what_it_needs_is_checked() -> None:
    assert {"freeze", "freeze-zookeeper"} == {n for n in nemesis_names() if n.startswith("freeze")}
    nemesis = parse_nemesis("kill,freeze", THREE, Seed(1), FaultOptions())
    assert nemesis.fs == {"kill", "freeze"}
    assert CanPause in nemesis.needs
    check_kind(nemesis, SimCluster, "sim")
    with pytest.raises(UsageError, match="did you mean freeze"):
        parse_nemesis("freezee", THREE, Seed(1), FaultOptions())


@pytest.mark.parametrize(("name", "struck"), [("freeze", "ch"), ("freeze-zookeeper", "zk")])
def test_it_strikes_simulated_servers_and_is_reported(name: str, struck: str) -> None:
    played = play(3, name, interval_s=1, duration_s=1)
    assert played.status is Status.VALID
    faults = rows(played.outcome.history)
    assert len(faults) > 2
    for fault in faults:
        assert fault.text.startswith(struck)
        assert (fault.kind, fault.evidence) == ("ok", FREEZE.seen)
        assert fault.ended in (FREEZE.gone, "ended by the heal at the end of the run")
    assert faults[0].ended == FREEZE.gone

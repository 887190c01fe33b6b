"""Zero-copy replication on the simulated cluster: the repaired protocol holds under every fault,
and each planted bug is found by the checker `objects`."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec import structs
from sim_by_hand import wait
from sim_play import Played, play

from checkers.ladder import Level
from checkers.replication.objects import Objects
from harness.clusters.sim_cluster import SimCluster
from harness.core.capabilities import CanPause, CanStopFetches
from harness.core.history import History
from harness.core.op import Kind, Op
from harness.core.protocols import Session
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.core.verdict import Status
from harness.sim.bugs import bugs
from harness.sim.world import MS
from harness.spec.catalogue import WORKLOADS

PAIR = Topology.of(replicas=2, store=True)
TOKEN = "by_hand"


def shared(seed: int, nemesis: str, bug: str = "", **options: Any) -> Played:
    own = {"name": "zero-copy", "promise": "eventual", "time_limit_s": 20.0, **options}
    return play(seed, nemesis, bug=bug, topology=PAIR, **own)


def found(run: Played) -> dict[str, Any]:
    verdicts = {verdict.checker: verdict for verdict in run.outcome.judgement.verdicts}
    return dict(verdicts["objects"].figures)


@dataclass(frozen=True)
class Planted:
    """A run that shows a bug, and the kinds of anomaly of which it shows some."""

    nemesis: str
    seed: int
    options: dict[str, Any] = field(default_factory=dict)
    by: str = "objects"


CASES = {
    "delete-without-lock-check": Planted("partition-one", 3),
    "unmarked-merge": Planted("none", 1),
    "downgrade": Planted("restart-clickhouse-one,stop-fetches-one", 1),
    "both-move": Planted(
        "loss", 9, {"move": True, "rate": 60.0, "interval_s": 0.3, "duration_s": 3.0}
    ),
    "clone-keeps-dropped": Planted("partition", 8, {"move": True}, by="parts"),
}


@pytest.mark.parametrize("bug", CASES)
def test_each_race_is_found_and_the_repaired_protocol_is_valid(bug: str) -> None:
    case = CASES[bug]
    run = shared(case.seed, case.nemesis, bug, **case.options)
    assert case.by in run.accusers
    control = shared(case.seed, case.nemesis, **case.options)
    assert control.status is Status.VALID
    assert found(control)["orphaned_bytes"] == 0
    assert found(control)["locks"] > 0


@pytest.mark.parametrize("bug", ["", "copied-part"])
def test_a_store_that_does_not_answer_gets_no_second_copy(bug: str) -> None:
    often = {"rate": 40.0, "time_limit_s": 6, "interval_s": 1.5, "duration_s": 1}
    zero_copy = {"name": "zero-copy", "promise": "eventual", "topology": Topology.of(store=True)}
    run = play(0x512C0, "partition-bridge", bug=bug, **zero_copy, **often)
    assert run.accusers == ({"objects"} if bug else set())
    assert (found(run)["anomalies"].get("copied", 0) > 0) == bool(bug)


@dataclass
class Hand:
    """A workload whose calls come one by one, and the history of what they returned."""

    bug: str
    cluster: SimCluster = field(init=False)
    session: Session = field(init=False)
    calls: list[Op] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cluster = SimCluster(PAIR, Seed(1), bugs=bugs([self.bug] if self.bug else []))
        self.cluster.up()
        entry = WORKLOADS["zero-copy"]
        self.load = entry.make(entry.options(), Seed(1), Level.EVENTUAL, False)
        self.session = self.load.session(self.cluster, TOKEN)

    def call(self, node: str, f: str, value: int | None = None) -> None:
        """Make a call about key 0; it is acknowledged."""
        now_ns = self.cluster.simulation.world.now_ns
        index = len(self.calls)
        op = Op(
            index=index, process=0, kind=Kind.INVOKE, f=f, time_ns=now_ns, key=0, value=value,
            node=node,
        )  # fmt: skip
        done = self.session.client(node).invoke(op)
        assert done.kind is Kind.OK, done.error
        ended = {"index": index + 1, "kind": Kind.OK, "value": done.value}
        self.calls += [op, structs.replace(op, **ended)]

    def anomalies(self) -> set[str]:
        verdict = Objects(zero_copy=True).check(History(self.calls))
        return set(verdict.figures["anomalies"])


def fetch_paused(bug: str, after_ns: int) -> set[str]:
    """The replica that fetches stands still so soon after an insert. Meanwhile the other merges the
    part and removes it. Then the fetch goes on, and no other begins."""
    hand = Hand(bug)
    servers = hand.cluster.simulation.servers
    pair = hand.cluster.topology.replicas
    leading = {node: servers.replica(node, f"harness_{TOKEN}.t") for node in pair}
    source = next(node for node, found in leading.items() if found and found["leader"])
    (receiver,) = set(pair) - {source}
    hand.call(source, "insert", 1)
    hand.cluster.simulation.world.sleep(after_ns)
    hand.cluster.part(CanPause).pause([receiver])
    hand.call(source, "merge")
    wait(hand.cluster, 3.4)  # less than a session lasts
    hand.cluster.part(CanStopFetches).stop_fetches([receiver])
    hand.cluster.part(CanPause).resume([receiver])
    wait(hand.cluster, 0.5)
    hand.call(receiver, "objects")
    return hand.anomalies()


@pytest.mark.parametrize("bug", ["", "lock-after-send"])
def test_a_source_keeps_what_it_has_sent(bug: str) -> None:
    moments_ns = range(2 * MS, 22 * MS, MS)
    seen = [fetch_paused(bug, after_ns) for after_ns in moments_ns]
    assert set().union(*seen) == ({"dangling"} if bug else set())

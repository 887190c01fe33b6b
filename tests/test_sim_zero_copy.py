"""Zero-copy replication on the simulated cluster: the repaired protocol holds under every fault,
and each planted bug is found by the checker `objects`."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from sim_play import Played, play

from harness.core.topology import Topology
from harness.core.verdict import Status

PAIR = Topology.of(replicas=2, store=True)


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


CASES = {
    "lock-after-send": Planted("slow-fetches,loss", 1),
    "delete-without-lock-check": Planted("stop-fetches-one", 1),
    "unmarked-merge": Planted("none", 1),
    "downgrade": Planted("restart-clickhouse-one,stop-fetches-one", 1),
}


@pytest.mark.parametrize("bug", CASES)
def test_each_race_is_found_and_the_repaired_protocol_is_valid(bug: str) -> None:
    case = CASES[bug]
    run = shared(case.seed, case.nemesis, bug, **case.options)
    assert "objects" in run.accusers
    control = shared(case.seed, case.nemesis, **case.options)
    assert control.status is Status.VALID
    assert found(control)["orphaned_bytes"] == 0
    assert found(control)["locks"] > 0

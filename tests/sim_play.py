"""Runs on the simulated cluster, without a command line."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkers.ladder import Level
from compose.settings import Fsync
from harness.clusters.sim_cluster import SimCluster
from harness.core.engines import Engines
from harness.core.seed import Seed
from harness.core.topology import LinkClass, Topology
from harness.core.verdict import Status
from harness.run.phases import RunResult, execute
from harness.run.run_context import RunContext
from harness.sim.bugs import DEFAULT, bugs
from harness.spec.catalogue import WORKLOADS
from harness.spec.run_spec import RunSpec
from harness.store.store import RunDirectory
from nemesis.catalogue import parse_nemesis
from nemesis.options import FaultOptions
from workloads.quorum_set import QuorumSet

THREE = Topology.of()


@dataclass(frozen=True)
class Played:
    """A run that is over."""

    outcome: RunResult
    cluster: SimCluster
    journal: bytes

    @property
    def status(self) -> Status:
        return self.outcome.judgement.status

    @property
    def accusers(self) -> set[str]:
        """The checkers that say INVALID."""
        verdicts = self.outcome.judgement.verdicts
        return {v.checker for v in verdicts if v.status is Status.INVALID}


def play(
    seed: int,
    nemesis: str = "partition",
    *,
    bug: str = "",
    time_limit_s: float = 10,
    rate: float | None = None,
    promise: str = "linearizable",
    interval_s: float = 3,
    duration_s: float = 3,
    links: tuple[LinkClass, ...] = tuple(LinkClass),
    name: str = "quorum-set",
    workload: type[QuorumSet] | None = None,
    topology: Topology = THREE,
    protocol: str | None = None,
    without: str = "",
    fsync: str = "default",
    **options: Any,
) -> Played:
    """Execute a workload under a nemesis, as `harness run --cluster sim` does. If it does not say
    how it reads, the protocol is the repaired one. `without` is a defect of the protocol that the
    servers do not have, `fsync` what they sync."""
    own = Seed(seed)
    chosen = "repaired" if options.get("read", "linearizable") == "linearizable" else DEFAULT
    cluster = SimCluster(
        topology,
        own.child("cluster"),
        bugs=bugs([bug] if bug else []),
        protocol=protocol or chosen,
        without=bugs([without] if without else []),
        fsync=Fsync(fsync),
    )
    cluster.up()
    spec = RunSpec(
        workload=name,
        nemesis=nemesis,
        seed=own,
        promise=promise,
        time_limit_s=time_limit_s,
        rate=rate,
    )
    entry = WORKLOADS[name]
    load = (workload or entry.make)(
        entry.options(**options),
        own.child("workload"),
        Level.named(promise),
        nemesis != "none",
    )
    fault_options = FaultOptions(interval_s=interval_s, duration_s=duration_s, link_classes=links)
    faults = parse_nemesis(nemesis, topology, own, fault_options)
    with tempfile.TemporaryDirectory() as directory:
        run = RunDirectory(Path(directory))
        run.begin(spec, Engines(), topology, {})
        context = RunContext.of(spec, cluster, directory=run, workload=load, nemesis=faults)
        outcome = execute(context)
        return Played(outcome, cluster, run.journal.read_bytes())

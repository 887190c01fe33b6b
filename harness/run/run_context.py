"""What one run needs, made from its spec and its cluster."""

from dataclasses import dataclass

from harness.core.protocols import Cluster, Generator, Nemesis, Workload
from harness.core.seed import Seed
from harness.run.monitor import Monitor
from harness.run.stop import Stop
from harness.spec.fault_options import fault_options
from harness.spec.run_spec import RunSpec
from harness.spec.workload_options import workload_of
from harness.store.store import RunDirectory
from nemesis.catalogue import parse_nemesis


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """Everything that one run needs."""

    spec: RunSpec
    cluster: Cluster
    workload: Workload
    nemesis: Nemesis
    directory: RunDirectory | None
    """Directory of the run; None if it leaves no files, which only simulated servers allow."""
    monitor: Monitor
    stop: Stop
    token: str
    """Text that makes the names and paths of its tables unique."""
    drop: bool
    """True if the cluster is used again, so that the tables must be dropped."""
    script: Generator | None
    """Calls and faults in one sequence, instead of the workload's and the nemesis's own."""
    freeze: bool
    """True if the run ends with paused servers at a departure from the model of the protocol."""
    timed_faults: Generator | None
    """Faults in place of the nemesis' own."""
    final_patience_s: float
    """Seconds for which the final reads go on if none of them is answered."""

    @staticmethod
    def of(
        spec: RunSpec,
        cluster: Cluster,
        *,
        directory: RunDirectory | None = None,
        workload: Workload | None = None,
        nemesis: Nemesis | None = None,
        monitor: Monitor | None = None,
        stop: Stop | None = None,
        drop: bool = False,
        script: Generator | None = None,
        freeze: bool = False,
        timed_faults: Generator | None = None,
        final_patience_s: float = 30.0,
    ) -> "RunContext":
        """Return the context of a run on a cluster. The spec says which workload and nemesis it
        has unless they are given; without a monitor nobody watches it. Raises UsageError."""
        if nemesis is None:
            faults = fault_options(spec)
            nemesis = parse_nemesis(spec.nemesis, cluster.topology, spec.seed, faults)
        if monitor is None:
            monitor = Monitor(spec.workload, spec.time_limit_s, anomalies=None)
        name = "sim" if directory is None or cluster.runtime.reproducible else directory.path.name
        return RunContext(
            spec=spec,
            cluster=cluster,
            workload=workload_of(spec) if workload is None else workload,
            nemesis=nemesis,
            directory=directory,
            monitor=monitor,
            stop=Stop() if stop is None else stop,
            token=_fresh_token(name, spec.seed),
            drop=drop,
            script=script,
            freeze=freeze,
            timed_faults=timed_faults,
            final_patience_s=final_patience_s,
        )


def _fresh_token(name: str, seed: Seed) -> str:
    """Return a token made of a run's directory name and seed: letters, digits, underscores."""
    kept = "".join(c if c.isascii() and c.isalnum() else "_" for c in name)
    return f"{kept}_{seed.child(name).value:x}"

"""Plan of a run, which `run.json` keeps and which is enough to repeat the run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from harness.core.engines import Engines
from harness.core.op import Json
from harness.core.seed import Seed

WORKLOAD_OPTIONS: Final = "workload_options"
"""Key in the options of a plan under which those of the workload are stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Settings that decide what a run does."""

    workload: str
    nemesis: str
    seed: Seed
    repro_command: str
    """Command that reproduces the run."""
    promise: str
    """Level of consistency that decides the verdict."""
    time_limit_s: float = 30.0
    extend: int = 1
    """Maximum number of time limits for which calls go on while fewer were acknowledged than the
    checkers need. Virtual time is never extended."""
    rate: float | None = None
    """Client calls per second, over all workers; None: as fast as they are answered."""
    concurrency: int = 6
    """Number of workers; worker i talks to node i modulo the number of nodes."""
    nodes: tuple[str, ...] = ()
    """Replicas that clients talk to; () is all."""
    grace_s: float = 15.0
    """Seconds after the time limit in which a call must end; then it ends as info."""
    quiesce_s: float = 60.0
    """Seconds in which the healed cluster must come to rest."""
    final_patience_s: float = 30.0
    """Seconds for which the final reads go on if none of them is answered."""
    check_s: float = 120.0
    """Time limit of the checkers, in seconds."""
    engines: Engines = field(default_factory=Engines)
    """Engines of the servers, known when the cluster is up. A run.json without them is older than
    the choice of versions."""
    options: Mapping[str, Json] = field(default_factory=dict)
    """Options of the nemesis and the cluster by name, and those of the workload as an object."""

    @property
    def workload_options(self) -> Mapping[str, Json]:
        """Options of the workload by name; empty if none are stored."""
        stored = self.options.get(WORKLOAD_OPTIONS)
        return stored if isinstance(stored, Mapping) else {}

"""What a run was asked to do: kept in `run.json`, enough to do it again."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.core.dialect import Engines
from harness.core.op import Json
from harness.core.seed import Seed


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The part that does not depend on the workload or the nemesis."""

    workload: str
    nemesis: str
    seed: Seed
    again: str
    """The command that runs it again."""
    promise: str
    """The level of consistency that decides the verdict."""
    time_limit_s: float = 30.0
    extend: int = 1
    """How many times the time limit the calls may go on for, at most, while fewer were
    acknowledged than the checkers need. Virtual time is never extended."""
    rate: float | None = None
    """Client calls a second, over all workers; None: as many as are answered."""
    concurrency: int = 6
    """Workers; worker i talks to node i modulo the number of nodes."""
    nodes: tuple[str, ...] = ()
    """The replicas that clients talk to; () is all."""
    grace_s: float = 15.0
    """How long after the time limit a call may take before it is ended as info."""
    quiesce_s: float = 60.0
    """How long the healed cluster may take to come to rest."""
    final_patience_s: float = 30.0
    """How long the final reads go on when none of them is answered."""
    check_s: float = 120.0
    """How long the checkers may take."""
    engines: Engines = field(default_factory=Engines)
    """The servers that it met, known when the cluster is up. A run.json without them is of a time
    when there was only the default."""
    options: Mapping[str, Json] = field(default_factory=dict)
    """Of the workload, the nemesis and the cluster, by name."""

"""Options that workloads have in common, each of which is one field of `-o NAME=VALUE`."""

from dataclasses import dataclass

from checkers.ladder import Level
from harness.core.dialect import Mechanism
from harness.core.ranges import validate_numbers
from harness.core.topology import Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadOptions:
    """Options of a workload. Every field has a default."""

    timeout_s: float = 10.0
    """Seconds after which a call without an answer ends as info."""

    @property
    def promise(self) -> Level:
        """Strongest level of consistency that the servers promise."""
        return Level.EVENTUAL

    @property
    def needs(self) -> tuple[Mechanism, ...]:
        """Mechanisms that the servers must have."""
        return ()

    @property
    def capabilities(self) -> tuple[type, ...]:
        """Capabilities that the cluster must have."""
        return ()

    @property
    def unsimulated(self) -> str:
        """Option that simulated servers do not understand; "" if there is none."""
        return ""

    @property
    def clusters(self) -> tuple[str, ...]:
        """Clusters that its statements name, which the servers' configuration must define."""
        return ()

    def validate(self, topology: Topology) -> None:  # noqa: ARG002
        """Raise UsageError if a number is out of range, or if the options do not fit the topology.

        Subclasses that override it check the numbers themselves: `super()` does not work in a
        dataclass with slots.
        """
        validate_numbers(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class PacedOptions(WorkloadOptions):
    """Options of a workload whose clients share a rate."""

    ops_per_s: float = 40.0
    """Calls per second of all workers together."""

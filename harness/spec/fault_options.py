"""Options of a run's faults."""

from collections.abc import Mapping

from compose.releases import upgrade_targets
from harness.core.link_quality import LinkAmounts
from harness.core.topology import LinkClass
from harness.spec.run_spec import RunSpec
from nemesis.options import ENDS, FaultCommands, FaultOptions


def fault_options(
    spec: RunSpec, commands: Mapping[str, FaultCommands] | None = None
) -> FaultOptions:
    """Return the options of a run's faults; `commands` are those that a user's commands make, by
    name. Raises UsageError."""
    targets = upgrade_targets(spec.upgrade_to)
    return FaultOptions(
        interval_s=spec.interval_s,
        duration_s=spec.duration_s,
        jitter=spec.jitter,
        link_classes=tuple(LinkClass(name) for name in spec.links),
        cut=spec.cut,
        link_amounts=LinkAmounts.parse(spec.link_amounts),
        upgrade_to={role: next(iter(by_name)) for role, by_name in targets.items()},
        upgrade_end=spec.upgrade_end or ENDS[0],
        commands=commands or {},
    )

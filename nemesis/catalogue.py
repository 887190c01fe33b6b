"""Catalogue of nemeses by name, and the parser for a user's list of names."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial

from harness.core import clock_fault, plugins
from harness.core.errors import UsageError
from harness.core.link_quality import TEXTS as LINK_TEXTS
from harness.core.link_quality import LinkFault
from harness.core.ranges import quoted, unknown_name
from harness.core.resources import Resource
from harness.core.seed import Seed
from harness.core.topology import Topology
from nemesis import (
    degraded,
    disk,
    failpoint,
    membership,
    message,
    message_rules,
    moment,
    partition,
    reconfig,
    store,
    targets,
)
from nemesis.clocks import WrongClock
from nemesis.commands import CommandFault
from nemesis.composed import Composed
from nemesis.degraded import Degraded
from nemesis.disk import DiskFault, DiskFlip, PowerCut
from nemesis.failpoint import Failpoint
from nemesis.family import Family
from nemesis.lag import StopFetches
from nemesis.link_degradation import LinkDegradation
from nemesis.message import Message
from nemesis.message_rules import MessageRules
from nemesis.moment import MomentKill
from nemesis.options import ROLES, TARGETS, FaultOptions
from nemesis.partition import Partition
from nemesis.process import Kill, Pause, Restart
from nemesis.reconfig import Reconfig
from nemesis.resources import TEXTS as SHORTAGES
from nemesis.resources import MemoryLimit, Shortage
from nemesis.store import StoreFault
from nemesis.targets import NodeSpec
from nemesis.upgrade import Upgrade

NEMESES: Mapping[str, str] = {
    "none": "no faults",
    "partition": "the partitions below in turn: the last two first, the others in random order",
    **partition.VARIANTS,
    "kill": "SIGKILL, then start",
    "pause": "SIGSTOP, then SIGCONT",
    "restart": "SIGTERM, wait, start",
    "upgrade": "servers are restarted one by one on the version of --upgrade-to, with their data",
    "stop-fetches": "replicas fetch no parts, so that they lag",
    **LINK_TEXTS,
    **membership.VARIANTS,
    **reconfig.VARIANTS,
    **SHORTAGES,
    **{name: text for name, (text, _) in clock_fault.VARIANTS.items()},
    **{name: degradation.text for name, degradation in degraded.DEGRADATIONS.items()},
    **{name: text for name, (text, _) in store.VARIANTS.items()},
    **disk.ALL,
    **{name: text for name, (text, _) in message.VARIANTS.items()},
    message_rules.NAME: message_rules.TEXT,
    **{name: variant.text for name, variant in moment.VARIANTS.items()},
    failpoint.NAME: "the failpoints below that the servers know, in random order",
    **{name: variant.text for name, variant in failpoint.VARIANTS.items()},
}
"""Descriptions by name. kill, pause and restart also take a role, a target or both, as in
kill-zookeeper, pause-leader, restart-clickhouse-all, kill-clickhouse-leader (of the table).
Faults of links do so too; their default is one server. Faults of resources and clocks do so too,
but for those of ONE_SERVER. stop-fetches takes a target; its default is one replica. Faults of
messages and failpoints affect one replica, slow fetches one server."""

PROCESS: Mapping[str, Callable[[Sequence[NodeSpec], Topology], Family]] = {
    "kill": Kill,
    "pause": Pause,
    "restart": Restart,
    Resource.MEMORY: MemoryLimit,
    **{r: partial(Shortage, r) for r in (Resource.CPU, Resource.FILES, Resource.NAMES)},
    **{name: partial(WrongClock, name) for name in clock_fault.VARIANTS if name != "clock-skew"},
}
"""Families whose names may have a role, a target or both."""

TARGETED = (*PROCESS, *LinkFault)
"""Names that a role, a target or both may follow."""

MEMBER_ROLES = ("clickhouse", "zookeeper")
"""Roles that may follow the names of faults of members."""

ONE_SERVER: Mapping[str, tuple[str, Callable[[Sequence[NodeSpec], Topology], Family]]] = {
    "clock-skew": ("zookeeper", partial(WrongClock, "clock-skew")),
    # ZooKeeper soon closes connections that open no session.
    Resource.CONNECTIONS: ("clickhouse", partial(Shortage, Resource.CONNECTIONS)),
}
"""Families that affect one server of a role."""

LAG_TARGETS = ("one", "minority")
"""Targets of stopped fetches: on a majority of the replicas, they would stop every quorum
insert."""

GRAMMAR = (
    f"{', '.join(TARGETED[:-1])} and {TARGETED[-1]} may be followed by -ROLE ({' '.join(ROLES)}) "
    f"and -TARGET ({' '.join(TARGETS)}), as may faults of disks; stop-fetches by -TARGET "
    f"({' '.join(LAG_TARGETS)}), {membership.OLD} and {membership.REPLACE} by -ROLE "
    f"({' '.join(MEMBER_ROLES)})"
)


@cache
def nemesis_names() -> tuple[str, ...]:
    """Return every name that a user can give, with roles and targets spelled out."""
    spelled = [
        "-".join((family, *role, *target))
        for family in (*TARGETED, *disk.ALL)
        for role in ((), *((r,) for r in ROLES))
        for target in ((), *((t,) for t in TARGETS))
        if (role, target) != (("both",), ("leader",))
    ]
    members = [
        f"{family}-{role}"
        for family in (membership.OLD, membership.REPLACE)
        for role in MEMBER_ROLES
    ]
    lag = [f"stop-fetches-{target}" for target in LAG_TARGETS]
    return tuple(dict.fromkeys((*NEMESES, *spelled, *members, *lag)))


def parse_nemesis(text: str, topology: Topology, seed: Seed, options: FaultOptions) -> Composed:
    """Return the nemesis for a list of names such as "partition-ring,kill-zookeeper,pause".

    Names of one family become one family that draws among them, because two simultaneous partitions
    would be one partition of another shape. Faults of different families may overlap. `seed`
    decides all choices. Raises UsageError for an unknown name, and for a fault that needs a larger
    topology.
    """
    given = [name.strip() for name in text.split(",")]
    own: list[Family] = []
    for name in given:
        if name in options.commands:
            own.append(_commands(name, topology, options))
        elif name not in nemesis_names():
            own.append(_plugin(name, topology))
        if given.count(name) > 1:
            raise UsageError(
                f"nemesis {quoted(name)}: named twice in {quoted(text)}; once is enough"
            )
    if "none" in given and len(given) > 1:
        raise UsageError(f"nemesis 'none': cannot be combined, {quoted(text)} given")
    families = [
        *_partitions(given, topology, options),
        *_disks(given, topology, options),
        *_processes(given, topology, options),
        *_upgrades(given, topology, options),
        *_lags(given, topology, options),
        *_links(given, topology, options),
        *_members(given, topology, options),
        *_reconfigs(given, topology),
        *_of_one_server(given, topology, options),
        *_degraded(given, topology, options),
        *_stores(given, topology, options),
        *_messages(given, topology, options),
        *(MessageRules(topology) for name in given if name == message_rules.NAME),
        *(MomentKill(name, topology) for name in given if name in moment.VARIANTS),
        *_failpoints(given, topology, options),
        *own,
    ]
    for family in own:
        if sum(other.f == family.f for other in families) > 1:
            raise UsageError(
                f"nemesis {quoted(text)}: two families have the f {family.f!r}; expected one of "
                "its own"
            )
    return Composed(",".join(given), families, seed.child("nemesis"), options)


FAMILY_MEMBERS = ("f", "once", "needs", "heal_rank", "plan", "begin", "end", "undo", "broken")
"""Members of the protocol `Family`."""


def _plugin(name: str, topology: Topology) -> Family:
    """Return the family of a plug-in, which is called with the topology. Raises UsageError."""
    if plugins.reference(plugins.NEMESES, name) is None:
        known = (*nemesis_names(), *plugins.installed(plugins.NEMESES))
        unknown = unknown_name(name, known, "harness list nemeses")
        raise UsageError(f"nemesis {unknown}; {GRAMMAR}")
    try:
        made: Family = plugins.load(plugins.NEMESES, name)(topology)
    except UsageError as error:
        raise UsageError(f"nemesis {error}") from error
    except TypeError as error:
        raise UsageError(
            f"nemesis {name}: expected a class or function of the topology: {error}"
        ) from error
    plugins.require_members(f"nemesis {name}", made, FAMILY_MEMBERS, "a family of faults")
    return made


def _commands(name: str, topology: Topology, options: FaultOptions) -> Family:
    """Return the family of faults that a user's commands make."""
    commands = options.commands[name]
    specs = (
        spec
        for target in commands.targets
        for spec in _node_specs(name, commands.role, target, topology, options)
    )
    return CommandFault(commands, tuple(specs), topology)


def _partitions(given: Sequence[str], topology: Topology, options: FaultOptions) -> list[Family]:
    named = [name for name in given if name in partition.VARIANTS]
    if "partition" in given:
        unsupported = partition.unsupported(topology, options.link_classes)
        drawn = [variant for variant in partition.VARIANTS if variant not in unsupported]
        if not drawn and not named:
            classes = ",".join(options.link_classes)
            raise UsageError(
                f"nemesis 'partition': this cluster has no two nodes with a link of {classes}"
            )
        named = list(dict.fromkeys((*drawn, *named)))
    return [Partition(named, topology, options.link_classes)] if named else []


def _processes(given: Sequence[str], topology: Topology, options: FaultOptions) -> list[Family]:
    made = _targeted(PROCESS, given, None, topology, options)
    return [PROCESS[family](specs, topology) for family, specs in made.items()]


def _links(given: Sequence[str], topology: Topology, options: FaultOptions) -> list[Family]:
    made = _targeted(LinkFault, given, "one", topology, options)
    return [
        LinkDegradation(
            LinkFault(family),
            options.link_amounts.of[LinkFault(family)],
            specs,
            topology,
            options.link_classes,
        )
        for family, specs in made.items()
    ]


def _members(given: Sequence[str], topology: Topology, options: FaultOptions) -> list[Family]:
    out: list[Family] = []
    for family, make in membership.FAMILIES.items():
        specs: list[NodeSpec] = []
        for name in given:
            if name == family or name.removeprefix(f"{family}-") in MEMBER_ROLES:
                role = name.removeprefix(family).removeprefix("-") or None
                role = "clickhouse" if family == membership.EMPTY else role
                specs += _node_specs(name, role, "one", topology, options)
        if specs:
            out.append(make(family, tuple(dict.fromkeys(specs)), topology))
    return out


def _reconfigs(given: Sequence[str], topology: Topology) -> list[Family]:
    named = [name for name in given if name in reconfig.VARIANTS]
    if named and len(topology.keepers) < reconfig.KEEPERS_MIN:
        raise UsageError(
            f"nemesis {named[0]!r}: it needs {reconfig.KEEPERS_MIN} ZooKeeper servers, "
            f"{len(topology.keepers)} given"
        )
    return [Reconfig(named, topology)] if named else []


def _targeted(
    families: Iterable[str],
    given: Sequence[str],
    target: str | None,
    topology: Topology,
    options: FaultOptions,
) -> dict[str, tuple[NodeSpec, ...]]:
    """Return the node specifications of each of these families that is among the names.

    `target` is that of names without one; None: the options decide.
    """
    out: dict[str, tuple[NodeSpec, ...]] = {}
    for family in families:
        specs: list[NodeSpec] = []
        for name in given:
            if name != family and not name.startswith(f"{family}-"):
                continue
            role, own = _role_and_target(name.removeprefix(family))
            specs += _node_specs(name, role, own or target, topology, options)
        if specs:
            out[family] = tuple(dict.fromkeys(specs))
    return out


def _disks(given: Sequence[str], topology: Topology, options: FaultOptions) -> list[Family]:
    out: list[Family] = []
    for family in disk.ALL:
        specs: list[NodeSpec] = []
        for name in given:
            # The longest name that fits, for power-cut-torn-all is no fault of power-cut.
            if max((n for n in disk.ALL if f"{name}-".startswith(f"{n}-")), default="") != family:
                continue
            role, target = _role_and_target(name.removeprefix(family))
            own = role or (None if target == "leader" else "clickhouse")
            specs += _node_specs(name, own, target or "one", topology, options)
        if specs:
            out.append(_disk_family(family, tuple(dict.fromkeys(specs)), topology))
    return out


def _disk_family(name: str, specs: tuple[NodeSpec, ...], topology: Topology) -> Family:
    if name in disk.POWER_CUTS:
        return PowerCut(name, specs, topology)
    return DiskFlip(specs, topology) if name == disk.FLIP else DiskFault(name, specs, topology)


def _role_and_target(tail: str) -> tuple[str | None, str | None]:
    """Return the role and the target that follow the name of a fault, None where there is none."""
    words = tail.split("-")
    role = next((word for word in words if word in ROLES), None)
    return role, next((word for word in words if word in TARGETS), None)


def _upgrades(given: Sequence[str], topology: Topology, options: FaultOptions) -> list[Family]:
    if "upgrade" not in given:
        return []
    if not options.upgrade_to:
        raise UsageError("nemesis 'upgrade': no target version given, expected one in --upgrade-to")
    to = {
        node.name: options.upgrade_to[node.role]
        for node in topology.nodes
        if node.version != options.upgrade_to.get(node.role, node.version)
    }
    if not to:
        versions = " and ".join(options.upgrade_to.values())
        raise UsageError(
            f"nemesis 'upgrade': all servers run {versions} already; expected another --upgrade-to"
        )
    return [Upgrade(to, topology, back=options.upgrade_end == "old")]


def _lags(given: Sequence[str], topology: Topology, options: FaultOptions) -> list[Family]:
    specs: list[NodeSpec] = []
    for name in given:
        if not name.startswith("stop-fetches"):
            continue
        target = name.removeprefix("stop-fetches").removeprefix("-") or "one"
        specs += _node_specs(name, "clickhouse", target, topology, options)
    return [StopFetches(tuple(dict.fromkeys(specs)), topology)] if specs else []


def _of_one_server(given: Sequence[str], topology: Topology, options: FaultOptions) -> list[Family]:
    return [
        make(_node_specs(name, role, "one", topology, options), topology)
        for name, (role, make) in ONE_SERVER.items()
        if name in given
    ]


def _degraded(given: Sequence[str], topology: Topology, options: FaultOptions) -> list[Family]:
    return [
        Degraded(name, _node_specs(name, degradation.role, "one", topology, options), topology)
        for name, degradation in degraded.DEGRADATIONS.items()
        if name in given
    ]


def _stores(given: Sequence[str], topology: Topology, options: FaultOptions) -> list[Family]:
    return [
        StoreFault(name, _node_specs(name, "store", "one", topology, options), topology)
        for name in given
        if name in store.VARIANTS
    ]


def _messages(given: Sequence[str], topology: Topology, options: FaultOptions) -> list[Family]:
    return [
        Message(name, _node_specs(name, "clickhouse", "one", topology, options), topology)
        for name in given
        if name in message.VARIANTS
    ]


def _failpoints(given: Sequence[str], topology: Topology, options: FaultOptions) -> list[Family]:
    named = [name for name in given if name in failpoint.VARIANTS]
    if failpoint.NAME in given:
        named = list(failpoint.VARIANTS)
    if not named:
        return []
    specs = _node_specs(named[0], "clickhouse", "one", topology, options)
    return [Failpoint(named, specs, topology)]


def _node_specs(
    name: str, role: str | None, target: str | None, topology: Topology, options: FaultOptions
) -> tuple[NodeSpec, ...]:
    try:
        return targets.node_specs(role, target, options.roles, options.targets, topology)
    except UsageError as error:
        raise UsageError(f"nemesis {quoted(name)}: {error}") from error

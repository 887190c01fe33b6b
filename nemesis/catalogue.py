"""Every nemesis by name, and the way from what a user typed to one of them."""

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import cache

from harness.core.errors import UsageError
from harness.core.seed import Seed
from harness.core.topology import Topology
from nemesis import degraded, failpoint, message, partition, targets
from nemesis.composed import Composed
from nemesis.degraded import Degraded
from nemesis.failpoint import Failpoint
from nemesis.family import Family
from nemesis.lag import StopFetches
from nemesis.message import Message
from nemesis.options import ROLES, TARGETS, FaultOptions
from nemesis.partition import Partition
from nemesis.process import Kill, Pause, Restart
from nemesis.targets import Aim
from nemesis.upgrade import Upgrade

NEMESES: Mapping[str, str] = {
    "none": "no faults",
    "partition": "the partitions below in turn, the last two first, else in a drawn order",
    **partition.VARIANTS,
    "kill": "SIGKILL, then start",
    "pause": "SIGSTOP, then SIGCONT",
    "restart": "SIGTERM, wait, start",
    "upgrade": "servers restarted one by one on the version of --upgrade-to, data kept",
    "stop-fetches": "replicas that fetch no parts, so that they lag",
    **{name: way.text for name, way in degraded.WAYS.items()},
    **{name: text for name, (text, _) in message.VARIANTS.items()},
    failpoint.NAME: "the failpoints below in a drawn order, those that the servers know",
    **{name: variant.text for name, variant in failpoint.VARIANTS.items()},
}
"""Name and description. kill, pause and restart also take a role, a target or both, as in
kill-zookeeper, pause-leader, restart-clickhouse-all, kill-clickhouse-leader (of the table);
stop-fetches takes a target, and strikes one replica without it; faults of messages and failpoints
strike one replica, those of packets, fetches and clocks one server."""

PROCESS: Mapping[str, Callable[[Sequence[Aim], Topology], Family]] = {
    "kill": Kill,
    "pause": Pause,
    "restart": Restart,
}

LAG_TARGETS = ("one", "minority")
"""More replicas without fetches and no quorum insert would be acknowledged."""

GRAMMAR = (
    f"kill, pause and restart may be followed by -ROLE ({' '.join(ROLES)}) and -TARGET "
    f"({' '.join(TARGETS)}), stop-fetches by -TARGET ({' '.join(LAG_TARGETS)})"
)


@cache
def nemesis_names() -> tuple[str, ...]:
    """Every name that can be typed, roles and targets spelled out."""
    spelled = [
        "-".join((family, *role, *target))
        for family in PROCESS
        for role in ((), *((r,) for r in ROLES))
        for target in ((), *((t,) for t in TARGETS))
        if (role, target) != (("both",), ("leader",))
    ]
    lag = [f"stop-fetches-{target}" for target in LAG_TARGETS]
    return tuple(dict.fromkeys((*NEMESES, *spelled, *lag)))


def parse_nemesis(text: str, topology: Topology, seed: Seed, options: FaultOptions) -> Composed:
    """The nemesis that a list of names means: "partition-ring,kill-zookeeper,pause".

    Names of one family are one family that draws among them: two partitions at once would be
    one partition of another shape. Families overlap. `seed` decides all choices. Raises
    UsageError on unknown names, and on faults that this topology has no room for.
    """
    asked = [name.strip() for name in text.split(",")]
    for name in asked:
        if name not in nemesis_names():
            raise UsageError(_unknown(name))
        if asked.count(name) > 1:
            raise UsageError(f"nemesis {name!r}: named twice in {text!r}; once is enough")
    if "none" in asked and len(asked) > 1:
        raise UsageError(f"nemesis 'none': cannot be combined, {text!r} given")
    families = [
        *_partitions(asked, topology, options),
        *_processes(asked, topology, options),
        *_upgrades(asked, topology, options),
        *_lags(asked, topology, options),
        *_degraded(asked, topology, options),
        *_messages(asked, topology, options),
        *_failpoints(asked, topology, options),
    ]
    return Composed(",".join(asked), families, seed.child("nemesis"), options)


def _partitions(asked: Sequence[str], topology: Topology, options: FaultOptions) -> list[Family]:
    named = [name for name in asked if name in partition.VARIANTS]
    if "partition" in asked:
        unfit = partition.unfit(topology, options.link_classes)
        drawn = [variant for variant in partition.VARIANTS if variant not in unfit]
        if not drawn and not named:
            raise UsageError("nemesis 'partition': this topology has no two nodes to part")
        named = list(dict.fromkeys((*drawn, *named)))
    return [Partition(named, topology, options.link_classes)] if named else []


def _processes(asked: Sequence[str], topology: Topology, options: FaultOptions) -> list[Family]:
    out: list[Family] = []
    for family, make in PROCESS.items():
        aims: list[Aim] = []
        for name in asked:
            head, _, tail = name.partition("-")
            if head != family:
                continue
            words = tail.split("-") if tail else []
            role = next((word for word in words if word in ROLES), None)
            target = next((word for word in words if word in TARGETS), None)
            aims += _aims(name, role, target, topology, options)
        if aims:
            out.append(make(tuple(dict.fromkeys(aims)), topology))
    return out


def _upgrades(asked: Sequence[str], topology: Topology, options: FaultOptions) -> list[Family]:
    if "upgrade" not in asked:
        return []
    if not options.upgrade_to:
        raise UsageError("nemesis 'upgrade': to which version? expected one in --upgrade-to")
    to = {
        node.name: options.upgrade_to[node.role]
        for node in topology.nodes
        if node.version != options.upgrade_to.get(node.role, node.version)
    }
    if not to:
        versions = " and ".join(options.upgrade_to.values())
        raise UsageError(
            f"nemesis 'upgrade': no server is left to upgrade, all run {versions}; expected "
            "another --upgrade-to"
        )
    return [Upgrade(to, topology, back=options.upgrade_end == "old")]


def _lags(asked: Sequence[str], topology: Topology, options: FaultOptions) -> list[Family]:
    aims: list[Aim] = []
    for name in asked:
        if not name.startswith("stop-fetches"):
            continue
        target = name.removeprefix("stop-fetches").removeprefix("-") or "one"
        aims += _aims(name, "clickhouse", target, topology, options)
    return [StopFetches(tuple(dict.fromkeys(aims)), topology)] if aims else []


def _degraded(asked: Sequence[str], topology: Topology, options: FaultOptions) -> list[Family]:
    return [
        Degraded(name, _aims(name, way.role, "one", topology, options), topology)
        for name, way in degraded.WAYS.items()
        if name in asked
    ]


def _messages(asked: Sequence[str], topology: Topology, options: FaultOptions) -> list[Family]:
    return [
        Message(name, _aims(name, "clickhouse", "one", topology, options), topology)
        for name in asked
        if name in message.VARIANTS
    ]


def _failpoints(asked: Sequence[str], topology: Topology, options: FaultOptions) -> list[Family]:
    named = [name for name in asked if name in failpoint.VARIANTS]
    if failpoint.NAME in asked:
        named = list(failpoint.VARIANTS)
    if not named:
        return []
    return [Failpoint(named, _aims(named[0], "clickhouse", "one", topology, options), topology)]


def _aims(
    name: str, role: str | None, target: str | None, topology: Topology, options: FaultOptions
) -> tuple[Aim, ...]:
    try:
        return targets.aims(role, target, options.roles, options.targets, topology)
    except UsageError as error:
        raise UsageError(f"nemesis {name!r}: {error}") from error


def _unknown(name: str) -> str:
    close = get_close_matches(name, nemesis_names(), n=3, cutoff=0.6)
    hint = f" Did you mean {' or '.join(close)}?" if close else ""
    known = ", ".join(NEMESES)
    return f"nemesis {name!r}: there is none of that name.{hint} There are {known}; {GRAMMAR}"

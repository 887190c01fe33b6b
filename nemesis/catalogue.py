"""Table of all faults by name, and the parser for a user's list of names."""

from collections.abc import Mapping, Sequence
from typing import Final

from harness.core import plugins
from harness.core.errors import UsageError
from harness.core.ranges import quoted, unknown_name
from harness.core.seed import Seed
from harness.core.topology import Topology
from nemesis import (
    clocks,
    degraded,
    disk,
    failpoint,
    lag,
    link_degradation,
    membership,
    message,
    message_rules,
    moment,
    partition,
    process,
    reconfig,
    resources,
    store,
    upgrade,
)
from nemesis.commands import CommandFault
from nemesis.composed import Composed
from nemesis.family import Family
from nemesis.fault import Aim, FaultChoice, FaultEntry, FaultName
from nemesis.options import FaultOptions

FAULTS: Final[dict[str, FaultEntry]] = {
    entry.name: entry
    for entries in (
        partition.FAULTS,
        process.FAULTS,
        upgrade.FAULTS,
        lag.FAULTS,
        link_degradation.FAULTS,
        membership.FAULTS,
        reconfig.FAULTS,
        resources.FAULTS,
        clocks.FAULTS,
        degraded.FAULTS,
        store.FAULTS,
        disk.FAULTS,
        message.FAULTS,
        message_rules.FAULTS,
        moment.FAULTS,
        failpoint.FAULTS,
    )
    for entry in entries
}
"""Table of all faults, by name. All that lists or describes faults derives from it."""

_FIRST: Final = (partition.FAULTS, disk.FAULTS, process.FAULTS, resources.FAULTS, clocks.FAULTS)
"""Entries whose families precede all others in a mixture, in this order. From the order of the
families a seed draws the schedule, so that with another one old seeds would give other faults."""

NONE: Final = "none"
NEMESES: Final[Mapping[str, str]] = {
    NONE: "no faults",
    **{name: entry.text for name, entry in FAULTS.items()},
}
"""Descriptions by name. Roles and targets may follow some names, see `GRAMMAR`."""


def _grammar() -> str:
    """Return what may follow which names: "a and b may be followed by -TARGET (one all); …"."""
    names: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for entry in FAULTS.values():
        if entry.aim is not None:
            names.setdefault((entry.aim.roles, entry.aim.targets), []).append(entry.name)
    sentences = []
    for (roles, targets), (*others, last) in names.items():
        endings = {"-ROLE": roles, "-TARGET": targets}
        listed = [f"{what} ({' '.join(words)})" for what, words in endings.items() if words]
        if listed:
            subject = f"{', '.join(others)} and {last}" if others else last
            sentences.append(f"{subject} may be followed by {' and '.join(listed)}")
    return "; ".join(sentences)


GRAMMAR: Final = _grammar()
"""What may follow the names of faults, as a sentence without its full stop."""


def nemesis_names() -> tuple[str, ...]:
    """Return every name that a user can give, with roles and targets spelled out."""
    return (NONE, *(name.text for entry in FAULTS.values() for name in entry.names()))


def _fault_name(text: str) -> FaultName | None:
    """Return the entry, the role and the target that a user names; None if the name is unknown."""
    entries = (entry for entry in FAULTS.values() if text.startswith(entry.name))
    names = (name for entry in entries for name in entry.names())
    return next((name for name in names if name.text == text), None)


def entry_of(f: str) -> FaultEntry | None:
    """Return an entry with this f; None for that of a plug-in or of a user's commands."""
    return next((entry for entry in FAULTS.values() if entry.family == f), None)


def parse_nemesis(text: str, topology: Topology, seed: Seed, options: FaultOptions) -> Composed:
    """Return the nemesis for a list of names such as "partition-ring,kill-zookeeper,pause".

    Names of one family become one family that draws among them, because two simultaneous partitions
    would be one partition of another shape. Faults of different families may overlap. `seed`
    decides all choices. Raises UsageError for an unknown name, and for a fault that needs a larger
    topology.
    """
    words = [name.strip() for name in text.split(",")]
    names: list[FaultName] = []
    foreign: list[Family] = []
    for word in words:
        name = _fault_name(word)
        if word in options.commands:
            foreign.append(_commands(word, topology, options))
        elif name is not None:
            names.append(name)
        elif word != NONE:
            foreign.append(_plugin(word, topology))
        if words.count(word) > 1:
            raise UsageError(
                f"nemesis {quoted(word)}: named twice in {quoted(text)}; once is enough"
            )
    if NONE in words and len(words) > 1:
        raise UsageError(f"nemesis 'none': cannot be combined, {quoted(text)} given")
    families = [*_families(names, topology, options), *foreign]
    for family in foreign:
        if sum(other.f == family.f for other in families) > 1:
            raise UsageError(
                f"nemesis {quoted(text)}: two families have the f {family.f!r}; expected one of "
                "its own"
            )
    return Composed(",".join(words), families, seed.child("nemesis"), options)


def _families(
    names: Sequence[FaultName], topology: Topology, options: FaultOptions
) -> list[Family]:
    """Return the families of these names, one for each f."""
    out: list[Family] = []
    first = (entry for entries in _FIRST for entry in entries)
    for f in dict.fromkeys(entry.family for entry in (*first, *FAULTS.values())):
        chosen = [name for name in names if name.entry.family == f]
        if chosen:
            entries = dict.fromkeys(name.entry.name for name in chosen)
            specs = dict.fromkeys(s for name in chosen for s in name.specs(topology, options))
            choice = FaultChoice(tuple(entries), tuple(specs), topology, options)
            out.append(chosen[0].entry.make(choice))
    return out


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
    """Return the family of faults that a user's commands make. Raises UsageError."""
    commands = options.commands[name]
    specs = (
        spec
        for target in commands.targets
        for spec in Aim().specs(name, commands.role, target, topology, options)
    )
    return CommandFault(FaultChoice((name,), tuple(specs), topology, options))

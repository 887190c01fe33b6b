"""`harness list`: the names that the other commands accept."""

from collections.abc import Mapping
from typing import Final

import rich_click as click
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from checkers.triage.defects import DEFECTS
from compose.releases import (
    CLICKHOUSE,
    DEFAULT_CLICKHOUSE,
    DEFAULT_ZOOKEEPER,
    ZOOKEEPER,
    Release,
)
from harness.cli.parameter_types import json_option
from harness.cli.terminal import Terminal, print_json
from harness.core import plugins
from harness.core.errors import UsageError
from harness.core.ranges import unknown_name
from harness.sim.bugs import BUGS, PROTOCOLS
from harness.spec.catalogue import CHECKERS, WORKLOADS, workload_entry
from harness.spec.option import CLUSTERS
from harness.spec.workload_options import DescribedOption, described_options
from nemesis.catalogue import GRAMMAR, NEMESES
from workloads.scenarios.catalogue import SCENARIOS
from workloads.statement_table import STATEMENTS


def _version(release: Release) -> str:
    default = release.alias in (DEFAULT_CLICKHOUSE, DEFAULT_ZOOKEEPER)
    official = f"{release.official} if a registry is reachable, else " if release.official else ""
    return f"{official}{release.version} {release.build}{' (default)' if default else ''}"


SECTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "workloads": {
        **plugins.descriptions(plugins.WORKLOADS),
        **{name: entry.text for name, entry in WORKLOADS.items()},
    },
    "nemeses": {**NEMESES, **plugins.descriptions(plugins.NEMESES)},
    "checkers": {**CHECKERS, **plugins.descriptions(plugins.CHECKERS)},
    "clusters": CLUSTERS,
    "versions": {
        f"{release.product} {release.alias}": _version(release)
        for release in (*CLICKHOUSE, *ZOOKEEPER)
    },
    "protocols": {name: protocol.text for name, protocol in PROTOCOLS.items()},
    "bugs": BUGS,
    "scenarios": {name: scenario.text for name, scenario in SCENARIOS.items()},
    "statements": {name: kind.description for name, kind in STATEMENTS.items()},
    "defects": {name: defect.text for name, defect in DEFECTS.items()},
}
"""Description of each name, by section."""
_FLAGS: Final[Mapping[str, str]] = {
    "workloads": "--workload",
    "nemeses": "--nemesis, several separated by commas",
    "checkers": "what judges a history; each workload has its own",
    "clusters": "--cluster",
    "versions": "--clickhouse, --zookeeper",
    "protocols": "--protocol, of simulated servers",
    "bugs": "--bug, planted in simulated servers",
    "scenarios": "harness scenario NAME",
    "statements": "-o statements=NAME,NAME of the workload statements",
    "defects": "known ones of the servers, which explain INVALID runs; accept, in a matrix",
}
"""What the names of a section are for."""


@click.command("list")
@click.argument("name", metavar="[SECTION|NAME]", required=False)
@json_option
def list_(name: str | None, as_json: bool) -> None:
    """List what has a name: workloads, nemeses, checkers, server versions and more.

    Without an argument it prints all names. `harness list nemeses` describes those of a section,
    `harness list quorum-set` a single one, with its options if it is a workload.
    """
    if as_json:
        print_json(_as_json(name))
        return
    console = Terminal(highlight=False)
    if name is None:
        _print_overview(console)
    elif name in SECTIONS:
        _print_section(console, name)
    else:
        _print_name(console, name)


def _sections_with(name: str) -> list[str]:
    """Return the sections that have the name. Raises UsageError if none has."""
    if plugins.is_reference(name):
        return ["workloads"]
    found = [section for section, entries in SECTIONS.items() if name in entries]
    if not found:
        known = [*SECTIONS, *(name for entries in SECTIONS.values() for name in entries)]
        raise UsageError(unknown_name(name, known, "harness list"))
    return found


def _text(section: str, name: str) -> str:
    """Return the description of a name, also of a workload MODULE:CLASS."""
    return SECTIONS[section].get(name) or workload_entry(name).text


def _as_json(name: str | None) -> Mapping[str, object]:
    if name is None:
        return SECTIONS
    if name in SECTIONS:
        return {name: SECTIONS[name]}
    out: dict[str, object] = {
        section: {name: _text(section, name)} for section in _sections_with(name)
    }
    if "workloads" in out:
        out["options"] = {
            option.name: {"default": option.default, "text": option.text}
            for option in described_options(name)
        }
    return out


def _print_overview(console: Terminal) -> None:
    for section, entries in SECTIONS.items():
        console.print(Text.assemble((section, "bold"), f"  {_FLAGS[section]}"))
        console.print(Padding(", ".join(entries), (0, 0, 0, 2)))
    console.print()
    console.print("harness list SECTION describes its names, harness list NAME one of them.")


def _print_section(console: Terminal, section: str) -> None:
    console.print(_table(SECTIONS[section]))
    if section == "nemeses":
        console.print(f"\nCombine nemeses with commas. {GRAMMAR}.")
    if section == "workloads":
        console.print("\nharness list NAME shows the options of a workload.")


def _print_name(console: Terminal, name: str) -> None:
    sections = _sections_with(name)
    for section in sections:
        console.print(f"{section}: {name}", style="bold")
        console.print(Padding(_text(section, name), (0, 0, 0, 2)))
    if "workloads" in sections:
        console.print("options, each set by -o NAME=VALUE:", style="bold")
        console.print(_table({_assignment(one): one.text for one in described_options(name)}))


def _assignment(option: DescribedOption) -> str:
    return f"{option.name}={option.default}"


def _table(entries: Mapping[str, str]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column("name", style="cyan", no_wrap=True, min_width=26)
    table.add_column("what it is")
    for name, text in entries.items():
        table.add_row(name, text)
    return table

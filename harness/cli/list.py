"""`harness list`: the names that the other commands accept."""

import json
from collections.abc import Mapping

import rich_click as click
from rich.table import Table

from compose.releases import (
    CLICKHOUSE,
    DEFAULT_CLICKHOUSE,
    DEFAULT_ZOOKEEPER,
    ZOOKEEPER,
    Release,
)
from harness.cli.catalogue import CHECKERS, CLUSTERS, WORKLOADS
from harness.cli.parameter_types import json_option
from harness.cli.terminal import Terminal
from harness.cli.workload import described
from harness.sim.bugs import BUGS
from nemesis.catalogue import GRAMMAR, NEMESES


def _version(release: Release) -> str:
    default = release.alias in (DEFAULT_CLICKHOUSE, DEFAULT_ZOOKEEPER)
    official = f"{release.official} if a registry is reachable, else " if release.official else ""
    return f"{official}{release.version} {release.build}{' (default)' if default else ''}"


SECTIONS: Mapping[str, Mapping[str, str]] = {
    "workloads": {name: described(name) for name in WORKLOADS},
    "nemeses": NEMESES,
    "checkers": CHECKERS,
    "clusters": CLUSTERS,
    "server versions (--clickhouse, --zookeeper)": {
        f"{release.product} {release.alias}": _version(release)
        for release in (*CLICKHOUSE, *ZOOKEEPER)
    },
    "bugs of simulated servers": BUGS,
}


@click.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List the workloads, nemeses, checkers and clusters."""
    if as_json:
        click.echo(json.dumps(SECTIONS))
        return
    console = Terminal()
    for title, entries in SECTIONS.items():
        table = Table(
            title=title, title_justify="left", title_style="bold", box=None, pad_edge=False
        )
        table.add_column("name", style="cyan", no_wrap=True, min_width=26)
        table.add_column("what it is")
        for name, text in entries.items():
            table.add_row(name, text)
        table.show_header = False
        console.print(table)
        console.print()
    console.print(f"Combine nemeses with commas. {GRAMMAR}.", highlight=False)

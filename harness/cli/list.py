"""`harness list`: everything that has a name."""

import json
from collections.abc import Mapping

import rich_click as click
from rich.console import Console
from rich.table import Table

from harness.cli.catalogue import CHECKERS, CLUSTERS, WORKLOADS
from harness.cli.workload import described
from harness.sim.bugs import BUGS
from nemesis.catalogue import GRAMMAR, NEMESES

SECTIONS: Mapping[str, Mapping[str, str]] = {
    "workloads": {name: described(name) for name in WORKLOADS},
    "nemeses": NEMESES,
    "checkers": CHECKERS,
    "clusters": CLUSTERS,
    "bugs of simulated servers": BUGS,
}


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def list_(as_json: bool) -> int:
    """Name the workloads, nemeses, checkers and clusters."""
    if as_json:
        click.echo(json.dumps(SECTIONS))
        return 0
    console = Console()
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
    console.print(f"Nemeses are joined by commas. {GRAMMAR}.", highlight=False)
    return 0

"""`harness doctor`: what this machine has and lacks."""

import json
from dataclasses import asdict
from typing import Any

import rich_click as click
from rich.table import Table
from rich.text import Text

from compose.releases import ImageChoice
from harness.cli.image_options import image_options
from harness.cli.terminal import Terminal
from harness.clusters.requirements import requirements
from harness.core.errors import EXIT_CRASH


@click.command("doctor")
@image_options
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def doctor(as_json: bool, **options: Any) -> int:
    """Say of every requirement whether it is met, and how to get it.

    Exit status 0 when everything that a run needs is here, else 255.
    """
    found = requirements(ImageChoice.of(options))
    if as_json:
        click.echo(json.dumps([asdict(requirement) for requirement in found]))
    else:
        table = Table(box=None, pad_edge=False, header_style="dim")
        for column in ("", "requirement", "found", "how to get it"):
            table.add_column(column)
        for requirement in found:
            mark = (
                ("✓", "green")
                if requirement.ok
                else ("✗", "red" if requirement.needed else "yellow")
            )
            advice = "" if requirement.ok else requirement.how_to_get
            table.add_row(Text(*mark), requirement.name, requirement.found, advice)
        Terminal().print(table)
    return EXIT_CRASH if any(r.needed and not r.ok for r in found) else 0

"""`harness doctor`: check this machine against the requirements."""

import json
from dataclasses import asdict

import rich_click as click
from rich.table import Table
from rich.text import Text

from compose.releases import ImageChoice, ImageOptions
from harness.cli.image_options import image_options
from harness.cli.parameter_types import json_option
from harness.cli.terminal import Terminal
from harness.clusters.requirements import requirements
from harness.core.errors import EXIT_CRASH


@click.command("doctor")
@image_options
@json_option
def doctor(as_json: bool, **servers: str | None) -> int:
    """Check whether this machine meets every requirement, and say how to meet the others.

    Exit status: 0 if everything that a run needs is present, else 255.
    """
    found = requirements(ImageChoice.of(ImageOptions(**servers)))
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

"""`harness export`: write a reproduction that needs Docker and nothing of the harness."""

from pathlib import Path

import rich_click as click

from compose.releases import ImageChoice, ImageOptions
from harness.cli.parameter_types import WORD, image_options, json_option
from harness.cli.terminal import Terminal, print_json
from harness.core.errors import EXIT_VALID, UsageError
from harness.export.reproduction import reproduction_of
from harness.spec.workload_options import scenario_of


@click.command("export")
@click.argument("scenario", type=WORD)
@click.option(
    "--to",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Directory that is written; it must be empty or not exist.",
)
@image_options
@json_option
def export(scenario: str, to: Path, as_json: bool, **images: str | None) -> int:
    """Write a scenario as a reproduction that needs Docker and nothing of the harness.

    The directory gets compose.yml with public images, the servers' configuration, statements.sql,
    and reproduce.sh, which starts the servers, sends the statements by curl, makes the faults by
    Docker's commands, and removes the servers. A scenario that needs more is refused with the
    reason.

    Exit status of reproduce.sh: 1 it reproduced, 0 it did not, 2 it could not say.
    """
    reproduction = reproduction_of(scenario_of(scenario), ImageChoice.of(ImageOptions(**images)))
    if to.exists() and any(to.iterdir()):
        raise UsageError(f"--to {to}: is not empty; expected a new directory")
    reproduction.write(to)
    if as_json:
        print_json({"directory": str(to), "files": list(reproduction.files())})
    else:
        console = Terminal(highlight=False)
        console.print(f"exported: {to}/reproduce.sh; run it to see {scenario}", soft_wrap=True)
    return EXIT_VALID

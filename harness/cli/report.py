"""`harness report`: a run on one page, and its witness as text."""

from pathlib import Path

import rich_click as click
from rich.console import Console

from harness.core.errors import HarnessError
from harness.report.text import text_report
from harness.run.store import Store
from harness.web.drawing import draw, facts_in


@click.command("report")
@click.argument("run", default="latest")
@click.option(
    "--store", type=click.Path(file_okay=False), default="store", help="Where runs are kept."
)
def report(run: str, store: str) -> int:
    """Show a stored run: a directory, a path within the store, or latest.

    Prints the witness as a text timeline, and draws the page report.html anew, also for a run
    that crashed or was killed.
    """
    directory = Store(Path(store)).find(run)
    console = Console(highlight=False)
    console.print(text_report(facts_in(directory)), crop=False)
    failed = draw(directory)
    if failed:
        raise HarnessError(failed)
    console.print(f"\npage   {directory.report}", soft_wrap=True)
    return 0

"""`harness report`: print a run's witness as text and draw its page."""

from pathlib import Path

import rich_click as click

from harness.cli.parameter_types import WORD, store_option
from harness.cli.terminal import Terminal
from harness.core.errors import HarnessError
from harness.report.text import text_report
from harness.run.store import Store
from harness.web.run_files import draw, facts_in


@click.command("report")
@click.argument("run", type=WORD, default="latest")
@store_option
def report(run: str, store: str) -> None:
    """Show a stored run: a directory, a path within the store, or latest.

    Prints the witness as a text timeline and draws report.html again, also for a run that crashed
    or was killed.
    """
    directory = Store(Path(store)).find(run)
    console = Terminal(highlight=False)
    console.print(text_report(facts_in(directory)), crop=False)
    failed = draw(directory)
    if failed:
        raise HarnessError(failed)
    console.print(f"\npage   {directory.report}", soft_wrap=True)

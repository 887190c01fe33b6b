"""The answer: the last line that a command prints, whatever scrolled away above it."""

import webbrowser
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

from checkers.headline import headline
from checkers.judge import Judgement
from checkers.phrasing import number
from harness.cli.result import STATUS_STYLE
from harness.core.verdict import Status, worst


@dataclass(frozen=True, slots=True)
class CommandAnswer:
    """Result of a command in one line: "INVALID: stale read, 35 of 80 inserts; report: …"."""

    status: Status
    text: str
    page: Path | None = None
    """Page that shows it."""
    run: Path | None = None
    """Directory of the run that it is about, named if there is no page."""
    word: str | None = None
    """Word in place of the status."""

    @staticmethod
    def of(judgement: Judgement, page: Path | None = None) -> "CommandAnswer":
        """Return the answer on one run."""
        return CommandAnswer(judgement.status, headline(judgement), page)

    @staticmethod
    def of_all(answers: Sequence["CommandAnswer"]) -> "CommandAnswer":
        """Return the answer on several runs: the number of each status, then the answer on the
        first of the worst. There must be a run."""
        status = worst(one.status for one in answers)
        first = next(one for one in answers if one.status is status)
        if len(answers) == 1:
            return first
        counts = Counter(one.status for one in answers)
        tally = ", ".join(f"{counts[s]} {s.value}" for s in Status if counts[s])
        texts = Counter(one.text for one in answers if one.status is status)
        detail = "" if status is Status.VALID else f"; first: {first.text}"
        same = f" (in {number(texts[first.text], 'run')})" if texts[first.text] > 1 else ""
        return CommandAnswer(
            status,
            f"{len(answers)} runs: {tally}{detail}{same if detail else ''}",
            first.page,
            first.run if detail else None,
        )

    def line(self) -> Text:
        """Return the line."""
        page = f"; report: {_shortest(self.page)}" if self.page is not None else ""
        if not page and self.run is not None:
            page = f"; run: {_shortest(self.run)}"
        word = self.word or self.status.value
        return Text.assemble((word, STATUS_STYLE[self.status]), f": {self.text}{page}")


def _shortest(page: Path) -> Path:
    """Return the path relative to the working directory if it is within."""
    here = Path.cwd()
    return page.relative_to(here) if page.is_relative_to(here) else page


def print_answer(console: Console, answer: CommandAnswer) -> None:
    """Print the answer, which the terminal wraps, so that its path can be copied."""
    console.print(answer.line(), soft_wrap=True, highlight=False)


def open_page(console: Console, page: Path | str | None) -> None:
    """Open a page, a file or an address, in a browser; say so if there is none to open, or no
    browser."""
    if page is None:
        console.print("! --open: there is no page to open", style="yellow", soft_wrap=True)
        return
    address = page.absolute().as_uri() if isinstance(page, Path) else page
    if not webbrowser.open(address):
        text = f"! --open: no browser can be started; open {address}"
        console.print(text, style="yellow", soft_wrap=True)

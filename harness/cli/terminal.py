"""Console output without control characters, which a terminal would obey.

A stored run holds text that servers or other people wrote: error messages, file names, values. An
escape sequence in it could clear the screen, retitle the window or hide the verdict. Every command
prints through this module, except JSON, which escapes control characters itself.
"""

import json
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import rich_click as click
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from harness.core.printable import printable


class Terminal(Console):
    """Console that shows control characters instead of sending them, and never interprets text as
    markup."""

    def __init__(self, *, stderr: bool = False, highlight: bool = True) -> None:
        super().__init__(stderr=stderr, highlight=highlight, markup=False, emoji=False)

    def warn(self, text: str) -> None:
        """Print a sentence about a trouble, if there is one."""
        if text:
            self.print(f"! {text}", style="yellow", highlight=False, soft_wrap=True)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render with control characters replaced. Everything that is printed passes through here,
        the cells of a table one by one."""
        if isinstance(renderable, str):
            renderable = printable(renderable)
        elif isinstance(renderable, Text) and (shown := printable(renderable.plain)) != (
            renderable.plain
        ):
            renderable = renderable.copy()
            renderable.plain = shown
        return super().render(renderable, options)


class PrintableFormatter(logging.Formatter):
    """Formatter of log lines, tracebacks included, without control characters."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line without control characters."""
        return printable(super().format(record))


def print_json(value: Any) -> None:
    """Print a value, which may have Structs, dataclasses and paths, as one line of JSON on standard
    output."""
    click.echo(json.dumps(msgspec.to_builtins(value, enc_hook=_path_text)))


def _path_text(value: Any) -> str:
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError(f"{type(value).__name__} is nothing that JSON has")

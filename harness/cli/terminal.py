"""Console output without control characters, which a terminal would obey.

A stored run holds text that servers or other people wrote: error messages, file names, values. An
escape sequence in it could clear the screen, retitle the window or hide the verdict. Every command
prints through this module, except JSON, which escapes control characters itself.
"""

import logging
from collections.abc import Iterable
from typing import Final

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

_CONTROLS: Final = {
    **{code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t"},
    0x7F: "\u2421",
    **dict.fromkeys([*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)], "\ufffd"),
}
"""Replacement of each control character: C0 and DEL by their pictures (ESC by ␛), C1 and
bidirectional controls by �. Each is replaced by one character, so that styles keep their places."""


def printable(text: str) -> str:
    """Return the text with every control character replaced, except newline and tab."""
    return text.translate(_CONTROLS)


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

"""Text on its way to a terminal, which obeys whatever control characters it gets.

What a run stored was said by servers, or by other people: an error message, a file name, a value.
Printed as it is, an escape sequence in it could clear the screen, retitle the window or hide the
verdict. Every command prints through here; JSON needs none of it, for it escapes them itself.
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
"""C0 and DEL by their pictures (ESC by ␛); C1, and what turns the direction of text, by �. One
character stands for one, so that styles stay where they were."""


def printable(text: str) -> str:
    """The text with a picture in the place of every control character but newline and tab."""
    return text.translate(_CONTROLS)


class Terminal(Console):
    """A console that shows control characters instead of sending them, and takes no text for
    markup."""

    def __init__(self, *, stderr: bool = False, highlight: bool = True) -> None:
        super().__init__(stderr=stderr, highlight=highlight, markup=False, emoji=False)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """All that is printed comes through here, the cells of a table one by one."""
        if isinstance(renderable, str):
            renderable = printable(renderable)
        elif isinstance(renderable, Text) and (shown := printable(renderable.plain)) != (
            renderable.plain
        ):
            renderable = renderable.copy()
            renderable.plain = shown
        return super().render(renderable, options)


class PrintableFormatter(logging.Formatter):
    """Log lines, tracebacks included, without control characters."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        return printable(super().format(record))

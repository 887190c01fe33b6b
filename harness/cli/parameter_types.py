"""Types of the values that commands take: numbers within a range, words, and the store."""

from collections.abc import Callable
from typing import Any, Final

import rich_click as click

from harness.core.ranges import RANGES, Range


class Number(click.ParamType[Any]):
    """A number within its range; `--help` shows the range."""

    def __init__(self, range_: Range) -> None:
        self.range = range_
        self.name = "integer" if range_.whole else "float"

    def convert(self, value: Any, param: Any, ctx: Any) -> float | str:
        """Return an int where only whole numbers are allowed, or the word that may stand in place
        of a number. Fail for anything else."""
        try:
            return self.range.parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)

    def get_metavar(self, param: Any, ctx: Any) -> str:  # noqa: ARG002
        """Return the range, as in "1…256" or "0…32|auto"."""
        word = f"|{self.range.word}" if self.range.word else ""
        return f"{self.range.low:.10g}…{self.range.high:.10g}{word}"


class Word(click.ParamType[str]):
    """Text that is not empty: an empty one is most likely an unset variable of a shell."""

    name = "text"

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        """Fail for text that is empty or blank."""
        if not str(value).strip():
            self.fail(f"{value!r}: expected text that is not empty", param, ctx)
        return str(value)


class StoreDirectory(Word):
    """The directory of a store, which need not exist yet."""

    name = "directory"

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        """Fail for an empty path and for one that leads to a file."""
        if not str(value).strip():
            self.fail(f"{value!r}: expected a directory, such as store", param, ctx)
        return str(click.Path(file_okay=False).convert(value, param, ctx))


def number(name: str) -> Number:
    """Return the type of an option by its name in the table of ranges."""
    return Number(RANGES[name])


store_option: Final[Callable[..., Any]] = click.option(
    "--store", type=StoreDirectory(), default="store", help="Where runs are kept."
)
"""The same for every command that has a store."""

WORD: Final = Word()

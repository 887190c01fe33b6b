"""Parameter types of the commands: numbers within a range, non-empty text, the store."""

from collections.abc import Callable, Collection
from typing import Any, Final

import rich_click as click

from harness.core.ranges import RANGES, Range, unknown_name


class Number(click.ParamType[Any]):
    """Number within a range, which `--help` shows."""

    def __init__(self, range_: Range) -> None:
        self.range = range_
        self.name = "integer" if range_.whole else "float"

    def convert(self, value: Any, param: Any, ctx: Any) -> float | str:
        """Return an int if only whole numbers are allowed, or the word that the range accepts in
        place of a number. Fail for anything else."""
        try:
            return self.range.parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)

    def get_metavar(self, param: Any, ctx: Any) -> str:  # noqa: ARG002
        """Return the range, as in "1…256" or "0…32|auto"."""
        word = f"|{self.range.word}" if self.range.word else ""
        return f"{self.range.low:.10g}…{self.range.high:.10g}{word}"


class Word(click.ParamType[str]):
    """Non-empty text; empty text most likely comes from an unset shell variable."""

    name = "text"

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        """Fail for text that is empty or blank."""
        if not str(value).strip():
            self.fail(f"{value!r}: expected text that is not empty", param, ctx)
        return str(value)


class Name(click.Choice[str]):
    """Choice of a name; the error for an unknown one suggests the closest known names."""

    def __init__(self, names: Collection[str], listed_by: str = "") -> None:
        super().__init__(tuple(names))
        self.listed_by = listed_by

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        """Fail for an unknown name."""
        if value not in self.choices:
            self.fail(unknown_name(str(value), self.choices, self.listed_by), param, ctx)
        return str(value)


class StoreDirectory(Word):
    """Directory of a store, which need not exist yet."""

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
    "--store", type=StoreDirectory(), default="store", help="Directory in which runs are stored."
)
"""Shared by every command that uses a store."""

json_option: Final[Callable[..., Any]] = click.option(
    "--json", "as_json", is_flag=True, help="Print results as JSON on standard output."
)
"""Shared by every command that can print JSON."""

open_option: Final[Callable[..., Any]] = click.option(
    "--open", "open_", is_flag=True, help="Open the page in a browser."
)
"""Shared by every command that draws a page."""

WORD: Final = Word()

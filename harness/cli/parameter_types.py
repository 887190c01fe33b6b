"""Parameter types of the commands, and the options that several of them have."""

from collections.abc import Callable, Collection
from typing import Any, Final

import rich_click as click

from harness.core.plugins import is_reference
from harness.core.ranges import RANGES, Range
from harness.spec.image_options import IMAGE_OPTIONS
from harness.spec.option import Option
from harness.spec.option_types import Choice, OptionType, Repeated, SeedNumber, Text, WordList


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


class Parsed(click.ParamType[Any]):
    """Value that a type of an option of a run reads."""

    def __init__(self, kind: OptionType) -> None:
        self.kind = kind
        self.name = getattr(kind, "metavar", "TEXT").lower()
        self.several = isinstance(kind, WordList)

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value. Fail for one that the type does not accept."""
        try:
            return self.kind.parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Name(click.Choice[str]):
    """Choice of a name; the error for an unknown one suggests the closest known names."""

    def __init__(self, names: Collection[str], listed_by: str = "") -> None:
        super().__init__(tuple(names))
        self.kind = Choice(tuple(names), listed_by)

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        """Fail for an unknown name."""
        try:
            return self.kind.parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class NameOrReference(Name):
    """Choice of a name, or MODULE:NAME of a plug-in."""

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        """Fail for an unknown name."""
        return str(value) if is_reference(str(value)) else super().convert(value, param, ctx)


class StoreDirectory(click.ParamType[str]):
    """Directory of a store, which need not exist yet."""

    name = "directory"

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        """Fail for an empty path and for one that leads to a file."""
        if not str(value).strip():
            self.fail(f"{value!r}: expected a directory, such as store", param, ctx)
        return str(click.Path(file_okay=False).convert(value, param, ctx))


def option_type(kind: OptionType) -> click.ParamType[Any]:
    """Return click's type for a type of an option of a run."""
    if isinstance(kind, Range):
        return Number(kind)
    if isinstance(kind, Choice):
        return Name(kind.names)
    return Parsed(Text() if isinstance(kind, Repeated) else kind)  # click repeats it


def click_option(name: str, option: Option, **attributes: Any) -> Callable[..., Any]:
    """Return click's option for an option of a run with this long name."""
    kind = option.type
    return click.option(
        *((option.short,) if option.short else ()),
        f"--{name}",
        type=option_type(kind),
        metavar=getattr(kind, "metavar", None),
        multiple=isinstance(kind, Repeated),
        help=option.help,
        **attributes,
    )


def image_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that choose the versions or images of the servers."""
    for name, option in reversed([*IMAGE_OPTIONS.items()]):
        command = click_option(name.replace("_", "-"), option)(command)
    return command


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

WORD: Final = Parsed(Text())

SEED: Final = Parsed(SeedNumber())
WORDS: Final = Parsed(WordList())

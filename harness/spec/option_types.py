"""Types of options: how a value is read from text or TOML, and written as text.

Numbers have a `Range` of `harness.core.ranges`, which reads and writes them itself.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, TypeAlias

from harness.core.errors import UsageError
from harness.core.ranges import Range, is_plain_number, quoted, shortened, unknown_name
from harness.core.seed import Seed


@dataclass(frozen=True, slots=True)
class Text:
    """Text that is not empty; empty text most likely comes from an unset shell variable."""

    metavar: str = "TEXT"

    def parse(self, given: object) -> str:
        """Return the text. Raises ValueError."""
        if not isinstance(given, str) or not given.strip():
            raise ValueError(f"{given!r}: expected text that is not empty")
        return given


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several names."""

    names: tuple[str, ...]
    listed_by: str = ""
    """Command that lists the names."""

    @staticmethod
    def of(names: Collection[str]) -> "Choice":
        """Return the choice of these names, in their order."""
        return Choice(tuple(names))

    def parse(self, given: object) -> str:
        """Return the name. Raises ValueError, which suggests the closest one."""
        if given not in self.names:
            raise ValueError(unknown_name(str(given), self.names, self.listed_by))
        return str(given)


@dataclass(frozen=True, slots=True)
class WorkloadName:
    """Name of a workload, or MODULE:CLASS for one of the user's own."""

    metavar: str = "NAME"

    def parse(self, given: object) -> str:
        """Return the name. Raises ValueError."""
        from harness.spec.catalogue import workload_entry  # slow to load, and pages do not need it

        name = Text().parse(given)
        try:
            workload_entry(name)
        except UsageError as error:
            raise ValueError(str(error)) from error
        return name


@dataclass(frozen=True, slots=True)
class WordList:
    """Words separated by commas, none twice."""

    allowed: tuple[str, ...] = ()
    """The words that are allowed; () for any."""
    listed_by: str = ""
    """Command that lists the words."""
    metavar: str = "LIST"

    def parse(self, given: object) -> tuple[str, ...]:
        """Return the words. Raises ValueError."""
        if isinstance(given, list | tuple) and all(isinstance(word, str) for word in given):
            words = tuple(given)
        elif isinstance(given, str) and given.strip(","):
            words = tuple(word for word in given.split(",") if word)
        else:
            raise ValueError(f"{quoted(given)}: expected words separated by commas")
        for word in words:
            if words.count(word) > 1:
                raise ValueError(f"{quoted(word)} is named twice; once is enough")
            if self.allowed and word not in self.allowed:
                raise ValueError(unknown_name(word, self.allowed, self.listed_by))
        return words


@dataclass(frozen=True, slots=True)
class Repeated:
    """Text that may be given several times."""

    metavar: str = "TEXT"

    def parse(self, given: object) -> tuple[str, ...]:
        """Return the values, of which a single one may be given by itself. Raises ValueError."""
        values = given if isinstance(given, list | tuple) else (given,)
        for value in values:
            if not isinstance(value, str):
                raise ValueError(f"{shortened(value)}: expected text")
        return tuple(values)


@dataclass(frozen=True, slots=True)
class SeedNumber:
    """Seed, in decimal, or in hexadecimal with the prefix 0x."""

    metavar: str = "SEED"

    def parse(self, given: object) -> Seed:
        """Return the seed. Raises ValueError unless it is an integer of 64 bits."""
        if isinstance(given, Seed):
            return given
        try:
            number = int(str(given) if is_plain_number(str(given)) else "", 0)
        except ValueError:
            raise ValueError(f"{quoted(given)}: expected a number, such as 7 or 0x5eed") from None
        if not 0 <= number < 1 << 64:
            raise ValueError(f"{shortened(given)}: expected at least 0 and less than 2**64")
        return Seed(number)


OptionType: TypeAlias = Range | Text | Choice | WorkloadName | WordList | Repeated | SeedNumber


def as_text(value: Any) -> str:
    """Return a value of an option as it is on a command line."""
    if isinstance(value, tuple):
        return ",".join(value)
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)

"""What the rules of the model are written with: why a step cannot be taken, and names in
messages."""

from collections.abc import Iterable

from harness.conform.entries import PartName, QuorumStatus


class Departure(Exception):  # noqa: N818 - a verdict, not an error of this program
    """A step that the model cannot take."""


class Unmodelled(Exception):  # noqa: N818
    """A step that the model does not have, so that it cannot say whether the step is right."""


def require(holds: bool, why_not: str) -> None:
    """Raise Departure unless this holds."""
    if not holds:
        raise Departure(why_not)


def name_of(of: QuorumStatus | PartName | None) -> str:
    """Return the name of a part, for messages."""
    return "nothing" if of is None else of.part.name if isinstance(of, QuorumStatus) else of.name


def names_of(names: Iterable[str]) -> str:
    """Return the names in alphabetical order, for messages."""
    return " ".join(sorted(names)) or "nobody"

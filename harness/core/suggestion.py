"""Messages about names that the harness does not know."""

from collections.abc import Collection
from difflib import get_close_matches
from typing import Final

from harness.core.ranges import shortened

LISTED_MAX: Final = 12
"""Number of known names that a message lists; more would hide what was wrong."""
CLOSE_MAX: Final = 3


def did_you_mean(name: str, known: Collection[str]) -> str:
    """Return a question that names the closest known names and ends in a space; "" if none is
    close."""
    close = get_close_matches(name.replace("_", "-"), known, n=CLOSE_MAX)
    return f"did you mean {' or '.join(close)}? " if close else ""


def unknown_name(name: str, known: Collection[str], listed_by: str = "") -> str:
    """Return a message about an unknown name: the known names that are close to it, then all of
    them, or, if they are many, the command that lists them."""
    if listed_by and len(known) > LISTED_MAX:
        expected = f"see `{listed_by}`"
    else:
        expected = f"expected one of {', '.join(known)}"
    return f"{shortened(name)!r} is unknown; {did_you_mean(name, known)}{expected}"

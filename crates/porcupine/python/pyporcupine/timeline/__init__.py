"""The timeline of this package's page, for other pages as well: a time axis with its ticks, bands
behind it, gestures, and the colours and controls that go with them.

A page puts `style()` into its style sheet, and `script()` before its own script, which makes a
`TimeAxis` for its canvas, gives it to `navigate`, and paints its rows itself.
"""

from importlib.resources import files
from typing import Final

SCRIPTS: Final = ("axis.js", "bands.js", "gestures.js")
"""Scripts that are joined into one, in this order."""


def style() -> str:
    """Return the style sheet."""
    return _text("timeline.css")


def script() -> str:
    """Return the script, which defines names and does nothing else."""
    return "".join(map(_text, SCRIPTS))


def _text(name: str) -> str:
    return (files("pyporcupine.timeline") / name).read_text(encoding="utf-8")

"""Text without control characters, which a terminal would obey."""

from typing import Final

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

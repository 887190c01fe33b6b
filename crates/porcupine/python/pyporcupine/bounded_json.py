"""Decoding of JSON that may be damaged or malicious, within bounds.

Python's own decoders raise RecursionError, which is not a ValueError, for deep nesting, and an
error without a position for a long number. Here every defect of a text is a ValueError.
"""

import json
import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

MAX_DEPTH: Final = 100
"""Maximum depth of nested arrays and objects. (serde_json, which also reads histories, stops at
128; Python's recursion limit is 1,000 for everything on the stack.)"""
MAX_DIGITS: Final = 4_300
"""Maximum number of digits of an integer: the limit of Python's int(), whose time is quadratic."""
MAX_BYTES: Final = 64 * 1024 * 1024
"""Maximum size of one document: a file that is read as a whole, a line, a form."""

# A string that is not closed extends to the end of the text, so brackets inside it do not count.
_TOKEN: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z)|[\[{]|[\]}]|[0-9]++', re.S)
_NOT_STRUCTURE: Final = bytes(set(range(256)) - set(b'[]{}"\\'))
_STRING: Final = re.compile(rb'"[^"]*"')
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")

Text = TypeVar("Text", bytes, str)
T = TypeVar("T")


class OutOfBoundsError(ValueError):
    """Text that is nested too deeply, is too large, or has a number that is too long."""


def loads(text: bytes | str) -> Any:
    """Return the value of a text, which is UTF-8 if it is bytes. Raises ValueError.

    As Python's json.loads, it takes NaN, Infinity and -Infinity for numbers.
    """
    if isinstance(text, bytes):
        text = text.decode()
    value = decode(json.loads, text)
    refuse_surrogates(text, value)
    return value


def refuse_surrogates(text: str, value: object) -> None:
    """Raise ValueError if the value of a text has half of a pair of surrogates, which is not a
    character and could not be encoded."""
    if _SURROGATE.search(text):
        json.dumps(value, ensure_ascii=False).encode()


def decode(decoder: Callable[[Text], T], text: Text) -> T:
    """Return what a JSON decoder makes of a text. Raises ValueError."""
    if isinstance(text, bytes):
        opening = text.count(b"[") + text.count(b"{")
    else:
        opening = text.count("[") + text.count("{")
    if opening > MAX_DEPTH and not is_shallow(text):
        _check(text)
    try:
        return decoder(text)
    except RecursionError:  # the text is within bounds, but the stack was deep already
        raise OutOfBoundsError(f"it is nested more than {MAX_DEPTH} deep") from None
    except ValueError:
        _check(text)
        raise


def check_size(size: int, max_bytes: int = MAX_BYTES) -> None:
    """Raise OutOfBoundsError for more bytes than a document may have."""
    if size > max_bytes:
        raise OutOfBoundsError(f"it has {size:,} bytes, expected at most {max_bytes:,}")


def place(text: str, at: int) -> str:
    """Return the position of a character, such as "line 3 column 15"."""
    return f"line {text.count(chr(10), 0, at) + 1} column {at - text.rfind(chr(10), 0, at)}"


def is_shallow(text: bytes | str) -> bool:
    """Return whether it is plain that a text is not nested too deeply, however long it is."""
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    left = data.translate(None, _NOT_STRUCTURE)
    if b"\\" in left:
        return False
    left = _STRING.sub(b"", left)
    for _ in range(MAX_DEPTH):  # Each turn removes what is innermost: most of what is wide.
        if not left:
            return True
        before, left = len(left), left.replace(b"{}", b"").replace(b"[]", b"")
        if before > 2 * MAX_DEPTH and len(left) > before // 2:
            return False
    return not left


def _check(text: bytes | str) -> None:
    """Raise OutOfBoundsError for the first nesting that is too deep or number that is too long."""
    if isinstance(text, bytes):
        text = text.decode("latin-1")  # one character per byte; JSON's structure is ASCII
    depth = 0
    for token in _TOKEN.finditer(text):
        kind = token[0][0]
        if kind in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                where = place(text, token.start())
                raise OutOfBoundsError(f"{where}: it is nested more than {MAX_DEPTH} deep")
        elif kind in "]}":
            depth -= 1
        elif kind != '"' and len(token[0]) > MAX_DIGITS:
            raise OutOfBoundsError(
                f"{place(text, token.start())}: a number has {len(token[0]):,} digits, expected "
                f"at most {MAX_DIGITS:,}"
            )

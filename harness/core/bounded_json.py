"""JSON that may have been damaged or made to do harm, read within bounds.

Every file and line that this process did not just write is such text: run.json and results.json,
the lines of history.jsonl, details in Parquet columns, histories of other systems. Python's own
decoders raise RecursionError, which is not a ValueError, for deep nesting, and an error without a
place for a long number. Here everything that is wrong with a text is a ValueError.
"""

import json
import os
import re
import stat
from collections.abc import Callable
from io import BufferedReader
from pathlib import Path
from typing import Any, Final, TypeVar

MAX_DEPTH: Final = 100
"""Arrays and objects within each other. (serde_json, which reads histories as well, stops at 128;
Python's recursion limit is 1,000 for everything on the stack.)"""
MAX_DIGITS: Final = 4_300
"""Digits of a whole number. It is the limit of Python's int(), whose time is quadratic in them."""
MAX_BYTES: Final = 64 * 1024 * 1024
"""Size of one document: a file that is read as a whole, a line, a form."""

# A string that is not closed runs to the end of the text: what is inside it is not structure.
_TOKEN: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z)|[\[{]|[\]}]|[0-9]++', re.S)
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")

Text = TypeVar("Text", bytes, str)
T = TypeVar("T")


class OutOfBoundsError(ValueError):
    """A text is nested too deeply, too large, or has a number that is too long."""


def load(path: Path, max_bytes: int = MAX_BYTES) -> Any:
    """Return the value of a file. Raises OSError and ValueError."""
    with open_regular(path) as file:
        check_size(os.fstat(file.fileno()).st_size, max_bytes)
        return loads(file.read(max_bytes))


def open_regular(path: Path) -> BufferedReader:
    """Open a file for reading. Raises OSError, and ValueError for anything but a regular file:
    opening a FIFO would wait for ever."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError("it is not a regular file")
    return os.fdopen(descriptor, "rb")


def loads(text: bytes | str) -> Any:
    """Return the value of a text, which is UTF-8 if it is bytes. Raises ValueError.

    As Python's json.loads, it takes NaN, Infinity and -Infinity for numbers.
    """
    if isinstance(text, bytes):
        text = text.decode()
    value = decode(json.loads, text)
    if _SURROGATE.search(text):  # half a pair is no character and could not be written out again
        json.dumps(value, ensure_ascii=False).encode()
    return value


def decode(decoder: Callable[[Text], T], text: Text) -> T:
    """Return what a JSON decoder makes of a text. Raises ValueError."""
    if isinstance(text, bytes):
        opening = text.count(b"[") + text.count(b"{")
    else:
        opening = text.count("[") + text.count("{")
    if opening > MAX_DEPTH:
        _check(text)
    try:
        return decoder(text)
    except RecursionError:  # within the bounds, but the stack was deep already
        raise OutOfBoundsError(f"it is nested more than {MAX_DEPTH} deep") from None
    except ValueError:
        _check(text)
        raise


def check_size(size: int, max_bytes: int = MAX_BYTES) -> None:
    """Raise OutOfBoundsError for more bytes than a document may have."""
    if size > max_bytes:
        raise OutOfBoundsError(f"it has {size:,} bytes, expected at most {max_bytes:,}")


def place(text: str, at: int) -> str:
    """Say where a character is, as "line 3 column 15"."""
    return f"line {text.count(chr(10), 0, at) + 1} column {at - text.rfind(chr(10), 0, at)}"


def _check(text: bytes | str) -> None:
    """Raise OutOfBoundsError for the first place that is too deep or begins too long a number."""
    if isinstance(text, bytes):
        text = text.decode("latin-1")  # a character each byte; what is structure is ASCII
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

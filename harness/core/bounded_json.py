"""Files of JSON that may be damaged or malicious, read within bounds.

Every file and line that this process did not just write is such text: run.json and results.json,
the lines of history.jsonl, details in Parquet columns. `pyporcupine.bounded_json`, which also reads
histories of other systems, decodes it. Here every defect of a text is a ValueError.
"""

import os
import stat
from io import BufferedReader
from pathlib import Path
from typing import Any

from pyporcupine.bounded_json import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_DIGITS,
    OutOfBoundsError,
    check_size,
    decode,
    is_shallow,
    loads,
    place,
)

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "MAX_DIGITS",
    "OutOfBoundsError",
    "check_size",
    "decode",
    "is_shallow",
    "load",
    "loads",
    "open_regular",
    "place",
]


def load(path: Path, max_bytes: int = MAX_BYTES) -> Any:
    """Return the value of a file. Raises OSError and ValueError."""
    with open_regular(path) as file:
        check_size(os.fstat(file.fileno()).st_size, max_bytes)
        return loads(file.read(max_bytes))


def open_regular(path: Path) -> BufferedReader:
    """Open a file for reading. Raises OSError, and ValueError if it is not a regular file.

    A read of a FIFO would wait forever.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError("it is not a regular file")
    return os.fdopen(descriptor, "rb")

"""TOML files that users write: every error names the file, the line and the key."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from harness.core.errors import UsageError


@dataclass(frozen=True, slots=True)
class TomlFile:
    """Text of a file, from which errors take their line numbers, and its values."""

    kind: str
    """What the file is, as errors call it: "matrix"."""
    path: Path
    text: str
    values: Mapping[str, Any]

    def refuse(self, table: str, key: str, why: str) -> NoReturn:
        """Raise UsageError for a key of a table; the table of the top is ""."""
        name = f"{table}.{key}" if table else key
        shown = name if name.isprintable() else repr(name)
        raise UsageError(f"{self.kind} {self.place(table, key)}: {shown}: {why}")

    def place(self, table: str, key: str) -> str:
        """Return the file and the line of a key: "night.toml, line 4"."""
        line = self._line(table, key)
        return f"{self.path}, line {line}" if line else str(self.path)

    def _line(self, table: str, key: str) -> int | None:
        """Return the line of a key, or of its table; None where it is written in another way."""
        within, found = "", None
        for number, line in enumerate(self.text.splitlines(), 1):
            header = re.match(r"\s*\[\s*([^\[\]]+?)\s*\]", line)
            if header:
                within = re.sub(r"\s*[\"']?\s*\.\s*[\"']?|[\"']", ".", header[1]).strip(".")
                if within == (f"{table}.{key}" if table else key):
                    found = found or number
            elif within == table and re.match(rf"\s*([\"']?){re.escape(key)}\1\s*[=.]", line):
                return number
        return found


def read_toml(kind: str, path: Path, bytes_max: int) -> TomlFile:
    """Read a file. Raises UsageError."""
    try:
        if path.exists() and not path.is_file():
            raise UsageError(f"{kind} {path}: is not a file; expected a file of TOML")
        with path.open("rb") as file:
            raw = file.read(bytes_max + 1)
        if len(raw) > bytes_max:
            raise UsageError(f"{kind} {path}: is longer than {bytes_max:,} bytes; is it another?")
        return TomlFile(kind, path, raw.decode(), tomllib.loads(raw.decode()))
    except OSError as error:
        raise UsageError(f"{kind} {path}: cannot be read: {error.strerror}") from error
    except RecursionError as error:
        raise UsageError(f"{kind} {path}: is nested too deeply") from error
    except ValueError as error:  # no TOML, no UTF-8, or a number of thousands of digits
        raise UsageError(f"{kind} {path}: is not TOML: {str(error)[:200]}") from error

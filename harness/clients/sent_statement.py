"""Statements as clients send them, and as a person would write them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class SentStatement:
    """A statement that a client sends to one server."""

    node: str
    sql: str
    settings: Mapping[str, int | str]
    rows: Sequence[Sequence[Any]] | None = None
    """Rows of an INSERT ... VALUES; None: the text is all."""
    timeout_s: float = 10.0
    """Seconds for which the client waits for the answer."""

    @property
    def text(self) -> str:
        """Return the text with the rows, without the settings."""
        if self.rows is None:
            return self.sql
        return f"{self.sql} {', '.join(map(literal, self.rows))}"


def literal(value: object) -> str:
    """Return a value as a literal of ClickHouse's SQL; a tuple is a row, a list an array. Raises
    TypeError for what no client sends."""
    match value:
        case bool() | None:
            raise TypeError(f"{value!r}: expected a number, a text, a row or an array")
        case int() | float():
            return str(value)
        case str():
            escaped = value.replace("\\", "\\\\").replace("'", "\\'")
            return f"'{escaped}'"
        case tuple():
            return f"({', '.join(map(literal, value))})"
        case list():
            return f"[{', '.join(map(literal, value))}]"
    raise TypeError(f"{value!r}: expected a number, a text, a row or an array")


def setting_text(name: str, value: int | str) -> str:
    """Return a setting as `SET` and `SETTINGS` take it."""
    return f"{name} = {literal(value)}"

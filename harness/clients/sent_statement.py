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
        return self.sql if self.rows is None else f"{self.sql} {self.values}"

    @property
    def values(self) -> str:
        """Return the rows as they stand behind VALUES; "" if the text is all."""
        return ", ".join(map(literal, self.rows or ()))

    @property
    def sets(self) -> tuple[str, ...]:
        """Return the lines that make the settings."""
        return tuple(f"SET {name} = {literal(value)};" for name, value in self.settings.items())

    @property
    def resets(self) -> tuple[str, ...]:
        """Return the lines that make the settings the defaults again."""
        return tuple(f"SET {name} = DEFAULT;" for name in self.settings)

    @property
    def pasted(self) -> str:
        """Return lines for clickhouse-client: the server, the settings, the statement, and the
        settings' defaults again."""
        return "\n".join([f"/* {self.node} */", *self.sets, f"{self.text};", *self.resets])


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

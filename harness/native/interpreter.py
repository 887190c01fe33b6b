"""Executes a scheduler's calls on simulated servers (`crates/interpreter`)."""

from typing import Any, Protocol

from harness.native._native import Interpreter

__all__ = ["Host", "Interpreter"]


class Host(Protocol):
    """Executes the calls that are not statements. It must not use the scheduler while it is
    called."""

    def begin(self, number: int, op: Any, /) -> bytes:
        """Start a worker's call and return its line. `Interpreter.end` ends the call."""

    def ended(self, op: Any, /) -> bytes:
        """Return the line of the end of a call."""

    def failed(self, is_write: bool, code: int, text: str, /) -> Any:
        """Return the Done of a statement that failed."""

    def retired(self, number: int, /) -> object:
        """Close the worker's client, because its process was retired."""

    def op(self, line: bytes, /) -> Any:
        """Return the operation of a line, for generators that listen."""

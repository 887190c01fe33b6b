"""Keeps histories in columns and finds out what became of sets in them (`checkers/histories`)."""

from harness.native._native import (
    Calls,
    Columns,
    Findings,
    FormError,
    OddValue,
    RuleError,
    Set,
    lines_of_arrow,
)

__all__ = [
    "Calls",
    "Columns",
    "Findings",
    "FormError",
    "OddValue",
    "RuleError",
    "Set",
    "lines_of_arrow",
]

"""Keeps histories in columns and finds out what became of sets in them (`crates/histories`)."""

from harness.native._native import (
    Calls,
    Columns,
    ColumnsBuilder,
    Findings,
    FormError,
    OddValue,
    RuleError,
    Set,
)

__all__ = [
    "Calls",
    "Columns",
    "ColumnsBuilder",
    "Findings",
    "FormError",
    "OddValue",
    "RuleError",
    "Set",
]

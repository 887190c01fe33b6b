"""Decides whether concurrent histories are linearizable or sequentially consistent."""

from typing import TYPE_CHECKING

from pyporcupine._pyporcupine import (
    MEMORY_MB,
    UNKNOWN,
    Call,
    HistoryError,
    InvalidError,
    ModelError,
    ObjectResult,
    Operation,
    Result,
    Step,
    UndecidedError,
    __version__,
    check,
    visualize,
)
from pyporcupine.events import from_events
from pyporcupine.importers.files import ImportedHistory, read
from pyporcupine.protocols import ArrowColumns, Model, State

if TYPE_CHECKING:
    from pyporcupine._pyporcupine import Unknown as Unknown

__all__ = [
    "MEMORY_MB",
    "UNKNOWN",
    "ArrowColumns",
    "Call",
    "HistoryError",
    "ImportedHistory",
    "InvalidError",
    "Model",
    "ModelError",
    "ObjectResult",
    "Operation",
    "Result",
    "State",
    "Step",
    "UndecidedError",
    "__version__",
    "check",
    "from_events",
    "read",
    "visualize",
]

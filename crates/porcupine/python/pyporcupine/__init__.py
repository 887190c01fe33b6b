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

if TYPE_CHECKING:
    from pyporcupine._pyporcupine import ArrowColumns as ArrowColumns
    from pyporcupine._pyporcupine import Model as Model
    from pyporcupine._pyporcupine import State as State
    from pyporcupine._pyporcupine import Unknown as Unknown

__all__ = [
    "MEMORY_MB",
    "UNKNOWN",
    "Call",
    "HistoryError",
    "ImportedHistory",
    "InvalidError",
    "ModelError",
    "ObjectResult",
    "Operation",
    "Result",
    "Step",
    "UndecidedError",
    "__version__",
    "check",
    "from_events",
    "read",
    "visualize",
]

"""Decides whether concurrent histories are linearizable or sequentially consistent, and which
levels of isolation histories of transactions satisfy."""

from typing import TYPE_CHECKING

from pyporcupine._pyporcupine import (
    LEVELS,
    MEMORY_MB,
    UNKNOWN,
    Anomaly,
    Call,
    Dependency,
    HistoryError,
    InvalidError,
    ModelError,
    ObjectResult,
    Operation,
    Result,
    Step,
    Transaction,
    TransactionsResult,
    UndecidedError,
    __version__,
    check,
    check_transactions,
    visualize,
)
from pyporcupine.events import from_events
from pyporcupine.importers.files import (
    ImportedHistory,
    ImportedTransactions,
    read,
    read_transactions,
)
from pyporcupine.protocols import ArrowColumns, Model, State

if TYPE_CHECKING:
    from pyporcupine._pyporcupine import Unknown as Unknown

__all__ = [
    "LEVELS",
    "MEMORY_MB",
    "UNKNOWN",
    "Anomaly",
    "ArrowColumns",
    "Call",
    "Dependency",
    "HistoryError",
    "ImportedHistory",
    "ImportedTransactions",
    "InvalidError",
    "Model",
    "ModelError",
    "ObjectResult",
    "Operation",
    "Result",
    "State",
    "Step",
    "Transaction",
    "TransactionsResult",
    "UndecidedError",
    "__version__",
    "check",
    "check_transactions",
    "from_events",
    "read",
    "read_transactions",
    "visualize",
]

"""Decides whether concurrent histories are linearizable or sequentially consistent, whether they
keep invariants, and which levels of isolation histories of transactions satisfy."""

from typing import TYPE_CHECKING

from pyporcupine._pyporcupine import (
    INVARIANTS,
    LEVELS,
    MEMORY_MB,
    UNKNOWN,
    Annotation,
    Anomaly,
    Call,
    Dependency,
    Finding,
    HistoryError,
    InvalidError,
    InvariantResult,
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
    check_invariant,
    check_transactions,
    visualize,
    visualize_transactions,
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
    "INVARIANTS",
    "LEVELS",
    "MEMORY_MB",
    "UNKNOWN",
    "Annotation",
    "Anomaly",
    "ArrowColumns",
    "Call",
    "Dependency",
    "Finding",
    "HistoryError",
    "ImportedHistory",
    "ImportedTransactions",
    "InvalidError",
    "InvariantResult",
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
    "check_invariant",
    "check_transactions",
    "from_events",
    "read",
    "read_transactions",
    "visualize",
    "visualize_transactions",
]

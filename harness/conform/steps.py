"""The names of the model's steps, and which of them servers can take."""

from collections.abc import Container, Mapping
from typing import Final

from harness.conform.entries import REPLACE

STEPS: Final = frozenset(
    {
        *("AddReplica", "BecomeActive", "BecomeInactive", "MarkLost", "CloneReplica", "CloneQueue"),
        *("Insert", "AttachPart", "QuorumInsert", "UpdateQuorum", "EndQuorum", "FailedQuorum"),
        *("PullLog", "FinishEntry", "ClearOldLog", "GetPart", "RemovePart"),
        *("UndoFetch", "FetchAgain", "AssignMerge", "DropRange", "AlterMetadata"),
        "ReplaceRange",
        *("Mutation", "AssignMutation", "FinishMutations"),
    }
)
"""Names of the steps of the model."""
LOGGED: Final[Mapping[str, str]] = {
    "merge": "AssignMerge",
    "mutate": "AssignMutation",
    "alter": "AlterMetadata",
    "drop": "DropRange",
    "detach": "DropRange",
    REPLACE: "ReplaceRange",
}
"""Names of the steps that append an entry of these kinds to the log."""
_OF_ENTRIES = {**LOGGED, "attach": "AttachPart"}
"""Names of the steps that only these kinds of entries make possible."""


def steps_with(entries: Container[str]) -> frozenset[str]:
    """Return the steps that servers can take whose logs have entries of these kinds only."""
    able = {step for kind, step in _OF_ENTRIES.items() if kind in entries}
    return STEPS - (frozenset(_OF_ENTRIES.values()) - able)

"""Result of one try to reproduce an anomaly."""

from enum import StrEnum


class TryResult(StrEnum):
    """Result of one try."""

    REPRODUCED = "reproduced"
    NOT_REPRODUCED = "not reproduced"
    UNKNOWN = "UNKNOWN"
    """The checkers reached no conclusion, or the try was interrupted."""
    BROKE_OFF = "broke off"
    """A step of its script or the cluster failed."""

    @property
    def conclusive(self) -> bool:
        """Return whether it counts for or against the anomaly."""
        return self in (TryResult.REPRODUCED, TryResult.NOT_REPRODUCED)

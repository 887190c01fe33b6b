"""Errors that a person can act on. Each says the offending value, what was expected, what to do."""

from typing import Final

EXIT_VALID: Final = 0
EXIT_INVALID: Final = 1
EXIT_UNKNOWN: Final = 2
EXIT_USAGE: Final = 254
EXIT_CRASH: Final = 255


class HarnessError(Exception):
    """The harness could not do its work. The text is for people; there is no traceback."""

    exit_status = EXIT_CRASH


class UsageError(HarnessError):
    """What the user gave cannot be used."""

    exit_status = EXIT_USAGE


class MissingMechanismError(UsageError):
    """Servers of this version lack a mechanism that something cannot do without."""

    def __init__(self, text: str, missing: str) -> None:
        super().__init__(text)
        self.missing = missing
        """The mechanisms' names, with commas between them."""


class ClusterError(HarnessError):
    """The cluster could not be brought up, reached, or told what to do."""


class StartError(ClusterError):
    """A server was started, and it does not answer."""


class FaultError(HarnessError):
    """A fault was asked for and its effect was not seen, or a heal did not heal."""


class HistoryError(HarnessError):
    """A history breaks the rules of histories, so nothing may be concluded from it."""

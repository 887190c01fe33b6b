"""Errors that a user can act on. Each names the value given, what was expected, and what to do."""

from collections.abc import Callable, Mapping
from typing import Any, Final

EXIT_VALID: Final = 0
EXIT_INVALID: Final = 1
EXIT_UNKNOWN: Final = 2
EXIT_USAGE: Final = 254
EXIT_CRASH: Final = 255

PLUGIN_ERRORS: Final = (Exception, SystemExit)
"""What code of a user's own may raise without ending the command. SystemExit is among them because
the status of `sys.exit(0)` in a plug-in would be that of VALID."""


class StructuredError(Exception):
    """Exception that may have other fields than its text, and a constructor for them.

    An exception is unpickled by a call of its class with its text alone, which such a constructor
    refuses, and a pool of processes takes the process that sent it for dead. So this one is
    restored without its constructor.
    """

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _restored, (type(self), self.args, self.__dict__)


def _restored(
    kind: type[StructuredError], args: tuple[Any, ...], fields: Mapping[str, Any]
) -> StructuredError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(fields)
    return error


class HarnessError(StructuredError):
    """Error of the harness. Its text is shown to the user without a traceback."""

    exit_status = EXIT_CRASH


class UsageError(HarnessError):
    """Invalid input of the user."""

    exit_status = EXIT_USAGE


class MissingExtraError(UsageError):
    """Lack of a Python package that only some users need."""

    def __init__(self, purpose: str, missing: ModuleNotFoundError, extra: str) -> None:
        package = (missing.name or "").partition(".")[0]
        super().__init__(
            f"{purpose}: the Python package {package} is not installed; expected what "
            f"pip install 'clickhouse-harness[{extra}]' installs"
        )


class MissingMechanismError(UsageError):
    """Lack of a mechanism that is needed and that servers of this version do not have."""

    def __init__(self, text: str, missing: str) -> None:
        super().__init__(text)
        self.missing = missing
        """Names of the mechanisms, separated by commas."""


class ClusterError(HarnessError):
    """Failure to bring up, reach or control a cluster."""


class EngineLostError(ClusterError):
    """Lack of an answer from the Docker engine, which may come back."""


class ObjectsLeftError(ClusterError):
    """Failure to remove a cluster's objects from a user's bucket; the cluster itself is gone."""


class StartError(ClusterError):
    """Failure of a started server to answer."""


class FaultError(HarnessError):
    """Failure to see the effect of a fault, or to heal."""


class HistoryError(HarnessError):
    """Violation of the rules of histories, so that nothing may be concluded from the history."""

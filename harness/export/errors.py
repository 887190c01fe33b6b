"""What cannot be exported."""

from harness.core.errors import UsageError


class NotExportableError(UsageError):
    """A run or scenario needs what Docker's commands and SQL alone cannot do."""

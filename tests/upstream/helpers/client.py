"""Errors of queries."""


class QueryRuntimeException(Exception):  # noqa: N818 # its name upstream
    """A server refused a query."""


class QueryTimeoutExceedException(Exception):  # noqa: N818 # its name upstream
    """A server did not answer in time."""

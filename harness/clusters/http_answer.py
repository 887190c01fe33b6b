"""One request over HTTP, whose whole answer has limits of time and of size."""

from collections.abc import Mapping
from contextlib import closing
from http.client import HTTPConnection
from typing import Final

from harness.core.time_limit import OutOfTime, time_limit

BYTES_MAX: Final = 1 << 26
"""Size of an answer that is refused."""


def exchange(
    connection: HTTPConnection,
    limit_s: float,
    method: str,
    path: str,
    body: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> tuple[int, str]:
    """Make a request on a connection that is then closed. Return the status and the body of the
    answer. Raises OSError and HTTPException.

    The time-out of a connection begins anew with each byte.
    """
    with closing(connection):
        try:
            with time_limit(limit_s):
                connection.request(method, path, body, dict(headers or {}))
                answer = connection.getresponse()
                content = answer.read(BYTES_MAX + 1)
        except OutOfTime:
            raise TimeoutError(f"no whole answer within {limit_s:g} s") from None
    if len(content) > BYTES_MAX:
        raise OSError(f"an answer of more than {BYTES_MAX:,} bytes")
    return answer.status, content.decode(errors="replace")

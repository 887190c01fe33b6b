"""Connection to an object store over HTTP."""

from contextlib import closing
from dataclasses import dataclass

from harness.core.connections import QueryError
from harness.core.outcomes import NETWORK
from harness.core.protocols import Endpoint


@dataclass(frozen=True, slots=True)
class HttpStoreChannel:
    """Requests to the port of an object store, each over a connection of its own."""

    endpoint: Endpoint
    timeout_s: float

    def request(self, method: str, path: str, body: str | None = None) -> tuple[int, str]:
        """Return the status and the body of the answer. Raises QueryError."""
        # It loads ssl, which runs on simulated servers do without.
        from http.client import HTTPConnection, HTTPException

        host, port = self.endpoint.host, self.endpoint.port
        with closing(HTTPConnection(host, port, timeout=self.timeout_s)) as connection:
            try:
                connection.request(method, path, body)
                answer = connection.getresponse()
                return answer.status, answer.read().decode()
            except (OSError, HTTPException) as error:
                raise QueryError(NETWORK, f"the object store: {error}") from error

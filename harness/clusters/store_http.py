"""Connection to an object store over HTTP."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass

from compose.plan import ID_VARIABLE, SECRET_VARIABLE
from harness.core.bucket import Bucket
from harness.core.connections import QueryError
from harness.core.errors import UsageError
from harness.core.outcomes import NETWORK


@dataclass(frozen=True, slots=True, repr=False)
class StoreKeys:
    """Keys of a user of an object store."""

    id: str
    secret: str

    @staticmethod
    def of(environment: Mapping[str, str]) -> "StoreKeys":
        """Return the keys of an environment. Raises UsageError, without them, if there are none."""
        for name in (ID_VARIABLE, SECRET_VARIABLE):
            if not environment.get(name):
                raise UsageError(
                    f"{name} is not set; expected the keys of the object store in {ID_VARIABLE} "
                    f"and {SECRET_VARIABLE}"
                )
        if environment.get("AWS_SESSION_TOKEN"):
            raise UsageError(
                "AWS_SESSION_TOKEN is set: keys of a session end before a run does; expected keys "
                "without one"
            )
        return StoreKeys(environment[ID_VARIABLE], environment[SECRET_VARIABLE])

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the environment variables that have the keys."""
        return {ID_VARIABLE: self.id, SECRET_VARIABLE: self.secret}


@dataclass(frozen=True, slots=True)
class HttpStoreChannel:
    """Requests to the store of a bucket, each over a connection of its own; signed if there are
    keys."""

    bucket: Bucket
    timeout_s: float
    keys: StoreKeys | None = None

    @property
    def logs_requests(self) -> bool:
        """Return whether the store is our own, which needs no keys."""
        return self.keys is None

    def request(self, method: str, path: str, body: str | None = None) -> tuple[int, str]:
        """Return the status and the body of the answer. Raises QueryError."""
        # It loads ssl, which runs on simulated servers do without.
        from http.client import HTTPConnection, HTTPException, HTTPSConnection

        kind = HTTPSConnection if self.bucket.secure else HTTPConnection
        with closing(
            kind(self.bucket.host, self.bucket.port, timeout=self.timeout_s)
        ) as connection:
            try:
                connection.request(method, path, body, self._signature(method, path, body))
                answer = connection.getresponse()
                return answer.status, answer.read().decode(errors="replace")
            except (OSError, HTTPException) as error:
                raise QueryError(NETWORK, f"the object store: {error}") from error

    def _signature(self, method: str, path: str, body: str | None) -> dict[str, str]:
        """Return the headers of a signed request; none without keys."""
        if self.keys is None:
            return {}
        # Only runs with a user's own store need them.
        from requests import Request
        from requests_aws4auth import AWS4Auth

        auth = AWS4Auth(self.keys.id, self.keys.secret, self.bucket.region, "s3")
        request = Request(method, f"{self.bucket.server}{path}", data=body, auth=auth).prepare()
        assert request.path_url == path, "the path that is signed is the path that is sent"
        return dict(request.headers)

"""Connection to an object store over HTTP."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from compose.plan import ID_VARIABLE, SECRET_VARIABLE
from harness.core.bucket import AUTHORITIES_VARIABLE, Bucket
from harness.core.connections import QueryError
from harness.core.errors import MissingExtraError, UsageError
from harness.core.outcomes import NETWORK

if TYPE_CHECKING:
    from ssl import SSLContext


def authorities_file(environment: Mapping[str, str]) -> str:
    """Return the path of the file of certificate authorities that an environment names, else of
    this machine's. Raises UsageError if it cannot be used."""
    import ssl

    named = environment.get(AUTHORITIES_VARIABLE, "")
    path = named or ssl.get_default_verify_paths().cafile
    expected = f"expected {AUTHORITIES_VARIABLE} to name a PEM file of certificate authorities"
    if not path:
        raise UsageError(
            f"--s3-endpoint: this machine has no file of certificate authorities; {expected}"
        )
    try:
        _context(path)
    except OSError as error:
        said = f"{AUTHORITIES_VARIABLE} {named!r}" if named else f"--s3-endpoint: {path}"
        raise UsageError(f"{said}: {error.strerror or error}; {expected}") from error
    return os.path.abspath(path)


def _context(authorities: str) -> "SSLContext":
    """Return the context of connections to a store that these authorities have certified. Raises
    OSError."""
    # Loads slowly, and runs on simulated servers do without.
    import ssl

    return ssl.create_default_context(cafile=authorities)


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
        # Loads ssl, which runs on simulated servers do without.
        from http.client import HTTPConnection, HTTPException, HTTPSConnection

        from harness.clusters.http_answer import exchange

        address = self.bucket.host, self.bucket.port
        connection: HTTPConnection
        if self.bucket.secure:
            try:
                context = _context(self.bucket.authorities)
            except OSError as error:
                said = f"the object store: {self.bucket.authorities}: {error.strerror or error}"
                raise QueryError(NETWORK, said) from error
            connection = HTTPSConnection(*address, timeout=self.timeout_s, context=context)
        else:
            connection = HTTPConnection(*address, timeout=self.timeout_s)
        headers = self._signature(method, path, body)
        try:
            return exchange(connection, self.timeout_s, method, path, body, headers)
        except (OSError, HTTPException) as error:
            raise QueryError(NETWORK, f"the object store: {error}") from error

    def _signature(self, method: str, path: str, body: str | None) -> dict[str, str]:
        """Return the headers of a signed request; none without keys."""
        if self.keys is None:
            return {}
        # Only runs with a user's own store need them.
        from requests import Request

        try:
            from requests_aws4auth import AWS4Auth
        except ModuleNotFoundError as missing:
            raise MissingExtraError("--s3-endpoint with keys", missing, "s3") from missing

        auth = AWS4Auth(self.keys.id, self.keys.secret, self.bucket.region, "s3")
        request = Request(method, f"{self.bucket.server}{path}", data=body, auth=auth).prepare()
        assert request.path_url == path, "the path that is signed is the path that is sent"
        return dict(request.headers)

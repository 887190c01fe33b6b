"""Buckets of object stores, by name and place."""

import re
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import urlsplit

from harness.core.errors import UsageError
from harness.core.ranges import quoted

OWN_BUCKET: Final = "harness"
"""Bucket of the object store that is a node of a cluster."""
AUTHORITIES_VARIABLE: Final = "AWS_CA_BUNDLE"
"""Environment variable with the path of a PEM file of certificate authorities."""
REGION: Final = "us-east-1"
"""Region of requests where nothing names one. Stores other than AWS take it."""
_EXPECTED: Final = "expected http://HOST:PORT/BUCKET or http://HOST:PORT/BUCKET/PREFIX"
_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]")
_PREFIX: Final = re.compile(r"([A-Za-z0-9_-][A-Za-z0-9._-]*/)*")
"""Pattern of a prefix, whose characters are the same in a URL, a signature and a configuration."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """Bucket of an object store, and the prefix of the keys in it that are ours."""

    server: str
    """URL of the store, such as "http://10.0.0.7:9000"."""
    name: str = OWN_BUCKET
    prefix: str = ""
    """First part of every key; "" or a path that ends with a slash."""
    region: str = REGION
    authorities: str = ""
    """Path on this machine of the PEM file with the certificate authorities of a store whose
    requests are encrypted; "" for another one."""

    @staticmethod
    def of(url: str, region: str = REGION) -> "Bucket":
        """Return the bucket of a URL of a user. Raises UsageError, which repeats no password."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise UsageError(f"--s3-endpoint: {error}; {_EXPECTED}") from error
        if "@" in parts.netloc:
            raise UsageError(
                "--s3-endpoint: the URL names a user; expected one without, and the keys in "
                "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            )
        name, _, prefix = parts.path.lstrip("/").partition("/")
        prefix = f"{prefix.rstrip('/')}/" if prefix.rstrip("/") else ""
        if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
            raise UsageError(f"--s3-endpoint {quoted(url)}: {_EXPECTED}")
        if not _BUCKET.fullmatch(name):
            raise UsageError(
                f"--s3-endpoint {quoted(url)}: {quoted(name)} names no bucket; {_EXPECTED}"
            )
        if not _PREFIX.fullmatch(prefix):
            raise UsageError(
                f"--s3-endpoint {quoted(url)}: prefix {quoted(prefix)}: expected letters, digits, "
                "dots, hyphens and underscores between single slashes"
            )
        address = f"[{host}]" if ":" in host else host
        return Bucket(
            f"{parts.scheme}://{address}{f':{port}' if port else ''}", name, prefix, region
        )

    @property
    def url(self) -> str:
        """Return the URL below which the objects are."""
        return f"{self.server}/{self.name}/{self.prefix}"

    @property
    def host(self) -> str:
        """Return the host of the store."""
        return urlsplit(self.server).hostname or ""

    @property
    def port(self) -> int:
        """Return the port of the store."""
        return urlsplit(self.server).port or (443 if self.secure else 80)

    @property
    def secure(self) -> bool:
        """Return whether requests are encrypted."""
        return self.server.startswith("https:")

    def below(self, name: str) -> "Bucket":
        """Return the part of the bucket in which every key begins with a name and a slash."""
        return replace(self, prefix=f"{self.prefix}{name}/")

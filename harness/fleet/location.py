"""Places of a store: a local directory or a URI of any file system that pyarrow opens.

`s3://bucket/prefix` takes the endpoint, the region and the keys from the environment:
AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY. No URI has keys, so that
none ends in a log, and a location that is sent to another machine is opened with the keys of that
machine.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

import pyarrow as pa
from pyarrow import fs

from harness.clusters.store_http import StoreKeys
from harness.core.bucket import AUTHORITIES_VARIABLE, REGION
from harness.core.errors import HarnessError, UsageError
from harness.core.ranges import quoted

CONNECT_S: Final = 5.0
REQUEST_S: Final = 30.0
_LOCAL: Final = "file"


@dataclass(frozen=True, slots=True)
class FileStat:
    """What a file system says of a file without reading it."""

    name: str
    """Path below the place that was listed."""
    bytes: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Location:
    """A directory or a file, by its URI. It can be pickled and has no secrets."""

    uri: str

    @staticmethod
    def of(place: str | Path) -> "Location":
        """Return the location of a path or of a URI. Raises UsageError."""
        text = str(place)
        if "://" not in text:
            return Location(f"{_LOCAL}://{quote(str(Path(text).absolute()))}")
        parts = urlsplit(text)
        if "@" in parts.netloc:
            raise UsageError(
                f"{parts.scheme}://…@…: the URI names a user; expected one without, and keys in "
                "the environment, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            )
        if parts.query or parts.fragment:
            raise UsageError(
                f"{quoted(text)}: expected a URI without ? and #; the endpoint of an S3 server "
                "is taken from AWS_ENDPOINT_URL, its region from AWS_REGION"
            )
        return Location(text.rstrip("/"))

    @property
    def path(self) -> Path | None:
        """Return the path of a local place; None for any other."""
        scheme, _, rest = self.uri.partition("://")
        return Path(unquote(rest)) if scheme == _LOCAL else None

    @property
    def shown(self) -> str:
        """Return the name that people read: a path, or the URI."""
        return self.uri if self.path is None else str(self.path)

    @property
    def name(self) -> str:
        """Return the last part of the path."""
        return self.uri.rpartition("/")[2] if self.path is None else self.path.name

    @property
    def parent(self) -> "Location":
        """Return the place above."""
        return Location(self.uri.rpartition("/")[0])

    def below(self, *names: str) -> "Location":
        """Return a place below this one."""
        parts = [quote(name) if self.path is not None else name for name in names]
        return Location("/".join((self.uri, *parts)))

    def read(self) -> bytes:
        """Return the contents of a file. Raises OSError."""
        if self.path is not None:
            return self.path.read_bytes()
        with self.input() as file:
            return bytes(file.read())

    def input(self) -> Any:
        """Open a file for reading at any place. Raises OSError."""
        system, path = self._opened()
        return system.open_input_file(path)

    @contextmanager
    def output(self) -> Iterator[Any]:
        """Write a file, which appears whole or not at all. Raises OSError.

        A local file is written beside and renamed. Elsewhere the file is sent when it is complete,
        for closing a stream would also complete the object of a writer that failed.
        """
        if self.path is None:
            system, path = self._opened()
            buffer = pa.BufferOutputStream()
            yield buffer
            if not self.uri.startswith("s3://"):  # where a key is all that there is of a directory
                system.create_dir(path.rpartition("/")[0], recursive=True)
            with system.open_output_stream(path) as stream:
                stream.write(buffer.getvalue())
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_name(f".{self.path.name}.{os.getpid()}.partial")
        try:
            with pa.OSFile(str(partial), "wb") as stream:
                yield stream
            partial.replace(self.path)
        finally:
            with suppress(OSError):  # of a disk that is read-only
                partial.unlink(missing_ok=True)

    def files(self) -> list[FileStat]:
        """Return all files below this place, at any depth; none if it does not exist. Raises
        OSError."""
        system, path = self._opened()
        found = system.get_file_info(fs.FileSelector(path, allow_not_found=True, recursive=True))
        return [
            FileStat(one.path[len(path) + 1 :], one.size, one.mtime_ns or 0)
            for one in found
            if one.type == fs.FileType.File
        ]

    def delete(self) -> None:
        """Delete a file, if it is there."""
        system, path = self._opened()
        with suppress(OSError):
            system.delete_file(path)

    def delete_tree(self) -> None:
        """Delete a directory with all that is in it, if it is there."""
        system, path = self._opened()
        with suppress(OSError):
            system.delete_dir(path)

    def _opened(self) -> tuple[fs.FileSystem, str]:
        """Return the file system and the path in it. Raises HarnessError."""
        if self.path is not None:
            return _local(), str(self.path)
        parts = urlsplit(self.uri)
        if parts.scheme == "s3":
            region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or REGION
            system = _s3(StoreKeys.of(os.environ), os.environ.get("AWS_ENDPOINT_URL", ""), region)
            return system, f"{parts.netloc}{parts.path}"
        system, root = _other(f"{parts.scheme}://{parts.netloc}/")
        return system, f"{root.rstrip('/')}{parts.path}"


@cache
def _local() -> fs.FileSystem:
    return fs.LocalFileSystem()


@cache
def _s3(keys: StoreKeys, endpoint: str, region: str) -> fs.FileSystem:
    scheme, separator, host = endpoint.rpartition("://")
    return fs.S3FileSystem(
        access_key=keys.id,
        secret_key=keys.secret,
        region=region,
        scheme=scheme if separator else "https",
        endpoint_override=host.rstrip("/") or None,
        connect_timeout=CONNECT_S,
        request_timeout=REQUEST_S,
        background_writes=False,
        tls_ca_file_path=os.environ.get(AUTHORITIES_VARIABLE) or None,
    )


@cache
def _other(root: str) -> tuple[fs.FileSystem, str]:
    try:
        system, path = fs.FileSystem.from_uri(root)
    except (OSError, ValueError, pa.ArrowException, ImportError) as error:
        why = str(error).strip().split("\n")[0]
        raise HarnessError(
            f"{root}: cannot be opened: {why}; expected a path, s3://BUCKET/PREFIX, or a URI of "
            "another file system that pyarrow opens"
        ) from error
    return system, path

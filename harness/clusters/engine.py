"""Connections to the Docker engine, and errors for an engine that does not answer."""

import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, TypeVar

import docker
import requests
import urllib3
from docker.errors import DockerException, StreamParseError
from docker.models.containers import Container

from harness.core.errors import ClusterError, EngineLostError

T = TypeVar("T")

LOCAL_ENGINE: Final = "unix:///var/run/docker.sock"
"""Address that docker-py uses if DOCKER_HOST is not set."""
REQUEST_TIMEOUT_S: Final = 60
"""Time limit of a request to the engine; creating a container on a busy disk may take 1 s."""

_CONNECT_S: Final = 5.0
_RESTART_S: Final = 30.0
"""Time for an engine that is restarted to answer again. It ends its containers first, which takes
10 s if one of them does not obey SIGTERM."""
_POLL_S: Final = 0.5
_ERRORS: Final = (
    DockerException,
    StreamParseError,
    requests.exceptions.RequestException,
    urllib3.exceptions.HTTPError,
    OSError,
)
"""What docker-py raises: those of urllib3 where it reads a stream of JSON."""
_silent: Final = threading.Event()
"""Set while the engine has not answered its last request in time."""


@contextmanager
def engine_request(what: str) -> Iterator[None]:
    """Turn whatever docker-py raises into a ClusterError that says what could not be done.

    An engine that has not answered within the time limit must answer a ping before it is asked for
    anything else, so that a run which has lost its engine ends soon."""
    if _silent.is_set():
        if why := why_no_engine():
            raise EngineLostError(
                f"Docker engine: could not {what}: it has not answered before; {why}"
            )
        _silent.clear()
    try:
        _check_socket()
        yield
    except requests.exceptions.Timeout as error:
        _silent.set()
        raise EngineLostError(
            f"Docker engine: could not {what}: it accepts connections and does not answer; look "
            "at its log, or restart it"
        ) from error
    except _ERRORS as error:
        text = getattr(error, "explanation", None) or error
        kind = ClusterError if isinstance(error, DockerException) else EngineLostError
        raise kind(f"Docker engine: could not {what}: {text}") from error


def engine(timeout_s: float = REQUEST_TIMEOUT_S) -> docker.DockerClient:
    """Return a connection to the engine in DOCKER_HOST, else on the local socket.

    The caller closes it. Raises ClusterError, with what to do, if no engine answers.
    """
    client = None
    try:
        _check_socket()
        client = docker.from_env(timeout=int(timeout_s), max_pool_size=64)
        client.ping()
    except _ERRORS as error:
        if client is not None:
            client.close()
        todo = "Install one (Debian: apt-get install docker.io), start it (service docker start)"
        if isinstance(error, PermissionError):
            todo = (
                "This user may not use it: join the group of its socket (usermod -aG docker USER)"
            )
        elif isinstance(error.__cause__, requests.exceptions.Timeout):
            todo = "It accepts connections and does not answer: look at its log, restart it"
        raise EngineLostError(
            f"Docker engine: none answers ({error}). {todo}, or name one in DOCKER_HOST"
        ) from error
    return client


def outlasting(act: Callable[[], T]) -> T:
    """Call `act`, and again as long as the engine may come back from a restart. `act` may be called
    after it has done a part. Raises what it raises."""
    deadline = time.monotonic() + _RESTART_S
    while True:
        try:
            return act()
        except EngineLostError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_POLL_S)


def why_no_engine() -> str | None:
    """Return why no engine can be used; None if one answers."""
    try:
        engine(timeout_s=_CONNECT_S).close()
    except ClusterError as error:
        return str(error)
    return None


def _check_socket() -> None:
    """Raise OSError if the engine's socket is local and nobody listens on it.

    docker-py would raise too, but it would leave its end of the connection open each time.
    """
    scheme, _, path = os.environ.get("DOCKER_HOST", LOCAL_ENGINE).partition("://")
    if scheme == "unix":
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_CONNECT_S)
            connection.connect(path)


def compose_command() -> tuple[str, ...]:
    """Return `docker compose` if it exists, else `docker-compose`. Raises ClusterError."""
    if shutil.which("docker"):
        plugin = subprocess.run(
            ("docker", "compose", "version"), capture_output=True, timeout=30, check=False
        )
        if plugin.returncode == 0:
            return ("docker", "compose")
    if shutil.which("docker-compose"):
        return ("docker-compose",)
    raise ClusterError(
        "docker compose: neither the plugin nor docker-compose was found. Install one "
        "(Debian: apt-get install docker-compose)"
    )


def environment_of(container: Container) -> Mapping[str, str]:
    """Return the environment variables that a container was created with."""
    pairs = (entry.partition("=") for entry in container.attrs["Config"]["Env"] or ())
    return {name: value for name, _, value in pairs}

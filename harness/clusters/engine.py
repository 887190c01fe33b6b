"""The Docker engine: how it is found, and what its silence is called."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import docker
import requests
from docker.errors import DockerException

from harness.core.errors import ClusterError

LOCAL_ENGINE: Final = "unix:///var/run/docker.sock"
"""Where docker-py looks when DOCKER_HOST is not set."""
REQUEST_TIMEOUT_S: Final = 30
"""No request to the engine may take longer; creating a container on a busy disk takes one."""

_KNOCK_S: Final = 5.0


@contextmanager
def asking_engine(what: str) -> Iterator[None]:
    """Turns whatever docker-py raises into a ClusterError that says what was being done."""
    try:
        _knock()
        yield
    except requests.exceptions.Timeout as error:
        raise ClusterError(
            f"Docker engine: could not {what}: it accepts connections and does not answer; look "
            "at its log, or restart it"
        ) from error
    except (DockerException, requests.exceptions.RequestException, OSError) as error:
        text = getattr(error, "explanation", None) or error
        raise ClusterError(f"Docker engine: could not {what}: {text}") from error


def engine(timeout_s: float = REQUEST_TIMEOUT_S) -> docker.DockerClient:
    """A connection to the engine that the environment names (DOCKER_HOST, else the local socket).
    The caller closes it.

    Raises ClusterError, with what to do, when none answers.
    """
    client = None
    try:
        _knock()
        client = docker.from_env(timeout=int(timeout_s), max_pool_size=64)
        client.ping()
    except (DockerException, requests.exceptions.RequestException, OSError) as error:
        if client is not None:
            client.close()
        todo = (
            "It is there, and this user may not use it: join its group (usermod -aG docker USER)"
            if isinstance(error, PermissionError)
            else "Install one (Debian: apt-get install docker.io), start it (service docker start)"
        )
        raise ClusterError(
            f"Docker engine: none answers ({error}). {todo}, or name one in DOCKER_HOST"
        ) from error
    return client


def silence() -> str | None:
    """Why no engine can be used; None: one answers."""
    try:
        engine(timeout_s=_KNOCK_S).close()
    except ClusterError as error:
        return str(error)
    return None


def _knock() -> None:
    """Raises OSError where nobody listens on a local socket: docker-py would too, and leave its
    own end open each time."""
    scheme, _, path = os.environ.get("DOCKER_HOST", LOCAL_ENGINE).partition("://")
    if scheme == "unix":
        with socket.socket(socket.AF_UNIX) as door:
            door.settimeout(_KNOCK_S)
            door.connect(path)


def compose_command() -> tuple[str, ...]:
    """`docker compose` where it exists, else `docker-compose`. Raises ClusterError."""
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

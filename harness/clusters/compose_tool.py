"""Start of a rendered cluster with the compose tool."""

import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from harness.clusters.engine import LOCAL_ENGINE, compose_command
from harness.core.errors import ClusterError

_TIMEOUT_S: Final = 120
_FINISH_S: Final = 30
"""Time for the tool to end by itself when the harness is stopped; normally it takes 3.5 s."""
SETTLE_S: Final = 2.0
"""Time during which the engine may still execute requests of a tool that was killed."""


def compose_up(
    name: str, file: Path, *services: str, secrets: Mapping[str, str] | None = None
) -> None:
    """Create and start what is in the compose file, or those services whose containers are missing.

    `secrets` are the environment variables that the file names without a value.

    The file is the one that a person would use. The tool takes 3.5 s for 12 containers, and the
    servers as long again to start; to create them through the engine's API would gain a second or
    two, and nobody would know that the file works.

    Raises ClusterError with the tool's last lines. After any exception nothing more is created.
    """
    argv = (*compose_command(), "-p", name, "-f", str(file), "up", "-d")
    if services:
        argv = (*argv, "--no-deps", "--no-recreate", *services)
    # In a session of its own the tool does not get Ctrl-C, which is for the harness.
    with subprocess.Popen(
        (*_ends_with_this_process(), *argv),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**_environment(), **(secrets or {})},
    ) as tool:
        try:
            _, output = tool.communicate(timeout=_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            _kill(tool)
            raise ClusterError(f"{' '.join(argv)}: not done after {_TIMEOUT_S} s") from error
        except BaseException:
            _finish(tool)
            raise
    if tool.returncode != 0:
        raise ClusterError(f"{' '.join(argv)}: ended with {tool.returncode}:\n{last_words(output)}")


def last_words(output: str) -> str:
    """Return the last ten lines of what the tool said; of a traceback, with which docker-compose 1
    ends where the engine goes away under it, the last line alone."""
    lines = output.strip().splitlines()
    traceback = any(line.startswith("Traceback (most recent call last)") for line in lines)
    return "\n".join(lines[-1:] if traceback else lines[-10:])


def _finish(tool: "subprocess.Popen[str]") -> None:
    """Let the tool end by itself.

    The engine executes its requests even if it is killed, and what they create would appear after
    everything else has been removed.
    """
    with suppress(subprocess.TimeoutExpired):
        tool.communicate(timeout=_FINISH_S)
    if tool.returncode is None:
        _kill(tool)


def _kill(tool: "subprocess.Popen[str]") -> None:
    tool.kill()
    tool.wait()
    time.sleep(SETTLE_S)


def _ends_with_this_process() -> tuple[str, ...]:
    """Return a prefix for a command, which is killed when this process ends, even by SIGKILL."""
    return ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()


def _environment() -> Mapping[str, str]:
    """Return the environment for the tool.

    docker-compose 1 is a Python package called `compose`, like one of ours, and must not find ours
    through the variables of this process. It must also use the same engine as docker-py, which
    does not support contexts.
    """
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    environment.pop("DOCKER_CONTEXT", None)
    environment.setdefault("DOCKER_HOST", LOCAL_ENGINE)
    return environment

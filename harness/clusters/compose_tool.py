"""Bringing a rendered cluster up with the compose tool."""

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
"""For the tool to end by itself when the harness is told to stop: 3.5 s where nothing is wrong."""
SETTLE_S: Final = 2.0
"""How long the engine may work on, unseen, at the requests of a tool that was killed."""


def compose_up(name: str, file: Path, *services: str) -> None:
    """Creates and starts what is in the compose file, or some services of it whose containers were
    removed: the very file that a person would use. It
    takes 3.5 s for 12 containers here, the servers' own start as long again, so creating them
    through the engine's interface would gain a second or two and lose that.

    Raises ClusterError with the tool's last lines. When it raises, whatever it raises, nothing
    more is being created.
    """
    argv = (*compose_command(), "-p", name, "-f", str(file), "up", "-d")
    if services:
        argv = (*argv, "--no-deps", "--no-recreate", *services)
    # A session of its own, so that Ctrl-C goes to the harness alone.
    with subprocess.Popen(
        (*_tied_to_this_process(), *argv),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=_environment(),
    ) as tool:
        try:
            _, said = tool.communicate(timeout=_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            _kill(tool)
            raise ClusterError(f"{' '.join(argv)}: not done after {_TIMEOUT_S} s") from error
        except BaseException:
            _finish(tool)
            raise
    if tool.returncode != 0:
        last = "\n".join(said.strip().splitlines()[-10:])
        raise ClusterError(f"{' '.join(argv)}: ended with {tool.returncode}:\n{last}")


def _finish(tool: "subprocess.Popen[str]") -> None:
    """Let the tool end by itself: what it asked of the engine is done even when it is killed, and
    would appear after everything else has been removed."""
    with suppress(subprocess.TimeoutExpired):
        tool.communicate(timeout=_FINISH_S)
    if tool.returncode is None:
        _kill(tool)


def _kill(tool: "subprocess.Popen[str]") -> None:
    tool.kill()
    tool.wait()
    time.sleep(SETTLE_S)


def _tied_to_this_process() -> tuple[str, ...]:
    """A prefix with which a command is killed when this process dies, even of SIGKILL."""
    return ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()


def _environment() -> Mapping[str, str]:
    """docker-compose 1 is a Python package called `compose`, like one of ours: it must not find
    ours by the variables of this process. And it must speak to the same engine as docker-py,
    which knows no contexts."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    environment.pop("DOCKER_CONTEXT", None)
    environment.setdefault("DOCKER_HOST", LOCAL_ENGINE)
    return environment

"""Bringing a rendered cluster up with the compose tool."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from harness.clusters.engine import LOCAL_ENGINE, compose_command
from harness.core.errors import ClusterError

_TIMEOUT_S: Final = 120


def compose_up(name: str, file: Path) -> None:
    """Creates and starts what is in the compose file: the very file that a person would use. It
    takes 3.5 s for 12 containers here, the servers' own start as long again, so creating them
    through the engine's interface would gain a second or two and lose that.

    Raises ClusterError with the tool's last lines.
    """
    argv = (*compose_command(), "-p", name, "-f", str(file), "up", "-d")
    try:
        # Its own session: Ctrl-C goes to the harness, which then removes what there is.
        done = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
            start_new_session=True,
            env=_environment(),
        )
    except subprocess.TimeoutExpired as error:
        raise ClusterError(f"{' '.join(argv)}: not done after {_TIMEOUT_S} s") from error
    if done.returncode != 0:
        last = "\n".join(done.stderr.strip().splitlines()[-10:])
        raise ClusterError(f"{' '.join(argv)}: ended with {done.returncode}:\n{last}")


def _environment() -> Mapping[str, str]:
    """docker-compose 1 is a Python package called `compose`, like one of ours: it must not find
    ours by the variables of this process. And it must speak to the same engine as docker-py,
    which knows no contexts."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    environment.pop("DOCKER_CONTEXT", None)
    environment.setdefault("DOCKER_HOST", LOCAL_ENGINE)
    return environment

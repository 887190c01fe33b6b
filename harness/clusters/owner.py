"""Whose a thing in Docker is: so that what a dead run left can be told from a live run's."""

import os
from pathlib import Path

_PROC = Path("/proc")


def this_process() -> str:
    """PID:START:BOOT of this process: a pid alone comes round again."""
    return f"{os.getpid()}:{_start(os.getpid())}:{_boot()}"


def is_alive(owner: str) -> bool:
    """Whether the process of such a text still runs. A text of another form is nobody's."""
    pid, _, rest = owner.partition(":")
    start, _, boot = rest.partition(":")
    return pid.isdigit() and boot == _boot() and start != "" and start == _start(int(pid))


def _start(pid: int) -> str:
    """In clock ticks since boot, see proc(5); "" when there is no such process or it is a
    zombie."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else fields[19]


def _boot() -> str:
    """Of this kernel, and of the container that this process may be in: pids mean nothing
    outside either."""
    boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}/{(_PROC / 'self/ns/pid').readlink()}"

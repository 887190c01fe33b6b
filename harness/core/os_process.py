"""Processes of this machine: their identity, and children that end with their parent."""

import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")


def this_process() -> str:
    """Return PID:START:BOOT of this process; a pid alone is used again."""
    return f"{os.getpid()}:{_start(os.getpid())}:{_boot()}"


def is_alive(identity: str) -> bool:
    """Return whether the process of such a text still runs; False for any other text."""
    pid, _, rest = identity.partition(":")
    start, _, boot = rest.partition(":")
    return pid.isdigit() and boot == _boot() and start != "" and start == _start(int(pid))


def follow_parent(parent: int) -> None:
    """Ignore signals from the terminal, and exit within two seconds after the parent has ended.

    `parent` is its process id. The parent handles the terminal's signals; that it ended is noticed
    even after SIGKILL.
    """
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, name="parent", daemon=True).start()


def yield_memory() -> None:
    """Let the kernel end this process rather than others when memory is short."""
    with suppress(OSError):
        (_PROC / "self/oom_score_adj").write_text("1000")


def memory_peak_mb() -> float | None:
    """Return the most resident memory of this process since the last call, or since it began, in
    MB; None where the kernel does not tell (proc(5): VmHWM, and clear_refs, which resets it)."""
    try:
        status = (_PROC / "self/status").read_text()
        (_PROC / "self/clear_refs").write_text("5")
    except OSError:
        return None
    peaks = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
    return round(int(peaks[0]) / 1024, 1) if peaks else None


def _start(pid: int) -> str:
    """Return the start time of a process in clock ticks since boot, see proc(5).

    It is "" if there is no such process or the process is a zombie.
    """
    try:
        stat = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else fields[19]


def _boot() -> str:
    """Return the identity of this kernel's boot and of this process's pid namespace.

    Pids mean nothing outside either.
    """
    boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}/{(_PROC / 'self/ns/pid').readlink()}"

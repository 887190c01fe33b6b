"""Calls functions in a separate process, which dies in place of the task.

`python -m harness.fleet.subprocess` is that process. It reads pickled pairs of a function and its
arguments from standard input, and answers each with the pickled result on standard output. It is
started as a command, because multiprocessing lets a daemonic process, such as those of
`harness.fleet.processes`, start none.
"""

import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any, TypeVar

from harness.core.os_process import follow_parent, yield_memory
from harness.core.plugins import trusted_path

T = TypeVar("T")


class Subprocess:
    """A process that makes calls one after the other. It starts with the first call, and a fresh
    one replaces it when it dies."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._stderr: IO[bytes] | None = None

    def call(self, function: Callable[..., T], *arguments: Any) -> tuple[T | None, str]:
        """Return what a function of a module returns and "", or None and how the process died."""
        child = self._child or self._start()
        assert child.stdin is not None, "it has a pipe"
        assert child.stdout is not None, "it has a pipe"
        try:
            pickle.dump((function, arguments), child.stdin)
            child.stdin.flush()
            result: T = pickle.load(child.stdout)  # noqa: S301  # from our own child
        except (OSError, EOFError, pickle.UnpicklingError):
            return None, self._death(child)
        return result, ""

    def _start(self) -> subprocess.Popen[bytes]:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  # `close` closes it
        self._child = subprocess.Popen(
            [sys.executable, "-m", "harness.fleet.subprocess", str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(trusted_path()),
                "PYTHONSAFEPATH": "1",  # `python -m` would import from the working directory
            },
        )
        return self._child

    def _death(self, child: subprocess.Popen[bytes]) -> str:
        code = child.wait()
        assert self._stderr is not None, "it was started"
        self._stderr.seek(0)
        last = self._stderr.read().decode(errors="replace").strip().split("\n")[-1]
        self.close()
        how = f"signal {-code}" if code < 0 else f"exit {code}"
        return f"the process that judged it died ({how}{': ' + last if last else ''})"

    def close(self) -> None:
        """Kill the process. May be called twice."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            with suppress(OSError):  # unread input is lost with the process
                child.communicate()
        if self._stderr is not None:
            self._stderr.close()


def _serve(parent: int) -> None:
    """Answer requests until the parent ends them or dies."""
    follow_parent(parent)
    yield_memory()  # rather than the task or its JVM
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a function prints must not mix with the answers
    while True:
        try:
            function, arguments = pickle.load(sys.stdin.buffer)  # noqa: S301  # from our own parent
        except EOFError:
            return
        pickle.dump(function(*arguments), answers)
        answers.flush()


if __name__ == "__main__":
    _serve(int(sys.argv[1]))

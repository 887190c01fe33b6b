"""Judges items of a fleet in a process beside the task's own, which dies in its place.

`python -m checkers.fleet_subprocess` is that process: it reads a pickled job and item at a time
from standard input, and answers each with pickled rows on standard output.
"""

import os
import pickle
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Self

from checkers.fleet_plan import Item
from checkers.fleet_rows import Row
from harness.core.child import settle

if TYPE_CHECKING:
    from checkers.fleet_work import Job


class Subprocess:
    """A process that judges items one after the other. It is started when the first item comes,
    and replaced by a fresh one when it dies."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._stderr: IO[bytes] | None = None

    def judge(self, job: "Job", item: Item) -> tuple[list[Row] | None, str]:
        """Return the rows of an item and ""; or None and how the process died over it."""
        child = self._child or self._started()
        assert child.stdin is not None, "it has a pipe"
        assert child.stdout is not None, "it has a pipe"
        try:
            pickle.dump((job, item), child.stdin)
            child.stdin.flush()
            rows: list[Row] = pickle.load(child.stdout)  # noqa: S301  # from our own child
        except (OSError, EOFError, pickle.UnpicklingError):
            return None, self._death(child)
        return rows, ""

    def _started(self) -> subprocess.Popen[bytes]:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  # `close` closes it
        self._child = subprocess.Popen(
            [sys.executable, "-m", "checkers.fleet_subprocess", str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
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
        """End the process, whatever it does. May be called twice."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            with suppress(OSError):  # what it was to read is lost with it
                child.communicate()
        if self._stderr is not None:
            self._stderr.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _answer(parent: int) -> None:
    """Answer until the parent has no more questions or is gone."""
    from checkers.fleet_work import rows_of  # which imports this module

    settle(parent)
    with suppress(OSError):
        # When memory is short, the kernel ends this process rather than the task or its JVM.
        Path("/proc/self/oom_score_adj").write_text("1000")
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a checker prints is no answer
    while True:
        try:
            job, item = pickle.load(sys.stdin.buffer)  # noqa: S301  # from our own parent
        except EOFError:
            return
        pickle.dump(rows_of(job, item), answers)
        answers.flush()


if __name__ == "__main__":
    _answer(int(sys.argv[1]))

"""Faults that a user's own commands make, on servers that the harness cannot touch itself."""

import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from harness.core.errors import FaultError
from harness.core.op import Json
from harness.core.protocols import Cluster
from nemesis.family import Needs, Watch
from nemesis.fault import FaultChoice
from nemesis.node_fault import NodeFault

NODE: Final = "{node}"
"""Stands for the name of the affected server in every word of a command."""
UNSEEN: Final = "its command succeeded, and none tells whether it is in force"
NOT_SEEN: Final = 1
"""Exit status of a `seen` that looked and saw no fault, as of test and grep. By any other but 0 it
could not look: 255 is that of ssh without a connection."""
SHOWN_MAX: Final = 200
"""Maximum number of characters of a command's output in an error."""


@dataclass(frozen=True, slots=True)
class _Exit:
    """How a command ended."""

    status: int | None
    """None: it was not started, or was killed at its time limit."""
    failure: str | None
    """Why it did not succeed; None if it did."""


class CommandFault(NodeFault):
    """Family of the faults of one set of commands."""

    needs: Needs = ()
    heal_rank = 0

    def __init__(self, choice: FaultChoice) -> None:
        super().__init__(choice)
        self._commands = choice.options.commands[choice.name]
        self._begun: set[str] = set()
        """Nodes whose `begin` was started and whose `end` has not succeeded since. They need an
        `end` even if nothing is seen: what looks may be wrong, or early."""
        self._check: Callable[[], None] = lambda: None
        """Raises FaultError if the call in flight was abandoned."""

    def begin(self, cluster: Cluster, plan: Mapping[str, Json], watch: Watch) -> dict[str, Json]:
        """Inject the fault, and see it if a command can tell."""
        self._check = watch.check
        added = super().begin(cluster, plan, watch)
        return added if self._commands.seen else {**added, "unseen": UNSEEN}

    def _inject(self, cluster: Cluster, nodes: Sequence[str]) -> None:  # noqa: ARG002
        for node in nodes:
            self._check()  # the command for the node before may have outlasted the run
            self._begun.add(node)
            try:
                failure = self._run(self._commands.begin, node).failure
            finally:
                self._begun.add(node)  # a heal meanwhile ended what was yet to begin
            if failure is not None:
                raise FaultError(f"{node}: {failure}")

    def _unverified(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:  # noqa: ARG002
        if not self._commands.seen:
            return []
        failed = {node: self._run(self._commands.seen, node).failure for node in nodes}
        return [f"{node}: {why}" for node, why in failed.items() if why is not None]

    def _revert(self, cluster: Cluster, nodes: Sequence[str]) -> None:  # noqa: ARG002
        failures = {node: self._revert_on(node) for node in nodes}
        wrong = [f"{node}: {why}" for node, why in failures.items() if why is not None]
        if wrong:
            raise FaultError("; ".join(wrong))

    def _revert_on(self, node: str) -> str | None:
        """End the fault on a node. Return why that failed; None if it did not, or if a command
        tells that no fault is left there."""
        if node not in self._begun and self._is_over(node):
            return None
        failure = self._run(self._commands.end, node).failure
        if failure is not None and not self._is_over(node):
            return failure
        self._begun.discard(node)
        return None

    def _remaining(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:  # noqa: ARG002
        if not (self._commands.seen or self._commands.gone):
            return []
        left = {node: self._why_not_over(node) for node in nodes}
        return [f"{node}: {why}" for node, why in left.items() if why is not None]

    def _is_over(self, node: str) -> bool:
        """Return whether a command tells that the fault is not in force on a node."""
        tells = self._commands.seen or self._commands.gone
        return bool(tells) and self._why_not_over(node) is None

    def _why_not_over(self, node: str) -> str | None:
        """Return why the fault may still be in force on a node; None if a command denies it."""
        if self._commands.gone:
            why = self._run(self._commands.gone, node).failure
            return None if why is None else f"{self.f} is not gone: {why}"
        found = self._run(self._commands.seen, node)
        if found.status == NOT_SEEN:
            return None
        if found.failure is None:
            return f"{self.f} is still in force"
        return f"nothing tells whether {self.f} is over: {found.failure}"

    def _run(self, command: Sequence[str], node: str) -> _Exit:
        """Run a command for a node. It and what it started are killed at its time limit."""
        words = [word.replace(NODE, node) for word in command]
        # Not a pipe: what the command leaves running would keep one open, and a reader waiting.
        with tempfile.TemporaryFile() as output:
            try:
                process = subprocess.Popen(
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                return _Exit(None, f"{words[0]} cannot be started: {error.strerror}")
            try:
                status = process.wait(timeout=self._commands.timeout_s)
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                limit = f"no end within {self._commands.timeout_s:g} s"
                return _Exit(None, f"{' '.join(words)}: {limit}")
            if status == 0:
                return _Exit(0, None)
            output.seek(0)
            text = " ".join(output.read(4 * SHOWN_MAX).decode(errors="replace").split())
        return _Exit(status, f"{' '.join(words)}: exit status {status}: {text[:SHOWN_MAX]}")

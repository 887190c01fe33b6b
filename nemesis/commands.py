"""Faults that a user's own commands make, on servers that the harness cannot touch itself."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from harness.core.errors import FaultError
from harness.core.op import Json
from harness.core.protocols import Cluster
from harness.core.topology import Topology
from nemesis.family import Watch
from nemesis.node_fault import NodeFault
from nemesis.targets import NodeSpec

NODE: Final = "{node}"
"""Stands for the name of the affected server in every word of a command."""
UNSEEN: Final = "its command succeeded, and none tells whether it is in force"
SHOWN_MAX: Final = 200
"""Maximum number of characters of a command's output in an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultCommands:
    """Commands that make one kind of fault, each for one server at a time."""

    name: str
    begin: Sequence[str]
    end: Sequence[str]
    seen: Sequence[str] = ()
    """Command that succeeds while the fault is in force; (): nothing tells."""
    role: str | None = None
    """Role of the servers that it affects; None: any."""
    targets: Sequence[str] = ("one",)
    """How many it affects, drawn for each fault."""
    timeout_s: float = 30.0
    """Time limit of each command."""


class CommandFault(NodeFault):
    """Family of the faults of one set of commands."""

    heal_rank = 0

    def __init__(
        self, commands: FaultCommands, specs: Sequence[NodeSpec], topology: Topology
    ) -> None:
        super().__init__(specs, topology)
        self.f = commands.name
        self._commands = commands

    def begin(self, cluster: Cluster, plan: Mapping[str, Json], watch: Watch) -> dict[str, Json]:
        """Inject the fault, and see it if a command can tell."""
        added = super().begin(cluster, plan, watch)
        return added if self._commands.seen else {**added, "unseen": UNSEEN}

    def _inject(self, cluster: Cluster, nodes: Sequence[str]) -> None:  # noqa: ARG002
        for node in nodes:
            self._must(self._commands.begin, node)

    def _unverified(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:  # noqa: ARG002
        if not self._commands.seen:
            return []
        failed = {node: self._failure(self._commands.seen, node) for node in nodes}
        return [f"{node}: {why}" for node, why in failed.items() if why is not None]

    def _revert(self, cluster: Cluster, nodes: Sequence[str]) -> None:  # noqa: ARG002
        for node in nodes:
            if not self._commands.seen or self._failure(self._commands.seen, node) is None:
                self._must(self._commands.end, node)

    def _remaining(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:  # noqa: ARG002
        if not self._commands.seen:
            return []
        seen = [node for node in nodes if self._failure(self._commands.seen, node) is None]
        return [f"{node}: {self.f} is still in force" for node in seen]

    def _must(self, command: Sequence[str], node: str) -> None:
        failure = self._failure(command, node)
        if failure is not None:
            raise FaultError(f"{node}: {failure}")

    def _failure(self, command: Sequence[str], node: str) -> str | None:
        """Return why a command did not succeed for a node; None if it did. It and what it started
        are killed at its time limit."""
        words = [word.replace(NODE, node) for word in command]
        try:
            process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            return f"{words[0]} cannot be started: {error.strerror}"
        try:
            output, _ = process.communicate(timeout=self._commands.timeout_s)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return f"{' '.join(words)}: no end within {self._commands.timeout_s:g} s"
        if process.returncode == 0:
            return None
        text = " ".join(output.decode(errors="replace").split())[:SHOWN_MAX]
        return f"{' '.join(words)}: exit status {process.returncode}: {text}"

"""Checks which hosts say that they execute a task of the DDL queue.

A call "active-tasks" reads of each task the hosts that it lists and those that had finished it,
and then those that execute it.

Violated: a host that the task does not list executes it ("outsider"), or one that had finished it
does ("again"). Doubtful: no host was seen executing a task, because an execution takes moments.

The order of reading matters. Read the other way, a host that finishes between the two looks like
one that executes again what it had finished:
    active ch1     ch1 finishes     finished ch1
"""

from collections.abc import Mapping, Sequence

import msgspec

from checkers.conclusion import Findings
from checkers.look import decode
from checkers.phrasing import during, number, seconds
from harness.core.history import History
from harness.core.op import Op
from harness.core.verdict import Verdict

ACTIVE = "active-tasks"
UNSEEN = "no host was seen executing a task"


class HostsOfTask(msgspec.Struct, frozen=True):
    """Hosts of one task."""

    finished: list[str] = []
    """Hosts that had finished it."""
    active: list[str] = []
    """Hosts that execute it, read later."""
    hosts: list[str] = []
    """Hosts that it lists."""


class TasksUnderWay(msgspec.Struct, frozen=True):
    """Look at the tasks that some host executes, by statement."""

    tasks: dict[str, HostsOfTask] = {}


class ActiveTasks:
    """Judges the calls "active-tasks". A call that finds nobody executing a task fails."""

    name = "active-tasks"

    def lacking(self, ok: Mapping[str, int]) -> Sequence[str]:
        """Return what is lacking for a conclusion, given the number of ok calls by f: an execution
        takes moments, and on a busy machine the first looks may miss all of them."""
        return () if ok.get(ACTIVE) else (UNSEEN,)

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs a host that was seen executing a task."""
        found = Findings(self.name)
        seen: set[tuple[str, str]] = set()
        for _, end in history.answered(ACTIVE):
            for task, state in decode(end, TasksUnderWay).tasks.items():
                seen |= {(task, host) for host in state.active}
                _judge(found, history, task, state, end)
        return found.verdict(
            checked=len(seen),
            broken=found.tally,
            nothing=UNSEEN,
            held=f"{number(len(seen), 'execution')} seen under way, each on a host of the task",
            figures={"executions": len(seen)},
        )


def _judge(found: Findings, history: History, task: str, state: HostsOfTask, end: Op) -> None:
    at = f"at {seconds(end.time_ns)} (op #{end.index}){during(history, end.time_ns)}"
    for host in state.active:
        if host not in state.hosts:
            text = f"{host} executes {task}, which does not list it, {at}"
            found.add_anomaly("outsider", text, end)
        elif host in state.finished:
            text = f"{host} executes {task}, which it had finished, {at}"
            found.add_anomaly("again", text, end)

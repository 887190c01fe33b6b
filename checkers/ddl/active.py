"""Checks which hosts say that they execute a task of the DDL queue."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from checkers.conclusion import conclude, count_kinds, few_of_each_kind, summarize
from checkers.phrasing import during, number, seconds
from harness.core.history import History
from harness.core.op import Op
from harness.core.verdict import Anomaly, Verdict

ACTIVE = "active-tasks"
UNSEEN = "no host was seen executing a task"


class ActiveTasks:
    """Judges the calls "active-tasks": {"tasks": {statement: {"hosts": [hosts that the task lists],
    "finished": [hosts that had finished it], "active": [hosts that execute it, read later]}}}. A
    call that finds nobody executing a task fails.

    INVALID: a host that the task does not list executes it ("outsider"), or one that had finished
    it does ("again").
    """

    name = "active-tasks"

    def lacking(self, ok: Mapping[str, int]) -> Sequence[str]:
        """Return what is lacking for a conclusion, given the number of ok calls by f: an execution
        takes moments, and on a busy machine the first looks may miss all of them."""
        return () if ok.get(ACTIVE) else (UNSEEN,)

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs a host that was seen executing a task."""
        seen: set[tuple[str, str]] = set()
        broken: list[Anomaly] = []
        for _, end in history.answered(ACTIVE):
            for task, state in _tasks(end).items():
                seen |= {(task, host) for host in state["active"]}
                broken += _wrong(history, task, state, end)
        kinds = count_kinds(broken)
        summary = f"{number(len(seen), 'execution')} seen under way, each on a host of the task"
        return Verdict(
            checker=self.name,
            status=conclude(broken, checked=seen),
            summary=summarize(broken, [] if seen else [UNSEEN], summary),
            checked=len(seen),
            anomalies=few_of_each_kind(broken),
            figures={"executions": len(seen), "anomalies": {**kinds}},
        )


def _tasks(end: Op) -> dict[str, dict[str, list[str]]]:
    value: Any = end.value
    tasks = value.get("tasks") if isinstance(value, Mapping) else None
    return {
        str(task): {name: list(state.get(name) or ()) for name in ("hosts", "finished", "active")}
        for task, state in (tasks or {}).items()
    }


def _wrong(
    history: History, task: str, state: Mapping[str, list[str]], end: Op
) -> Iterable[Anomaly]:
    at = f"at {seconds(end.time_ns)} (op #{end.index}){during(history, end.time_ns)}"
    for host in state["active"]:
        kind = text = ""
        if host not in state["hosts"]:
            kind, text = "outsider", f"{host} executes {task}, which does not list it"
        elif host in state["finished"]:
            kind, text = "again", f"{host} executes {task}, which it had finished"
        if kind:
            yield Anomaly(kind=kind, text=f"{text}, {at}", ops=(end.index,), time_ns=end.time_ns)

"""Explains what hosts made of statements ON CLUSTER."""

import re
from collections.abc import Iterator
from typing import Final

from checkers.conclusion import mapping_of
from checkers.ddl.ddl import DONE, EFFECTS, REPLICATED, TASKS
from checkers.phrasing import seconds
from checkers.triage.columns import UNDONE, undone_columns
from checkers.triage.events import acknowledged_ns, kills
from checkers.triage.evidence import Evidence
from checkers.triage.repairs import Repair, add, answers_by_node, last_answer, put
from harness.core.history import History

_DONE_BEFORE: Final = re.compile(r"\b(already exists|doesn't exist|does not exist|Cannot find)\b")
"""Text of the error of a statement whose effect is there already."""
_COLUMN: Final = "r_"
"""Begin of the name of a column that a statement on the replicated table adds."""


def ddl_twice(history: History, _: Evidence) -> Iterator[Repair]:
    """Yield the statements that a host has executed, and finished with an error that says so; it
    was killed while they were under way, which each is until its client hears that every host has
    finished it."""
    final, effects = last_answer(history, TASKS), answers_by_node(history, EFFECTS)
    calls = {f"{pair.invoke.f}:{pair.invoke.value}": pair for pair in history.pairs}
    tasks = mapping_of(final).get("tasks") or {}
    statuses = ((task, *of_host) for task, of_task in tasks.items() for of_host in of_task.items())
    for task, host, status in statuses:
        has = host in effects and task in (mapping_of(effects[host]).get("effects") or ())
        if final is None or status == DONE or not has or task not in calls:
            continue
        call, killed = calls[task], kills(history).on(host)
        kill = killed.begun_within(call.invoke.time_ns, acknowledged_ns(call)).first
        if kill is not None and _DONE_BEFORE.search(status):
            why = (
                f"{host} was killed at {seconds(kill.begin_ns)}, after {task} was queued at "
                f"{seconds(call.invoke.time_ns)}, has its effect, and finished it with: "
                f"{status[:120]}"
            )
            yield Repair(final.index, "ddl-twice", why, put(DONE, "tasks", task, host))


def undone_task(history: History, _: Evidence) -> Iterator[Repair]:
    """Yield the columns of replicated tables whose ADD was undone, as by `undone_alter`."""
    final, effects = last_answer(history, TASKS), answers_by_node(history, EFFECTS)
    tasks = mapping_of(final).get("tasks") or {}
    for column, why in undone_columns(history) if effects else ():
        task = f"{REPLICATED}{column.removeprefix(_COLUMN)}"
        if column.startswith(_COLUMN) and task in tasks:
            yield Repair(effects[min(effects)].index, UNDONE, why, add([task], "effects"))

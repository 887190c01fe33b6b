"""Explains what hosts made of statements ON CLUSTER."""

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from checkers.conclusion import mapping_of
from checkers.ddl.ddl import DONE, EFFECTS, REPLICATED, TASKS
from checkers.phrasing import seconds
from checkers.triage.breaks import kills
from checkers.triage.columns import UNDONE, undone_columns
from checkers.triage.evidence import Evidence
from checkers.triage.repairs import Repair, answers_by_node, last_answer
from harness.core.history import Fault, History, Pair
from harness.core.op import Kind

TWICE: Final = "ddl-twice"
_DONE_BEFORE: Final = re.compile(r"\b(already exists|doesn't exist|does not exist|Cannot find)\b")
"""Text of the error of a statement whose effect is there already."""
_COLUMN: Final = "r_"
"""Begin of the name of a column that a statement on the replicated table adds."""


def task_repairs(history: History, _: Evidence) -> Iterator[Repair]:
    """Yield the second executions of statements, and the columns of replicated tables that were
    undone."""
    final = last_answer(history, TASKS)
    effects = answers_by_node(history, EFFECTS)
    if final is None or not effects:
        return
    tasks: Mapping[str, Mapping[str, str]] = mapping_of(final).get("tasks") or {}
    calls = {f"{p.invoke.f}:{p.invoke.value}": p for p in history.pairs}
    for task, statuses in tasks.items():
        for host, status in statuses.items():
            has = host in effects and task in (mapping_of(effects[host]).get("effects") or ())
            if status == DONE or not has or task not in calls:
                continue
            fault = _killed_meanwhile(history, host, calls[task])
            if fault is not None and _DONE_BEFORE.search(status):
                why = (
                    f"{host} was killed at {seconds(fault.begin_ns)}, after {task} was queued at "
                    f"{seconds(calls[task].invoke.time_ns)}, has its effect, and finished it with: "
                    f"{status[:120]}"
                )
                yield Repair(final.index, TWICE, why, partial(_done, task=task, host=host))
    first = effects[min(effects)]
    for column, why in undone_columns(history):
        task = f"{REPLICATED}{column.removeprefix(_COLUMN)}"
        if column.startswith(_COLUMN) and task in tasks:
            yield Repair(first.index, UNDONE, why, partial(_with_effect, task=task))


def _killed_meanwhile(history: History, host: str, call: Pair) -> Fault | None:
    """Return the fault that killed a host while a statement was under way, which it is until its
    client hears that every host has finished it."""
    end_ns = call.end.time_ns if call.end is not None and call.kind is Kind.OK else None
    return next(
        (
            fault
            for fault in kills(history, host)
            if fault.begin_ns > call.invoke.time_ns
            and (end_ns is None or fault.invoked_ns < end_ns)
        ),
        None,
    )


def _done(value: Mapping[str, Any], *, task: str, host: str) -> Mapping[str, Any]:
    statuses = {**value["tasks"][task], host: DONE}
    return {**value, "tasks": {**value["tasks"], task: statuses}}


def _with_effect(value: Mapping[str, Any], *, task: str) -> Mapping[str, Any]:
    return {**value, "effects": [*value["effects"], task]}

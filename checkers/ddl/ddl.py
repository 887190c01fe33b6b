"""Checks distributed DDL: what the queue says of each task, against the effects on the hosts.

Each statement ON CLUSTER fails when it is executed a second time. At rest the run reads from each
host the statements whose effect it has, and from ZooKeeper what each task came to on each host; a
task that lists no hosts is for all. A host that wrote the status 0 executed the task without an
error.

Violated, for a statement and a host:
unfinished             the task is in the queue, and the host never wrote that it finished
without-effect         the host finished it without an error, and does not have its effect
executed-twice         the host finished it with an error, and has its effect all the same
outsider               the task does not list the host, which finished it or has its effect
unacknowledged-effect  there is no such task, and the host has its effect
lost                   the statement was acknowledged, and the host does not have its effect

Doubtful: no read of the tasks, a host that did not show its effects, an empty queue, and what is
unfinished if the cluster was not at rest, because the host may only be slow.

Of a statement on a replicated table one host of a shard executes it. The others get the effect from
there, and may say that they could not execute it, so that an error is no second execution, and only
an effect that no host has is missing:
    alter-replicated:7 on ch1 → 0     on ch2 → "not leader"     both have its effect
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from checkers.conclusion import Findings, anomaly, unjudged
from checkers.look import decode
from checkers.phrasing import listed, number, seconds
from checkers.quiescence import quiescence_of
from harness.core.history import History, Pair
from harness.core.op import Kind
from harness.core.verdict import Anomaly, Verdict

EFFECTS, TASKS = "final-effects", "final-tasks"
REPLICATED = "alter-replicated:"
"""Prefix of a statement on a replicated table."""
DONE = "0"
"""Status of a task that a host executed without an error."""
UNFINISHED = "unfinished"


class EffectsOfHost(msgspec.Struct, frozen=True):
    """Look at the statements whose effect a host has."""

    effects: list[str]


class TaskResults(msgspec.Struct, frozen=True):
    """Look at the queue."""

    tasks: dict[str, dict[str, str]]
    """Status that each host wrote, by statement."""
    hosts: dict[str, list[str]] = {}
    """Hosts that the task of a statement lists; a task without any is for all."""


@dataclass(frozen=True, slots=True)
class WrongEffect:
    """A wrong effect of one statement on one host."""

    kind: str
    task: str
    host: str
    finding: str


class Ddl:
    """Checks statements ON CLUSTER by "final-effects" of each host, and "final-tasks"."""

    name = "ddl"

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs the tasks, and the effects on every host."""
        effects = _effects(history)
        results, hosts = _results(history), sorted(effects)
        calls = {_statement(p): p for p in history.pairs if _statement(p)}
        silent = _silent(history)
        if results is None or silent or not hosts:
            why = f"no final effects of {listed(silent)}" if silent else "no final tasks were read"
            return unjudged(self.name, why)
        tasks, listed_hosts = results.tasks, results.hosts
        wrong = [
            one
            for task in sorted({*tasks, *calls, *(t for own in effects.values() for t in own)})
            for host in hosts
            if (
                one := _judged(task, host, tasks.get(task), effects, calls.get(task))
                if host in (listed_hosts.get(task) or hosts)
                else _outsider(task, host, tasks.get(task), effects)
            )
        ]
        late = [] if quiescence_of(history).reached else [o for o in wrong if o.kind == UNFINISHED]
        found = Findings(self.name)
        for one in wrong:
            if one not in late:
                found.add_anomalies(one.kind, _witness(history, one, calls.get(one.task)))
        of = f" (of {number(len(tasks), 'task')} on {number(len(hosts), 'host')})"
        phrases = [f"{kind}: {count}" for kind, count in sorted(found.counts.items())]
        if late:
            phrases.append(f"not finished, and not at rest: {len(late)}")
            found.add_doubt(", ".join(phrases) + of)
        return found.verdict(
            checked=len(tasks) * len(hosts),
            broken=", ".join(phrases) + of,
            nothing="no task was queued",
            held=f"{number(len(tasks), 'task')} on {number(len(hosts), 'host')}: finished exactly "
            "where executed",
            figures={
                "tasks": len(tasks),
                "hosts": len(hosts),
                "acknowledged": sum(pair.kind is Kind.OK for pair in calls.values()),
                "late": len(late),
                "background": _background(calls, tasks, listed_hosts, hosts),
                "not_for_all": sum(len(some) < len(hosts) for some in listed_hosts.values()),
            },
        )


def _outsider(
    task: str,
    host: str,
    statuses: Mapping[str, str] | None,
    effects: Mapping[str, frozenset[str]],
) -> WrongEffect | None:
    """Return what a host did with a task that does not list it."""
    if statuses is not None and host in statuses:
        return WrongEffect("outsider", task, host, "finished it, and the task does not list it")
    if task in effects[host]:
        return WrongEffect("outsider", task, host, "has its effect, and the task does not list it")
    return None


def _background(
    calls: Mapping[str, Pair],
    tasks: Mapping[str, Mapping[str, str]],
    of_task: Mapping[str, Iterable[str]],
    hosts: Iterable[str],
) -> int:
    """Return how many statements whose client was not told of the end were finished without an
    error on every host."""
    return sum(
        pair.kind is Kind.INFO
        and task in tasks
        and all(tasks[task].get(host) == DONE for host in of_task.get(task) or hosts)
        for task, pair in calls.items()
    )


def _judged(
    task: str,
    host: str,
    statuses: Mapping[str, str] | None,
    effects: Mapping[str, frozenset[str]],
    call: Pair | None,
) -> WrongEffect | None:
    has = task in effects[host]
    shared = task.startswith(REPLICATED)
    anywhere = any(task in own for own in effects.values()) if shared else has
    if statuses is None:
        if has:
            return WrongEffect("unacknowledged-effect", task, host, "there is no such task")
        lost = call is not None and call.kind is Kind.OK
        return (
            WrongEffect("lost", task, host, "acknowledged, and there is no such task")
            if lost
            else None
        )
    status = statuses.get(host)
    if status is None:
        return WrongEffect(UNFINISHED, task, host, "in the queue, and never finished")
    if status == DONE and not anywhere:
        return WrongEffect("without-effect", task, host, "finished without an error")
    if status != DONE and has and not shared:
        return WrongEffect("executed-twice", task, host, f"finished with: {status[:200]}")
    if not has and call is not None and call.kind is Kind.OK:
        return WrongEffect("lost", task, host, f"acknowledged, and finished with: {status[:200]}")
    return None


def _statement(pair: Pair) -> str:
    """Return the statement's name, such as "alter:7"; "" for a call that is no statement."""
    invoke = pair.invoke
    is_one = not invoke.f.startswith("final-") and isinstance(invoke.value, int)
    return f"{invoke.f}:{invoke.value}" if is_one else ""


def _effects(history: History) -> dict[str, frozenset[str]]:
    return {
        str(end.node): frozenset(decode(end, EffectsOfHost).effects)
        for _, end in history.answered(EFFECTS)
    }


def _silent(history: History) -> list[str]:
    queried = {str(pair.invoke.node) for pair in history.calls(EFFECTS)}
    return sorted(queried - _effects(history).keys())


def _results(history: History) -> TaskResults | None:
    """Return the last read of the tasks; None if there was none."""
    reads = history.calls(TASKS, kinds=(Kind.OK,))
    end = reads[-1].end if reads else None
    return None if end is None else decode(end, TaskResults)


def _witness(history: History, one: WrongEffect, call: Pair | None) -> Iterator[Anomaly]:
    reads = history.calls(EFFECTS, TASKS, kinds=(Kind.OK,))
    shown = [p for p in reads if p.invoke.f == TASKS or p.invoke.node == one.host][-2:]
    steps: list[str] = []
    if call is not None:
        ended = "never ended" if call.end is None else f"ended {call.end.kind}"
        steps.append(
            f"op #{call.invoke.index} {one.task} on {call.invoke.node} began at "
            f"{seconds(call.invoke.time_ns)} and {ended}"
        )
    yield anomaly(
        one.kind,
        f"{one.task} on {one.host}: {one.finding}",
        *(p.end for p in shown),
        None if call is None else call.invoke,
        time_ns=call.invoke.time_ns if call is not None else 0,
        steps=steps,
    )

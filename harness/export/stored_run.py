"""A stored run as a scenario: its calls and faults as steps, in the order in which they began and
ended, and its gravest anomaly as the finding."""

from collections.abc import Iterator, Sequence
from typing import Final

from checkers.availability.answers import FINAL
from checkers.judge import judgement_of
from checkers.witness import gravest
from harness.core.history import History
from harness.core.op import NEMESIS, Call, Kind, Op
from harness.core.topology import Topology
from harness.export.errors import NotExportableError
from harness.generators.script import Do, Joined, Rest, ScriptStep
from harness.spec.workload_options import SCENARIO, scenario_of, workload_of
from harness.store.run_info import RunInfo
from harness.store.store import RunDirectory
from workloads.scenarios.scenario import Finding, Scenario

CALLS_MAX: Final = 1_000
"""Number of calls above which a run is no script that a person reads."""
PAUSE_NS: Final = 200_000_000
"""Gap between two events from which on the script rests as well. A call takes some tens of
milliseconds more in a shell."""
_ANY: Final = (Kind.OK, Kind.FAIL, Kind.INFO)


def scenario_of_run(directory: RunDirectory) -> Scenario:
    """Return what a run did as a scenario; that of a run of a scenario is that scenario. Raises
    NotExportableError for a run without an anomaly, and for one that a script cannot tell."""
    info = directory.info()
    workload = info.spec.workload
    if workload.startswith(SCENARIO):
        return scenario_of(workload.removeprefix(SCENARIO))
    judgement = judgement_of(directory.results())
    found = gravest(judgement)
    if found is None:
        raise NotExportableError(f"it is {judgement.status.value}; expected an INVALID run")
    verdict, anomaly = found
    history = directory.history()
    steps = tuple(steps_of_history(history))
    calls = [step for step in steps if isinstance(step, Do)]
    if len(calls) > CALLS_MAX:
        raise NotExportableError(
            f"it has {len(calls):,} calls, expected at most {CALLS_MAX:,}; shorten it by "
            "--time-limit or --rate, or shrink it"
        )
    shards, replicas = _shape(info)
    return Scenario(
        name=f"{workload}-{info.spec.seed}",
        text=f"{anomaly.kind} in run {directory.path.name}: {anomaly.text}",
        workload=workload_of(info.spec),
        steps=steps,
        finding=Finding(verdict.checker, anomaly.kind),
        nemesis=",".join(dict.fromkeys(c.call.f for c in calls if c.call.nemesis)) or "none",
        clients=1 + max((step.by for step in calls), default=0),
        quiesce_s=info.spec.quiesce_s,
        shards=shards,
        replicas=replicas,
        store=info.topology.has_store,
    )


def steps_of_history(history: History) -> Iterator[ScriptStep]:
    """Yield the steps of a history up to its heal or its final calls. Each call begins after those
    that had ended when it began, and may end as it likes. A fault is a step where it was seen.
    Raises NotExportableError for a fault that nobody saw."""
    before_ns = 0
    for op in history:
        if op.f.startswith(FINAL) or (op.process == NEMESIS and op.f == "heal"):
            return
        steps = _fault_steps(op) if op.process == NEMESIS else _call_steps(history, op)
        gap_ns = op.time_ns - before_ns
        if steps and isinstance(steps[0], Do) and gap_ns > PAUSE_NS:
            yield Rest(round(gap_ns / 1e9, 1))
        before_ns = op.time_ns
        yield from steps


def _call_steps(history: History, op: Op) -> Sequence[ScriptStep]:
    assert isinstance(op.process, int), "every other process is a client's"
    if op.kind is not Kind.INVOKE:
        return [Joined(op.process)]
    after = history[op.index + 1] if op.index + 1 < len(history) else None
    ends_next = after is not None and after.process == op.process
    call = Call(f=op.f, value=op.value, key=op.key, node=op.node)
    return [Do(call, op.process, _ANY, wait=ends_next)]


def _fault_steps(op: Op) -> Sequence[ScriptStep]:
    if op.kind is Kind.INVOKE or not isinstance(op.value, dict) or "edge" not in op.value:
        return ()
    if op.kind is not Kind.OK:
        raise NotExportableError(f"fault {op.f} #{op.index}: its effect was not seen ({op.error})")
    return [Do(Call(f=op.f, value=op.value, nemesis=True))]


def _shape(info: RunInfo) -> tuple[int, int]:
    """Return the numbers of shards and replicas. Raises NotExportableError for servers that are
    arranged otherwise than those of scenarios."""
    shards = info.topology.shards
    expected = Topology.of(
        shards=len(shards), replicas=len(shards[0]), store=bool(info.topology.stores)
    )
    if info.topology.unversioned != expected:
        raise NotExportableError(
            "its servers are arranged otherwise than three ZooKeeper servers, each with the "
            "replica of its number"
        )
    return len(shards), len(shards[0])

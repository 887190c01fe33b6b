"""Follows ZooKeeper's transactions of a run on the protocol's model while the run goes on."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final

from checkers.replication.conformance import CONFORMANCE, DEPARTURE, TRACE
from harness.conform.dating import LATE_MS, Dating, Progress
from harness.conform.follow import Follower, Trace
from harness.conform.protocol import DEPARTURES, protocol_of
from harness.conform.replay import Replayed, Step, Stopped
from harness.core.capabilities import CanPause
from harness.core.dialect import Mechanism
from harness.core.errors import ClusterError, HarnessError
from harness.core.op import Json, Written
from harness.core.protocols import Cluster
from harness.core.record_capabilities import DatesTransactions, GrowsTransactions
from harness.run.stop import Stop

INTERVAL_S: Final = 1.0
"""Interval between two looks at the logs."""


class Following:
    """The run's tables on the model."""

    def __init__(
        self,
        follower: Follower | None,
        unavailable: str = "",
        servers: Mapping[str, Json] | None = None,
    ) -> None:
        self._follower = follower
        self._servers = servers or {}
        """The versions of the servers, and the ZooKeeper servers of each replica."""
        self._unavailable = unavailable
        self._ended_traces: Mapping[str, Trace] = {}
        """What the tables' transactions said before the following ended with an error."""
        self._lock = threading.Lock()
        self._over = False
        self.departures = 0
        """Number of departures up to now."""
        self.covered = 0
        """Number of elements that were covered up to now (`harness.conform.coverage`)."""

    def look(self, *, last: bool = False) -> None:
        """Replay what the logs have gained; after `last` nothing more. An error ends the following,
        and is its result. Any thread may call this."""
        with self._lock:
            if self._follower is None or self._over:
                return
            self._over = last
            try:
                self.departures += len(self._follower.look(last=last))
                self.covered = self._follower.covered
            except HarnessError as error:
                self._ended(str(error))
            except Exception as error:  # a defect of the model must cost no run its history
                why = f"the model failed: {type(error).__name__}: {error}"
                self._follower, self._unavailable = None, why

    def _ended(self, why: str) -> None:
        """End the following; what the facts say up to now is kept."""
        assert self._follower is not None, "it was followed"
        for trace in self._follower.traces.values():
            trace.ended = trace.ended or why
        self._ended_traces = self._follower.traces
        self._follower, self._unavailable = None, why

    def found(self, now_ns: int) -> list[tuple[str, Mapping[str, Json]]]:
        """Return what was found, as names and values of ops; `now_ns` is the run's time."""
        zero_s = time.time() - now_ns / 1e9
        if self._follower is None:
            traces = [
                (TRACE, {**self._servers, **_trace(root, trace, zero_s), "gaps": [], "dates": {}})
                for root, trace in self._ended_traces.items()
            ]
            return [(CONFORMANCE, {"unavailable": self._unavailable}), *traces]
        results = self._follower.results()
        found = [
            (DEPARTURE, value)
            for result in results.values()
            for value in _departures(result, zero_s)
        ]
        tables: dict[str, Json] = {root: _table(result) for root, result in results.items()}
        gaps: list[Json] = [*self._follower.gaps]
        dates = _dates(self._follower.dating, zero_s)
        traces = [
            (TRACE, {**self._servers, **_trace(root, trace, zero_s), "gaps": gaps, "dates": dates})
            for root, trace in self._follower.traces.items()
        ]
        report: dict[str, Json] = {"tables": tables, "gaps": gaps}
        if not traces:  # which would say so
            report["versions"] = self._servers.get("versions")
        return [*found, (CONFORMANCE, report), *traces]


@contextmanager
def following(
    cluster: Cluster, token: str, looked: Callable[[Following], None]
) -> Iterator[Following | None]:
    """Follow the tables whose path has `token` while the block runs; None where servers keep no log
    of ZooKeeper's transactions. `looked` is called after each look at the logs."""
    dialect, keepers = cluster.engines.dialect, cluster.topology.keepers
    if not cluster.has(GrowsTransactions) or dialect.lacks((Mechanism.TRANSACTION_LOG,)):
        yield None
        return
    with _dating(cluster) as dating:
        try:
            servers = _servers(cluster)
            logs = cluster.part(GrowsTransactions)
            follower = Follower(logs, keepers, token, protocol_of(dialect), dating=dating)
            followed = Following(follower, servers=servers)
        except HarnessError as error:
            followed = Following(None, str(error))
        with _looking(followed, looked):
            yield followed


@contextmanager
def _looking(followed: Following, looked: Callable[[Following], None]) -> Iterator[None]:
    """Look at the logs at intervals while the block runs."""
    over = threading.Event()

    def follow() -> None:
        while not over.wait(INTERVAL_S):
            followed.look()
            looked(followed)

    thread = threading.Thread(target=follow, name="conformance", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def _dating(cluster: Cluster) -> Iterator[Dating | None]:
    """Follow how far ZooKeeper's servers are while the block runs; None where their dates are
    right."""
    dated = cluster.part(DatesTransactions) if cluster.has(DatesTransactions) else None
    if dated is None or not dated.dates_may_be_wrong():
        yield None
        return
    dating = Dating(time.time() * 1e3)
    with dated.following_progress(lambda *answer: dating.add(Progress(*answer))):
        yield dating


def _dates(dating: Dating | None, zero_s: float) -> Json:
    if dating is None:
        return {}
    dating.settle()
    return {
        "corrected": sum(abs(one.at_ms - one.dated_ms) > LATE_MS for one in dating.commits),
        "vague": [
            [round(since - zero_s * 1e3), round(until - zero_s * 1e3)]
            for since, until in dating.vague()
        ],
    }


def freeze(cluster: Cluster, stop: Stop) -> None:
    """Pause every server that runs, and request a stop of the run."""
    topology = cluster.topology
    stop.frozen = True
    for node in (*topology.replicas, *topology.keepers):
        with suppress(ClusterError):  # a fault may have killed it
            cluster.part(CanPause).pause([node])
    stop.request("a step that the model does not allow: the servers are paused")


def _servers(cluster: Cluster) -> Mapping[str, Json]:
    topology = cluster.topology
    return {
        "versions": [str(version) for version in cluster.engines.dialect.versions],
        "keepers": {node: [*topology.node(node).keepers] for node in topology.replicas},
    }


def _trace(root: str, trace: Trace, zero_s: float) -> Mapping[str, Json]:
    zero_ms = round(zero_s * 1e3)
    facts = [[name, round(at.at_ms) - zero_ms, *rest] for at, (name, _, *rest) in trace.facts]
    return {"table": root, "facts": Written(json.dumps(facts)), "ended": trace.ended}


def _table(result: Replayed) -> Json:
    stopped = result.stopped
    return {
        "steps": result.steps,
        "actions": dict(result.actions),
        "elements": list(result.elements),
        "departures": dict(result.departures),
        "stopped": None if stopped is None else stopped.why,
        "unmodelled": stopped is not None and stopped.unmodelled,
        "digest": result.digest,
    }


def _departures(result: Replayed, zero_s: float) -> Iterator[Mapping[str, Json]]:
    for step in result.departed:
        for kind in sorted({action.split(" ")[0] for action in step.actions} & DEPARTURES.keys()):
            known = DEPARTURES[kind]
            yield _departure(result.root, step, kind, known.text, known.allowed, zero_s)
    stopped: Stopped | None = result.stopped
    if stopped is not None and not stopped.unmodelled:
        text = "does what the model does not allow"
        yield _departure(result.root, stopped.step, "", text, f"not this: {stopped.why}", zero_s)


def _departure(
    root: str, step: Step, kind: str, text: str, allowed: str, zero_s: float
) -> Mapping[str, Json]:
    named = [action.split(" ") for action in step.actions]
    own = [words[1] for words in named if len(words) > 1 and kind in ("", words[0])]
    return {
        "table": root,
        "step": [*step.actions],
        "zxid": f"{step.zxid:#x}",
        "time_s": round(step.time_ms / 1e3 - zero_s, 3),
        "replica": own[-1] if own else "",
        "kind": kind,
        "text": text,
        "allowed": allowed,
    }

"""Judges and stores a history that no run of the harness recorded, such as a model's counterexample
or an audit: it is listed, shown and judged again like a run."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from checkers.judge import Judgement, judge
from harness.core.engines import Engines
from harness.core.history import History
from harness.core.protocols import Cluster
from harness.core.topology import Topology
from harness.spec.run_spec import RunSpec
from harness.spec.workload_options import workload_of
from harness.store.journal import Journal
from harness.store.store import RunDirectory, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Servers of a history, or the model that stands for them."""

    topology: Topology
    engines: Engines
    versions: Mapping[str, str]
    """Version of each node."""


def origin_of(cluster: Cluster) -> Origin:
    """Return the servers of a cluster that runs."""
    return Origin(topology=cluster.topology, engines=cluster.engines, versions=cluster.versions())


@dataclass(frozen=True, slots=True)
class StoredHistory:
    """A history that was judged and stored."""

    directory: RunDirectory
    judgement: Judgement
    troubles: tuple[str, ...]


def store_history(
    store: Store,
    spec: RunSpec,
    change: str,
    history: History,
    origin: Origin,
    zero: datetime | None = None,
    *,
    explain: bool = False,
) -> StoredHistory:
    """Judge a history by the checkers of its workload, and store it. `change` stands in the
    directory's name where a run has its nemesis; `zero` is the date of time 0 of the history in
    UTC, None on virtual time. `explain` is as in `judge`. Raises HarnessError."""
    directory = store.create(spec.workload, change, spec.seed)
    directory.begin(spec, origin.engines, origin.topology, origin.versions)
    if zero is not None:
        directory.began(zero)
    journal = Journal(directory.journal)
    for op in history:
        journal.append(op)
    journal.close()
    checkers = workload_of(spec).checkers()
    judgement = judge(history, checkers, spec.check_s, spec.promise, explain=explain)
    return StoredHistory(directory, judgement, directory.finish(judgement, history=history))

"""A store with sound, broken and hostile runs, and a checker that kills its process."""

import json
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from checkers_cases import Event, final, history, insert, read, rest
from msgspec import structs

from checkers.consistency.linearizable import Linearizable
from harness.core.engines import Engines
from harness.core.history import History
from harness.core.lines import encoded
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.core.verdict import Verdict
from harness.fleet.location import Location
from harness.fleet.plan import Item
from harness.fleet.stored_runs import StoredRuns
from harness.fleet.task import Job, JudgeRequest, write_task
from harness.spec.run_spec import RunSpec
from harness.spec.workload_options import workload_of
from harness.store.parquet import write_parquet
from harness.store.store import RunDirectory, Store

SPEC = RunSpec(
    workload="quorum-set",
    nemesis="none",
    seed=Seed(1),
    command="harness run",
    promise="linearizable",
    check_s=20.0,
)


def sound(keys: int = 1) -> History:
    """Return a valid history with 20 inserts and 20 reads of each key at three replicas."""
    calls = [rest(5_000, ch1={}, ch2={}, ch3={})]
    for key in range(keys):
        for value in range(20):
            at = 100 * value + key
            calls.append(
                insert(10 * key + value % 3, value, at, at + 20, node=f"ch{value % 3 + 1}", key=key)
            )
            calls.append(
                read(10 * key + 3, range(value + 1), at + 30, at + 40, node="ch2", key=key)
            )
        for node in (1, 2, 3):
            for turn in (0, 1):
                at = 6_000 + 1_000 * key + 100 * node + 10 * turn
                calls.append(final(1000 + key, range(20), at, at + 5, node=f"ch{node}", key=key))
    return history(*calls)


def stale() -> History:
    """Return a history in which a read misses a value that was acknowledged before it began."""
    return history(*_calls_of(sound()), read(5000, range(5), 4_000, 4_010, node="ch3"))


def _calls_of(h: History) -> list[list[object]]:
    fields = ("process", "kind", "f", "value", "key", "node", "error")
    return [[Event(op.time_ns, {name: getattr(op, name) for name in fields})] for op in h]


def run(
    store: Path, nemesis: str, seed: int, h: History, *, journal: bool = False, columns: bool = True
) -> RunDirectory:
    """Return a run that ended and has no verdict."""
    spec = structs.replace(SPEC, nemesis=nemesis, seed=Seed(seed))
    directory = Store(store).create(spec.workload, spec.nemesis, spec.seed)
    directory.begin(structs.replace(spec, nemesis="none"), Engines(), Topology.of(), {})
    lines = b"".join(encoded(op) for op in h)
    if journal:
        directory.journal.write_bytes(lines)
    if columns and journal:
        directory.parquet(h)
    elif columns:
        write_parquet(h, directory.parquet_file)
    return directory


def changed(run: RunDirectory, **fields: object) -> None:
    """Write other fields into run.json, and among its options."""
    info = json.loads(run.info_file.read_text())
    options = {key: fields.pop(key) for key in list(fields) if key in RunSpec.__struct_fields__}
    run.info_file.write_text(json.dumps({**info, **fields, "spec": {**info["spec"], **options}}))


def in_process(job: Job, items: Sequence[Item]) -> list[Location]:
    """Judge all items in one task of this process."""
    return [write_task(job, items, isolated=False)]


class Killer:
    """A checker that the kernel ends, as it ends what takes too much memory."""

    name = "killer"

    def check(self, history: History) -> Verdict:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("dead")


@dataclass(frozen=True, slots=True)
class Poisoned(StoredRuns):
    """The runs of one seed have a checker that kills."""

    seed: str = ""

    def request(self, run: Path) -> JudgeRequest:
        request = StoredRuns.request(self, run)
        if request.seed != self.seed:
            return request
        return replace(request, checkers=[Linearizable("linearizable"), Killer()])


def poisoned(seed: int) -> Poisoned:
    return Poisoned(workload_of, seed=str(Seed(seed)))

"""What simulated runs of a night's cells reach: moments at which runs on real servers can be aimed.

A steered night begins with one simulated run of each cell that can be simulated, in an order drawn
from its seed, for SECONDS at most. Simulated ZooKeeper servers write the log that real ones do, so
it is replayed on the same model, and its elements have the names of `harness.conform.coverage`.
They are in the night's directory, so that a night that was killed goes on with the same ones.
"""

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from msgspec import structs

from harness.conform.ensemble import merged, read_packed
from harness.conform.protocol import protocol_of
from harness.conform.replay import replay, tables
from harness.core.bounded_json import load
from harness.core.dialect import Dialect, Mechanism
from harness.core.errors import HarnessError
from harness.core.record_capabilities import KeepsTransactions
from harness.core.seed import Seed
from harness.run.phases import record
from harness.run.run_context import RunContext
from harness.run.run_request import RunRequest
from harness.run.stop import Stop
from harness.sim.bugs import NEWEST
from harness.spec.option import On
from harness.spec.run_options import OPTIONS, option_values, with_options
from harness.spec.run_spec import RunSpec
from harness.store.disk import why_unwritable

Foreseen: TypeAlias = Mapping[str, Sequence[str]]
"""By element: the names of the cells whose simulated runs covered it."""
SECONDS: Final = 60.0
"""Time after which no simulated run begins."""
FILE: Final = "foreseen.json"


def foreseen_in(directory: Path) -> Foreseen | None:
    """Return what was foreseen for a night; None if nothing was stored. Raises HarnessError."""
    file = directory / FILE
    try:
        found: Foreseen = load(file)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise HarnessError(f"{file}: cannot be read: {error}") from error
    return found


def foresee(
    cells: Sequence[tuple[str, RunSpec, Dialect | None]], seed: Seed, directory: Path, stop: Stop
) -> Foreseen:
    """Simulate a run of each cell, given its name, its options and its servers, and store and
    return what they cover. Raises HarnessError."""
    end_s = time.monotonic() + SECONDS
    found: dict[str, list[str]] = {}
    order = sorted(range(len(cells)), key=lambda at: seed.child("foreseen").unit(at))
    for name, spec, dialect in (cells[at] for at in order):
        if stop or time.monotonic() > end_s:
            break
        for element in simulated_elements(spec, dialect, stop):
            found.setdefault(element, []).append(name)
    ordered = {element: sorted(names) for element, names in sorted(found.items())}
    file = directory / FILE
    try:
        file.write_text(json.dumps(ordered, indent=1) + "\n")
    except OSError as error:
        raise HarnessError(f"{file}: cannot be written: {why_unwritable(file, error)}") from error
    return ordered


def simulated_elements(spec: RunSpec, dialect: Dialect | None, stop: Stop) -> Sequence[str]:
    """Return the elements that a run of these options covers if its servers are simulated; () if
    they cannot be, or if the run does not come to its end."""
    given = {
        name: value
        for name, value in option_values(spec, beyond=RunSpec(seed=spec.seed)).items()
        if On.SIMULATED in OPTIONS[name].option.on
    }
    own = {"protocol": NEWEST} if _is_of_today(dialect) else {}
    try:
        options = with_options(RunSpec(), {**own, **given, "cluster": "sim"})
        request = RunRequest(structs.replace(options, seed=spec.seed))
        cluster = request.simulated_cluster(request.spec(spec.seed), lambda _: None)
        context = RunContext.of(request.spec(spec.seed), cluster, stop=stop)
        try:
            cluster.up()
            record(context)
            logs = cluster.part(KeepsTransactions).transactions()
        finally:
            cluster.down()
        txns = merged(
            [read_packed(log, node) for node, log in logs.items()], len(cluster.topology.keepers)
        ).txns
    except HarnessError:
        return ()
    protocol = protocol_of(cluster.engines.dialect)
    covered = (replay(root, txns, protocol).elements for root in tables(txns))
    return sorted({element for elements in covered for element in elements})


def _is_of_today(dialect: Dialect | None) -> bool:
    """Return whether servers have quorums side by side, as the newest simulated ones do."""
    return dialect is not None and not dialect.lacks((Mechanism.PARALLEL_QUORUM,))

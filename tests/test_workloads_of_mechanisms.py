"""DDL, reloads, availability and Distributed tables on real servers: a short run of each, and what
they refuse."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from test_workloads_on_servers import judged, verdicts_of

from harness.clusters.docker_cluster import DockerCluster
from harness.core.errors import UsageError
from harness.core.topology import Topology
from harness.core.verdict import Status
from workloads.availability import AvailabilityOptions
from workloads.config_reload import ConfigReloadOptions
from workloads.ddl import DdlOptions
from workloads.distributed import DistributedOptions


@pytest.mark.containers
@pytest.mark.parametrize(
    ("workload", "words", "seconds", "checker"),
    [
        ("config-reload", ["broken=true"], 10, "reload"),
        ("ddl", [], 6, "ddl"),
        ("availability", [], 5, "availability"),
    ],
)
def test_what_they_promise_holds_without_faults(
    servers: DockerCluster,
    tmp_path: Path,
    workload: str,
    words: list[str],
    seconds: float,
    checker: str,
) -> None:
    judgement, _ = judged(servers, tmp_path, workload, *words, seconds=seconds)
    not_valid = [(v.checker, v.summary) for v in judgement.verdicts if v.status is not Status.VALID]
    assert judgement.status is Status.VALID, not_valid
    assert verdicts_of(judgement)[checker].checked


@pytest.mark.containers
def test_rows_go_to_their_shards_but_not_at_once_where_an_insert_does_not_wait(
    tmp_path: Path,
) -> None:
    """The control of synchronous inserts: what is right at rest was not there at first."""
    command = [
        sys.executable, "-m", "harness.cli.main", "run", "--store", str(tmp_path), "--json",
        "--workload", "distributed", "--shards", "2", "--replicas", "2", "--keepers", "1",
        "--option", "internal-replication=false", "--option", "table=plain",
        "--option", "judge-sync=true", "--time-limit", "4", "--seed", "1",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    verdict = next(v for v in report["verdicts"] if v["checker"] == "distributed")
    assert (done.returncode, verdict["status"]) == (1, "INVALID"), report
    assert set(verdict["figures"]["anomalies"]) == {"not-placed"}
    assert verdict["checked"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            AvailabilityOptions(calls_per_s=0),
            "calls-per-s 0: expected a number of operations a second from 0.001",
        ),
        (
            ConfigReloadOptions(reads_per_s=-1),
            "reads-per-s -1: expected a number of operations a second from",
        ),
        (DdlOptions(statements=0), "statements 0: expected a whole number from 1 to 1,000"),
        (DdlOptions(engine="lazy"), "engine 'lazy': expected plain or replicated"),
        (DdlOptions(task_timeout_s=20), "timeout-s 15: expected more than task-timeout-s 20"),
        (DistributedOptions(table="log"), "table 'log': expected replicated or plain"),
        (DistributedOptions(), "one shard given, expected --shards 2 or more"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(options: Any, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        options.validate(Topology.of())
    assert says in str(caught.value)

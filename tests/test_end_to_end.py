"""The command itself, on real servers: what a user sees, and what is left afterwards."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from real_servers import left, wait_until

from compose.releases import DEFAULT_CLICKHOUSE, DEFAULT_ZOOKEEPER, clickhouse_release
from harness.clusters.replica import query_value
from harness.core.history import History
from harness.core.op import Kind
from harness.core.protocols import Endpoint
from harness.store.journal import read_history
from harness.store.parquet import read_parquet
from harness.store.store import RunDirectory, Store

pytestmark = pytest.mark.containers

HARNESS = [sys.executable, "-m", "harness.cli.main"]
PLAIN = ["--insert", "plain", "--read", "plain", "--nodes", "ch1"]
PACED = ["--rate", "40", "--extend", "40"]
"""Options of runs that need few calls, which take all the CPU time there is without a rate, and too
much time for enough of them on a loaded machine."""
SMALL = ["--replicas", "2", "--keepers", "1", *PACED]
"""Options of a cluster of three servers, for tests that need no six."""


def begun(store: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*HARNESS, "run", "--store", str(store), "--json", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
        start_new_session=True,
    )


def ended(process: subprocess.Popen[str], within_s: float = 400) -> tuple[int, Any, str]:
    """Exit status, what was printed as JSON, standard error."""
    try:
        out, err = process.communicate(timeout=within_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    return process.returncode, json.loads(out) if out.strip() else None, err


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*HARNESS, *arguments], capture_output=True, text=True, timeout=300, check=False
    )


def containers(cluster: str) -> list[str]:
    """Return the identities of a cluster's containers."""
    argv = ("docker", "ps", "-aq", "--no-trunc", "--filter", f"label=harness.run={cluster}")
    return sorted(subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split())


def mark_lost(cluster: str) -> None:
    """Mark ch1 as lost, as soon as it is an active replica of a run's table."""
    argv = ("docker", "port", f"{cluster}-zk1-pod", "2181/tcp")
    port = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()[0]
    zookeeper = KazooClient(hosts=port)
    zookeeper.start(timeout=60)

    def active() -> list[str]:
        runs = zookeeper.get_children("/harness") if zookeeper.exists("/harness") else ()
        replicas = (f"/harness/{run}/1/replicas/ch1" for run in runs)
        return [path for path in replicas if zookeeper.exists(f"{path}/is_active")]

    wait_until(lambda: bool(active()), "ch1 is an active replica")
    zookeeper.set(f"{active()[0]}/is_lost", b"1")
    zookeeper.stop()
    zookeeper.close()


def has_op(store: Path, text: str) -> bool:
    """Return whether the latest run's journal has an op with this text."""
    journal = store / "latest" / "history.jsonl"
    return journal.exists() and text in journal.read_text()


def await_fault(process: subprocess.Popen[str], store: Path) -> None:
    """Return once the journal of the latest run, that of `process`, has a fault in force."""
    in_fault = '"kind":"ok","f":"partition"'
    wait_until(lambda: has_op(store, in_fault), "a fault", during=process)


def latest(store: Path) -> RunDirectory:
    return Store(store).find("latest")


def conforming(run: RunDirectory) -> dict[str, int]:
    """Return the numbers of steps of the run's only table, which conforms."""
    outcome = command("conform", str(run.path), "--json")
    found = json.loads(outcome.stdout)
    assert (outcome.returncode, found["status"]) == (0, "VALID"), found
    (table,) = found["tables"]
    return dict(table["actions"])


def nemesis_ops(history: History) -> list[tuple[str, Kind]]:
    return [(op.f, op.kind) for op in history.nemesis]


@pytest.mark.parametrize("version", [DEFAULT_CLICKHOUSE, "24.8", "18.16"])
def test_a_single_replica_without_faults_is_valid_and_two_runs_share_a_cluster(
    tmp_path: Path, version: str
) -> None:
    spec = ["--time-limit", "5", "--count", "2", "--seed", "1", "--clickhouse", version]
    status, reports, errors = ended(begun(tmp_path, *spec, *PLAIN, *SMALL))
    assert (status, [r["status"] for r in reports]) == (0, ["VALID", "VALID"]), errors
    assert [r["ladder"]["held"] for r in reports] == ["linearizable"] * 2
    assert left(tmp_path) == []
    for run in Store(tmp_path).runs():
        history = read_history(run.journal)
        assert list(read_parquet(run.parquet_file)) == list(history)
        reads = {p.invoke.node for p in history.pairs if p.invoke.f == "read"}
        finals = {p.invoke.node for p in history.pairs if p.invoke.f == "final-read"}
        assert (reads, finals) == ({"ch1"}, {"ch1", "ch2"})
        assert (run.path / "compose.yml").is_file()
        versions = run.info().versions
        assert versions.keys() == {"ch1", "ch2", "zk1"}
        assert versions["ch1"] == clickhouse_release(version).version
        assert all(any((run.logs / node).iterdir()) for node in versions)
        assert run.info().spec.command == (
            "harness run --time-limit 5 --extend 40 --rate 40 --insert plain --read plain "
            f"--nodes ch1 --replicas 2 --keepers 1 --clickhouse {version} "
            f"--zookeeper {DEFAULT_ZOOKEEPER} --seed {run.info().spec.seed}"
        )
        assert conforming(run)["Insert"] > 0
    asked = next(pair for pair in history.pairs if pair.invoke.f == "insert")
    shown = command("report", str(run.path), "--op", str(asked.invoke.index)).stdout
    (name,) = re.findall("-- query_id (.*)", shown)
    assert name.endswith(f"-{asked.invoke.index}")
    assert f"VALUES ({asked.invoke.key}, {asked.invoke.value});" in shown
    assert f"{{{name}}} <Debug> executeQuery" in shown


def test_faults_take_effect_end_and_leave_nothing(tmp_path: Path) -> None:
    nemesis = "partition-keeper-follower,pause-zookeeper-one"
    status, report, errors = ended(
        begun(
            tmp_path,
            "--nemesis",
            nemesis,
            "--time-limit",
            "14",
            "--seed",
            "3",
            "--interval",
            "1",
            "--duration",
            "3",
            *PACED,
        )
    )
    assert status == {"VALID": 0, "INVALID": 1, "UNKNOWN": 2}[report["status"]], errors
    assert left(tmp_path) == []
    history = read_history(latest(tmp_path).journal)
    names = {fault.name for fault in history.faults}
    assert names == {"partition-keeper-follower", "pause-zookeeper-one"}
    assert all(fault.end_ns is not None for fault in history.faults)
    assert [one for one in nemesis_ops(history) if one[0] != "departure"][-12:] == [
        (f, kind)
        for f in ("heal", "quiesce", "conformance", "trace", "health", "trees")
        for kind in (Kind.INVOKE, Kind.OK)
    ]
    # Judging again comes to the same, and says so by its exit status.
    again = command("check", str(latest(tmp_path).path), "--json")
    assert (again.returncode, json.loads(again.stdout)["status"]) == (status, report["status"])
    # What it did in ZooKeeper is a behaviour of the model, but for the server's known defect.
    found = json.loads(command("conform", str(latest(tmp_path).path), "--json").stdout)
    (table,) = found["tables"]
    assert table["actions"]["QuorumInsert"] > 0
    assert table["stopped"] is None, found


def test_a_wish_to_stop_in_the_middle_of_a_partition_heals_saves_and_leaves_nothing(
    tmp_path: Path,
) -> None:
    forever = ["--time-limit", "60", "--duration", "60"]
    process = begun(tmp_path, "--nemesis", "partition", *forever, *SMALL)
    await_fault(process, tmp_path)
    process.send_signal(signal.SIGINT)
    status, report, errors = ended(process)
    assert status in (1, 2), errors
    assert report["status"] in ("INVALID", "UNKNOWN"), "convergence was not seen"
    assert left(tmp_path) == []
    assert latest(tmp_path).info().state == "finished"
    assert ("heal", Kind.OK) in nemesis_ops(read_history(latest(tmp_path).journal))


def test_a_wish_to_stop_while_servers_start_leaves_nothing(tmp_path: Path) -> None:
    process = begun(tmp_path, "--time-limit", "60")
    wait_until(lambda: len(left(tmp_path)) > 3, "servers start", during=process)
    process.send_signal(signal.SIGTERM)
    status, _, _ = ended(process)
    assert status == 255
    assert left(tmp_path) == []


@pytest.mark.usefixtures("orphans")
def test_a_kept_cluster_is_used_again_spared_and_at_last_removed(tmp_path: Path) -> None:
    quick = ["--time-limit", "5", "--seed", "1", *PLAIN, *SMALL]
    status, _, errors = ended(begun(tmp_path, "--keep-cluster", *quick))
    assert status == 0, errors
    (cluster,) = (path.name for path in (tmp_path / "clusters").iterdir())
    kept = containers(cluster)
    assert kept != []
    (port,) = re.findall(r"ch1 .*clickhouse client --host 127\.0\.0\.1 --port (\d+)", errors)
    assert query_value(Endpoint("127.0.0.1", int(port)), "SELECT hostName()", str) == "ch1"
    assert command("clean").returncode == 0
    assert containers(cluster) == kept
    status, report, errors = ended(begun(tmp_path, "--reuse", cluster, *quick))
    assert (status, report["status"]) == (0, "VALID"), errors
    assert containers(cluster) == kept
    reuse = ["--reuse", cluster, *SMALL]
    stopped = begun(tmp_path, *reuse, "--stop-at-departure", "--time-limit", "300")
    mark_lost(cluster)  # an active replica is never marked lost
    _, report, errors = ended(stopped)
    (departure,) = next(v for v in report["verdicts"] if v["checker"] == "conformance")["anomalies"]
    assert departure["steps"][1] == "the model allows: not this: ch1 is active and is marked lost"
    states = subprocess.run(
        ["docker", "exec", f"{cluster}-ch2-pod", "ps", "-eo", "stat,comm"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert [line[0] for line in states.splitlines() if "clickhouse" in line] == ["T"], states
    assert json.loads(command("clean", cluster, "--json").stdout)["removed"] != []
    assert left(tmp_path) == []


def test_two_runs_side_by_side_do_not_disturb_each_other(tmp_path: Path) -> None:
    stores = [tmp_path / "a", tmp_path / "b"]
    spec = ["--time-limit", "5", "--seed", "1", *PLAIN, *SMALL]
    processes = [begun(store, *spec) for store in stores]
    outcomes = [ended(process) for process in processes]
    assert [(status, report["status"]) for status, report, _ in outcomes] == [(0, "VALID")] * 2
    assert left(tmp_path) == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--nemesis", "partitoin"], "did you mean partition"),
        (["--quorum", "7"], "--quorum 7: expected 2 to 3"),
        (
            ["--nodes", "ch9"],
            "--nodes 'ch9': did you mean ch3 or ch2 or ch1? expected some of ch1,ch2,ch3",
        ),
        (["--seed", "abc"], "'abc': expected a number, such as 7 or 0x5eed"),
        (["--keeper-route", "ch1=zk9"], "keeper route 'ch1=zk9'"),
        (["--nemesis", "kill-leader", "--keepers", "0"], "--keepers"),
        (["--reuse", "harness-nope"], "no cluster was kept there"),
    ],
)
def test_what_cannot_be_used_is_refused_before_anything_starts(
    tmp_path: Path, arguments: list[str], says: str
) -> None:
    status, report, _ = ended(begun(tmp_path, *arguments))
    assert status == 254
    assert says in report["error"]
    assert not list(tmp_path.iterdir()), "nothing was made"

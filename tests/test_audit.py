"""Audits of tables that somebody else wrote to: what servers' logs show of inserts."""

import json
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from checkers_cases import history
from real_servers import THREE, left, wait_until
from test_external_cluster import described

from checkers.replication.audited import LOGGED, Audited
from harness.clients.clickhouse import connect
from harness.clients.replicated_table import ReplicatedTable, TableSchema
from harness.clusters.docker_cluster import DockerCluster
from harness.clusters.replica import execute, query_value
from harness.conform.ensemble import BYTES_MAX, read_directory
from harness.core.capabilities import CanConfigure, CanKill, CanRestart
from harness.core.clock import utc_now
from harness.core.errors import HarnessError
from harness.core.history import History
from harness.core.op import NEMESIS, Json, Kind, Op
from harness.core.record_capabilities import KeepsTransactions
from harness.core.verdict import Status
from harness.store.store import RunDirectory

SECOND = 1_000_000_000
BOTH = {"ch1": {"0_0_0_0": [2, "a"]}, "ch2": {"0_0_0_0": [2, "a"]}}
MADE = [[1 * SECOND, "ch1", "0_0_0_0", 2], [2 * SECOND, "ch2", "0_0_0_0", 2]]


def audited(
    *parts: str,
    quorum: int = 0,
    kind: Kind = Kind.OK,
    log: Mapping[str, Json] | None = None,
    **said: Any,
) -> History:
    """Return the history of one insert on ch1, from 0.5 s to 3 s, with the op `audit`, and with the
    facts of ZooKeeper's log, whose clock is that of the history."""
    ended: dict[str, Json] | None = {"parts": [*parts], "quorum": quorum}
    value = {
        "created": MADE,
        "active": BOTH,
        "failed": [],
        "removals": [],
        "plain": True,
        "silent": [],
        "clock_error_ns": SECOND // 2,
        "zero_ms": 0,
        **said,
    }
    more: Mapping[str, Any] = {"process": 0, "f": LOGGED, "node": "ch1"}
    own: Mapping[str, Any] = {"process": NEMESIS, "f": "audit", "time_ns": 4 * SECOND}
    read: Mapping[str, Any] = {"process": 1, "f": "transactions", "time_ns": 4 * SECOND}
    ops = [
        Op(index=0, kind=Kind.INVOKE, time_ns=SECOND // 2, **more),
        Op(index=1, kind=kind, time_ns=3 * SECOND, value=ended, **more),
        Op(index=2, kind=Kind.INVOKE, **own),
        Op(index=3, kind=Kind.OK, value=value, **own),
    ]
    if log is not None:
        ops += [Op(index=4, kind=Kind.INVOKE, **read), Op(index=5, kind=Kind.OK, value=log, **read)]
    return History(ops)


def facts(*own: list[Json], gaps: Sequence[str] = ()) -> Mapping[str, Json]:
    """Return what ZooKeeper's log says of a table."""
    return {"facts": [*own], "gaps": [*gaps]}


BEGIN: list[Json] = ["begin", 10, "0_0_0_0", 2]
FIRST: list[Json] = ["hold", 10, "0_0_0_0", "ch1", 1_000]
SECOND_HOLDS: list[Json] = ["hold", 11, "0_0_0_0", "ch2", 2_000]
SECOND_MERGED: list[Json] = ["hold", 11, "0_0_5_1", "ch2", 2_000]
END: list[Json] = ["end", 12, "0_0_0_0"]
DROP: list[Json] = ["drop", 11, "0_0_0_0", "ch1", 2_500]
LAST: list[list[Json]] = [["last", 12, "0", "0_3_3_0"], ["last", 13, "0", "0_2_2_0"]]


MERGED = {"ch1": {"0_0_5_1": [9, "b"]}, "ch2": {"0_0_5_1": [9, "b"]}}
LATE = [MADE[0], [int(3.4 * SECOND), "ch2", "0_0_0_0", 2]]
LATER = [MADE[0], [int(3.6 * SECOND), "ch2", "0_0_0_0", 2]]
VIA_MERGE = [MADE[0], [2 * SECOND, "ch2", "0_0_5_1", 9]]


@pytest.mark.parametrize(
    ("found", "status", "kinds"),
    [
        (audited("0_0_0_0", quorum=2), Status.VALID, []),
        (audited("0_0_0_0", active=MERGED), Status.VALID, []),
        (audited("0_0_0_0", active={"ch1": BOTH["ch1"], "ch2": {}}), Status.VALID, []),
        (audited("0_0_0_0", active={"ch1": {}, "ch2": {}}), Status.INVALID, ["gone"]),
        (
            audited("0_0_0_0", active={"ch1": {"0_0_5_1": [1, "b"]}, "ch2": {}}),
            Status.INVALID,
            ["missing-rows"],
        ),
        (
            audited("0_0_0_0", active={"ch1": {"0_0_5_1": [1, "b"]}, "ch2": {}}, plain=False),
            Status.VALID,
            [],
        ),
        (
            audited("0_0_0_0", active={"ch1": {}, "ch2": {}}, removals=["Alter on ch1 at 12:00"]),
            Status.UNKNOWN,
            [],
        ),
        (audited("0_0_0_0", failed=["0_0_0_0"]), Status.INVALID, ["failed"]),
        (audited("0_0_0_0", quorum=2, created=LATE), Status.VALID, []),
        (audited("0_0_0_0", quorum=2, created=LATER), Status.INVALID, ["acknowledged-early"]),
        (audited("0_0_0_0", quorum=2, created=VIA_MERGE), Status.VALID, []),
        (audited("0_0_0_0", quorum=2, created=LATER, silent=["ch2"]), Status.UNKNOWN, []),
        (
            audited("0_0_0_0", active={**BOTH, "ch3": {"0_0_0_0": [2, "z"]}}),
            Status.INVALID,
            ["diverged"],
        ),
        (audited(), Status.UNKNOWN, []),
        (audited("odd"), Status.UNKNOWN, []),
        (audited("0_0_0_0", kind=Kind.INFO, active={"ch1": {}}), Status.UNKNOWN, []),
        (history(), Status.UNKNOWN, []),
        (
            audited("0_0_0_0", quorum=2, log=facts(BEGIN, FIRST, SECOND_HOLDS, END)),
            Status.VALID,
            [],
        ),
        (
            audited("0_0_0_0", quorum=2, log=facts(BEGIN, FIRST, SECOND_MERGED, END)),
            Status.VALID,
            [],
        ),
        (
            audited("0_0_0_0", quorum=2, log=facts(BEGIN, FIRST, END)),
            Status.INVALID,
            ["acknowledged-early"],
        ),
        (
            audited("0_0_0_0", quorum=2, log=facts(BEGIN, FIRST, DROP, SECOND_HOLDS, END)),
            Status.INVALID,
            ["acknowledged-early"],
        ),
        (
            audited(
                "0_0_0_0",
                quorum=2,
                log=facts(BEGIN, FIRST, ["hold", 11, "0_0_0_0", "ch2", 3_600], END),
            ),
            Status.INVALID,
            ["acknowledged-early"],
        ),
        (
            audited("0_0_0_0", quorum=2, created=LATER, log=facts(BEGIN, FIRST, SECOND_HOLDS, END)),
            Status.VALID,
            [],
        ),
        (
            audited("0_0_0_0", quorum=2, log=facts(BEGIN, FIRST, ["fail", 12, "0_0_0_0"], END)),
            Status.INVALID,
            ["failed"],
        ),
        (audited("0_0_0_0", log=facts(*LAST)), Status.INVALID, ["last-part-back"]),
        (audited("0_0_0_0", quorum=2, log=facts()), Status.UNKNOWN, []),
        (audited("0_0_0_0", log=facts(gaps=["2 transactions"])), Status.UNKNOWN, []),
    ],
)
def test_what_logs_show_of_an_insert(found: History, status: Status, kinds: list[str]) -> None:
    verdict = Audited().check(found)
    assert (verdict.status, [one.kind for one in verdict.anomalies]) == (status, kinds)


LOGS = """<clickhouse>
<query_log><database>system</database><table>query_log</table>
<flush_interval_milliseconds>500</flush_interval_milliseconds></query_log>
<part_log><database>system</database><table>part_log</table>
<flush_interval_milliseconds>500</flush_interval_milliseconds></part_log>
</clickhouse>"""

QUERIES_LOGGED = {"log_queries": 1}
"""Setting that clients of the harness leave out, and others have by default."""


@pytest.fixture(scope="module")
def logging(servers: DockerCluster) -> Iterator[DockerCluster]:
    """Yield servers that log queries and parts, as the default configuration of ClickHouse does."""
    configure_logs(servers, LOGS)
    wait_until(lambda: not servers.unready(), "every server serves", 60)
    yield servers
    configure_logs(servers, "")


def configure_logs(servers: DockerCluster, text: str) -> None:
    for node in THREE.replicas:
        servers.part(CanConfigure).configure(node, "logs.xml", text)
    servers.part(CanRestart).restart(THREE.replicas)


def judged(file: Path, table: ReplicatedTable, *words: str) -> tuple[int, dict[str, Any]]:
    command = [sys.executable, "-m", "harness.cli.main", "audit", "--servers", str(file)]
    until = (utc_now() + timedelta(seconds=1)).isoformat()
    command += ["--table", table.name, "--json", "--until", until, *words]
    command += ["--store", str(file.parent / "store")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode in (0, 1, 2), ended.stderr
    return ended.returncode, json.loads(ended.stdout)


def rows_logged(cluster: DockerCluster, table: ReplicatedTable) -> int:
    """Return the number of inserts that the servers have logged, and written down."""
    for node in THREE.replicas:
        execute(cluster.endpoint(node), "SYSTEM FLUSH LOGS")
    text = (
        "SELECT count() FROM system.query_log WHERE type = 'QueryFinish' AND query_kind = 'Insert' "
        f"AND has(tables, '{table.name}')"
    )
    return sum(query_value(cluster.endpoint(node), text, int) for node in THREE.replicas)


def copies(cluster: DockerCluster, path: Path) -> Sequence[str]:
    """Write ZooKeeper's logs, one as an archive; return the options that name them."""
    words = []
    for node, packed in cluster.part(KeepsTransactions).transactions().items():
        own = path / node
        if node == "zk1":
            own.write_bytes(packed)
        else:
            with tarfile.open(fileobj=BytesIO(packed)) as archive:
                archive.extractall(own, filter="data")
        words += ["--zookeeper-log", str(own)]
    return words


def lose_parts(cluster: DockerCluster, table: ReplicatedTable) -> None:
    """Remove the table's parts from the disks of all replicas at once, and start them again."""
    text = f"SELECT arrayJoin(data_paths) FROM system.tables WHERE database = '{table.database}'"
    for node in THREE.replicas:
        path = query_value(cluster.endpoint(node), text, str)
        container = cluster._containers.container(node)
        status, output = container.exec_run(["sh", "-c", f"rm -rf {path}0_*"])
        assert status == 0, output
    cluster.part(CanKill).kill(THREE.replicas)
    cluster.part(CanKill).start(THREE.replicas)


@pytest.mark.containers
def test_inserts_of_others_are_audited_from_the_servers_logs(
    logging: DockerCluster, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    file = described(logging, tmp_path / "servers.toml")
    table = ReplicatedTable(logging, "audited", TableSchema("key Int64, value Int64"))
    table.create()
    request.addfinalizer(table.close)
    quorum = {"insert_quorum": 2, "insert_quorum_timeout": 10_000, **QUERIES_LOGGED}
    for value in range(12):
        node = THREE.replicas[value % 3]
        with closing(connect(logging, node)) as client:
            client.insert(table.name, [(0, 2 * value), (0, 2 * value + 1)], quorum)
    execute(logging.endpoint("ch1"), f"OPTIMIZE TABLE {table.name} PARTITION 0 FINAL")
    wait_until(lambda: not table.pending() and rows_logged(logging, table) == 12, "all is logged")
    status, said = judged(file, table)
    assert (status, said["status"], said["checked"]) == (0, "VALID", 12), said
    status, said = judged(file, table, *copies(logging, tmp_path))
    assert (status, said["status"], said["checked"]) == (0, "VALID", 12), said

    lose_parts(logging, table)

    def empty() -> bool:
        found = [
            query_value(logging.endpoint(n), f"SELECT count() FROM {table.name}", int)
            for n in ("ch1", "ch2")
        ]
        return not any(found) and not table.pending()

    wait_until(empty, "the replicas give up the parts that nobody has")
    status, said = judged(file, table)
    assert (status, said["status"]) == (1, "INVALID"), said
    assert {one["kind"] for one in said["anomalies"]} <= {"gone", "missing-rows"}

    execute(
        logging.endpoint("ch1"),
        f"ALTER TABLE {table.name} DROP PARTITION 0",
        settings=QUERIES_LOGGED,
    )
    wait_until(lambda: judged(file, table)[0] == 2, "the log has the statement")
    assert (
        "1 statement may have removed or changed rows, such as Alter on ch1"
        in (judged(file, table)[1]["summary"])
    )


def test_a_step_back_of_last_part_names_the_inserts_that_made_both_parts() -> None:
    found = audited("0_3_3_0", active={"ch1": {"0_3_3_0": [2, "a"]}}, log=facts(*LAST))
    (anomaly,) = Audited().check(found).anomalies
    assert anomaly.steps == ("the INSERT on ch1 at 0.500 s made 0_3_3_0",)
    assert {0, 1} < {*anomaly.ops}


@pytest.mark.containers
def test_the_demo_shows_what_only_zookeepers_log_has_and_leaves_no_servers(tmp_path: Path) -> None:
    store = tmp_path / "store"
    command = [sys.executable, "-m", "harness.cli.main", "audit", "--demo", "--json"]
    command += ["--store", str(store)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert ended.returncode == 1, ended.stderr
    said = json.loads(ended.stdout)
    assert [one["kind"] for one in said["anomalies"]] == ["last-part-back"]
    assert said["checked"] == 14
    run = RunDirectory(Path(said["run"]))
    assert run.report.exists()
    command = [sys.executable, "-m", "harness.cli.main", "check", str(run.path)]
    again = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (again.returncode, "explained by overtaken-insert" in again.stdout) == (1, True)
    assert not left(store)


@pytest.mark.containers
def test_what_cannot_be_audited_is_refused(logging: DockerCluster, tmp_path: Path) -> None:
    file = described(logging, tmp_path / "servers.toml")
    refusals = {
        (): "--table: is missing; expected --servers FILE and --table, or --demo",
        ("--table", "t"): "--table t: expected DATABASE.TABLE",
        (
            "--table",
            "system.parts",
        ): "table system.parts on ch1: SystemParts; expected a replicated",
        ("--table", "no.such"): "table no.such on ch1: no such table; expected a replicated table",
        ("--table", "a.b", "--since", "now"): "--since now: expected a time such as 2026-11-25T12",
        ("--table", "a.b", "--since", "2099-01-01"): "--since 2099-01-01T00:00:00: expected before",
    }
    for words, why in refusals.items():
        command = [sys.executable, "-m", "harness.cli.main", "audit", "--servers", str(file)]
        ended = subprocess.run(
            [*command, *words], capture_output=True, text=True, timeout=120, check=False
        )
        assert (ended.returncode, why in " ".join(ended.stderr.split())) == (254, True), (
            ended.stderr
        )


def test_log_files_that_are_too_large_are_refused_before_they_are_read(tmp_path: Path) -> None:
    with (tmp_path / "log.1").open("wb") as sparse:
        sparse.truncate(BYTES_MAX + 1)
    with pytest.raises(HarnessError, match="expected at most 1,073,741,824: remove files"):
        read_directory(tmp_path)

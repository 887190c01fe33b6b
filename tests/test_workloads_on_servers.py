"""Replication's mechanisms on real servers: what holds without a fault, and a violation that is
brought about for real. Less than two minutes, on two busy cores."""

import re
import socket
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from checkers.judge import Judgement
from checkers.ladder import Level
from checkers.replication.conformance import conformance_of
from harness.cli.conform import conformance
from harness.clients.clickhouse import ClickHouse, DatabaseError
from harness.clusters.docker_cluster import DockerCluster
from harness.clusters.driver import Driver
from harness.core.dialect import Mechanism
from harness.core.engines import Engines
from harness.core.errors import ClusterError, UsageError
from harness.core.op import Kind, Op
from harness.core.outcomes import UNSENT
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.core.verdict import Status, Verdict
from harness.run.monitor import Phase
from harness.run.phases import execute
from harness.run.run_context import RunContext
from harness.spec.run_spec import RunSpec
from harness.spec.workload_options import options_of
from harness.store.journal import read_history
from harness.store.store import RunDirectory, Store
from workloads.dedup import DedupOptions, TokenInsert, dedup
from workloads.serial import SERIES_PATH

HOLDING = "insert-async,insert-spread,update,delete,delete-from,drop,truncate,optimize,deduplicate"
"""Statements that take no rows from a table, so that every order of them is a promised one."""
OPS_PER_S = 60.0
"""Enough for a verdict of each workload; without a limit runs use all the CPU time there is."""
UNPACED = {"truncation", "quorum-durability"}
"""Workloads that need as many calls as they can get: to fill a log, to meet a race."""
VALID, INVALID, UNKNOWN = Status.VALID, Status.INVALID, Status.UNKNOWN


def trial_of(
    servers: DockerCluster,
    store: Path,
    name: str,
    *words: str,
    seconds: float,
    drop: bool = True,
    final_patience_s: float = 30.0,
    **more: Any,
) -> RunContext:
    options = options_of(RunSpec(workload=name, option=tuple(words)))
    options.validate(servers.topology)
    kept = {field: getattr(options, field) for field in options.__dataclass_fields__}
    spec = RunSpec(
        workload=name,
        nemesis="none",
        seed=Seed(1),
        promise=options.promise.value,
        time_limit_s=seconds,
        rate=None if name in UNPACED else OPS_PER_S,
        extend=8,  # on a loaded machine it takes longer to acknowledge enough
        workload_options=kept,
        **more,
    )
    directory = Store(store).create(name, "none", spec.seed)
    directory.begin(spec, Engines(), servers.topology, {})
    return RunContext.of(
        spec, servers, directory=directory, drop=drop, final_patience_s=final_patience_s
    )


def judged(
    servers: DockerCluster, store: Path, name: str, *words: str, seconds: float
) -> tuple[Judgement, RunDirectory]:
    trial = trial_of(servers, store, name, *words, seconds=seconds)
    outcome = execute(trial)
    # A busy server may still be at work on a call when the run ends.
    assert all(trouble.endswith("no end when the run was over") for trouble in outcome.troubles)
    return outcome.judgement, trial.directory


def verdicts_of(judgement: Judgement) -> dict[str, Verdict]:
    verdicts = {verdict.checker: verdict for verdict in judgement.verdicts}
    assert verdicts["stats"].status is VALID, verdicts["stats"].summary
    return verdicts


@pytest.mark.containers
def test_quorums_are_accused_only_where_zookeepers_log_has_the_servers_at_fault(
    servers: DockerCluster, tmp_path: Path
) -> None:
    # Without any fault 18.16.1 breaks its word in a few runs of a hundred: overtaken-insert.
    judgement, run = judged(servers, tmp_path, "quorum-durability", seconds=5)
    durability = verdicts_of(judgement)["durability"]
    servers.collect(run.logs)
    trace = conformance(run)
    followed = conformance_of(read_history(run.journal))
    assert followed is not None
    assert followed.value["tables"].keys() == {table.root for table in trace.tables}
    assert (durability.status, trace.status) in [
        (VALID, VALID),
        (VALID, INVALID),
        (INVALID, INVALID),
    ]
    assert durability.checked


@pytest.mark.containers
@pytest.mark.parametrize(
    ("name", "words", "seconds", "decisive", "status"),
    [
        ("zk-register", [], 4, "linearizable", VALID),
        ("zookeeper", ["shape=multi"], 3, "multi", VALID),
        ("zookeeper", ["shape=sequence"], 3, "sequential-nodes", VALID),
        ("zookeeper", ["shape=ephemeral"], 3, "ephemeral-nodes", VALID),
        ("zookeeper", ["shape=watch"], 3, "watches", VALID),
        ("zookeeper", ["shape=children"], 3, "linearizable", VALID),
        ("serial", [], 3, "linearizable", VALID),
        # Its reads may be old: the manual promises them sequential consistency.
        ("keeper-map", ["shape=cas"], 3, "sequential", VALID),
        ("keeper-map", ["shape=set"], 3, "set-full", VALID),
        ("keeper-map", ["shape=mutex"], 3, "linearizable", VALID),
        ("keeper-map", ["shape=mutex", "strict=false"], 3, "linearizable", INVALID),
        ("transactions", [], 3, "isolation", VALID),
        ("transactions", ["shape=sets"], 3, "snapshots", VALID),
        ("dedup", [], 4, "dedup", VALID),
        ("dedup", ["deduplicate=false"], 4, "dedup", INVALID),
        ("replication", [], 4, "parts", VALID),
        ("unknown-insert", ["quorum-timeout-ms=5000"], 4, "set-full", VALID),
        ("block-numbers", [], 4, "block-numbers", VALID),
        ("truncation", [], 8, "truncation", VALID),
        ("merges", ["sync=2"], 6, "optimize", VALID),
        ("alter", [], 5, "alters", VALID),
        ("drop-partition", [], 5, "statement-reads", VALID),
        ("statements", [f"statements={HOLDING}", "reads=true"], 6, "statement-reads", VALID),
        (
            "statements",
            ["statements=update,drop", "view=true", "inserts=0.3"],
            6,
            "statement-rows",
            VALID,
        ),
        (
            "statements",
            ["statements=update,delete", "ttl=true", "inserts=0.3"],
            6,
            "statement-rows",
            VALID,
        ),
        # A server dies when a mutation meets an insert (crashing-mutation): few of them do.
        ("mutations", ["ops-per-s=4"], 6, "statement-rows", VALID),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, list) else str(value),
)
def test_without_faults(
    servers: DockerCluster,
    tmp_path: Path,
    name: str,
    words: list[str],
    seconds: float,
    decisive: str,
    status: Status,
) -> None:
    judgement, _ = judged(servers, tmp_path, name, *words, seconds=seconds)
    verdicts = verdicts_of(judgement)
    assert verdicts[decisive].status is status, verdicts[decisive].summary


@pytest.mark.containers
def test_a_series_that_is_lost_gives_its_numbers_again(
    servers: DockerCluster, tmp_path: Path
) -> None:
    """The node of a series is removed, as a restore of ZooKeeper's data from before it would do."""
    trial = trial_of(servers, tmp_path, "serial", seconds=3)

    def remove(phase: Phase, note: str) -> None:
        if phase is Phase.FINAL_READS and not note:
            with closing(servers.zookeeper(servers.topology.keepers)) as zookeeper:
                for name in zookeeper.ask("get_children", SERIES_PATH):
                    zookeeper.ask("delete", f"{SERIES_PATH}/{name}")

    trial.monitor.listeners.append(remove)
    verdicts = verdicts_of(execute(trial).judgement)
    linearizable = verdicts["linearizable"]
    assert (linearizable.status, linearizable.figures["keys"]) == (INVALID, 3)


@pytest.mark.containers
def test_a_statement_is_not_sent_in_another_session_than_the_one_before(
    servers: DockerCluster,
) -> None:
    channel = Driver(servers.endpoint("ch1"), 10.0)
    with closing(ClickHouse(channel)) as client:
        client.keep_session()
        assert client.numbers("SELECT 7") == (7,)
        channel.connection.socket.shutdown(socket.SHUT_RDWR)
        with pytest.raises(DatabaseError) as lost:
            client.numbers("SELECT 7")
        assert lost.value.code == UNSENT
        assert client.numbers("SELECT 7") == (7,)


def docker(*words: str) -> None:
    subprocess.run(["docker", *words], check=True, capture_output=True)


@pytest.mark.containers
def test_a_server_that_is_frozen_from_outside_ends_final_reads_and_set_up_in_time(
    servers: DockerCluster, tmp_path: Path
) -> None:
    """The freeze is like `docker pause`: no nemesis knows of it, and none can heal it."""
    trial = trial_of(
        servers, tmp_path, "quorum-set", "insert=plain", "read=plain", "timeout-s=1",
        "ops-per-key=1000000", seconds=2, drop=False, final_patience_s=3.0,
    )  # fmt: skip
    result: list[str] = []

    def freeze(phase: Phase, note: str) -> None:
        if phase is Phase.FINAL_READS and not note:
            docker("pause", f"{servers.name}-ch2")
        if phase is Phase.FINAL_READS and note:
            result.append(note)

    trial.monitor.listeners.append(freeze)
    try:
        outcome = execute(trial)
        with pytest.raises(
            ClusterError, match="ch2: the table was not made: -2: the server did not answer in time"
        ):
            execute(trial_of(servers, tmp_path, "quorum-set", seconds=2))
    finally:
        docker("unpause", f"{servers.name}-ch2")
    tries = [pair for pair in outcome.history.calls("final-read") if pair.invoke.node == "ch2"]
    assert 0 < len(tries) < 20, "without patience 20 of each of two rounds"
    assert result[0].startswith("no answer yet to final-read of key 0 on ch2 (")
    (trouble,) = outcome.troubles
    assert re.match(r"final reads ended after \d+ s without final-read of key 0 on ch2 \(", trouble)
    verdicts = {verdict.checker: verdict for verdict in outcome.judgement.verdicts}
    convergence = verdicts["convergence"]
    assert (convergence.status, convergence.summary) == (
        UNKNOWN,
        "no final read of key 0 on ch2",
    )


def test_a_retry_under_a_token_is_another_block_of_the_same_token() -> None:
    requested: list[tuple[Any, ...]] = []

    class Server(ClickHouse):
        def __init__(self) -> None:
            pass

        def _execute(self, *words: Any) -> None:
            requested.append(words)

    insert = TokenInsert("t", {"insert_deduplicate": 1})
    for index in (4, 9):
        invoke = Op(index=index, process=0, kind=Kind.INVOKE, f="insert", time_ns=0, value=7, key=1)
        assert insert(Server(), invoke) == 7
    settings = {"insert_deduplicate": 1, "insert_deduplication_token": "value-7"}
    assert [(one[1], one[2]) for one in requested] == [
        (settings, [(1, 7, 4)]),
        (settings, [(1, 7, 9)]),
    ]


def test_with_a_small_window_some_retries_come_at_once_and_the_dedup_checker_counts() -> None:
    options = DedupOptions(window=3, token=True)
    workload = dedup(options, Seed(1), Level.EVENTUAL, False)
    checkers = {checker.name: checker for checker in workload.checkers()}
    assert checkers["dedup"].window == 3  # type: ignore[attr-defined] # it is Dedup
    assert checkers["set-full"].duplicates is False  # type: ignore[attr-defined]
    assert options.needs == (Mechanism.DEDUPLICATION_TOKEN,)
    assert DedupOptions().needs == ()


@pytest.mark.parametrize(
    ("name", "word", "says"),
    [
        ("zk-register", "register=fifo", "register 'fifo': expected one of cas plain"),
        ("dedup", "insert=fast", "--insert 'fast': expected one of plain quorum"),
        ("replication", "one-in=1", "one-in=1': expected a whole number from 2 to 1,000,000"),
        ("truncation", "keep-min=20", "keep-min 20, keep-max 10: expected"),
        ("merges", "sync=3", "sync=3': expected a whole number from -1 to 2"),
        ("alter", "alters=0", "alters=0': expected a whole number from 1 to 1,000"),
        ("phantom", "quorum=4", "--quorum 4: expected 2 to 3"),
        ("keeper-map", "shape=queue", "shape 'queue' is unknown; expected one of register, cas"),
        ("transactions", "isolation=snapshot", "isolation 'snapshot' is unknown; did you mean"),
        ("transactions", "shape=bags", "shape 'bags' is unknown; expected one of lists, sets"),
        (
            "liveness-nodes",
            "slack-s=0",
            "slack-s=0': expected a number of seconds from 0.001 to 3,600",
        ),
    ],
)
def test_options_that_cannot_be_meant_are_refused(name: str, word: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        options_of(RunSpec(workload=name, option=(word,))).validate(Topology.of())
    assert says in str(caught.value)

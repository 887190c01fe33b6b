"""Zero-copy replication on real servers with an object store; and what is refused without."""

import json
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from cluster_pool import Shape
from real_servers import wait_until
from test_workloads_on_servers import judged, verdicts_of

from compose.releases import ImageChoice
from harness.cli.main import app
from harness.clients.clickhouse import DatabaseError, connect
from harness.clients.replicated_table import ReplicatedTable
from harness.clusters.docker_cluster import DockerCluster
from harness.core.capabilities import CanDegradeStore, CanPartition
from harness.core.seed import Seed
from harness.core.topology import Link, LinkClass, Topology
from harness.core.verdict import Status
from nemesis.catalogue import parse_nemesis
from nemesis.family import Watch
from nemesis.options import FaultOptions
from nemesis.store import VARIANTS
from workloads.zero_copy import SCHEMA, ZeroCopyOptions

TOPOLOGY = Topology.of(replicas=2, keepers=1, store=True)
SHAPE = Shape(topology=TOPOLOGY, choice=ImageChoice(store=True))
OUTSIDE = ("--s3-endpoint", "http://10.0.0.7:9000/bucket")


def test_the_store_has_links_of_its_own_and_is_no_replica() -> None:
    assert (TOPOLOGY.names, TOPOLOGY.replicas, TOPOLOGY.stores) == (
        ("ch1", "ch2", "zk1", "store"),
        ("ch1", "ch2"),
        ("store",),
    )
    assert set(TOPOLOGY.links([LinkClass.STORE])) == {
        Link(a, b)
        for a, b in [("ch1", "store"), ("ch2", "store"), ("store", "ch1"), ("store", "ch2")]
    }


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--clickhouse", "18.16"), "workload zero-copy: needs zero-copy replication, which"),
        (("-o", "detach=true", "-o", "rebuild=true"), "-o rebuild=true: a replica that is dropped"),
        (("-o", "detach=true", "-o", "drop-replica=true"), "-o drop-replica=true: a replica that"),
        (("--nemesis", "kill-store"), "nemesis 'kill-store' is unknown"),
        (("--shards", "2"), "--shards 2: expected 1"),
        (("--cluster", "sim", "-o", "rebuild=true"), "-o rebuild=true: needs real servers"),
        ((*OUTSIDE, "--cluster", "sim"), ": --cluster sim has no containers"),
        ((*OUTSIDE, "--workload", "merges"), "workload merges stores no objects; expected"),
        ((*OUTSIDE, "--nemesis", "store-down"), "'store-down': no node to affect: store-one: this"),
        ((*OUTSIDE, "--nemesis", "store-pause"), "'store-pause': no node to affect: store-one: "),
        (
            (*OUTSIDE, "--nemesis", "partition", "--links", "store"),
            "'partition': this cluster has no two nodes with a link of store",
        ),
    ],
)
def test_other_servers_are_refused_by_name(words: tuple[str, ...], text: str) -> None:
    done = CliRunner().invoke(app, ["run", "--workload", "zero-copy", *words])
    assert done.exit_code != 0
    assert text in " ".join(done.output.split()) or text in str(done.exception)


@pytest.mark.containers
@pytest.mark.parametrize("zero_copy", ["true", "false"])
def test_what_parts_refer_to_exists_without_faults(
    servers: DockerCluster, tmp_path: Path, zero_copy: str
) -> None:
    judgement, run = judged(servers, tmp_path, "zero-copy", f"zero-copy={zero_copy}", seconds=8)
    verdicts = verdicts_of(judgement)
    assert verdicts["parts"].status is Status.VALID, verdicts["parts"].summary
    assert verdicts["objects"].status is Status.VALID, verdicts["objects"].summary
    figures = verdicts["objects"].figures
    assert figures["orphaned_bytes"] == 0
    assert (figures["locks"] > 0) is (zero_copy == "true")
    servers.collect(run.logs)
    lines = (run.logs / "store" / "stdout.log").read_text().splitlines()
    requests = [json.loads(line) for line in lines if line.startswith("{")]
    assert {"ch1", "ch2"} <= {request["source"] for request in requests}
    assert {"PUT", "GET"} <= {request["method"] for request in requests}


@pytest.mark.containers
def test_links_to_the_store_can_be_cut(servers: DockerCluster) -> None:
    cut = Link("ch1", "store")
    servers.part(CanPartition).cut([cut])
    try:
        seen = servers.part(CanPartition).reachable(servers.topology.links([LinkClass.STORE]))
        assert [link for link, alive in seen.items() if not alive] == [cut]
    finally:
        servers.part(CanPartition).mend()


@pytest.mark.containers
def test_each_fault_of_the_store_strikes_a_request_and_ends(
    servers: DockerCluster, tmp_path: Path
) -> None:
    table = ReplicatedTable(
        servers, "faults", replace(SCHEMA, settings=ZeroCopyOptions().table_settings)
    )
    table.create()
    stuck = {}
    for number, name in enumerate(VARIANTS):
        (family,) = parse_nemesis(name, TOPOLOGY, Seed(1), FaultOptions()).families
        plan = {"nodes": ["store"], "share": 1, "methods": ["PUT"], "lurks": True}
        family.begin(servers, plan, Watch(5.0))
        insert = threading.Thread(target=_insert, args=(servers, table.name, number))
        insert.start()
        wait_until(
            lambda: servers.part(CanDegradeStore).store_rule()["hits"], f"{name} meets a request"
        )
        stuck[name] = bool(servers.part(CanDegradeStore).store_rule()["held"])
        assert family.end(servers, Watch(5.0))["text"].startswith("store, ")
        assert not family.broken(servers)
        insert.join()
    table.drop()
    table.close()
    assert stuck == {name: name == "store-timeouts" for name in VARIANTS}
    servers.collect(tmp_path)
    lines = (tmp_path / "store" / "stdout.log").read_text().splitlines()
    struck = [json.loads(line) for line in lines if line.startswith("{") and '"fault"' in line]
    done = {(line["fault"], line["method"], line["status"]) for line in struck}
    assert done == {
        ("store-errors", "PUT", 503),
        ("store-timeouts", "PUT", None),
        ("store-lost-answers", "PUT", 200),
        ("store-slow", "PUT", 200),
        ("store-down", "PUT", None),
    }


def _insert(cluster: DockerCluster, table: str, value: int) -> None:
    connection = connect(cluster, "ch1", timeout_s=30.0)
    with suppress(DatabaseError):  # the store may fail every try
        connection.insert(table, [(0, value, "")])
    connection.close()

"""Settings of a run, as a report lists them."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.report.facts import facts_of
from harness.report.settings import groups

TOPOLOGY = {
    "nodes": [
        {"name": "ch1", "role": "clickhouse", "keepers": ["zk1"]},
        {"name": "ch2", "role": "clickhouse", "keepers": ["zk1"]},
        {"name": "zk1", "role": "zookeeper"},
    ]
}
OLD = {"role": "clickhouse", "version": "24.8.4.1", "build": "as built in chdb 2.1.1"}
NEW = {"role": "clickhouse", "version": "25.8.2.1", "build": "as built in chdb 3.7.2"}
KEEPER = {"role": "zookeeper", "version": "3.8.0", "build": "of Debian bookworm"}
SIMULATED = {"build": "simulated"}
VERSIONS = {"ch1": "24.8.4.1", "ch2": "25.8.2.1", "zk1": "3.8.0"}


@pytest.mark.parametrize(
    ("engines", "servers"),
    [
        (
            {"nodes": {"ch1": OLD, "ch2": NEW, "zk1": KEEPER}, "others": [NEW]},
            [
                ("ch1", "24.8.4.1 as built in chdb 2.1.1, reads through zk1"),
                ("ch2", "25.8.2.1 as built in chdb 3.7.2, reads through zk1"),
                ("zk1", "3.8.0 of Debian bookworm"),
                ("upgraded to", "clickhouse 25.8.2.1 as built in chdb 3.7.2"),
            ],
        ),
        (
            {"clickhouse": "24.8.4.1", "clickhouse_build": "by hand", "zookeeper": "3.8.0"},
            [
                ("ch1", "24.8.4.1 by hand, reads through zk1"),
                ("ch2", "25.8.2.1 by hand, reads through zk1"),
                ("zk1", "3.8.0"),
            ],
        ),
        (
            {"clickhouse": ["no text"]},
            [
                ("ch1", "24.8.4.1, reads through zk1"),
                ("ch2", "25.8.2.1, reads through zk1"),
                ("zk1", "3.8.0"),
            ],
        ),
        (
            {"nodes": {"ch1": OLD | SIMULATED, "ch2": OLD | SIMULATED, "zk1": KEEPER | SIMULATED}},
            [
                ("ch1", "simulated 24.8.4.1, reads through zk1"),
                ("ch2", "simulated 24.8.4.1, reads through zk1"),
                ("zk1", "simulated 3.8.0"),
            ],
        ),
    ],
    ids=["by node", "of an older run", "of nobody's making", "simulated"],
)
def test_the_engine_of_every_node_is_named(
    tmp_path: Path, engines: dict[str, Any], servers: list[tuple[str, str]]
) -> None:
    versions = VERSIONS
    if SIMULATED.items() <= engines.get("nodes", {}).get("ch1", {}).items():
        versions = dict.fromkeys(VERSIONS, "simulated 24.8.4.1")
    info = {"plan": {"engines": engines}, "topology": TOPOLOGY, "versions": versions}
    (tmp_path / "run.json").write_text(json.dumps(info))
    assert list(dict(groups(facts_of(tmp_path, None).info))["Servers"]) == servers


def test_a_unit_stands_behind_its_number(tmp_path: Path) -> None:
    own = {"timeout_s": 10, "quorum_timeout_ms": 10_000, "ops_per_key": 1_000, "wait": None}
    info = {"spec": {"interval": 3.0}, "workload_options": own}
    (tmp_path / "run.json").write_text(json.dumps(info))
    found = dict(groups(facts_of(tmp_path, None).info))
    assert found["Workload"] == (
        ("timeout", "10 s"), ("quorum timeout", "10,000 ms"), ("ops per key", "1,000")
    )  # fmt: skip
    assert ("interval", "3 s") in found["Options"]


def test_an_audit_shows_no_options_of_a_run(tmp_path: Path) -> None:
    info = {"spec": {"workload": "audit", "cluster": "external", "time-limit": 30.0}}
    (tmp_path / "run.json").write_text(json.dumps(info))
    assert "Options" not in dict(groups(facts_of(tmp_path, None).info))

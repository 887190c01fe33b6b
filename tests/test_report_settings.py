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
    ],
    ids=["by node", "of an older run", "of nobody's making"],
)
def test_the_engine_of_every_node_is_named(
    tmp_path: Path, engines: dict[str, Any], servers: list[tuple[str, str]]
) -> None:
    info = {"plan": {"engines": engines}, "topology": TOPOLOGY, "versions": VERSIONS}
    (tmp_path / "run.json").write_text(json.dumps(info))
    assert list(dict(groups(facts_of(tmp_path, None).info))["Servers"]) == servers

"""The newest engine knows every name that the project uses, but for what is listed here.

What cannot be asked of an engine without a coordination service: the columns of system.zookeeper,
what Replicated engines' arguments mean, ON CLUSTER, and whether SYSTEM SYNC REPLICA does its work.
Of their statements only the grammar is checked, and tables are made as plain MergeTree.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import engine_contract
import pytest

from compose.releases import NEWEST_ENGINE
from harness.clusters.build_inputs import why_unsupported
from harness.clusters.embedded_engine import newest_engine

DIFFERENCES = {
    "settings: allow_experimental_database_replicated has no effect",
    "error 285: TOO_LESS_LIVE_REPLICAS, here TOO_FEW_LIVE_REPLICAS",
    "failpoints of failpoint-sends: replicated_sends_failpoint",
}
"""Differences of 26.9, all of them described in docs/lab/server-versions.md."""


@pytest.fixture(scope="module")
def wanted() -> dict[str, Any]:
    return engine_contract.questions()


def missing(wanted: dict[str, Any]) -> set[str]:
    """Return what the engine lacks, as found by a child process."""
    child = Path(__file__).with_name("engine_child.py")
    done = subprocess.run(
        [sys.executable, child, newest_engine()],
        input=json.dumps(wanted),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["version"] == NEWEST_ENGINE.version
    return set(answer["missing"])


needs_engine = pytest.mark.skipif(
    why_unsupported(NEWEST_ENGINE) is not None, reason=str(why_unsupported(NEWEST_ENGINE))
)


@needs_engine
def test_the_newest_engine_knows_every_name(wanted: dict[str, Any]) -> None:
    found = missing(wanted)
    lacks, has = found - DIFFERENCES, DIFFERENCES - found
    assert not lacks, f"{NEWEST_ENGINE} lacks:\n" + "\n".join(sorted(lacks))
    assert not has, f"{NEWEST_ENGINE} has, against DIFFERENCES:\n" + "\n".join(sorted(has))


@needs_engine
def test_every_wrong_name_is_reported_at_once(wanted: dict[str, Any]) -> None:
    planted = {
        "settings": ["insert_quorum_of_no_server"],
        "merge_tree_settings": ["cleanup_of_no_server"],
        "server_settings": ["pool_of_no_server"],
        "errors": [[286, "OF_NO_SERVER"]],
        "failpoints": {"planted": ["of_no_server"]},
        "created": [["made", "CREATE TABLE a (x UInt8) ENGINE = MergeTree ORDER BY y"]],
        "statements": [["asked", "SELECT of_no_server FROM system.replicas"]],
        "defaults": {"replicated_deduplication_window": 1},
    }
    assert set(planted) == set(wanted)
    found = missing(planted)
    for sign in (
        "settings: insert_quorum_of_no_server",
        "merge_tree_settings: cleanup_of_no_server",
        "server_settings: pool_of_no_server",
        "error 286: OF_NO_SERVER, here UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE",
        "failpoints of planted: of_no_server",
        "made: CREATE TABLE a",
        "asked: SELECT of_no_server FROM system.replicas",
        "default of replicated_deduplication_window: 1, here ",
    ):
        assert any(line.startswith(sign) for line in found), (sign, found)


def test_the_questions_come_out_of_the_code(wanted: dict[str, Any]) -> None:
    statements = {sql for _, sql in wanted["statements"]}
    assert "SELECT is_leader FROM system.replicas WHERE database = 'x'" in statements
    assert "SYSTEM STOP FETCHES" in statements
    assert {"insert_quorum", "insert_keeper_retry_max_backoff_ms"} <= set(wanted["settings"])
    assert any("max_replicated_logs_to_keep" in sql for _, sql in wanted["created"])

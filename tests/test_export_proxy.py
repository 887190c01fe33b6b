"""Reproductions whose faults are of single messages: their proxy, and the rules for it."""

import subprocess
import sys
from pathlib import Path

import pytest
from export_cases import exported

from harness.export.reproduction import write_files
from harness.export.script_lines import script_lines


def test_single_messages_are_stopped_by_a_proxy_of_one_file(tmp_path: Path) -> None:
    write_files(tmp_path, exported("half-alter").files())
    script = (tmp_path / "reproduce.sh").read_text()
    place = [script.index(f"\n  {line}") for line in HALF_ALTER]
    assert place == sorted(place)
    assert "<host>ch2-proxy</host>" in (tmp_path / "config" / "ch2" / "config.xml").read_text()
    compose = (tmp_path / "compose.yml").read_text()
    assert "  ch2-proxy:\n    image: ${PROXY_IMAGE:-python:3.13-slim}" in compose
    assert "environment: {REPLICA: ch2, TARGET: zk2}" in compose
    usage = subprocess.run(
        [sys.executable, "-I", tmp_path / "proxy.py", "clear"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "FileNotFoundError" in usage.stderr  # it compiles, and no proxy serves here
    text = exported("half-alter").issue()
    assert (
        "5. ch1: proxy.py forwards nothing any more, beginning with ZooKeeper's answers to "
        "requests to ZooKeeper that contain `/harness/` and" in text
    )


def test_the_proxy_is_what_other_replicas_fetch_parts_from() -> None:
    files = exported("skipped-part").files()
    host = "<interserver_http_host>ch1-proxy</interserver_http_host>"
    assert host in files["config/ch1/config.xml"]
    assert "<host>zk1</host>" not in files["config/ch1/config.xml"]
    assert 'host = os.environ["REPLICA"]' in files["proxy.py"]
    assert (
        "ch1: proxy.py holds back the replica's answers to requests of other replicas that contain "
        "`endpoint=DataPartsExchange` and `_1_1_0`\n"
    ) in exported("skipped-part").issue()


@pytest.mark.parametrize(("name", "timeout_ms"), [("lost-update", 60_000), ("half-alter", 3_000)])
def test_a_request_waits_for_as_long_as_a_shell_may_hold_it_back(
    name: str, timeout_ms: int
) -> None:
    config = exported(name).files()["config/ch1/config.xml"]
    assert f"<operation_timeout_ms>{timeout_ms}</operation_timeout_ms>" in config


@pytest.mark.parametrize(
    ("name", "lines"),
    [("lost-update", ["clear ch1"]), ("half-alter", []), ("stale-read", ["reconnect zk1"])],
)
def test_a_proxy_has_no_rule_of_one_try_in_the_next(name: str, lines: list[str]) -> None:
    """A rule that was released would be asked in place of the next one of its name."""
    assert script_lines(exported(name).play.heal) == lines


HALF_ALTER = (
    'arm ch1 \'{"name":"zk-drop-applied"',
    "client=0 node=ch2 key= values='1'",
    "await_stopped ch1 'zk-drop-applied' || return",
    "kill_server ch1",
    "clear ch1",
    "start_server ch1",
    "restart_server ch1",
)
"""Beginnings of lines of its script, in their order."""

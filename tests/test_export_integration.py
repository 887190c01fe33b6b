"""Exported integration tests: what they say, and that they fail on servers that break a promise."""

import ast
import builtins
import os
import subprocess
import sys
from pathlib import Path

import pytest
from export_cases import (
    EXPORTED,
    ON_A_STORE,
    PROXIED,
    SIGNATURES,
    export_by_command,
    exported,
    run_test,
    write_test,
)

from harness.export.integration_test import integration_test


@pytest.mark.parametrize("name", sorted({*EXPORTED} - {*PROXIED, *ON_A_STORE}))
def test_a_scenario_becomes_a_test_in_python(name: str, tmp_path: Path) -> None:
    module = ast.parse(write_test(name, tmp_path).read_text())
    names = [node for node in ast.walk(module) if isinstance(node, ast.Name)]
    bound = {node.id for node in names if isinstance(node.ctx, ast.Store)} | {
        node.name
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.ExceptHandler) and node.name
    }
    bound |= {node.arg for node in ast.walk(module) if isinstance(node, ast.arg)}
    imported = {
        alias.name
        for node in module.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    used = {node.id for node in names if isinstance(node.ctx, ast.Load)}
    assert used <= bound | imported | {*dir(builtins), "__file__"}
    assert imported <= used
    sent = [one.text for _, several in exported(name).play.calls for one in several]
    texts = {node.value for node in ast.walk(module) if isinstance(node, ast.Constant)}
    assert texts.issuperset(sent)


def test_every_call_of_upstreams_package_has_a_signature_that_it_has_there(tmp_path: Path) -> None:
    for name in {*EXPORTED} - {*PROXIED, *ON_A_STORE}:
        write_test(name, tmp_path)
    broken = (tmp_path / "test_pending_merged" / "test.py").read_text()
    (tmp_path / "broken.py").write_text(broken.replace("kill=True", "at_once=True"))
    options = ["--config-file=", "--check-untyped-defs", "--ignore-missing-imports"]
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "--no-incremental", "--no-error-summary", "."],
        env={**os.environ, "MYPYPATH": str(SIGNATURES)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    (error,) = (line for line in checked.stdout.splitlines() if ": error: " in line)
    assert error.startswith("broken.py:")
    assert 'Unexpected keyword argument "at_once" for "stop_clickhouse"' in error


def test_settings_become_files_of_the_servers_own_directories(tmp_path: Path) -> None:
    directory = tmp_path / "to"
    answer = export_by_command("early-snapshot", "--to", str(directory), "--as", "integration-test")
    assert answer.exit_code == 0
    assert answer.output.rstrip().endswith("/to/test_early_snapshot/test.py")
    configs = directory / "test_early_snapshot" / "configs"
    own = (configs / "ch2" / "zookeeper_of_replica.xml").read_text()
    assert '<zookeeper replace="replace">' in own
    assert own.count("<host>zoo2</host>") == 1
    assert "insert_quorum_parallel" in (configs / "users.xml").read_text()
    server = (configs / "server.xml").read_text()
    assert "<merge_tree>" in server
    assert "_port>" not in server


def test_what_needs_the_proxy_is_refused(tmp_path: Path) -> None:
    to = str(tmp_path / "to")
    answer = export_by_command("lost-update", "--to", to, "--as", "integration-test")
    assert "a proxy stops single messages" in str(answer.exception)


def test_all_scenarios_are_written_and_the_others_named(tmp_path: Path) -> None:
    to = tmp_path / "to"
    answer = export_by_command("all", "--to", str(to), "--as", "issue")
    assert sorted(path.name for path in to.iterdir()) == sorted(EXPORTED)
    assert all((to / name / "issue.md").read_text().startswith("# ") for name in EXPORTED)
    assert "discarded-copy: cannot be exported: it needs a disk that fails" in answer.output
    assert f"{len(EXPORTED)} scenarios exported to {to}" in answer.output


def test_a_fault_is_made_by_the_means_of_the_test_package() -> None:
    texts = {name: next(iter(_texts(name))) for name in ("stale-read", "pending-merged")}
    assert '    cut_off("zoo1", partitions)\n' in texts["stale-read"]
    assert "partition_instances" in texts["stale-read"]
    assert (
        '    kill_server(ch1)\n    await_shown(ch2, "SELECT min(active_replicas + 1 <= '
        in (texts["pending-merged"])
    )
    assert "PartitionManager" not in texts["pending-merged"]


def _texts(name: str) -> list[str]:
    return [text for file, text in integration_test(exported(name)).items() if "/test.py" in file]


@pytest.mark.containers
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("stale-read", "call 6 on ch1 did not return 1, which ch2 had acknowledged before"),
        ("strayed-update", "shows u=[7]; the statements, each of which was acknowledged, leave u="),
    ],
)
def test_it_fails_on_real_servers(name: str, told: str, tmp_path: Path) -> None:
    ran = run_test(name, tmp_path)
    assert "1 failed" in ran.stdout, ran.stdout + ran.stderr
    assert told in ran.stdout

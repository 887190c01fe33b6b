"""Defaults from harness.toml and the environment: which wins, and what is refused."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from harness.cli.default_options import profile_defaults
from harness.cli.main import COMMANDS
from harness.cli.run import run
from harness.core.errors import UsageError

PROFILE = """\
store = "kept"

[run]
cluster = "sim"
time-limit = 2
nemesis = "partition"
nodes = ["ch1", "ch2"]
keep-cluster = false
"""


def harness(directory: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "harness.cli.main", *words]
    return subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    (tmp_path / "harness.toml").write_text(PROFILE)
    done = harness(
        tmp_path, "run", "--seed", "7", "--report", "none", "--json", "--rate", "20",
        HARNESS_RUN_NEMESIS="none", HARNESS_RUN_RATE="9",
    )  # fmt: skip
    path = tmp_path / json.loads(done.stdout)["run"]
    assert path.parent == tmp_path / "kept" / "quorum-set+none"
    info = json.loads((path / "run.json").read_text())
    # The command that repeats the run does not need the file.
    assert info["again"] == (
        "harness run --nemesis none --cluster sim --time-limit 2 --rate 20 --nodes ch1,ch2 "
        "--seed 0x7"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[run]\n\ntime-limt = 3\n", "line 3: run.time-limt: 'time-limt' is unknown; did you mean"),
        ("[run]\njobs = 0\n", "line 2: run.jobs: 0: expected a whole number from 1 to 256"),
        ("[run]\nkeep-cluster = 1\n", "line 2: run.keep-cluster: 1: expected true or false"),
        ("[rnu]\njobs = 1\n", "line 1: rnu: 'rnu' is unknown; did you mean run?"),
        ("run = 1\n", r"line 1: run: expected a table, \[run\], of options"),
        ("[run\n", "profile .*harness.toml: is not TOML"),
    ],
)
def test_a_profile_that_is_wrong_is_refused_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("harness.toml").write_text(text)
    with pytest.raises(UsageError, match=message):
        profile_defaults(run, "run", COMMANDS)


def test_an_environment_variable_names_another_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("other.toml").write_text(PROFILE)
    monkeypatch.setenv("HARNESS_PROFILE", "other.toml")
    assert profile_defaults(run, "run", COMMANDS)["nodes"] == "ch1,ch2"
    monkeypatch.setenv("HARNESS_PROFILE", "none.toml")
    with pytest.raises(UsageError, match=r"HARNESS_PROFILE=none\.toml: is not a file"):
        profile_defaults(run, "run", COMMANDS)

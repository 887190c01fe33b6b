"""No plug-in decides the exit status: `sys.exit(0)` in it is no verdict."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.core.plugins import NAMED

EXITS = """
import os, sys
from workloads.quorum_set import QuorumSet, QuorumSetOptions


class Plain(QuorumSet):
    def __init__(self, options: QuorumSetOptions, seed, promise, faults_expected):
        super().__init__(options, seed, promise, faults_expected)


class Made(Plain):
    def __init__(self, options: QuorumSetOptions, seed, promise, faults_expected):
        sys.exit(0)


class InSession(Plain):
    def session(self, cluster, token):
        sys.exit(0)


class InGenerator(Plain):
    def generator(self):
        sys.exit(0)


class InFinal(Plain):
    def final(self, keys, nodes):
        sys.exit(0)


class Checker:
    name = "mine"
    def check(self, history):
        sys.exit(0)


class Other(Checker):
    name = "other"


class InChecker(Plain):
    def checkers(self):
        return [*super().checkers(), Checker()]


class Hard(Checker):
    def check(self, history):
        os._exit(0)


class InHardChecker(Plain):
    def checkers(self):
        return [*super().checkers(), Hard()]



class Untested:
    def __init__(self):
        sys.exit(0)


class Panic(BaseException): ...


class InSessionPanic(Plain):
    def session(self, cluster, token):
        raise Panic()
"""
SIM = ("--cluster", "sim", "--time-limit", "3", "--rate", "60", "--seed", "1", "--report", "none")
Command = Callable[..., int]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Return what runs a command in a directory with the plug-ins, and returns its status."""
    (tmp_path / "own_exits.py").write_text(EXITS)
    (tmp_path / "own_script.py").write_text("import sys\nsys.exit(0)\n")
    (tmp_path / "own_night.toml").write_text('workloads = ["own_script:W"]\nnemeses = ["none"]\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.setenv(NAMED, "")
    monkeypatch.setattr(os, "_exit", os._exit)  # main replaces it
    for name in ("own_exits", "own_script"):
        monkeypatch.delitem(sys.modules, name, raising=False)

    def run(*words: str) -> int:
        monkeypatch.setattr(sys, "argv", ["harness", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        assert isinstance(ended.value.code, int)
        return ended.value.code

    return run


SCRIPT = "own_script:W: the module own_script cannot be imported: SystemExit at "


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        (["run", "--workload", "own_script:W", *SIM], 254, SCRIPT),
        (["run", "--nemesis", "own_script:W", *SIM], 254, SCRIPT),
        (["torture", "own_night.toml", "--runs", "1"], 254, SCRIPT),
        (["list", "own_script:W"], 254, SCRIPT),
        (["run", "--workload", "own_exits:Made", *SIM], 255, "SystemExit: 0"),
        (["run", "--workload", "own_exits:InSession", *SIM], 255, "SystemExit: 0"),
        (["run", "--workload", "own_exits:InSessionPanic", *SIM], 255, "own_exits.Panic"),
        (["run", "--workload", "own_exits:InGenerator", *SIM], 255, "SystemExit: 0"),
        (["run", "--workload", "own_exits:InFinal", *SIM], 255, "SystemExit: 0"),
        (["run", "--workload", "own_exits:InFinal", "--json", *SIM], 255, '"exit_status": 255'),
    ],
)
def test_a_plugin_that_ends_the_process_gives_no_verdict(
    words: list[str], status: int, text: str, command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(*words) == status
    shown = capsys.readouterr()
    assert text in " ".join((shown.err + shown.out).split())


def test_a_checker_that_ends_the_process_is_unknown_wherever_it_judges(
    command: Command, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command("run", "--workload", "own_exits:InChecker", *SIM) == 2
    monkeypatch.setenv("PYTHONPATH", os.getcwd())
    for words in (
        ["check", "latest"],
        ["check", "store/", "--force"],
        ["check", "store/", "--checkers", "own_exits:Other"],
    ):
        assert command(*words, "--json") == 2, words
        assert "the checker failed: SystemExit: 0" in capsys.readouterr().out, words
    assert command("check", "store/", "--checkers", "own_script:W") == 254
    assert command("check", "store/", "--checkers", "own_exits:Untested") == 255


def test_a_plugin_that_ends_the_process_at_once_gives_no_verdict(tmp_path: Path) -> None:
    (tmp_path / "own_exits.py").write_text(EXITS)
    start = "from harness.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", start, "run", "--workload", "own_exits:InHardChecker", *SIM],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 255
    assert "harness: the command was ended by os._exit(0)" in done.stderr

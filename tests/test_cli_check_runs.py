"""`harness check RUN` and `harness report RUN`: which verdict is kept, what is printed of it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from report_cases import finished, stale
from rich.text import Text

from harness.cli.main import app
from harness.cli.terminal import Terminal
from harness.core.printable import printable

ESCAPES = "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x9b2J\u202etxet\r\x00"
SHOWN = "␛]0;owned␇␛[2J␛[31mred�2J�txet␍␀"


def harness(*words: str) -> int:
    return app([*words], standalone_mode=False)


def spread(text: str) -> str:
    """Return the text without line ends and frames, which depend on the width."""
    return " ".join(text.replace("│", " ").split())


def test_a_promise_that_is_asked_for_once_does_not_replace_the_runs_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = finished(tmp_path / "store", stale())
    assert harness("check", str(run.path)) == 1
    kept = {file.name: file.read_bytes() for file in run.path.iterdir()}
    own = spread(capsys.readouterr().out)
    assert "INVALID" in own
    assert "promised linearizable" in own
    assert f"report: {run.report}" in own

    status = harness("check", str(run.path), "--promise", "sequential", "--json")
    requested = json.loads(capsys.readouterr().out)
    assert (status, requested["status"], requested["promise"]) == (2, "UNKNOWN", "sequential")
    assert requested["ladder"]["promise"] == "sequential"
    assert harness("check", str(run.path), "--promise", "sequential") == 2
    output = spread(capsys.readouterr().out)
    assert "promised sequential" in output
    assert (
        "not stored: results.json and the page keep the verdict on the run's own promise, "
        "linearizable"
    ) in output
    assert "report:" not in output
    assert {file.name: file.read_bytes() for file in run.path.iterdir()} == kept

    assert harness("check", str(run.path), "--promise", "linearizable") == 1
    assert f"report: {run.report}" in spread(capsys.readouterr().out)
    assert run.results()["promise"] == "linearizable"


def test_without_spark_the_check_of_a_store_says_how_to_get_it(tmp_path: Path) -> None:
    finished(tmp_path, stale())
    without = "import sys; sys.modules['pyspark'] = None; from harness.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", without, "check", "--spark", "local[*]", str(tmp_path)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 254
    assert "pyspark is not installed; expected what pip install 'clickhouse-harness[spark]'" in (
        spread(done.stderr)
    )


def test_a_page_that_cannot_be_drawn_hides_neither_verdict_nor_witness(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page is a directory, so it cannot be replaced."""
    run = finished(tmp_path / "store", stale())
    (run.report / "in the way").mkdir(parents=True)
    assert harness("check", str(run.path)) == 1
    output = spread(capsys.readouterr().out)
    assert "INVALID" in output
    assert "first stale value 2 of key 0" in output
    assert "! report.html was not drawn: IsADirectoryError" in output
    assert "report:" not in output

    with pytest.raises(Exception, match=r"report\.html was not drawn: IsADirectoryError"):
        harness("report", str(run.path))
    assert "missing here: 2" in capsys.readouterr().out

    def full(_path: Path, _text: str, **_how: str) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    words = ["--cluster", "sim", "--insert", "plain", "--read", "plain", "--promise",
             "linearizable", "--seed", "1", "--time-limit", "3", "--store"]  # fmt: skip
    assert harness("run", *words, str(tmp_path / "sim")) == 1
    output = spread(capsys.readouterr().out)
    assert "first stale value" in output
    assert "! report.html was not drawn: OSError: [Errno 28] No space left on device" in output
    assert "report:" not in output


def test_control_characters_become_pictures() -> None:
    assert printable(f"{ESCAPES}\n\tה") == f"{SHOWN}\n\tה"
    console = Terminal()
    with console.capture() as captured:
        console.print(Text.assemble(("a", "bold"), "\x1b[2J[b]:smile:"), "[/x]\x1b", width=40)
    assert captured.get() == "a␛[2J[b]:smile: [/x]␛\n"


def test_escapes_in_stored_text_do_not_reach_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = finished(tmp_path / "store", stale(), workload="quorum-set", nemesis=ESCAPES)
    info = json.loads(run.info_file.read_text())
    info["again"] = f"harness run {ESCAPES}"
    info["state"], info["error"] = "crashed", ESCAPES
    run.info_file.write_text(json.dumps(info))
    results = json.loads(run.results_file.read_text())
    results["troubles"] = [ESCAPES]
    run.results_file.write_text(json.dumps(results))
    for command in (["check", str(run.path)], ["report", str(run.path)]):
        harness(*command)
        output = capsys.readouterr().out
        assert "␛]0;owned" in output
        assert not any(ord(c) < 32 and c != "\n" for c in output), command
        assert not {"\x7f", "\x9b", "\u202e"} & set(output), command
    run.info_file.write_text(json.dumps({**info, "spec": {**info["spec"], "workload": ESCAPES}}))
    with pytest.raises(SystemExit) as ended:
        _main(["check", str(run.path)])
    assert ended.value.code == 254
    assert "\x1b" not in capsys.readouterr().err


def _main(words: list[str]) -> None:
    from harness.cli.main import main

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["harness", *words])
        main()

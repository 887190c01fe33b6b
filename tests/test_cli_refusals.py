"""What a command line may not say is refused in one short line."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.cli.main import app, main
from harness.core.errors import UsageError
from harness.run.run_request import RunRequest
from harness.spec.run_spec import RunSpec

LONG = "x" * 5_000
SPACED = "x " * 2_500
RUN = ("run", "--cluster", "sim")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([*RUN, "--nodes", "ch1,ch1"], "'ch1' is named twice; once is enough"),
        ([*RUN, "--links", "keeper,keeper"], "'keeper' is named twice; once is enough"),
        ([*RUN, "--keeper-route", "ch1=zk1,ch1=zk2"], "'ch1=zk2': a server is named twice"),
        ([*RUN, "--keeper-route", "ch1=zk1+zk1"], "'ch1=zk1+zk1': a server is named twice"),
        ([*RUN, "--time-limit", "1_0"], "1_0: expected a number of seconds"),
        ([*RUN, "--time-limit", "١٠"], "١٠: expected a number of seconds"),
        ([*RUN, "--concurrency", "１０"], "１０: expected a whole number"),
        ([*RUN, "--seed", "0x5_eed"], "'0x5_eed': expected a number, such as 7 or 0x5eed"),
        ([*RUN, "-o", "keys=1_0"], "'keys=1_0': expected a whole number"),
        (["run", "--nemesis", "power-cut", "--storage", "memory"],
         "nemesis power-cut: needs --storage faulty, and --storage memory was given"),
        (["new", "workload", "os"], "Python has a module os already; expected another name"),
        (["new", "workload", "msgspec"], "Python has a module msgspec already"),
        (["new", "workload", "a" * 300], "expected at most 100 letters"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused(
    words: list[str], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, words)
    shown = f"{done.output} {done.exception}"
    assert text in " ".join(shown.replace("│", " ").split())
    assert isinstance(done.exception, SystemExit | UsageError)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("given", [LONG, SPACED], ids=["one word", "many words"])
@pytest.mark.parametrize(
    "words",
    [
        ["{}"],
        ["run", "--{}"],
        ["run", "{}"],
        *(["run", f"--{name}", "{}"] for name in (
            "workload", "nemesis", "cluster", "seed", "nodes", "promise", "rate", "keeper-route",
            "clickhouse", "storage", "fsync", "insert", "read", "bug", "protocol", "upgrade-to",
        )),
        ["run", "--workload", "{}:X"],
        ["run", "-o", "{}"],
        ["check", "latest", "--checkers", "{}"],
        ["check", "{}"],
        ["check", "--model", "register", "{}"],
        ["report", "{}"],
        ["shrink", "{}"],
        ["compare", "{}"],
        ["scenario", "{}"],
        ["explore", "{}"],
        ["list", "{}"],
        ["new", "workload", "{}"],
        ["new", "{}", "mine"],
        ["clean", "{}"],
    ],
    ids=lambda words: " ".join(words),
)  # fmt: skip
def test_no_error_quotes_a_long_value_whole(
    words: list[str],
    given: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["harness", *(word.format(given) for word in words)])
    monkeypatch.setattr("os._exit", None)  # main replaces it
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 254
    shown = capsys.readouterr()
    assert (shown.out + shown.err).count("x") < 600
    assert "Traceback" not in shown.err


def test_the_variable_of_an_option_has_the_name_of_its_flag(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HARNESS_RUN_JSON", "maybe")
    done = CliRunner().invoke(app, list(RUN), auto_envvar_prefix="HARNESS")
    assert done.exit_code == 2
    assert "Invalid value for '--json': 'maybe' is not a valid boolean" in done.output


@pytest.mark.parametrize("nemesis", ["power-cut", "disk-eio,kill"])
def test_faults_of_disks_imply_the_storage_that_has_them(nemesis: str) -> None:
    request = RunRequest(RunSpec(nemesis=nemesis))
    spec = request.spec(request.given.seed)
    assert request.server_settings.storage == "faulty"
    assert spec.storage == "faulty"
    assert "storage" not in spec.command

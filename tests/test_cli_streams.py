"""Commands whose output nobody reads, or whose output cannot be written."""

import io
import json
import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from urllib.request import urlopen

import pytest

from harness.cli.streams import Outlet
from harness.core.verdict import Status
from harness.store.store import Store

HARNESS = [sys.executable, "-m", "harness.cli.main"]
RUN = [
    "run",
    "--cluster",
    "sim",
    "--time-limit",
    "6",
    "--rate",
    "40",
    "--seed",
    "1",
    "--report",
    "none",
]
FULL = "harness: standard output: No space left on device; what was printed is incomplete\n"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store with one run that is VALID and one that is INVALID."""
    root = tmp_path_factory.mktemp("streams")
    statuses = []
    for insert in ("quorum", "plain"):
        words = [*RUN, "--insert", insert, "--promise", "linearizable", "--store", str(root)]
        done = subprocess.run([*HARNESS, *words, "--json"], capture_output=True, check=False)
        statuses.append(json.loads(done.stdout)["status"])
    assert statuses == ["VALID", "INVALID"]
    return root


def run_of(store: Path, status: Status) -> str:
    return str(next(run.path for run in Store(store).runs() if run.info().status == status))


def into_closed_pipe(*words: str) -> tuple[int, str]:
    """Exit status and standard error of a command whose output nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [*HARNESS, *words], stdout=writer, stderr=subprocess.PIPE, text=True, check=False
        )
    finally:
        os.close(writer)
    return done.returncode, done.stderr


def into_full_disk(*words: str) -> tuple[int, str]:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*HARNESS, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    return done.returncode, done.stderr


def test_a_run_goes_on_and_its_verdict_decides_the_exit_status(tmp_path: Path) -> None:
    words = [*RUN, "--insert", "quorum", "--store", str(tmp_path)]
    assert into_closed_pipe(*words) == (0, "")
    assert into_full_disk(*words) == (0, FULL)
    infos = [run.info() for run in Store(tmp_path).runs()]
    assert [(info.state, info.status) for info in infos] == [("finished", "VALID")] * 2


def test_a_run_that_is_judged_again_keeps_its_exit_status(store: Path) -> None:
    assert into_closed_pipe("check", run_of(store, Status.VALID)) == (0, "")
    assert into_full_disk("check", run_of(store, Status.INVALID), "--json") == (1, FULL)


def test_a_command_that_only_prints_has_failed_when_the_disk_is_full() -> None:
    assert into_closed_pipe("list") == (0, "")
    assert into_full_disk("list") == (255, FULL)


def test_bad_arguments_and_failures_keep_their_exit_status() -> None:
    assert into_closed_pipe("run", "--nemesis", "partitoin", "--json") == (254, "")
    assert into_full_disk("serve", "--store", "nowhere")[0] == 255


def test_an_interrupt_is_how_a_command_ends_that_serves_until_then(tmp_path: Path) -> None:
    words = [*HARNESS, "serve", "--port", "0", "--store", str(tmp_path)]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as served:
        assert served.stdout is not None
        address = served.stdout.readline().split()[0]
        with urlopen(address, timeout=30) as answer:
            assert answer.status == 200
        served.send_signal(signal.SIGINT)
        assert served.communicate(timeout=60) == ("", "")
    assert served.returncode == 0


def test_nothing_that_is_printed_lands_in_a_file_when_the_output_is_closed(tmp_path: Path) -> None:
    """A closed descriptor's number is that of the next file which is opened."""
    words = [*HARNESS, *RUN, "--store", str(tmp_path)]
    command = ["sh", "-c", 'exec "$@" >&- 2>&-', "sh", *words]
    assert subprocess.run(command, check=False).returncode == 0
    (run,) = Store(tmp_path).runs()
    assert run.info().status == "VALID"


def test_a_character_that_the_locale_lacks_is_escaped(store: Path) -> None:
    words = [*HARNESS, "report", run_of(store, Status.INVALID)]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(words, capture_output=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"\\u2502" in done.stdout


def test_an_outlet_waits_for_a_reader_that_is_slow() -> None:
    """The pipe does not block, like those that terminals and build tools pass on."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    sent = b"x" * 300_000
    with subprocess.Popen(["wc", "-c"], stdin=reader, stdout=subprocess.PIPE) as counting:
        os.close(reader)
        with closing(io.BufferedWriter(Outlet(writer))) as out:
            out.write(sent)
        os.close(writer)
        assert counting.stdout is not None
        assert counting.stdout.read() == b"300000\n"


def test_an_outlet_to_a_terminal_that_was_closed_drops_what_is_written() -> None:
    terminal, inner = os.openpty()
    os.close(terminal)
    outlet = Outlet(inner)
    assert [outlet.write(b"one"), outlet.write(b"two")] == [3, 3]
    assert str(outlet.failure) == "[Errno 5] Input/output error"
    os.close(inner)

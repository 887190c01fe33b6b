"""Runs side by side: in the order of their seeds, each as it is alone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from real_servers import wait_until

from harness.cli.run import run as command
from harness.core.errors import HarnessError, MissingMechanismError, UsageError
from harness.run.jobs import AHEAD, side_by_side
from harness.run.stop import Stop


def runs(stat: Path) -> bool:
    """Return whether a process exists and is not a zombie."""
    try:
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_what_processes_give_comes_in_order() -> None:
    given = list(side_by_side(lambda number: (number * number, os.getpid()), range(20), 2, Stop()))
    assert [square for square, _ in given] == [number * number for number in range(20)]
    assert os.getpid() not in {process for _, process in given}


def test_of_nothing_there_are_no_results() -> None:
    assert list(side_by_side(str, [], jobs=2, stop=Stop())) == []


def test_after_a_wish_to_stop_nothing_new_begins() -> None:
    stop = Stop()
    given = []
    for number in side_by_side(lambda number: number, range(1_000), 2, stop):
        given.append(number)
        stop.request("enough")
    assert given[0] == 0
    assert len(given) <= 1 + 2 * AHEAD


def test_what_a_run_raises_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        list(side_by_side(lambda number: 1 // number, range(3), 2, Stop()))


def test_what_a_run_of_a_missing_mechanism_raises_is_raised() -> None:
    def refuse(number: int) -> int:
        raise MissingMechanismError(f"run {number}: no such thing", missing="thing")

    with pytest.raises(MissingMechanismError, match="run 0: no such thing") as raised:
        list(side_by_side(refuse, range(3), 2, Stop()))
    assert raised.value.missing == "thing"


class TwoFieldsError(Exception):
    """Exception, as of a plug-in, that cannot be pickled."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")


def test_what_cannot_be_pickled_is_told_in_words() -> None:
    def fail(number: int) -> int:
        raise TwoFieldsError(number, "odd")

    with pytest.raises(HarnessError, match=r"^TwoFieldsError: 0: odd$"):
        list(side_by_side(fail, range(3), 2, Stop()))


def test_a_process_that_dies_is_said_to_have() -> None:
    with pytest.raises(HarnessError, match="--jobs 2: a process died during a run"):
        list(
            side_by_side(lambda number: os._exit(1) if number == 3 else number, range(9), 2, Stop())
        )


def test_no_process_outlives_a_command_that_is_killed(tmp_path: Path) -> None:
    words = f"--cluster sim --count 1000 --jobs 2 --report none --time-limit 2 --store {tmp_path}"
    command = subprocess.Popen([sys.executable, "-m", "harness.cli.main", "run", *words.split()])
    children = Path(f"/proc/{command.pid}/task/{command.pid}/children")
    wait_until(lambda: len(children.read_text().split()) == 2, "two processes at work")
    processes = [Path("/proc", number, "stat") for number in children.read_text().split()]
    command.kill()
    command.wait()
    wait_until(lambda: not any(map(runs, processes)), "nobody is left")


def test_runs_side_by_side_leave_what_they_leave_one_after_the_other(tmp_path: Path) -> None:
    found = []
    for jobs in ("1", "2"):
        store = tmp_path / jobs
        words = "--cluster sim --nemesis partition --read linearizable --report none"
        words += " --time-limit 2 --rate 30 --seed 7 --count 3"
        command.main([*words.split(), "--jobs", jobs, "--store", str(store)], standalone_mode=False)
        stored = sorted(store.glob("*/2*"), key=lambda path: path.name.rpartition("-")[2])
        names = ("history.jsonl", "results.json")
        found.append([(run / name).read_bytes() for run in stored for name in names])
    assert len(found[0]) == 6
    assert found[0] == found[1]


def test_jobs_are_for_simulated_servers() -> None:
    with pytest.raises(UsageError, match="--jobs 2: expected 1, or --cluster sim"):
        command.main(["--cluster", "docker", "--jobs", "2"], standalone_mode=False)

"""Faults of clocks: what readings show, and what the library does to a program."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.clusters.clock_library import change_state, compile_library, write_state
from harness.core.clock_fault import SECOND, ClockFault, ClockReading, shows, wrong

PROGRAM = """
import sys, time
for line in sys.stdin:
    if line.strip() == "sleep":
        time.sleep(0.3)
    print(time.time_ns(), time.monotonic_ns(), flush=True)
"""


def reading(at_s: float, least_s: float, most_s: float) -> ClockReading:
    return ClockReading(*(round(value * SECOND) for value in (at_s, least_s, most_s)))


@pytest.mark.parametrize(
    ("fault", "readings", "why"),
    [
        (ClockFault(offset_s=10), [reading(0, 9.5, 10.6)], None),
        (ClockFault(offset_s=10), [reading(0, -0.1, 1)], "an error of -0.1 to +1.0 s"),
        (ClockFault(offset_s=10), [reading(0, -1, 12)], "an error of -1.0 to"),
        (ClockFault(offset_s=10), [], "not answered"),
        (ClockFault(rate=3), [reading(0, 0, 1), reading(2, 4, 5)], None),
        (ClockFault(rate=3), [reading(0, 0, 1), reading(2, 0, 1)], "-1.0 to 1.0 s"),
        (ClockFault(rate=1 / 3), [reading(0, 0, 1), reading(3, -3, -2)], None),
        (ClockFault(rate=0), [reading(0, 0, 0.01), reading(1, -1, -0.98)], None),
        (ClockFault(rate=0), [reading(0, 0, 1)], "in 0.0 s its clock went wrong by"),
        (
            ClockFault(offset_s=10, period_s=0.2),
            [reading(0, 10, 10.1), reading(1, 0, 0.1)],
            None,
        ),
        (ClockFault(offset_s=10, period_s=0.2), [reading(0, 10, 10.1)], "of +10.0 to +10.1 s only"),
    ],
)
def test_a_fault_counts_when_readings_show_it(
    fault: ClockFault, readings: list[ClockReading], why: str | None
) -> None:
    found = shows(fault, readings)
    if why is None:
        assert found is None
    else:
        assert why in (found or "")


def test_a_clock_is_right_only_if_that_is_known() -> None:
    assert wrong(reading(0, -0.1, 1)) is None
    assert wrong(reading(0, 9, 10)) == "its clock shows an error of +9.0 to +10.0 s"
    assert wrong(reading(0, -5, 5)) == "its clock was read with an uncertainty of 10.0 s"


class Program:
    """Program with a clock that the file `state` makes wrong."""

    def __init__(self, directory: Path) -> None:
        self.state = directory / "state"
        compile_library(directory / "clock.so", str(self.state))
        write_state(self.state, ClockFault())
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "LD_PRELOAD": str(directory / "clock.so")},
        )

    def ask(self, word: str = "") -> tuple[int, int]:
        """Return its wall clock and its monotonic clock."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()
        wall, mono = map(int, self.process.stdout.readline().split())
        return wall, mono


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    made = Program(tmp_path)
    yield made
    made.process.communicate()


def test_the_library_moves_the_wall_clock_alone(program: Program) -> None:
    change_state(program.state, ClockFault(offset_s=-3600))
    before, mono = time.time_ns(), time.monotonic_ns()
    wall, shown = program.ask()
    assert before - 3600 * SECOND <= wall <= time.time_ns() - 3600 * SECOND
    assert mono <= shown <= time.monotonic_ns()
    change_state(program.state, ClockFault(rate=0))
    assert program.ask("sleep")[0] == program.ask()[0]
    change_state(program.state, ClockFault())
    assert time.time_ns() <= program.ask()[0]


def test_the_library_slows_every_clock_and_wait(program: Program) -> None:
    wall, mono = program.ask()
    change_state(program.state, ClockFault(rate=1 / 3))
    began = time.monotonic_ns()
    slept_wall, slept_mono = program.ask("sleep")
    assert time.monotonic_ns() - began >= 0.9 * SECOND
    taken = time.monotonic_ns() - mono
    assert 0.3 * SECOND <= slept_mono - mono < taken
    assert slept_wall - wall < taken
    change_state(program.state, ClockFault())
    _, after = program.ask()
    assert after >= slept_mono, "a monotonic clock never goes back"
    assert time.time_ns() - SECOND // 2 <= program.ask()[0], "the wall clock is right again"


def test_the_library_strobes(program: Program) -> None:
    change_state(program.state, ClockFault(offset_s=100, period_s=0.01))
    seen, deadline = set(), time.monotonic() + 30
    while len(seen) < 2 and time.monotonic() < deadline:
        seen.add(round((program.ask()[0] - time.time_ns()) / SECOND, -2))
    assert seen == {0, 100}

"""However a run is told to stop, and however often: nothing of it is left, or it says what removes
the rest. On real servers and a real terminal."""

import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from real_servers import left, wait_until
from test_end_to_end import HARNESS, SMALL

pytestmark = pytest.mark.containers


class OnTerminal:
    """A run in a terminal of its own; its standard error goes to a file, for a closed terminal
    shows nothing."""

    def __init__(self, store: Path, *arguments: str) -> None:
        self._errors = store / "errors"
        self._keyboard, screen = os.openpty()
        command = [*HARNESS, "run", "--store", str(store), *SMALL, *arguments]
        with self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                ["setsid", "--ctty", *command], stdin=screen, stdout=screen, stderr=errors
            )
        os.close(screen)
        self._shown = bytearray()
        self._over = threading.Event()
        self._looking = threading.Thread(target=self._look)
        self._looking.start()

    def press_ctrl_c(self) -> None:
        os.write(self._keyboard, b"\x03")

    def close(self) -> None:
        """Close the terminal's window: SIGHUP, and every later write fails."""
        self._over.set()
        self._looking.join()
        os.close(self._keyboard)

    def ended(self) -> tuple[int, str]:
        """Exit status and standard error."""
        status = self.process.wait(timeout=300)
        if not self._over.is_set():
            self.close()
        return status, self._errors.read_text()

    def shows(self, text: str) -> bool:
        return text in self._shown.decode(errors="replace")

    def _look(self) -> None:
        while not self._over.is_set():
            if select.select([self._keyboard], [], [], 0.05)[0]:
                try:
                    self._shown += os.read(self._keyboard, 65536)
                except OSError:  # the run has ended
                    return


def things(store: Path) -> list[str]:
    return [name for name in left(store) if not name.startswith("/")]


def starting(store: Path) -> OnTerminal:
    """Start a run and return it when some of its containers have been created, but not all."""
    run = OnTerminal(store, "--time-limit", "60")
    wait_until(lambda: len(things(store)) > 8, "pods are there")
    return run


def test_ctrl_c_pressed_again_and_again_while_servers_start_leaves_nothing(tmp_path: Path) -> None:
    run = starting(tmp_path)
    until_it_ends(run, run.press_ctrl_c)
    assert run.ended() == (255, "\nharness: interrupted: SIGINT received\n")
    assert things(tmp_path) == []


def test_the_display_says_what_ctrl_c_does_and_what_would_be_faster(tmp_path: Path) -> None:
    run = starting(tmp_path)
    run.press_ctrl_c()
    wait_until(lambda: run.shows("SIGINT received: ending the run and cleaning up"), "it says so")
    run.press_ctrl_c()
    wait_until(lambda: run.shows("received 2 times") and run.shows("harness clean"), "it says how")
    assert run.ended()[0] == 255
    assert things(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_from_elsewhere_while_servers_start_leave_nothing(
    tmp_path: Path, number: signal.Signals
) -> None:
    run = starting(tmp_path)
    until_it_ends(run, lambda: run.process.send_signal(number))
    assert run.ended() == (255, f"\nharness: interrupted: {number.name} received\n")
    assert things(tmp_path) == []


def test_a_terminal_that_is_closed_while_servers_start_leaves_nothing(tmp_path: Path) -> None:
    run = starting(tmp_path)
    run.close()
    assert run.ended() == (255, "\nharness: interrupted: SIGHUP received\n")
    assert things(tmp_path) == []


def test_a_terminal_that_is_closed_during_a_fault_leaves_a_judged_run_and_nothing_else(
    tmp_path: Path,
) -> None:
    run = OnTerminal(tmp_path, "--nemesis", "partition", "--time-limit", "60", "--duration", "60")
    journal = tmp_path / "latest" / "history.jsonl"
    cut = b'"kind":"ok","f":"partition"'
    wait_until(lambda: journal.exists() and cut in journal.read_bytes(), "a fault")
    run.close()
    status, errors = run.ended()
    assert (status in (1, 2), errors) == (True, "")
    assert (tmp_path / "latest" / "results.json").exists()
    assert things(tmp_path) == []


def until_it_ends(run: OnTerminal, act: Callable[[], None]) -> None:
    """Repeat `act` five times a second until the run ends."""
    while run.process.poll() is None:
        act()
        time.sleep(0.2)

"""Remains of dead runs are distinguished from property of live runs."""

import subprocess
import sys

import pytest

from harness.core import os_process


def test_this_process_is_alive() -> None:
    assert os_process.is_alive(os_process.this_process())


def test_a_process_that_ended_is_not() -> None:
    program = "from harness.core import os_process; print(os_process.this_process())"
    done = subprocess.run((sys.executable, "-c", program), capture_output=True, text=True)
    text = done.stdout.strip()
    assert text.count(":") >= 2
    assert not os_process.is_alive(text)


def test_a_zombie_is_not() -> None:
    program = "from harness.core import os_process; print(os_process.this_process(), flush=True)"
    with subprocess.Popen((sys.executable, "-c", program), stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        text = child.stdout.read().decode().strip()  # until it ended; nobody has waited for it
        while os_process.is_alive(text):
            pass
        assert child.returncode is None


def changed(at: int, value: str) -> str:
    parts = os_process.this_process().split(":", 2)
    parts[at] = value
    return ":".join(parts)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(changed(1, "1"), id="the pid came round again"),
        pytest.param(changed(2, "another boot"), id="another boot"),
        "",
        "nobody",
        "1",
        "-1:2:3",
    ],
)
def test_anything_else_is_nobodys(text: str) -> None:
    assert not os_process.is_alive(text)

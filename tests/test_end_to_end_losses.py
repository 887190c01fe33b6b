"""Remains of a run that is killed, that cannot print, or whose Docker engine is lost."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from real_servers import left, wait_until
from test_end_to_end import (
    HARNESS,
    PLAIN,
    SMALL,
    await_fault,
    begun,
    command,
    ended,
    has_op,
    latest,
    nemesis_ops,
)

from harness.core.op import Kind
from harness.store.journal import read_history

pytestmark = pytest.mark.containers


@pytest.mark.usefixtures("orphans")
def test_what_a_killed_run_left_is_cleaned_and_its_history_judged(tmp_path: Path) -> None:
    forever = ["--time-limit", "60", "--duration", "60"]
    process = begun(tmp_path, "--nemesis", "partition", *forever, *SMALL)
    await_fault(process, tmp_path)
    process.kill()
    process.communicate()
    assert left(tmp_path) != []
    cleaned = json.loads(command("clean", "--json").stdout)
    assert cleaned["removed"] != []
    assert left(tmp_path) == []
    checked = command("check", str(latest(tmp_path).path), "--json")
    report = json.loads(checked.stdout)
    assert report["status"] in ("INVALID", "UNKNOWN"), "nobody saw it converge"
    assert "the run never ended: running" in latest(tmp_path).results()["troubles"]


MOMENTS: dict[str, Callable[[Path], bool]] = {
    "the network is there": lambda store: any(not name.startswith("/") for name in left(store)),
    "servers start": lambda store: len(left(store)) > 9,
    "the cluster heals": lambda store: has_op(store, '"kind":"invoke","f":"heal"'),
    "final reads": lambda store: has_op(store, '"f":"final-read"'),
    "half is removed": lambda store: has_op(store, '"final-read"') and len(left(store)) < 12,
}
"""Conditions at which a run is killed, by name."""


@pytest.mark.usefixtures("orphans")
@pytest.mark.parametrize("moment", MOMENTS)
def test_whenever_a_run_is_killed_clean_removes_all_of_it(tmp_path: Path, moment: str) -> None:
    process = begun(tmp_path, "--nemesis", "partition", "--time-limit", "4", *SMALL)
    wait_until(lambda: MOMENTS[moment](tmp_path), moment, during=process)
    process.kill()
    process.communicate()
    assert command("clean").returncode == 0
    assert left(tmp_path) == []


@pytest.mark.parametrize("output", ["a closed pipe", "a full disk"])
def test_output_that_nobody_can_read_changes_no_verdict(tmp_path: Path, output: str) -> None:
    plan = ["--time-limit", "5", "--seed", "1", *PLAIN, *SMALL]
    run = [*HARNESS, "run", "--store", str(tmp_path), *plan]
    into = {"a closed pipe": "| true", "a full disk": "> /dev/full"}[output]
    script = f'''"$@" {into}; exit "${{PIPESTATUS[0]}}"'''
    done = subprocess.run(
        ["bash", "-c", script, "bash", *run], stderr=subprocess.PIPE, timeout=400, check=False
    )
    result = b"" if output == "a closed pipe" else b"No space left on device"
    assert (done.returncode, result in done.stderr) == (0, True), done.stderr
    assert (latest(tmp_path).info().state, latest(tmp_path).info().status) == ("finished", "VALID")
    assert left(tmp_path) == []


FORWARD = """
import asyncio, sys

async def pump(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()

async def accept(reader, writer):
    far_reader, far_writer = await asyncio.open_unix_connection(sys.argv[2])
    await asyncio.gather(
        pump(reader, far_writer), pump(far_reader, writer), return_exceptions=True
    )

async def main():
    server = await asyncio.start_unix_server(accept, sys.argv[1])
    await server.serve_forever()

asyncio.run(main())
"""


def forwarding(socket: Path) -> "subprocess.Popen[bytes]":
    """Start a process that makes the real engine answer on another socket."""
    socket.unlink(missing_ok=True)
    return subprocess.Popen([sys.executable, "-c", FORWARD, str(socket), "/var/run/docker.sock"])


@pytest.mark.usefixtures("orphans")
@pytest.mark.parametrize("comes_back", [True, False], ids=["closed for a while", "silent for good"])
def test_when_the_engine_is_lost_the_history_is_saved_and_judged(
    tmp_path: Path, comes_back: bool
) -> None:
    """The engine that this run sees is the real one behind a socket that closes or falls silent."""
    socket = tmp_path / "engine.sock"
    forward = forwarding(socket)
    try:
        wait_until(socket.exists, "the socket is there")
        process = begun(
            tmp_path,
            "--nemesis",
            "partition",
            # A silent engine counts as lost after three unanswered pings, which take 30 s, 5 s and
            # 5 s. A run that ends earlier by itself finds it silent only when it heals.
            "--duration",
            "300",
            "--time-limit",
            "300",
            *SMALL,
            DOCKER_HOST=f"unix://{socket}",
        )
        await_fault(process, tmp_path)
        forward.send_signal(signal.SIGKILL if comes_back else signal.SIGSTOP)
        if comes_back:
            judged = tmp_path / "latest" / "results.json"
            wait_until(judged.exists, "it is judged", during=process)
            forward.wait()
            forward = forwarding(socket)
        status, report, errors = ended(process, within_s=400)
    finally:
        forward.kill()
        forward.wait()
    assert report["status"] in ("INVALID", "UNKNOWN")
    run = latest(tmp_path)
    assert run.info().state == "finished"
    assert run.results()["status"] in ("INVALID", "UNKNOWN")
    troubles = run.results()["troubles"]
    assert troubles[0].startswith("the run was stopped: the cluster is lost: Docker engine: ")
    assert any("not healed" in trouble for trouble in troubles)
    # Followed by what ZooKeeper's log said before the loss.
    asked = [op for op in nemesis_ops(read_history(run.journal)) if op[0] != "trace"]
    assert asked[-1] == ("conformance", Kind.OK)
    if comes_back:
        assert status in (1, 2), errors
    else:
        assert status == 255, errors
        assert "harness clean removes what is left" in report["error"]
        assert command("clean").returncode == 0  # the engine is back
    assert left(tmp_path) == []

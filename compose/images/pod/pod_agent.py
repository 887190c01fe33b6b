"""Agent of a pod: execute commands inside it, one JSON object per line in and out.

The harness keeps one agent for each node running over `docker exec`, so that a command costs a
round trip and not the start of a process. The agent sees the pod's network and the database's
processes, because the database's container shares the pod's namespaces. It ends when its standard
input does.

It uses only the standard library and never a shell.
"""

import base64
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

PROC = Path("/proc")


class ProbeSocket:
    """Socket for datagrams that show whether a link carries packets. A nonce identifies each.

    It is UDP because TCP needs the link in the other direction too; a datagram tests one direction.
    """

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("", 0))
        self.socket.setblocking(False)

    @property
    def port(self) -> int:
        """Return the port on which this pod receives probes."""
        return int(self.socket.getsockname()[1])

    def send(self, probes: Iterable[dict[str, Any]]) -> None:
        """Send each {address, port, nonce} once, without waiting.

        A packet that a full queue or an unknown neighbour refuses counts as one that is lost.
        """
        for probe in probes:
            try:
                self.socket.sendto(probe["nonce"].encode(), (probe["address"], probe["port"]))
            except OSError:
                continue

    def heard(self, nonces: Iterable[str], wait_s: float) -> list[str]:
        """Return the nonces that have arrived, once all have or after `wait_s`."""
        missing, deadline = set(nonces), time.monotonic() + wait_s
        while missing:
            left = max(0.0, deadline - time.monotonic())
            if not select.select([self.socket], [], [], left)[0]:
                break
            missing.discard(self.socket.recv(64).decode(errors="replace"))
        return sorted(set(nonces) - missing)


def database_processes() -> list[dict[str, Any]]:
    """Return pid, name and thread states of each process that is not the pod's own.

    The pod's own processes are in the control group of this one, the database's in that of their
    container. Zombies are left out.
    """
    own, found = (PROC / "self/cgroup").read_text(), []
    for entry in PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if (entry / "cgroup").read_text() == own:
                continue
            name = (entry / "comm").read_text().strip()
            states = [thread_state(task) for task in (entry / "task").iterdir()]
        except (FileNotFoundError, ProcessLookupError):
            continue
        # A process whose main thread is a zombie is alive as long as another thread is.
        if any(state not in "ZX" for state in states):
            found.append({"pid": int(entry.name), "name": name, "states": "".join(states)})
    return found


def thread_state(task: Path) -> str:
    """Return the state of a thread as the letter of proc(5); X if the thread has ended.

    The name before the letter may contain brackets, so the text is split at the last one.
    """
    try:
        return (task / "stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def stopped(process: dict[str, Any]) -> bool:
    """Return whether every thread of the process is stopped or dead."""
    return all(state in "TtZX" for state in process["states"])


REACHED: dict[str, Callable[[list[dict[str, Any]]], bool]] = {
    "gone": lambda processes: not processes,
    "stopped": lambda processes: all(map(stopped, processes)),
    "continued": lambda processes: not any("T" in p["states"] for p in processes),
}


def signal_database(name: str, until: str, wait_s: float) -> dict[str, Any]:
    """Signal every database process until the state is reached or `wait_s` has passed.

    Processes that appear meanwhile are signalled too. Return the remaining processes, whether the
    state was reached, and how many processes were signalled.
    """
    number, deadline = getattr(signal, f"SIG{name}"), time.monotonic() + wait_s
    signalled: set[int] = set()
    while True:
        processes = database_processes()
        for process in processes:
            if process["pid"] not in signalled:
                signalled.add(process["pid"])
                try:
                    os.kill(process["pid"], number)
                except ProcessLookupError:
                    continue
        processes = database_processes()
        new = any(process["pid"] not in signalled for process in processes)
        reached = not new and REACHED[until](processes)
        if reached or time.monotonic() > deadline:
            return {"processes": processes, "reached": reached, "signalled": len(signalled)}
        time.sleep(0.005)


def run(argv: list[str], text: str, wait_s: float) -> dict[str, Any]:
    """Run a program to its end and return its status and output; kill it after `wait_s`."""
    done = subprocess.run(
        argv, input=text, capture_output=True, text=True, timeout=wait_s, check=False
    )
    return {"status": done.returncode, "stdout": done.stdout, "stderr": done.stderr}


def piece(directory: str, name: str, offset: int, bytes_max: int) -> dict[str, Any]:
    """Return the names in a directory and the bytes of one of its files from `offset` on, without
    the zeros at their end: compressed, in base 64, and how many they are with these zeros.

    There are none if the directory or the file does not exist, or `name` is "".
    """
    files: list[str] = []
    data = b""
    with suppress(FileNotFoundError):
        files = os.listdir(directory)
        if name in files:
            with Path(directory, name).open("rb") as file:
                file.seek(offset)
                data = file.read(bytes_max)
    packed = base64.b64encode(zlib.compress(data.rstrip(b"\0"), 1)).decode()
    return {"files": files, "bytes": len(data), "packed": packed}


PROGRAMS: dict[str, list[str]] = {
    "proxy": [sys.executable, "/usr/local/bin/pod_proxy.py"],
    "packet-queue": ["/usr/local/bin/packet-queue", "7", "/run/harness-packet-queue.sock"],
}
"""Command lines of the programs that outlive this process. Each takes commands on a Unix socket."""


def start(program: str) -> bool:
    """Start a program; return False if it was running already."""
    if running(program):
        return False
    # The standard error of this process is the connection to the harness.
    with Path(f"/run/harness-{program}.log").open("ab") as log:
        started = subprocess.Popen(
            PROGRAMS[program],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    assert started.stdout is not None, "stdout=PIPE was passed"
    said = started.stdout.readline().decode(errors="replace").strip()
    if said != "ready":
        raise RuntimeError(f"the program {program} did not start: {said or 'it says nothing'}")
    return True


def running(program: str) -> bool:
    """Return whether a program accepts commands."""
    try:
        connected(program).close()
    except OSError:
        return False
    return True


def connected(program: str) -> socket.socket:
    """Return a connection to a program. Raises OSError if it does not run."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(5)
    try:
        connection.connect(f"/run/harness-{program}.sock")
    except OSError:
        connection.close()
        raise
    return connection


def ask(program: str, message: Any, start_it: bool = False) -> Any:
    """Send one command to a program and return its answer; see there."""
    if start_it:
        start(program)
    with connected(program) as connection:
        connection.sendall(json.dumps(message).encode() + b"\n")
        return json.loads(connection.makefile().readline())


def main() -> None:
    """Execute commands until the input ends."""
    probes = ProbeSocket()
    commands: dict[str, Callable[..., Any]] = {
        "hello": lambda: {"port": probes.port},
        "send": probes.send,
        "heard": probes.heard,
        "processes": database_processes,
        "signal": signal_database,
        "run": run,
        "piece": piece,
        "start": start,
        "running": running,
        "ask": ask,
    }
    for line in sys.stdin:
        try:
            command, arguments = json.loads(line)
            answer = {"ok": commands[command](**arguments)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()

"""Runs inside a node's pod and does there what it is told, a JSON object a line in and out.

The harness keeps one of these open for each node over `docker exec`, so that a command costs a
round trip and not the start of a process. It sees the pod's network, and the database's
processes, for both containers share the pod's. It ends when its standard input does.

Standard library only; nothing is ever given to a shell.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

PROC = Path("/proc")


class Probes:
    """Datagrams that say whether a link carries packets, each known by its nonce.

    UDP, because an answer would need the link back: this tells one direction alone.
    """

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("", 0))
        self.socket.setblocking(False)

    @property
    def port(self) -> int:
        """Where this pod listens."""
        return int(self.socket.getsockname()[1])

    def send(self, probes: Iterable[dict[str, Any]]) -> None:
        """Sends each {address, port, nonce} once. Never waits: a full queue or an unknown
        neighbour is a packet that does not arrive."""
        for probe in probes:
            try:
                self.socket.sendto(probe["nonce"].encode(), (probe["address"], probe["port"]))
            except OSError:
                continue

    def heard(self, nonces: Iterable[str], wait_s: float) -> list[str]:
        """Which of the nonces have come, after all have or `wait_s` has passed."""
        missing, deadline = set(nonces), time.monotonic() + wait_s
        while missing:
            left = max(0.0, deadline - time.monotonic())
            if not select.select([self.socket], [], [], left)[0]:
                break
            missing.discard(self.socket.recv(64).decode(errors="replace"))
        return sorted(set(nonces) - missing)


def database_processes() -> list[dict[str, Any]]:
    """Each process that is not the pod's own: its pid, name, and the states of its threads.

    The pod's own are in this process's control group, the database's in that of their
    container. Zombies are gone already.
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
        # A process whose first thread is a zombie is not gone while another thread lives.
        if any(state not in "ZX" for state in states):
            found.append({"pid": int(entry.name), "name": name, "states": "".join(states)})
    return found


def thread_state(task: Path) -> str:
    """One letter, see proc(5); X of a thread that ended meanwhile. The name before the letter
    may contain anything, hence the last bracket."""
    try:
        return (task / "stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def stopped(process: dict[str, Any]) -> bool:
    """Whether every thread is."""
    return all(state in "TtZX" for state in process["states"])


REACHED: dict[str, Callable[[list[dict[str, Any]]], bool]] = {
    "gone": lambda processes: not processes,
    "stopped": lambda processes: all(map(stopped, processes)),
    "continued": lambda processes: not any("T" in p["states"] for p in processes),
}


def signal_database(name: str, until: str, wait_s: float) -> dict[str, Any]:
    """Signals every database process until the state is reached or `wait_s` has passed, those
    that appear meanwhile too. Returns the processes at the end and whether it was reached."""
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
    """One program to its end, or killed after `wait_s`."""
    done = subprocess.run(
        argv, input=text, capture_output=True, text=True, timeout=wait_s, check=False
    )
    return {"status": done.returncode, "stdout": done.stdout, "stderr": done.stderr}


PROXY = "/run/harness-proxy.sock"


def proxy_start() -> bool:
    """Starts the proxy unless it runs; it outlives this process. Whether it is new."""
    try:
        proxy("state", {})
    except OSError:
        # Not to this process' standard error: that is the harness' connection.
        with Path("/run/harness-proxy.log").open("ab") as log:
            started = subprocess.Popen(
                [sys.executable, "/usr/local/bin/pod_proxy.py"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        assert started.stdout is not None, "it was asked for"
        if started.stdout.readline().strip() != b"ready":
            raise RuntimeError("the proxy did not start") from None
        return True
    return False


def proxy(what: str, arguments: dict[str, Any]) -> Any:
    """One command to the proxy, see pod_proxy.py."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(5)
        connection.connect(PROXY)
        connection.sendall(json.dumps([what, arguments]).encode() + b"\n")
        return json.loads(connection.makefile().readline())


def main() -> None:
    """Answers until the input ends."""
    probes = Probes()
    commands: dict[str, Callable[..., Any]] = {
        "hello": lambda: {"port": probes.port},
        "send": probes.send,
        "heard": probes.heard,
        "processes": database_processes,
        "signal": signal_database,
        "run": run,
        "proxy_start": proxy_start,
        "proxy": proxy,
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

"""Asks ZooKeeper servers again and again for their newest transaction.

It does so in a process of its own, `python -m harness.clusters.progress HOST:PORT…`, for in one
that also makes a run's calls an answer waits for the interpreter several times as long as for the
server. The process ends when its standard input does, so with whoever started it.
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from harness.clusters import keeper
from harness.core.protocols import Endpoint

_LEADER_S: Final = 0.005
"""Time between an answer of the leader and the next request: with the time of an answer, the
precision with which transactions are dated."""
_OTHERS_S: Final = 0.05
"""The same of other servers, one of which may lead next."""


@contextmanager
def following_progress(
    servers: Iterable[Endpoint], heard: Callable[[float, float, int, bool], None]
) -> Iterator[None]:
    """Ask servers while the block runs, and call `heard` for each answer on another thread: when it
    was asked and answered, in wall-clock ms, the number of the server's newest transaction, and
    whether the server leads."""
    places = [f"{server.host}:{server.port}" for server in servers]
    command = [sys.executable, "-m", __name__, *places]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as asking:
        assert asking.stdout is not None, "it is a pipe"
        thread = threading.Thread(target=_hear, args=(asking.stdout, heard), daemon=True)
        thread.start()
        try:
            yield
        finally:
            asking.kill()
            thread.join()


def _hear(lines: Iterable[str], heard: Callable[[float, float, int, bool], None]) -> None:
    for line in lines:
        if not line.endswith("\n"):
            return
        asked_ms, answered_ms, zxid, leads = line.split()
        heard(float(asked_ms), float(answered_ms), int(zxid), leads == "1")


def _ask(server: Endpoint, lock: threading.Lock) -> None:
    while True:
        asked_ms = time.time() * 1e3
        state = keeper.state(server)
        leads = state is not None and state.mode == "leader"
        if state is not None and state.zxid:
            with lock:
                print(f"{asked_ms} {time.time() * 1e3} {state.zxid} {leads:d}", flush=True)
        time.sleep(_LEADER_S if leads else _OTHERS_S)


def main(places: Iterable[str]) -> None:
    """Ask these servers, and write their answers, a line each, until standard input ends."""
    lock = threading.Lock()
    for host, _, port in (place.rpartition(":") for place in places):
        server = Endpoint(host, int(port))
        threading.Thread(target=_ask, args=(server, lock), daemon=True).start()
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])

"""What servers say of their newest transactions is heard; who asks them ends with its reader."""

import subprocess
import sys
import threading

from test_clusters_keeper import ZOOKEEPER_SRVR, server

from harness.clusters.progress import following_progress


def test_every_answer_of_a_server_is_heard() -> None:
    heard: list[tuple[float, float, int, bool]] = []
    three = threading.Event()

    def hear(*answer: float) -> None:
        asked_ms, answered_ms, zxid, leads = answer
        heard.append((asked_ms, answered_ms, int(zxid), bool(leads)))
        if len(heard) == 3:
            three.set()

    with server({"srvr": ZOOKEEPER_SRVR}) as endpoint, following_progress([endpoint], hear):
        assert three.wait(60)
    assert {(zxid, leads) for _, _, zxid, leads in heard} == {(0x30000002A, False)}
    times = [time for asked_ms, answered_ms, *_ in heard for time in (asked_ms, answered_ms)]
    assert times == sorted(times)


def test_the_process_ends_with_its_parent_even_if_no_server_answers() -> None:
    """Both write to one pipe, which ends when neither has it any more."""
    parent = (
        "import subprocess, sys, time\n"
        "command = [sys.executable, '-m', 'harness.clusters.progress', '127.0.0.1:1']\n"
        "subprocess.Popen(command, stdin=subprocess.PIPE)\n"
        "print('started', flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == b"started\n"
        started.kill()
        assert started.communicate(timeout=60) == (b"", None)

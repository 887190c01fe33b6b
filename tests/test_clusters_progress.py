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


def test_the_process_ends_when_nobody_reads_it() -> None:
    with server({"srvr": ZOOKEEPER_SRVR}) as endpoint:
        place = f"{endpoint.host}:{endpoint.port}"
        command = [sys.executable, "-m", "harness.clusters.progress", place]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as asking:
            assert asking.stdout is not None
            assert asking.stdout.readline()
            asking.stdout.close()
            assert asking.wait(60) != 0

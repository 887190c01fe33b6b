"""Parts of clusters that need no Docker engine: parallel calls, logs, tables of connections."""

import threading
from typing import Any, cast

import pytest
from docker import DockerClient
from docker.errors import NotFound

from harness.clusters.connections import established
from harness.clusters.logs import informative_lines, transactions_of
from harness.clusters.parallel import on_each
from harness.clusters.pods import PodAgent
from harness.core.errors import ClusterError


def test_every_item_once_and_in_order() -> None:
    assert list(on_each(["b", "a", "b"], str.upper).items()) == [("b", "B"), ("a", "A")]
    assert on_each([], str.upper) == {}


def test_all_at_once() -> None:
    meet = threading.Barrier(3, timeout=100)
    assert len(on_each(range(3), lambda _: meet.wait())) == 3


def test_the_first_error_is_raised_when_all_have_ended() -> None:
    ended = []

    def do(item: int) -> None:
        if item != 2:
            raise ClusterError(f"node {item}")
        ended.append(item)

    with pytest.raises(ClusterError, match="node 1"):
        on_each([1, 2, 3], do)
    assert ended == [2]


LOG = """\
2026.11.23 21:36:31.209657 [ 6377 ] {} <Error> AsyncLoader: Code: 79. DB::Exception: Unknown mark

0. Poco::Exception::Exception(String const&, int) @ 0x000000001977b299
14. _start @ 0x0000000000003111
 (version 24.8.4.1). (ASYNC_LOAD_FAILED) (version 24.8.4.1), Stack trace (when copying this message)
 (version 24.8.4.1)
2026.11.23 21:36:34.080703 [ 6653 ] {} <Warning> Application: Integrity check skipped
"""


def test_lines_with_a_date_are_told_and_stack_traces_are_not() -> None:
    first, *_, last = LOG.splitlines()
    assert informative_lines(LOG) == f"{first}\n{last}"


def test_long_lines_are_cut_and_only_the_last_ones_are_told() -> None:
    text = "\n".join(f"line {n} {'x' * 1000}" for n in range(40))
    told = informative_lines(text).splitlines()
    assert [line.split()[1] for line in told] == [str(n) for n in range(25, 40)]
    assert {len(line) for line in told} == {401}


SOCKETS = """\
  sl  local_address rem_address   st tx_queue rx_queue
   4: 00000000:2331 00000000:0000 0A 00000000:00000000
   6: 040015AC:B7F4 020015AC:0885 01 00000000:00000000
   7: 0000000000000000FFFF0000020015AC:0885 0000000000000000FFFF0000040015AC:B7F4 01 00000000
   8: 040015AC:B7F6 020015AC:0885 06 00000000:00000000
"""


def test_connections_that_are_open_are_read_from_the_table_of_either_family() -> None:
    assert [*established(SOCKETS)] == [(47092, "172.21.0.2", 2181), (2181, "172.21.0.4", 47092)]


class PackingAgent:
    """A pod whose packing of a ZooKeeper log ends with a status."""

    def __init__(self, status: int) -> None:
        self.done = {"status": status, "stdout": "bG9n", "stderr": "tar: No space left on device"}

    def call(self, command: str, **arguments: Any) -> Any:
        return self.done


class RunningPod:
    """An engine whose containers run, and have no files."""

    status = "running"

    def __init__(self) -> None:
        self.containers = self.api = self

    def get(self, name: str) -> "RunningPod":
        return self

    def get_archive(self, container: str, path: str) -> Any:
        raise NotFound(f"{container} has no {path}")


def packed_log(status: int) -> bytes | None:
    return transactions_of(
        cast(DockerClient, RunningPod()), "zk1", "zk1-pod", cast(PodAgent, PackingAgent(status))
    )


def test_a_log_that_a_pod_cannot_pack_is_an_error_and_not_no_log() -> None:
    assert packed_log(0) == b"log"
    assert packed_log(3) is None
    with pytest.raises(ClusterError, match=r"zk1-pod: .* not packed within 60 s"):
        packed_log(124)
    with pytest.raises(ClusterError, match="not stored: tar: No space left on device"):
        packed_log(2)

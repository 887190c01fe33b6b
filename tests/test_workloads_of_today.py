"""Mechanisms that only current servers have, on real ones: a short run of each."""

from pathlib import Path

import pytest
from test_workloads_on_servers import judged, verdicts_of

from harness.clusters.docker_cluster import DockerCluster
from harness.core.capabilities import HasFailpoints
from harness.core.verdict import Status

pytestmark = pytest.mark.containers


@pytest.mark.parametrize(
    ("name", "words", "seconds", "decisive"),
    [
        ("quorum-set", ["insert=parallel", "quorum=auto"], 4, "set-full"),
        ("dedup", ["token=true"], 4, "dedup"),
        ("ddl", ["engine=replicated", "statements=3"], 5, "ddl"),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, list) else str(value),
)
def test_what_they_promise_holds_without_faults(
    servers: DockerCluster,
    tmp_path: Path,
    name: str,
    words: list[str],
    seconds: float,
    decisive: str,
) -> None:
    judgement, _ = judged(servers, tmp_path, name, *words, seconds=seconds)
    verdicts = verdicts_of(judgement)
    assert verdicts[decisive].status is Status.VALID, verdicts[decisive].summary
    assert verdicts[decisive].checked


def test_what_was_inserted_asynchronously_is_read_in_the_end(
    servers: DockerCluster, tmp_path: Path
) -> None:
    # SYSTEM SYNC REPLICA promises more, and does not keep it where a ZooKeeper server lags, as it
    # may on a busy machine: see the scenario unsynced-read.
    words = ["insert=async,async-no-wait", "read=synced", "cancel=kill"]
    judgement, _ = judged(servers, tmp_path, "quorum-set", *words, seconds=6)
    verdict = verdicts_of(judgement)["set-full"]
    assert verdict.figures["eventual"] == Status.VALID, verdict.summary
    assert verdict.checked


def test_failpoints_are_armed_where_they_are_known_and_disarmed(servers: DockerCluster) -> None:
    point, unknown = "replicated_sends_failpoint", "no_such_failpoint"
    assert servers.part(HasFailpoints).arm(["ch1", "ch2"], point)
    assert not servers.part(HasFailpoints).arm(["ch1"], unknown)
    assert servers.part(HasFailpoints).armed("ch1", point) in (True, None), (
        "25.8 has no list of them"
    )
    for node in ("ch1", "ch2", "ch3"):
        servers.part(HasFailpoints).disarm([node], point)
        servers.part(HasFailpoints).disarm([node], unknown)
        assert not servers.part(HasFailpoints).armed(node, point)

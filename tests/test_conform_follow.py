"""The logs of an ensemble followed while they grow: what is replayed then is what is replayed at
the end, however the bytes arrive."""

import json
import random
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from checkers.replication.conformance import CONFORMANCE
from harness.conform.dating import Dating, Progress
from harness.conform.ensemble import Merge, merged, read_archive
from harness.conform.follow import Follower
from harness.conform.replay import TableReplay, replay, tables
from harness.conform.steps import STEPS
from harness.conform.txnlog import LogTail, Txn
from harness.core.errors import HarnessError
from harness.run.conformance import Following
from tests.server_protocols import V25

TRACE = Path(__file__).parent / "traces" / "mutations.txnlog.tar.gz"
TXNS = read_archive(TRACE)
ROOT = tables(TXNS)[-1]
EPOCH = 1 << 32
ZEROS = bytes(4096)


def log_bytes() -> bytes:
    with tarfile.open(TRACE) as archive:
        member = max(archive.getmembers(), key=lambda m: m.size)
        content = archive.extractfile(member)
        assert content is not None
        return content.read()


LOG = log_bytes().rstrip(b"\0")
"""The log file of a real server; its last transaction ends with the letter B."""


@dataclass
class Logs:
    """Log files that grow, of three servers."""

    written: dict[str, dict[str, bytes]] = field(default_factory=lambda: {n: {} for n in NODES})

    def transactions_since(self, node: str, file: str, offset: int) -> tuple[Sequence[str], bytes]:
        data = self.written[node].get(file, b"") + ZEROS
        return sorted(self.written[node]), data[offset : offset + 100_000] if file else b""


NODES = ("zk1", "zk2", "zk3")


def txn(zxid: int) -> Txn:
    return Txn(zxid, 0, 0, (), ends_session=False)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_followed_is_what_is_replayed_at_the_end(seed: int) -> None:
    draw = random.Random(seed)
    logs = Logs()
    follower = Follower(logs, NODES, ROOT, V25)
    read = dict.fromkeys(NODES, 0)
    while min(read.values()) < len(LOG):
        for node in NODES:
            read[node] = min(len(LOG), read[node] + draw.randrange(40_000))
            logs.written[node]["log.1"] = LOG[: read[node]]
        assert follower.look() == []
    follower.look(last=True)
    batch = replay(ROOT, TXNS, V25)
    assert follower.results() == {ROOT: batch}
    assert (follower.transactions, follower.gaps) == (len(TXNS), [])


def test_a_run_that_conforms_keeps_its_steps_and_their_digest() -> None:
    """Two runs whose steps differ in anything have different digests."""
    logs = Logs()
    following = Following(Follower(logs, NODES, ROOT, V25))
    for node in NODES:
        logs.written[node]["log.1"] = LOG
    following.look(last=True)
    (name, said), *traces = following.found(0)
    whole = replay(ROOT, TXNS, V25)
    assert {"Mutation", "AssignMutation", "FinishMutations"} <= whole.actions.keys() <= STEPS
    table = {
        "steps": whole.steps,
        "actions": dict(whole.actions),
        "elements": list(whole.elements),
        "departures": {},
        "stopped": None,
        "unmodelled": False,
    }
    assert (name, said["tables"]) == (CONFORMANCE, {ROOT: {**table, "digest": whole.digest}})
    assert [name for name, _ in traces] == ["trace"]
    shorter = TXNS[: len(TXNS) // 2]
    assert replay(ROOT, shorter, V25).digest != whole.digest


class BrokenLogs(Logs):
    """Log files that cannot be read any more."""

    def transactions_since(self, node: str, file: str, offset: int) -> tuple[Sequence[str], bytes]:
        raise HarnessError(f"{node}: two servers differ")


def test_what_a_log_said_before_an_error_is_kept() -> None:
    logs = Logs()
    follower = Follower(logs, NODES, ROOT, V25)
    following = Following(follower)
    for node in NODES:
        logs.written[node]["log.1"] = LOG
    following.look()
    facts = len(follower.traces[ROOT].facts)
    follower.logs = BrokenLogs()
    following.look(last=True)
    (name, said), (of_trace, trace) = following.found(0)
    assert (name, said) == (CONFORMANCE, {"unavailable": "zk1: two servers differ"})
    assert (of_trace, trace["table"], trace["gaps"]) == ("trace", ROOT, [])
    assert trace["ended"] == "zk1: two servers differ"
    assert len(json.loads(trace["facts"])) == facts > 0


def test_what_is_there_before_is_skipped_also_in_another_file() -> None:
    logs = Logs({node: {"log.1": LOG} for node in NODES})
    follower = Follower(logs, NODES, ROOT, V25)
    for node in NODES:
        logs.written[node]["log.2"] = LOG
    follower.look(last=True)
    assert (follower.transactions, follower.results()) == (0, {})


def test_a_tail_reads_each_transaction_once_and_refuses_what_is_no_log() -> None:
    tail, read = LogTail("log.1"), []
    for end in (3, 40, 1_000, 1_001, len(LOG)):
        read += tail.feed(LOG[tail.offset : end])
    assert tuple(read) == TXNS
    assert tail.feed(ZEROS) == []
    with pytest.raises(HarnessError, match=r"log\.2: is not a transaction log"):
        LogTail("log.2").feed(b"no log of ZooKeeper")
    broken, wrong = LogTail("log.1"), LOG[:100] + b"x" + LOG[101:]
    assert len(broken.feed(wrong)) == 1
    with pytest.raises(HarnessError, match=r"log\.1: the transaction at byte \d+ has a wrong"):
        broken.feed(wrong[broken.offset :])


def test_a_record_that_is_read_beside_its_write_is_read_again() -> None:
    """The server writes page by page, and a read may have the second page and not the first."""
    tail = LogTail("log.1")
    read = tail.feed(LOG[:8_000] + bytes(192) + LOG[8_192:])
    assert tail.torn_at == tail.offset <= 8_000
    assert 0 < len(read) < len(TXNS)
    read += tail.feed(LOG[tail.offset :])
    assert (tuple(read), tail.torn_at) == (TXNS, None)


def test_a_transaction_counts_when_most_servers_have_it() -> None:
    merge = Merge(3)
    merge.add([txn(EPOCH + 1), txn(EPOCH + 2)])
    assert merge.take() == []
    merge.add([txn(EPOCH + 1)])
    assert merge.take() == [txn(EPOCH + 1)]
    merge.add([txn(EPOCH + 3)])
    merge.add([txn(EPOCH + 3)])
    assert merge.take() == [txn(EPOCH + 2), txn(EPOCH + 3)]


def test_a_missing_transaction_is_waited_for_and_is_a_gap_at_the_end() -> None:
    merge = Merge(1)
    merge.add([txn(EPOCH + 1), txn(EPOCH + 3)])
    assert (merge.take(), merge.take(), merge.gaps) == ([txn(EPOCH + 1)], [], [])
    assert merge.take(last=True) == [txn(EPOCH + 3)]
    assert merge.gaps == [f"1 transactions from {EPOCH + 2:#x} are in no log"]


def test_a_new_epoch_waits_for_another_look_at_the_old_one() -> None:
    merge = Merge(3)
    old, new = [txn(EPOCH + 1), txn(EPOCH + 2)], [txn(2 * EPOCH + 1)]
    for servers in (old[:1], old[:1] + new, new):
        merge.add(servers)
    assert merge.take() == old[:1]
    merge.add(old)
    merge.add(old)
    assert merge.take() == [old[1], *new]
    alone = Merge(3)
    for servers in (old, old[:1] + new, new):
        alone.add(servers)
    assert (alone.take(), alone.take(), alone.dropped) == (old[:1], new, 1)
    assert merged([old, old[:1] + new, new], 3).txns == (old[0], *new)


def test_servers_that_differ_are_refused_while_it_goes_on() -> None:
    merge = Merge(3)
    merge.add([txn(EPOCH + 1)])
    with pytest.raises(HarnessError, match="two servers have different transactions"):
        merge.add([replace(txn(EPOCH + 1), time_ms=1)])


def test_a_departure_is_returned_with_its_transaction() -> None:
    table = TableReplay(ROOT, V25)
    index = next(i for i, one in enumerate(TXNS) if any("/log/log-" in c.path for c in one.changes))
    for one in TXNS[:index]:
        assert not table.take(one)
    assert table.take(TXNS[index]) == []
    assert table.take(TXNS[index]) == ("",)
    assert table.take(TXNS[index + 1]) == ()
    stopped = table.result().stopped
    assert stopped is not None
    assert (stopped.why, stopped.unmodelled) == ("entry 0 follows entry 0", False)


HOUR_MS = 3_600_000


def dated(*errors_ms: int, every_ms: int = 100, asked: Sequence[int] = (-40, 10)) -> Dating:
    """Return the dating of transactions one after another, the first of them at 100 s, whose dates
    are wrong by this. The leader did not have each when it was asked 40 ms before it, and had it in
    an answer 10 ms after it."""
    dating = Dating(99_000)
    for number, _ in enumerate(errors_ms):
        at_ms = 100_000 + number * every_ms
        dating.add(Progress(at_ms + asked[0], at_ms, number, leads=True))
        dating.add(Progress(at_ms, at_ms + asked[1], number + 1, leads=False))
        dating.add(Progress(at_ms + asked[1], at_ms + asked[1] + 1, number, leads=False))
    for number, error_ms in enumerate(errors_ms):
        dating.commit(number + 1, 100_000 + number * every_ms + error_ms)
    dating.settle()
    return dating


@pytest.mark.parametrize("error_ms", [0, HOUR_MS, -10_000, -30, 9])
def test_a_date_that_fits_what_a_clock_was_set_to_is_put_right(error_ms: int) -> None:
    """A clock whose error is small is as good as right."""
    near_ms = error_ms if abs(error_ms) < 100 else 0
    dating = dated(0, error_ms, 0)
    assert [one.at_ms for one in dating.commits] == [100_000, 100_100 + near_ms, 100_200]
    assert [*dating.vague()] == []


def test_a_transaction_may_be_dated_before_it_is_committed() -> None:
    dating = dated(-140)
    assert (dating.commits[0].at_ms, [*dating.vague()]) == (99_960, [])


def test_a_date_that_fits_no_error_and_what_is_near_it_is_vague() -> None:
    """A clock that runs fast is 5 ms ahead at first, which may be right."""
    dating = dated(0, 0, 0, 0, 0, 0, 5, 105, 205, -HOUR_MS // 2)
    assert [one.at_ms for one in dating.commits[:3]] == [100_000, 100_100, 100_200]
    assert [one.at_ms for one in dating.commits[6:]] == [100_605, 100_710, 100_810, 100_860]
    assert next(dating.vague()) == (100_160, 100_210)
    assert len([*dating.vague()]) == 8


def test_vague_times_keep_their_order() -> None:
    """The clock stands still, which a date cannot say."""
    dating = dated(500, 480, 460, every_ms=20)
    assert [*dating.vague()] == [(99_960, 100_010), (99_980, 100_030), (100_000, 100_050)]
    assert [one.at_ms for one in dating.commits] == [100_010, 100_030, 100_050]
    dating = dated(-9_000, -9_020, -9_040, every_ms=20)
    assert [one.at_ms for one in dating.commits] == [99_960, 99_980, 100_000]


def test_vague_transactions_between_the_same_two_answers_are_one_period() -> None:
    dating = Dating(99_000)
    dating.add(Progress(100_000, 100_001, 0, leads=True))
    dating.add(Progress(100_060, 100_090, 2, leads=True))
    for number, at_ms in enumerate((100_500, 100_510)):
        dating.commit(number + 1, at_ms)
    dating.settle()
    assert [*dating.vague()] == [(100_000, 100_090)]


def test_what_is_vague_only_a_little_is_precise() -> None:
    dating = dated(500, asked=(-10, 10))
    assert (dating.commits[0].at_ms, [*dating.vague()]) == (100_010, [])

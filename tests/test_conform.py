"""Trace conformance: a real trace conforms, a tampered one is rejected at the tampered step.

`traces/quorum.txnlog.tar.gz` is what one ZooKeeper server of a real run wrote: ClickHouse 18.16.1,
three replicas, quorum inserts and a merge, no faults.
"""

import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from harness.conform.ensemble import merged, pack, read_archive
from harness.conform.entries import LogEntry, MutationEntry, PartName, QuorumStatus, read_last_parts
from harness.conform.model import SERIAL, Model
from harness.conform.replay import Replayed, replay, tables
from harness.conform.replica import Replica
from harness.conform.rules import Departure
from harness.conform.txnlog import Change, ChangeKind, Txn, read_txns
from harness.core.errors import HarnessError
from tests.server_protocols import V18

TRACE = Path(__file__).parent / "traces" / "quorum.txnlog.tar.gz"
NAME = "log.100000001"


def log_file() -> bytes:
    with tarfile.open(TRACE) as archive:
        content = archive.extractfile(f"version-2/{NAME}")
        assert content is not None
        return content.read()


PART_LOST = "ch2 loses 0_1_1_0, and none of its parts covers it"
TXNS = tuple(read_txns(log_file(), NAME))
ROOT = tables(TXNS)[-1]


def at(kind: ChangeKind, path: str, number: int = 0) -> tuple[int, Change]:
    """Return the number-th transaction with this change below the table, and the change; the path
    may end early."""
    found = [
        (i, change)
        for i, txn in enumerate(TXNS)
        for change in txn.changes
        if change.kind is kind and change.path.startswith(f"{ROOT}/{path}")
    ]
    return found[number]


def edited(index: int, old: Change, *new: Change) -> tuple[Txn, ...]:
    """Return the trace with one change replaced by another."""
    changes = tuple(n for c in TXNS[index].changes for n in (new if c is old else (c,)))
    return (*TXNS[:index], replace(TXNS[index], changes=changes), *TXNS[index + 1 :])


def with_data(
    kind: ChangeKind, path: str, old: bytes, new: bytes, number: int = 0
) -> tuple[Txn, ...]:
    index, change = at(kind, path, number)
    assert old in change.data, change.data
    return edited(index, change, replace(change, data=change.data.replace(old, new)))


def added(index: int, *changes: Change, session: int = 0) -> tuple[Txn, ...]:
    """Return the trace with a transaction after the index-th."""
    zxid = TXNS[index].zxid
    extra = Txn(zxid, session, TXNS[index].time_ms, changes, ends_session=False)
    return (*TXNS[: index + 1], extra, *TXNS[index + 1 :])


def without(index: int) -> tuple[Txn, ...]:
    return (*TXNS[:index], replace(TXNS[index], changes=()), *TXNS[index + 1 :])


def gone(path: str) -> Change:
    return Change(ChangeKind.DELETE, f"{ROOT}/{path}")


def test_a_real_trace_conforms() -> None:
    outcome = replay(ROOT, TXNS, V18)
    assert outcome.stopped is None
    assert outcome.steps == 201
    assert dict(outcome.actions) == {
        "AddReplica": 3, "BecomeActive": 3, "CloneReplica": 2, "PullLog": 60, "QuorumInsert": 18,
        "GetPart": 39, "FinishEntry": 57, "EndQuorum": 18, "AssignMerge": 1,
    }  # fmt: skip


def ended() -> int:
    return at(ChangeKind.DELETE, "quorum/status")[0]


def lost_by_counted() -> tuple[Txn, ...]:
    """Return a trace in which the replica that ends the first quorum lacks the part."""
    return without(at(ChangeKind.CREATE, "replicas/ch2/parts/0_1_1_0")[0])


def ends_alone() -> tuple[Txn, ...]:
    """Return a trace in which the inserting replica ends its own quorum."""
    index = ended()
    session = TXNS[at(ChangeKind.CREATE, "quorum/status")[0]].session
    return (*TXNS[:index], replace(TXNS[index], session=session), *TXNS[index + 1 :])


def fails_alive() -> tuple[Txn, ...]:
    index, last = at(ChangeKind.SET, "quorum/last_part")
    return edited(index, last, Change(ChangeKind.CREATE, f"{ROOT}/quorum/failed_parts/0_1_1_0"))


def inserts_while_pending() -> tuple[Txn, ...]:
    return without(ended())


def pulls_back() -> tuple[Txn, ...]:
    return with_data(ChangeKind.SET, "replicas/ch1/log_pointer", b"3", b"1", 3)


def queues_another() -> tuple[Txn, ...]:
    return with_data(
        ChangeKind.CREATE, "replicas/ch3/queue/queue-0000000002", b"0_4_4_0", b"0_5_5_0"
    )


def skips_an_entry() -> tuple[Txn, ...]:
    return without(at(ChangeKind.SET, "replicas/ch2/log_pointer", 2)[0])


def test_a_fetch_that_counted_for_nothing_may_be_undone_and_done_again() -> None:
    index, made = at(ChangeKind.CREATE, "replicas/ch3/parts/0_1_1_0")
    again = Txn(0, TXNS[index].session, 0, (made,), ends_session=False)
    undone = added(index, gone("replicas/ch3/parts/0_1_1_0"))
    outcome = replay(ROOT, (*undone[: index + 2], again, *undone[index + 2 :]), V18)
    assert outcome.stopped is None
    assert outcome.actions["UndoFetch"] == 1


def test_a_fetch_that_a_quorum_counted_and_that_is_undone_is_a_step_with_a_name() -> None:
    """The replica did not hear that its fetch was registered, and counted itself by what ZooKeeper
    says: 18.16.1 does so."""
    index, made = at(ChangeKind.CREATE, "replicas/ch2/parts/0_1_1_0")
    again = Txn(0, TXNS[index].session, 0, (made,), ends_session=False)
    undone = added(ended(), gone("replicas/ch2/parts/0_1_1_0"))
    outcome = replay(ROOT, (*undone[: ended() + 2], again, *undone[ended() + 2 :]), V18)
    assert (outcome.stopped, outcome.departures) == (None, {"CountedWithout": 1})
    assert outcome.actions["UndoFetch"] == 1


def test_the_end_of_another_quorum_is_a_step_with_a_name() -> None:
    """The status of each quorum begins with version 0, and its end compares only that: servers do
    so (`uncounted-quorum`)."""
    outcome = replay(ROOT, last_part_back(), V18)
    assert (outcome.stopped, outcome.departures) == (None, {"EndAnother": 1})


def taken_back(replica: str, part: str) -> tuple[Change, Change]:
    """Return the changes by which the replica removes the part and queues a fetch of it."""
    node = f"{ROOT}/replicas/{replica}/queue/queue-0000000099"
    entry = f"format version: 4\nsource replica: \nblock_id: \nget\n{part}\n"
    return Change(ChangeKind.CREATE, node, entry.encode()), gone(f"replicas/{replica}/parts/{part}")


def test_a_part_that_is_not_on_the_disk_is_taken_back_and_fetched_again() -> None:
    index, made = at(ChangeKind.CREATE, "replicas/ch3/parts/0_1_1_0")
    fetched = Txn(0, TXNS[index].session, 0, (made,), ends_session=False)
    before = added(index, *taken_back("ch3", "0_1_1_0"))
    outcome = replay(ROOT, (*before[: index + 2], fetched, *before[index + 2 :]), V18)
    assert (outcome.stopped, outcome.departures) == (None, {})
    assert outcome.actions["FetchAgain"] == 1
    stopped = stop_of(replay(ROOT, added(index - 1, *taken_back("ch3", "0_1_1_0")), V18))
    assert stopped == (("FetchAgain ch3 0_1_1_0",), "ch3 does not have 0_1_1_0")


def test_what_an_unreadable_part_covers_goes_with_it() -> None:
    merged = "0_1_6_1"
    index, _ = at(ChangeKind.CREATE, f"replicas/ch1/parts/{merged}", 1)
    unread = [*taken_back("ch1", merged), gone("replicas/ch1/parts/0_1_1_0")]
    outcome = replay(ROOT, added(index, *unread)[: index + 2], V18)
    assert (outcome.stopped, outcome.departures) == (None, {})
    assert (outcome.actions["FetchAgain"], outcome.actions["RemovePart"]) == (1, 1)


def test_a_replica_that_was_counted_and_has_to_fetch_is_a_step_with_a_name() -> None:
    """It asked ZooKeeper whether it has the part, and not its disk: 18.16.1 does so."""
    index, made = at(ChangeKind.CREATE, "replicas/ch2/parts/0_1_1_0")
    assert index < ended()
    fetched = Txn(0, TXNS[index].session, 0, (made,), ends_session=False)
    after = added(ended(), *taken_back("ch2", "0_1_1_0"))
    outcome = replay(ROOT, (*after[: ended() + 2], fetched, *after[ended() + 2 :]), V18)
    assert outcome.stopped is None
    assert outcome.departures == {"CountedWithout": 1}


def test_parts_that_go_before_the_merged_one_comes_are_a_step_with_a_name() -> None:
    """A server that was killed between a merge and its commit starts so: 18.16.1 does."""
    queued = next(
        i
        for i, txn in enumerate(TXNS)
        for change in txn.changes
        if change.path.startswith(f"{ROOT}/replicas/ch2/queue/") and b"\nmerge\n" in change.data
    )
    early, twice = gone("replicas/ch2/parts/0_1_1_0"), gone("replicas/ch2/parts/0_2_2_0")
    outcome = replay(ROOT, added(queued, early, twice), V18)
    assert outcome.stopped is None
    assert outcome.departures == {"RemoveAhead": 2}
    assert replay(ROOT, TXNS, V18).departures == {}
    stopped = stop_of(replay(ROOT, added(queued - 1, early), V18))
    assert stopped == (("RemovePart ch2 0_1_1_0",), PART_LOST)


def test_last_part_that_goes_back_is_a_step_with_a_name() -> None:
    """Block 7 was taken first and is committed last: 18.16.1 does so."""
    earlier, later = PartName.named("0_7_7_0"), PartName.named("0_8_8_0")
    parts = {earlier.name: earlier}
    replicas = {n: Replica(n, session=i, parts=parts) for i, n in enumerate(("ch1", "ch2"))}
    pending = QuorumStatus(earlier, 2, frozenset({"ch1"}))
    model = Model(V18, replicas=replicas, last={"0": later}, quorums={SERIAL: pending})
    assert model.end_quorum("ch2", SERIAL) == earlier
    assert model.set_last(earlier, {"0": earlier}) == later
    assert (model.last, model.quorums) == ({"0": earlier}, {})


def test_an_insert_without_a_quorum_needs_no_active_replica() -> None:
    """18.16.1 does not check this; the step has a name."""
    model = Model(
        V18, replicas={"ch1": Replica("ch1"), "ch2": Replica("ch2", session=1, lost=True)}
    )
    plain = [LogEntry("get", f"ch{i}", PartName.named(f"0_{i}_{i}_0")) for i in (1, 2)]
    assert [model.append(i, entry) for i, entry in enumerate(plain)] == [False, False]
    quorum = LogEntry("get", "ch1", PartName.named("0_3_3_0"), quorum=2)
    with pytest.raises(Departure, match="ch1 is not active"):
        model.append(2, quorum)
    model.replicas["ch1"].session = 2
    assert model.append(2, quorum)


def test_a_replica_that_keeps_what_failed_is_a_step_with_a_name() -> None:
    """It asked what had failed just before that: 18.16.1 asks before it is active."""
    part = PartName.named("0_1_1_0")
    model = Model(
        V18, replicas={"ch1": Replica("ch1", parts={part.name: part}), "ch2": Replica("ch2")}
    )
    model.failed.add(part.name)
    assert model.become_active("ch2", 1) == ()
    assert model.become_active("ch1", 2) == (part.name,)


def test_every_replica_of_servers_since_20_5_assigns_merges() -> None:
    """They write no name where the leader's was."""
    index, stood = at(ChangeKind.CREATE, "leader_election/leader_election-")
    everybody = replace(stood, data=b"all (multiple leaders Ok)")
    others = [at(ChangeKind.CREATE, "leader_election/leader_election-", n)[1] for n in (1, 2)]
    nobody = edited(index, stood, everybody)
    alone = tuple(
        replace(txn, changes=tuple(c for c in txn.changes if c not in others)) for txn in nobody
    )
    both = replace(V18, many_leaders=True)
    assert replay(ROOT, alone, both).stopped is None
    assert stop_of(replay(ROOT, alone, V18))[1] == (
        "ClickHouse 18.16.1 lacks leadership of every replica"
    )
    without_leaders = tuple(
        replace(txn, changes=tuple(c for c in txn.changes if c is not everybody)) for txn in alone
    )
    _, why = stop_of(replay(ROOT, without_leaders, both))
    assert why.endswith("assigns a merge while None leads")


def test_a_server_that_shuts_down_finishes_what_it_has_begun() -> None:
    """It deletes is_active first; when its session ends nothing may come from it."""
    part = PartName.named("0_1_1_0")
    insert = LogEntry("get", "ch1", part)

    def closing(session: int) -> Model:
        replicas = {"ch1": Replica("ch1", session=1), "ch2": Replica("ch2", session=2, pointer=0)}
        model = Model(V18, replicas=replicas)
        model.append(0, insert)
        model.become_inactive("ch2", closing=session)
        return model

    own = closing(2)
    own.pull_log("ch2", 1, {"queue-0": insert})
    own.get_part("ch2", part)
    own.end_session(2)
    another = closing(7)
    for model in (own, another):
        with pytest.raises(Departure, match="ch2 is not active"):
            model.get_part("ch2", part)


def last_part_back() -> tuple[Txn, ...]:
    return with_data(ChangeKind.SET, "quorum/last_part", b"0_2_2_0", b"0_1_1_0", 1)


def last_part_of_nothing() -> tuple[Txn, ...]:
    return with_data(ChangeKind.SET, "quorum/last_part", b"0_2_2_0", b"0_9_9_0", 1)


def merged_by_follower() -> tuple[Txn, ...]:
    index, change = merge()
    other = replace(
        change, data=change.data.replace(b"source replica: ch1", b"source replica: ch2")
    )
    return edited(index, change, other)


def merged_too_much() -> tuple[Txn, ...]:
    index, change = merge()
    return edited(index, change, replace(change, data=change.data.replace(b"0_1_6_1", b"0_1_9_1")))


def merge() -> tuple[int, Change]:
    return next(
        (i, change)
        for i, txn in enumerate(TXNS)
        for change in txn.changes
        if change.path.startswith(f"{ROOT}/log/") and b"\nmerge\n" in change.data
    )


def cleared_early() -> tuple[Txn, ...]:
    return added(at(ChangeKind.CREATE, "log/log-0000000000")[0], gone("log/log-0000000000"))


def part_lost() -> tuple[Txn, ...]:
    return added(at(ChangeKind.SET, "quorum/last_part", 1)[0], gone("replicas/ch2/parts/0_1_1_0"))


def out_of_nowhere() -> tuple[Txn, ...]:
    made = Change(ChangeKind.CREATE, f"{ROOT}/replicas/ch2/parts/7_1_1_0")
    return added(ended(), made)


def lost_while_active() -> tuple[Txn, ...]:
    return added(ended(), Change(ChangeKind.SET, f"{ROOT}/replicas/ch2/is_lost", b"1"))


@pytest.mark.parametrize(
    ("tampered", "step", "why"),
    [
        (lost_by_counted, "EndQuorum ch2", "ch2 does not have the part"),
        (ends_alone, "EndQuorum ch1", "2 replicas are required, the part is on: ch1"),
        (fails_alive, "FailedQuorum 0_1_1_0 by ch2", "ch1 has the part and is active"),
        (
            inserts_while_pending,
            "QuorumInsert ch3 0_2_2_0",
            "the quorum of 0_1_1_0 is pending",
        ),
        (pulls_back, "PullLog ch1 to 1", "its log_pointer goes back from 2 to 1"),
        (
            queues_another,
            "PullLog ch3 to 3",
            "the 1 queued entries are not the 1 of the log from 2",
        ),
        (
            skips_an_entry,
            "GetPart ch2 0_2_2_0",
            "no entry in the queue of ch2 needs 0_2_2_0",
        ),
        (last_part_of_nothing, "EndQuorum ch2", "last_part says 0_9_9_0"),
        (
            merged_by_follower,
            "AssignMerge ch2 0_1_6_1",
            "ch2 assigns a merge while ch1 leads",
        ),
        (
            merged_too_much,
            "AssignMerge ch1 0_1_9_1",
            "0_1_9_1 covers more than what it replaces",
        ),
        (cleared_early, "ClearOldLog 0", "ch1 is active and has not pulled entry 0"),
        (
            part_lost,
            "RemovePart ch2 0_1_1_0",
            PART_LOST,
        ),
        (out_of_nowhere, "GetPart ch2 7_1_1_0", "7_1_1_0 is in no entry of the log"),
        (lost_while_active, "MarkLost ch2", "ch2 is active and is marked lost"),
    ],
)
def test_a_tampered_trace_is_rejected_at_that_step(
    tampered: Callable[[], tuple[Txn, ...]], step: str, why: str
) -> None:
    stopped = stop_of(replay(ROOT, tampered(), V18))
    assert (stopped[0][-1], stopped[1]) == (step, why)


def stop_of(outcome: Replayed) -> tuple[tuple[str, ...], str]:
    assert outcome.stopped is not None
    assert not outcome.stopped.unmodelled
    return outcome.stopped.step.actions, outcome.stopped.why


def test_what_the_model_does_not_know_is_no_departure() -> None:
    index, change = merge()
    data = change.data.replace(b"\nmerge\n", b"\nclear_column\n")
    outcome = replay(ROOT, edited(index, change, replace(change, data=data)), V18)
    assert outcome.stopped is not None
    assert outcome.stopped.unmodelled
    assert outcome.stopped.why == "an entry of type 'clear_column'"


def test_a_table_that_is_dropped_ends_its_trace() -> None:
    index = ended()
    session = TXNS[at(ChangeKind.CREATE, "replicas/ch2/is_active")[0]].session
    dropped = added(index, gone("replicas/ch2/is_active"), session=session)
    part, queue = gone("replicas/ch2/parts/0_1_1_0"), gone("replicas/ch2/queue")
    rest = [Txn(0, session, 0, (change,), ends_session=False) for change in (part, queue)]
    outcome = replay(ROOT, (*dropped[: index + 2], *rest, *dropped[index + 2 :]), V18)
    assert outcome.stopped is None
    assert outcome.actions["EndQuorum"] == 1


def test_a_log_that_is_cut_off_ends_before_the_cut() -> None:
    data = log_file()
    short = tuple(read_txns(data[:9_000], NAME))
    assert 0 < len(short) < len(TXNS)
    assert short == TXNS[: len(short)]
    assert tuple(read_txns(b"", NAME)) == ()


def test_a_damaged_log_is_refused_at_its_byte() -> None:
    data = bytearray(log_file())
    data[5_000] ^= 1
    with pytest.raises(HarnessError, match=r"log\.100000001: the transaction at byte \d+ has a wr"):
        tuple(read_txns(bytes(data), NAME))
    with pytest.raises(HarnessError, match="is not a transaction log"):
        tuple(read_txns(b"x" * 100, NAME))


def test_an_archive_is_read_as_it_was_packed(tmp_path: Path) -> None:
    file = tmp_path / "txnlog.tar.gz"
    file.write_bytes(pack({NAME: log_file()}))
    assert read_archive(file) == TXNS == read_archive(TRACE)
    file.write_bytes(b"no archive")
    with pytest.raises(HarnessError, match="cannot be read"):
        read_archive(file)


def test_servers_logs_are_one_order() -> None:
    half = TXNS[: len(TXNS) // 2]
    assert merged([TXNS, half, TXNS], 3).txns == TXNS
    snapshot = merged([TXNS, TXNS[-9:], TXNS], 3)
    assert (snapshot.txns, snapshot.gaps) == (TXNS, ())


def test_what_a_deposed_leader_alone_wrote_did_not_happen() -> None:
    half = TXNS[: len(TXNS) // 2]
    alone = merged([TXNS, half, half], 3)
    assert (alone.txns, alone.gaps, alone.dropped) == (half, (), len(TXNS) - len(half))


def test_missing_transactions_are_reported() -> None:
    holed = (*TXNS[:50], *TXNS[53:])
    assert merged([holed, holed, holed], 3).gaps == (
        f"3 transactions from {TXNS[50].zxid:#x} are in no log",
    )


def test_servers_that_disagree_are_refused() -> None:
    other = (replace(TXNS[0], time_ms=0), *TXNS[1:])
    with pytest.raises(HarnessError, match="two servers have different transactions"):
        merged([TXNS, other], 2)


def test_what_the_server_writes_is_read() -> None:
    get = b"format version: 4\ncreate_time: 2026-11-21 12:57:16\nsource replica: ch1\n"
    part = PartName("0_1_1_0", "0", 1, 1, 0)
    wanted = LogEntry("get", "ch1", part, (), 2)
    assert LogEntry.read(get + b"block_id: 0_1_2\nget\n0_1_1_0\nquorum: 2\n") == wanted
    assert LogEntry.read(get + b"block_id: \nmerge\n0_1_1_0\n0_2_2_0\ninto\n0_1_2_1\n") == LogEntry(
        "merge", "ch1", PartName("0_1_2_1", "0", 1, 2, 1), (part, PartName("0_2_2_0", "0", 2, 2, 0))
    )
    mutated = PartName("0_1_1_0_7", "0", 1, 1, 0, 7)
    assert LogEntry.read(get + b"block_id: \nmutate\n0_1_1_0\nto\n0_1_1_0_7\n") == LogEntry(
        "mutate", "ch1", mutated, (part,)
    )
    assert mutated.covers(part)
    assert not part.covers(mutated)
    altered = b"block_id: \nalter\nalter_version\n3\nhave_mutation\n0\ncolumns_str_size:\n0\n"
    assert LogEntry.read(get + altered) == LogEntry("alter", "ch1", None, alter_version=3)
    mutation = b"format version: 1\ncreate time: 2026-11-24 17:22:21\nsource replica: ch3\n"
    mutation += b"block numbers count: 2\n0\t2\n1\t0\ncommands: (DELETE WHERE x = 1)\n"
    numbers, commands = {"0": 2, "1": 0}, "(DELETE WHERE x = 1)"
    assert MutationEntry.read(mutation) == MutationEntry("ch3", numbers, commands)
    status = b"version: 1\npart_name: 0_1_1_0\nrequired_number_of_replicas: 2\n"
    status += b"actual_number_of_replicas: 1\nreplicas:\nch1\n"
    assert QuorumStatus.read(status) == QuorumStatus(part, 2, frozenset({"ch1"}))
    assert read_last_parts(b"version: 2\nparts count: 1\n0\t0_1_1_0\n") == {"0": part}
    assert PartName.named("0_1_6_1").covers(part)
    assert not PartName.named("1_1_6_1").covers(part)


def test_a_replicated_database_is_no_table() -> None:
    names = ("d", "d/log", "d/replicas", "d/max_log_ptr", "t", "t/log", "t/replicas")
    made = tuple(Change(ChangeKind.CREATE, f"/{name}") for name in names)
    assert tables([replace(TXNS[0], changes=made)]) == ("/t",)

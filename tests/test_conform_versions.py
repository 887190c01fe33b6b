"""What only some versions do is a departure on the others."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from harness.conform.entries import LogEntry, PartName, QuorumStatus
from harness.conform.model import SERIAL, Model
from harness.conform.protocol import DEPARTURES, ServerProtocol, protocol_of
from harness.conform.replay import TableReplay
from harness.conform.replica import Replica
from harness.conform.rules import Departure
from harness.conform.steps import STEPS
from harness.conform.txnlog import Change, ChangeKind, Txn
from harness.core.dialect import Version, common_dialect
from tests.server_protocols import V18, V25

PART = PartName.named("0_1_1_0")
BOTH = protocol_of(common_dialect(frozenset({Version(18, 16, 1), Version(25, 8, 2)})))


def of(protocol: ServerProtocol) -> Model:
    return Model(protocol, replicas={"ch1": Replica("ch1", session=1)})


def inserts_in_parallel(model: Model) -> None:
    entry = LogEntry("get", "ch1", PART, quorum=2)
    model.append(0, entry)
    begun = {"parallel/0_1_1_0": QuorumStatus(PART, 2, frozenset({"ch1"}))}
    model.insert(entry, begun, {PART.name})


def alters(model: Model) -> None:
    model.append(0, LogEntry("alter", "ch1", None, alter_version=1))


def attaches(model: Model) -> None:
    model.append(0, LogEntry("attach", "ch1", PART))


def stands_for_leader(model: Model) -> None:
    model.add_candidate("leader_election-0", "ch1", 1)


def leads_with_all(model: Model) -> None:
    model.lead_all()


@pytest.mark.parametrize(
    ("step", "lacks", "what"),
    [
        (inserts_in_parallel, V18, "18.16.1 lacks parallel quorums"),
        (alters, V18, "18.16.1 lacks entries of type 'alter'"),
        (attaches, V18, "18.16.1 lacks entries of type 'attach'"),
        (leads_with_all, V18, "18.16.1 lacks leadership of every replica"),
        (stands_for_leader, V25, "25.8.2 lacks elected leaders"),
    ],
)
def test_a_step_that_the_version_lacks_is_a_departure(
    step: Callable[[Model], None], lacks: ServerProtocol, what: str
) -> None:
    for protocol in (V18, V25, BOTH):
        if protocol is lacks:
            with pytest.raises(Departure, match=what):
                step(of(protocol))
        else:
            step(of(protocol))


def test_a_cluster_of_two_versions_has_the_departures_of_both() -> None:
    assert V18.departures | V25.departures == BOTH.departures == DEPARTURES.keys()
    assert V18.departures - V25.departures == {"InsertInactive", "PartLost"}
    assert V25.departures - V18.departures == {"DropMissed", "ForgetMissed"}


def test_a_departure_that_is_known_of_another_version_ends_the_replay() -> None:
    """A replica that is not active inserts: 18.16.1 is known to, 25.8 is not."""
    entry = b"format version: 4\nsource replica: ch1\nblock_id: \nget\n0_0_0_0\n"
    steps = [
        {"replicas/ch1": b""},
        {"log/log-0000000000": entry, "replicas/ch1/parts/0_0_0_0": b""},
    ]
    txns = [
        Txn(n, 1, 0, tuple(Change(ChangeKind.CREATE, f"/t/{p}", d) for p, d in step.items()), False)
        for n, step in enumerate(steps)
    ]
    found = {}
    for protocol in (V18, V25, replace(V25, departures=V18.departures)):
        table = TableReplay("/t", protocol)
        found[protocol] = [table.take(txn) for txn in txns]
        stopped = table.result().stopped
        if protocol is V25:
            assert stopped is not None
            assert stopped.why.endswith("a departure that is not known of ClickHouse 25.8.2")
        else:
            assert stopped is None
    assert [[*map(list, each)] for each in found.values()] == [
        [[], ["InsertInactive"]], [[], [""]], [[], ["InsertInactive"]],
    ]  # fmt: skip


def test_parallel_quorums_are_pending_at_a_time_and_leave_last_part_alone() -> None:
    parts = [PartName.named(f"0_{i}_{i}_0") for i in (1, 2)]
    replicas = {n: Replica(n, session=i, pointer=0) for i, n in enumerate(("ch1", "ch2"))}
    model = Model(V25, replicas=replicas)
    entries = [LogEntry("get", "ch1", part, quorum=2) for part in parts]
    for index, (part, entry) in enumerate(zip(parts, entries, strict=True)):
        begun = {f"parallel/{part.name}": QuorumStatus(part, 2, frozenset({"ch1"}))}
        model.append(index, entry)
        model.insert(entry, begun, {part.name})
    model.pull_log("ch2", 2, {"queue-0": entries[0], "queue-1": entries[1]})
    with pytest.raises(Departure, match="ch2 does not have the part"):
        model.end_quorum("ch2", "parallel/0_2_2_0")
    model.get_part("ch2", parts[1])
    assert model.end_quorum("ch2", "parallel/0_2_2_0") == parts[1]
    assert model.quorums.keys() == {"parallel/0_1_1_0"}
    with pytest.raises(Departure, match="no quorum is pending"):
        model.end_quorum("ch2", SERIAL)


def test_a_quorum_that_fails_though_a_counted_replica_is_active_is_a_step_with_a_name() -> None:
    """It could not read the part, and has removed it: every server does so."""
    part = PartName.named("0_1_1_0")
    pending = QuorumStatus(part, 2, frozenset({"ch1"}))
    for parts, session, found in (
        ({part.name: part}, None, False),
        ({}, None, False),
        ({}, 1, True),
    ):
        model = Model(
            V18,
            replicas={"ch1": Replica("ch1", session=session, parts=parts)},
            quorums={SERIAL: pending},
        )
        assert model.fail_quorum(part.name, SERIAL) == found
        assert (model.failed, model.quorums) == ({part.name}, {})


def test_the_manual_lists_every_step_and_every_known_departure() -> None:
    manual = (Path(__file__).parent.parent / "docs" / "conformance.md").read_text()
    rows = [line.split("|")[1].strip() for line in manual.splitlines() if line.startswith("| ")]
    listed = {name for row in rows for name in row.split(", ")}
    assert listed >= STEPS | DEPARTURES.keys()

"""Facts for checkers from a real trace, and what checkers say of the trace when it is tampered
with: quorums, block numbers, and who assigns merges."""

from collections import Counter
from dataclasses import replace

from checkers_cases import history, insert, read, rest
from test_conform import NAME, ROOT, TXNS, at, edited, ended, log_file, without

from checkers.quorum.durability import Durability
from checkers.quorum.numbers_taken import NumbersTaken
from checkers.quorum.quorum_log import overlapping, quorums_of
from checkers.replication.agreed import Agreed, agreed_of
from checkers.replication.assigners import Assigners
from harness.conform.agreed import agreed
from harness.conform.txnlog import Change, ChangeKind, Txn, read_txns
from harness.core.history import History
from harness.core.op import Json
from harness.core.verdict import Status

PART = "0_1_1_0"
"""A part of the trace: ch2 has it in time for its quorum."""


def told(txns: tuple[Txn, ...], *calls: object) -> History:
    """Return a history whose last call has the facts."""
    final = read(9, None, 95, 96, f="transactions")
    final[1].op["value"] = {"facts": [*agreed(ROOT, txns)], "gaps": list[Json]()}
    return history(*calls, rest(90), final)


def facts(txns: tuple[Txn, ...] = TXNS) -> Agreed:
    return agreed_of(told(txns))


def test_a_real_trace_has_quorums_that_end_counted_and_one_after_the_other() -> None:
    quorums = quorums_of(facts())
    assert len(quorums) == 18
    assert {len(one.held) >= one.needed == 2 for one in quorums.values()} == {True}
    assert overlapping(quorums) == []
    assert Counter(fact[0] for fact in facts().every) == {
        "number": 27, "release": 27, "commit": 18, "begin": 18, "end": 18, "hold": 57,
        "assign": 1, "leads": 1, "last": 18, "columns": 1, "applied": 6, "active": 3, "lost": 5,
    }  # fmt: skip


def test_only_what_is_about_the_table_is_parsed_and_the_facts_are_the_same() -> None:
    quick = tuple(read_txns(log_file(), NAME, ROOT))
    assert [txn.zxid for txn in quick] == [txn.zxid for txn in TXNS]
    assert sum(bool(txn.changes) for txn in quick) < sum(bool(txn.changes) for txn in TXNS)
    assert agreed(ROOT, quick) == agreed(ROOT, TXNS)


def test_a_quorum_that_ends_before_the_second_replica_has_its_part_is_told() -> None:
    late = without(at(ChangeKind.CREATE, f"replicas/ch2/parts/{PART}")[0])
    one = quorums_of(facts(late))[PART]
    assert one.ended is not None
    assert len(one.held) == 1
    where = read(7, None, 40, 41, f="where")
    where[1].op["value"] = {"where": [[5, PART]]}
    parts = {PART: {"ch1": 10, "ch3": 14}}
    value = {"zxid": 99, "pending": None, "last": {}, "failed": [], "kept": {}, "parts": parts}
    look = read(8, None, 91, 92, f="final-quorum")
    look[1].op["value"] = value
    for trace, kinds in ((TXNS, []), (late, ["acknowledged-early"])):
        final = read(9, None, 95, 96, f="transactions")
        final[1].op["value"] = {"facts": [*agreed(ROOT, trace)]}
        h = history(insert(0, 5, 1, 9), where, rest(90), look, final)
        assert [one.kind for one in Durability(2).check(h).anomalies] == kinds


def test_a_quorum_that_never_ends_overlaps_the_next() -> None:
    assert ended() > 0
    # The fetch that completed the first quorum is gone too, so that it is pending for good.
    holds = [at(ChangeKind.CREATE, f"replicas/{r}/parts/{PART}")[0] for r in ("ch1", "ch2", "ch3")]
    alone = TXNS
    for index in sorted(holds)[1:]:
        alone = (*alone[:index], replace(alone[index], changes=()), *alone[index + 1 :])
    pairs = overlapping(quorums_of(facts(alone)))
    assert pairs
    assert {earlier.part for earlier, _ in pairs} == {PART}


def test_every_number_is_committed_by_the_session_that_took_it() -> None:
    taken = NumbersTaken.of(facts())
    assert (taken.count, taken.abandoned, taken.broken) == (27, 0, []), "nine of them refused"
    index = at(ChangeKind.CREATE, "log/log-0000000001")[0]
    other = (*TXNS[:index], replace(TXNS[index], session=1), *TXNS[index + 1 :])
    assert [kind for kind, _ in NumbersTaken.of(facts(other)).broken] == ["not-held"]


def test_a_session_that_ends_after_it_took_a_number_abandons_it() -> None:
    index = at(ChangeKind.CREATE, "block_numbers/0/block-0000000001")[0]
    session = TXNS[index].session
    end = Txn(TXNS[index].zxid, session, TXNS[index].time_ms, (), ends_session=True)
    taken = NumbersTaken.of(facts((*TXNS[: index + 1], end)))
    assert (taken.abandoned, taken.broken) == (1, [])
    late = NumbersTaken.of(facts((*TXNS[: index + 1], end, *TXNS[index + 1 :])))
    kind, text = late.broken[0]
    assert kind == "not-held"
    assert "which held it, ended" in text


def test_the_leader_assigns_the_merge_and_another_may_not() -> None:
    assert Assigners().check(told(TXNS)).status is Status.VALID
    index, entry = next(
        (i, c) for i, txn in enumerate(TXNS) for c in txn.changes if b"\nmerge\n" in c.data
    )
    source = entry.data.split(b"source replica: ")[1].split(b"\n")[0]
    others = {b"ch1", b"ch2", b"ch3"} - {source}
    wrong = replace(entry, data=entry.data.replace(source, min(others), 1))
    said = Assigners().check(told(edited(index, entry, wrong)))
    assert (said.status, said.anomalies[0].kind) == (Status.INVALID, "not-leader")


def test_where_every_replica_leads_the_election_names_all() -> None:
    index, node = at(ChangeKind.CREATE, "leader_election/")
    every = replace(node, data=b"all (multiple leaders Ok)")
    leaders = [fact[2] for fact in facts(edited(index, node, every)).named("leads")]
    assert leaders == ["*"]
    assert isinstance(node, Change)


LOCK = f"/clickhouse/zero_copy/zero_copy_s3/7db6/{PART}/a_k"


def txn(zxid: int, *changes: Change, session: int = 1, ends: bool = False) -> Txn:
    return Txn(zxid, session, zxid, changes, ends_session=ends)


def test_locks_of_zero_copy_go_with_their_node_or_their_session() -> None:
    made, gone = ChangeKind.CREATE, ChangeKind.DELETE
    found = agreed(
        ROOT,
        (
            txn(1, Change(made, f"{LOCK}/ch9")),
            txn(2, Change(made, f"{ROOT}/table_shared_id", b"7db6")),
            txn(3, Change(made, LOCK), Change(made, f"{LOCK}/ch1")),
            txn(4, Change(made, f"{LOCK}/ch2", ephemeral=True), session=2),
            txn(5, Change(made, f"{LOCK}/ch3", ephemeral=True), session=3),
            txn(6, Change(gone, f"{LOCK}/ch3"), Change(made, f"{LOCK}/ch3"), session=3),
            txn(7, Change(gone, f"{LOCK}/ch1")),
            txn(8, session=2, ends=True),
            txn(9, session=3, ends=True),
        ),
    )
    of = [PART, "a_k"]
    assert [fact for fact in found if fact[0] in ("lock", "unlock")] == [
        ["lock", 3, *of, "ch1", False],
        ["lock", 4, *of, "ch2", True],
        ["lock", 5, *of, "ch3", True],
        ["unlock", 6, *of, "ch3"],
        ["lock", 6, *of, "ch3", False],
        ["unlock", 7, *of, "ch1"],
        ["unlock", 8, *of, "ch2"],
    ]


def test_claims_of_parts_end_with_their_node_or_their_session() -> None:
    made, gone = ChangeKind.CREATE, ChangeKind.DELETE
    claim = f"{LOCK.rpartition('/')[0]}/part_exclusive_lock"
    found = agreed(
        ROOT,
        (
            txn(1, Change(made, f"{ROOT}/table_shared_id", b"7db6")),
            txn(2, Change(made, f"{ROOT}/replicas/ch1/is_active", ephemeral=True), session=2),
            txn(3, Change(made, claim, ephemeral=True), session=2),
            txn(4, Change(gone, claim), session=2),
            txn(5, Change(made, claim, ephemeral=True), session=2),
            txn(6, Change(made, f"{ROOT}/replicas/ch2/is_active", ephemeral=True), session=3),
            txn(7, Change(made, f"{ROOT}/replicas/ch2/is_active", ephemeral=True), session=4),
            txn(8, session=2, ends=True),
            txn(9, session=3, ends=True),
        ),
    )
    assert [fact for fact in found if fact[0] in ("claim", "unclaim", "inactive")] == [
        ["claim", 3, PART, "ch1"],
        ["unclaim", 4, PART, "ch1", False],
        ["claim", 5, PART, "ch1"],
        ["inactive", 7, "ch2"],
        ["inactive", 8, "ch1"],
        ["unclaim", 8, PART, "ch1", True],
    ]


def test_the_columns_that_are_written_are_facts() -> None:
    data = b"columns format version: 1\n2 columns:\n`key` Int64\n`c1` String\tDEFAULT\t'`x` y'\n"
    txns = (
        txn(1, Change(ChangeKind.SET, f"{ROOT}/columns", data)),
        txn(2, Change(ChangeKind.SET, f"{ROOT}/replicas/ch2/columns", data)),
        txn(3, Change(ChangeKind.CREATE, f"{ROOT}/replicas/ch2/is_active", b"", ephemeral=True)),
        txn(4, Change(ChangeKind.SET, f"{ROOT}/replicas/ch2/is_lost", b"1")),
    )
    assert agreed(ROOT, txns) == [
        ["columns", 1, ["key", "c1"]],
        ["applied", 2, "ch2", ["key", "c1"]],
        ["active", 3, "ch2"],
        ["lost", 4, "ch2", True],
    ]

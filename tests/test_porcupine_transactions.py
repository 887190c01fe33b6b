"""Transactions: which anomaly shows which level violated, and how histories are given."""

import pickle
import re
from typing import Any

import pyarrow as pa
import pytest
from pyporcupine import (
    LEVELS,
    HistoryError,
    InvalidError,
    Transaction,
    TransactionsResult,
    UndecidedError,
    check_transactions,
    read_transactions,
)

STRICT = "strict-serializable"
OP = re.compile(r"([arw])([xyz])(\d*)")


def transactions(text: str, *, model: str = "list-append") -> list[Transaction]:
    """Return the transactions of "ax1 ry12 | rx1?": the first appends 1 to x and reads [1, 2] in y;
    what the second did is unknown (! would be: it failed). All are concurrent."""
    made = []
    for process, part in enumerate(text.split("|")):
        ops = list[tuple[str, str, Any]]()
        for f, key, digits in OP.findall(part):
            found: Any = [int(digit) for digit in digits]
            if f != "r" or model == "rw-register":
                found = int(digits) if digits else None
            ops.append(({"a": "append", "r": "r", "w": "w"}[f], key, found))
        kind: Any = "info" if "?" in part else "fail" if "!" in part else "ok"
        made.append(Transaction(process, ops, call=0, ret=1, outcome=kind))
    return made


def names(result: TransactionsResult) -> list[str]:
    return [anomaly.name for anomaly in result.anomalies]


@pytest.mark.parametrize(
    ("text", "anomalies", "violated"),
    [
        # Writes of two transactions in different orders (Adya's G0).
        ("ax1 ay1 | ax2 ay2 | rx12 ry21", ["G0"], ["read-uncommitted"]),
        ("rx1 | ax1!", ["G1a"], ["read-committed"]),
        ("rx1 | ax1 ax2", ["G1b", "G-single"], ["read-committed"]),
        ("ax1 ry1 | ax2 ay1 | rx12", ["G1c"], ["read-committed"]),
        ("ax1! | ax2 | rx12", ["G1a", "dirty-update"], ["read-committed"]),
        ("ax1! | ax2? | ax3 | rx123", ["G1a", "dirty-update"], ["read-committed"]),
        ("ax1 | ax2 | rx12 | rx21", ["incompatible-order"], ["read-committed"]),
        ("ax1 ax2 | rx21", ["G1b", "incompatible-order"], ["read-committed"]),
        ("ax1 ax2 | rx2", ["G-single", "incompatible-order"], ["read-committed"]),
        ("rx1 ax1", ["future-read"], ["read-committed"]),
        ("ax1 | ax2 | rx121", ["duplicate-elements"], ["read-uncommitted"]),
        ("ax1 | rx | rx19", ["garbage"], ["read-uncommitted"]),
        ("ax1 ay1 | rx1 ry", ["G-single"], ["consistent-view", "repeatable-read"]),
        # The second update is lost, whichever was the first.
        ("rx ax1 | rx ax2", ["G2-item", "lost-update"], ["cursor-stability"]),
        ("ax1 | rx1 ax2 rx1", ["internal"], ["causal"]),
        (
            "rx1 ay9 rx12 | ax1 | ax2",
            ["G-single", "internal"],
            ["causal", "consistent-view", "repeatable-read"],
        ),
        # Two readers see two independent writes in different orders: a long fork.
        (
            "ax1 | ay1 | rx1 ry | rx ry1",
            ["G-nonadjacent"],
            ["snapshot-isolation", "repeatable-read"],
        ),
        # Write skew.
        ("rx ay1 | ry ax1", ["G2-item"], ["repeatable-read"]),
        ("rx ry1 | ax1 ry1 | ay1", [], []),
    ],
)
def test_an_anomaly_violates_the_levels_that_forbid_it(
    text: str, anomalies: list[str], violated: list[str]
) -> None:
    result = check_transactions(transactions(text), "list-append")
    assert sorted(names(result)) == sorted(anomalies)
    assert result.violated == violated
    assert result.status == ("INVALID" if anomalies else "VALID")
    for level in LEVELS:
        expected = level in [*result.violated, *result.also_violated]
        if level.startswith("str") or level in ("causal", "prefix"):
            continue
        status = check_transactions(transactions(text), "list-append", consistency=level).status
        assert (status == "INVALID") == expected, level


@pytest.mark.parametrize(
    ("text", "witness", "ops"),
    [
        # Neither the reads of z nor the third transaction belong to the write skew.
        ("rx ay1 rz | ry ax1 rz2 | az2", [0, 1], [[0, 1], [0, 1]]),
        # Somebody has to have read both appends, to show their order.
        ("ax1 ay1 | ax2 ay2 | rx12 | ry21 | rx1", [0, 1, 2, 3], [[0, 1], [0, 1], [0], [0]]),
        ("rx1 ay5 | ax1! az4 | rz4", [0, 1], [[0], [0]]),
        # Without the append of 1 by the third, both would have read the empty list.
        ("rx1 ax2 | rx1 ax3 | ax1", [0, 1], [[0, 1], [0, 1]]),
        ("ax1 | rx1 ry", [], []),
    ],
)
def test_a_witness_has_what_shows_the_anomaly_and_nothing_else(
    text: str, witness: list[int], ops: list[list[int]]
) -> None:
    result = check_transactions(transactions(text), "list-append")
    assert (result.witness, result.witness_ops) == (witness, ops)


def test_a_witness_of_registers_has_who_shows_the_order_of_versions() -> None:
    """That 2 replaced 1 shows only because the third wrote 2 after it had read 1."""
    history = transactions("wx1 rz | rx2 ry | rx1 wx2 wy7", model="rw-register")
    result = check_transactions(history, "rw-register")
    assert names(result)[0] == "G-single"
    assert (result.witness, result.witness_ops) == ([1, 2], [[0, 1], [1, 2]])


@pytest.mark.parametrize(
    ("text", "causal", "prefix"),
    [
        # The second saw the first, and not all that it wrote.
        ("ax1 ay1 | rx1 ry", "G-causal", "G-causal"),
        # It missed what the first, which it saw, had itself seen; y was written over since.
        ("ax1 | rx1 ay1 | ry1 rx | ax2 | rx12", "G-causal", "G-causal"),
        # It missed the second append of x, and saw what its writer wrote to y.
        ("ax1 | ax2 ay1 | ry1 rx | rx12", "G-causal", "G-causal"),
        # A long fork: two readers saw independent writes in different orders.
        ("ax1 | ay1 | rx1 ry | rx ry1", None, "G-prefix"),
        # Lost updates and write skew are allowed.
        ("rx ax1 | rx ax2", None, None),
        ("rx ay1 | ry ax1", None, None),
        # The second appended after the first without having seen it, so that who saw the second
        # need not see what else the first wrote, unless all see the same beginning.
        ("ax1 ay1 | ax2 az2 | rz2 ry | rx12", None, "G-prefix"),
        ("ax1 ry1 | ax2 ay1 | rx12", "G1c", "G1c"),
        ("ax1 | rx1 ax2 rx1", "internal", "internal"),
    ],
)
def test_causal_and_prefix_consistency(text: str, causal: str | None, prefix: str | None) -> None:
    for level, forbidden in (("causal", causal), ("prefix", prefix)):
        result = check_transactions(transactions(text), "list-append", consistency=level)
        assert result.status == ("INVALID" if forbidden else "VALID"), level
        if forbidden:
            assert result.reason == f"not {level}: {forbidden}"
            assert result.witness


def test_causality_also_leads_from_one_transaction_of_a_process_to_the_next() -> None:
    history = timed((0, 0, 1, "ax1"), (0, 2, 3, "ay1"), (1, 0, 9, "ry1 rx"), (2, 0, 9, "rx1"))
    assert check_transactions(history, "list-append", consistency="causal").status == "VALID"
    result = check_transactions(history, "list-append", consistency="strong-session-causal")
    assert result.reason == "not strong-session-causal: G-causal-process"
    assert result.violated == ["strong-session-causal"]
    (anomaly,) = [one for one in result.anomalies if one.name == "G-causal-process"]
    assert [(one.from_txn, one.to_txn, one.kind) for one in anomaly.cycle] == [
        (2, 0, "rw"),
        (0, 1, "process"),
        (1, 2, "wr"),
    ]


def timed(*rows: tuple[int, int, int, str]) -> list[Transaction]:
    """Return transactions of (process, call, ret, operations)."""
    made = []
    for process, call, ret, text in rows:
        (one,) = transactions(text)
        made.append(Transaction(process, one.micro_ops, call=call, ret=ret))
    return made


def test_a_stale_read_of_another_process_violates_only_what_respects_real_time() -> None:
    history = timed((0, 0, 1, "ax1"), (1, 2, 3, "rx"), (2, 0, 9, "rx1"))
    assert check_transactions(history, "list-append").status == "VALID"
    session = check_transactions(history, "list-append", consistency="strong-session-serializable")
    assert session.status == "VALID"
    result = check_transactions(history, "list-append", consistency=STRICT)
    assert names(result) == ["G-single-realtime"]
    assert (result.violated, result.also_violated) == (["strong-snapshot-isolation"], [STRICT])
    (anomaly,) = result.anomalies
    assert [(one.from_txn, one.to_txn, one.kind) for one in anomaly.cycle] == [
        (1, 0, "rw"),
        (0, 1, "realtime"),
    ]
    assert anomaly.text == (
        "T1 < T0, because T1 read key 'x' without T0's append of 1; but T0 < T1, because T0 "
        "returned before T1 was called: a contradiction"
    )


def test_a_process_that_does_not_read_its_own_write_breaks_its_session() -> None:
    history = timed((0, 0, 1, "ax1"), (0, 2, 3, "rx"), (2, 0, 9, "rx1"))
    result = check_transactions(
        history, "list-append", consistency="strong-session-snapshot-isolation"
    )
    assert names(result) == ["G-single-process"]
    assert result.violated == ["strong-session-snapshot-isolation"]


def test_equal_times_are_concurrent() -> None:
    history = timed((0, 0, 2, "ax1"), (1, 2, 3, "rx"), (2, 0, 9, "rx1"))
    assert check_transactions(history, "list-append", consistency=STRICT).status == "VALID"


def test_a_transaction_of_unknown_outcome_counts_once_something_of_it_was_read() -> None:
    unread = transactions("ax1 ay1 ? | rx | ry")
    assert check_transactions(unread, "list-append").status == "VALID"
    fractured = transactions("ax1 ay1 ? | rx1 ry")
    assert names(check_transactions(fractured, "list-append")) == ["G-single"]
    assert names(check_transactions(transactions("ax1! | rx"), "list-append")) == []


def test_elements_that_all_reads_begin_with_were_there_before() -> None:
    assert check_transactions(transactions("ax3 | rx12 | rx123"), "list-append").status == "VALID"
    result = check_transactions(transactions("ax3 | rx12 | rx"), "list-append")
    assert names(result) == ["garbage"]
    assert result.anomalies[0].count == 2


def test_many_readers_and_unread_appends_are_ordered_without_a_transaction_before_itself() -> None:
    text = " | ".join(["rx ax1", "rx ay1", "rx", "ax2", "ax3"])
    assert check_transactions(transactions(text), "list-append").status == "VALID"


@pytest.mark.parametrize(
    ("text", "options", "anomalies", "violated"),
    [
        ("wx1 | rx1", {}, [], []),
        ("wx1 wy1 | rx1 ry", {}, ["G-single"], ["consistent-view", "repeatable-read"]),
        ("rx wy1 | ry wx1", {}, ["G2-item"], ["repeatable-read"]),
        ("wx1! | rx1", {}, ["G1a"], ["read-committed"]),
        ("wx1 wx2 | rx1", {}, ["G1b"], ["read-committed"]),
        ("wx1 rx2 | wx2", {}, ["internal"], ["causal"]),
        ("rx1 wx1", {}, ["future-read"], ["read-committed"]),
        ("wx1 ry1 | wy1 rx1", {}, ["G1c"], ["read-committed"]),
        ("rx wx1 | rx wx2", {}, ["G2-item", "lost-update"], ["cursor-stability"]),
        # Nobody wrote 8 and 9, and one of them may have been there.
        ("rx8 | rx8", {}, [], []),
        ("rx8 | rx9", {}, ["garbage"], ["read-uncommitted"]),
        ("rx8 | rx", {}, ["garbage"], ["read-uncommitted"]),
        # 2 replaced 1, and 1 replaced 2.
        ("rx1 wx2 | rx2 wx1", {}, ["G1c", "cyclic-versions"], ["read-uncommitted"]),
        ("rx1 wx2 | rx2 wx1", {"writes_follow_reads": False}, ["G1c"], ["read-committed"]),
    ],
)
def test_registers(
    text: str, options: dict[str, bool], anomalies: list[str], violated: list[str]
) -> None:
    history = transactions(text, model="rw-register")
    result = check_transactions(history, "rw-register", **options)
    assert sorted(names(result)) == sorted(anomalies)
    assert result.violated == violated


def test_the_order_of_a_registers_values_may_be_stated() -> None:
    def of(*rows: tuple[int, int, int, str]) -> list[Transaction]:
        return [
            Transaction(process, transactions(text, model="rw-register")[0].micro_ops,
                        call=call, ret=ret)
            for process, call, ret, text in rows
        ]  # fmt: skip

    # Process 0 writes 1 and then 2; another transaction read 2 of x and what was before 1 of y.
    history = of((0, 0, 1, "wx1 wy5"), (0, 2, 3, "wx2"), (1, 0, 9, "rx2 ry"))
    assert check_transactions(history, "rw-register").status == "VALID"
    sequential = check_transactions(history, "rw-register", sequential_keys=True)
    assert names(sequential) == ["G-single"]
    assert sequential.anomalies[0].text.startswith("T2 < T0, because T2 read the initial value")
    linearizable = check_transactions(history, "rw-register", linearizable_keys=True)
    assert names(linearizable) == ["G-single"]
    other = of((0, 0, 1, "wx1 wy5"), (2, 2, 3, "wx2"), (1, 0, 9, "rx2 ry"))
    assert names(check_transactions(other, "rw-register", sequential_keys=True)) == []
    assert names(check_transactions(other, "rw-register", linearizable_keys=True)) == ["G-single"]


def columns(history: list[Transaction], items: Any = None) -> tuple[pa.Table, pa.Table]:
    """Return a history as two tables."""
    calls = pa.table(
        {
            "process": [one.process for one in history],
            "call": [one.call for one in history],
            "ret": [one.ret for one in history],
            "outcome": [one.outcome for one in history],
        }
    )
    rows = [
        {"txn": at, "f": f, "key": key, "value" if f != "r" else "read": value}
        for at, one in enumerate(history)
        for f, key, value in one.micro_ops
    ]
    schema = pa.schema(
        {
            "txn": pa.int32(),
            "f": pa.string(),
            "key": pa.string(),
            "value": items or pa.int64(),
            "read": pa.list_(items or pa.int64()),
        }
    )
    return calls, pa.Table.from_pylist(rows, schema)


@pytest.mark.parametrize("items", [pa.int64(), pa.int32(), pa.string()])
@pytest.mark.parametrize("batches", [1, 3])
def test_columns_say_the_same_as_objects(items: pa.DataType, batches: int) -> None:
    for text in ("ax1 ay1 | ax2 ay2 | rx12 ry21", "rx ay1 | ry ax1", "ax1 ax2? | rx1 | rx12"):
        history = transactions(text)
        if items == pa.string():
            history = [
                Transaction(
                    one.process,
                    [
                        (f, key, str(value) if f != "r" else [str(item) for item in value])
                        for f, key, value in one.micro_ops
                    ],
                    call=one.call,
                    ret=one.ret,
                    outcome=one.outcome,
                )
                for one in history
            ]
        calls, micro_ops = columns(history, items)
        size = -(-micro_ops.num_rows // batches)
        micro_ops = pa.Table.from_batches(micro_ops.to_batches(max_chunksize=size))
        found = check_transactions(calls, "list-append", micro_ops=micro_ops)
        expected = check_transactions(history, "list-append")
        assert (found.status, found.reason) == (expected.status, expected.reason)
        shown = [re.sub(r"['\"]", "", one.text) for one in found.anomalies]
        assert shown == [re.sub(r"['\"]", "", one.text) for one in expected.anomalies]


def test_registers_from_columns() -> None:
    calls = pa.table({"process": ["a", "b"], "call": [0, 2], "ret": [1, 3]})
    micro_ops = pa.table(
        {
            "txn": [0, 0, 1, 1],
            "f": ["w", "w", "r", "r"],
            "key": [7, 8, 7, 8],
            "value": [5, 6, 5, None],
        }
    )
    result = check_transactions(calls, "rw-register", micro_ops=micro_ops)
    assert names(result) == ["G-single"]
    assert result.anomalies[0].text == (
        "T1 < T0, because T1 read the initial value of key 8, to which T0 wrote 6; but T0 < T1, "
        "because T1 read T0's write of 5 to key 7: a contradiction"
    )


def test_bad_rows_are_refused_with_what_was_expected() -> None:
    for text, match in [
        ("ax1 | ax1", "row 1: it appends 1 to key 'x', expected another element: row 0 appends"),
        ("wx1", 'row 0: f is \'w\', expected "append" or "r"'),
    ]:
        with pytest.raises(HistoryError, match=re.escape(match)):
            check_transactions(transactions(text), "list-append")
    busy = [Transaction(0, [], call=0, ret=5), Transaction(0, [], call=4, ret=6)]
    with pytest.raises(HistoryError, match="row 1: call is 4, expected process 0 to have no"):
        check_transactions(busy, "list-append")
    lost = [Transaction(0, [], call=0), Transaction(0, [], call=4, ret=6)]
    with pytest.raises(HistoryError, match="outcome is unknown: give the client a new name"):
        check_transactions(lost, "list-append")
    with pytest.raises(HistoryError, match=r"row 0: a micro-operation is \('r', 'x'\)"):
        check_transactions([Transaction(0, [("r", "x")], call=0, ret=1)], "list-append")
    with pytest.raises(HistoryError, match=r"an element that it read is 0\.5, expected an int"):
        check_transactions([Transaction(0, [("r", "x", [0.5])], call=0, ret=1)], "list-append")
    with pytest.raises(ValueError, match='consistency is "eventual", expected one of read-unc'):
        check_transactions([], "list-append", consistency="eventual")


def test_bad_columns_are_refused_with_what_was_expected() -> None:
    calls, micro_ops = columns(transactions("ax1 | rx1"))
    with pytest.raises(TypeError, match="micro_ops is missing, expected Arrow columns"):
        check_transactions(calls, "list-append")
    backwards = micro_ops.take([1, 0])
    with pytest.raises(HistoryError, match="micro_ops: row 1: txn is 0, expected the row"):
        check_transactions(calls, "list-append", micro_ops=backwards)
    with pytest.raises(HistoryError, match='micro_ops: there is no column "key"'):
        check_transactions(calls, "list-append", micro_ops=micro_ops.drop(["key"]))
    odd = calls.set_column(3, "outcome", pa.array(["ok", "maybe"]))
    with pytest.raises(HistoryError, match='row 1: outcome is "maybe", expected "ok", "info" or'):
        check_transactions(odd, "list-append", micro_ops=micro_ops)


def test_nothing_is_valid_that_was_not_looked_at() -> None:
    result = check_transactions(transactions("ax1 | ax2"), "list-append")
    assert result.status == "UNKNOWN"
    assert result.reason.startswith("nothing was checked")
    with pytest.raises(UndecidedError, match="nothing was checked"):
        result.raise_if_invalid()


def test_what_was_found_before_a_limit_stays() -> None:
    skew = transactions("rx ay1 | ry ax1")
    starved = check_transactions(skew, "list-append", memory_mb=1e-6)
    assert (starved.status, starved.anomalies) == ("UNKNOWN", [])
    assert starved.reason.startswith("out of memory")
    aborted = transactions("ax1! | rx1")
    assert names(check_transactions(aborted, "list-append", memory_mb=1e-6)) == ["G1a"]


def test_results_can_be_pickled_and_raise() -> None:
    result = check_transactions(transactions("rx ay1 | ry ax1"), "list-append")
    again = pickle.loads(pickle.dumps(result))
    assert repr(again) == repr(result)
    assert repr(again.anomalies) == repr(result.anomalies)
    assert repr(again.anomalies[0].cycle) == repr(result.anomalies[0].cycle)
    with pytest.raises(InvalidError, match="INVALID: not serializable: G2-item"):
        result.raise_if_invalid()
    with pytest.raises(TypeError, match="neither true nor false"):
        bool(result)
    (one,) = transactions("ax1 rx1")
    assert repr(pickle.loads(pickle.dumps(one))) == repr(one)


def test_files_may_lack_f(tmp_path: Any) -> None:
    path = tmp_path / "history.json"
    path.write_text(
        '[{"process": 0, "type": "invoke", "value": [["append", 1, 5], ["r", 1, null]]},\n'
        ' {"process": 0, "type": "ok", "value": [["append", 1, 5], ["r", 1, [5]]]},\n'
        ' {"process": 1, "type": "invoke", "value": [["append", 1, 6]]},\n'
        ' {"process": 1, "type": "info", "value": null}]'
    )
    history = read_transactions(path)
    assert history.lines == [(1, 2), (3, None)]
    assert [one.outcome for one in history.transactions] == ["ok", "info"]
    assert check_transactions(history.transactions, "list-append").status == "VALID"

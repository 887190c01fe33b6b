"""A history as columns is judged key by key exactly as the history itself."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from checkers_cases import final, histories, history, insert, read, rest
from hypothesis import given

from checkers.consistency.linearizable import Linearizable
from harness.core.errors import HistoryError
from harness.fleet.columns import calls_of, decide_keys, key_ranges, read_columns, read_keys
from harness.run.parquet import table_of, write_parquet


def by_key(h, consistency):
    found = decide_keys(calls_of(table_of(h)), consistency, time_s=10.0, memory_mb=100.0)
    return {str(one.key): one.status.value for one in found}


@given(histories(keys=3, calls=12, unique=False))
def test_every_key_gets_the_verdict_of_the_checker(h):
    for consistency in ("linearizable", "sequential"):
        figures = Linearizable(consistency).check_within(h, 10.0).figures
        assert by_key(h, consistency) == figures["by_key"]


def test_the_witness_is_that_of_the_checker():
    h = history(
        insert(0, 1, 0, 10),
        insert(3, 9, 0, 10, kind="fail", error="286 QUORUM: busy"),
        read(1, [], 20, 30, node="ch2"),
        read(2, [1], 40, 50),
        rest(60),
        final(1, [1], 70, 71),
    )
    (one,) = decide_keys(calls_of(table_of(h)), "linearizable", time_s=1.0, memory_mb=100.0)
    (anomaly,) = Linearizable("linearizable").check(h).anomalies
    assert (one.kind, one.witness, one.time_ns) == (anomaly.kind, anomaly.ops, anomaly.time_ns)
    assert one.reason in anomaly.text


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([("ok", 0)], "op #0: ends a call that was never invoked"),
        ([("invoke", 0), ("invoke", 0)], "op #1: invokes while a call is in flight"),
    ],
)
def test_a_history_that_breaks_the_rules_is_refused(rows, why):
    h = table_of(history(insert(0, 1, 0, 1)))
    kinds = pa.array([kind for kind, _ in rows]).dictionary_encode()
    table = h.slice(0, len(rows)).set_column(h.schema.get_field_index("kind"), "kind", kinds)
    with pytest.raises(HistoryError, match=why):
        calls_of(table)


def test_a_range_of_keys_is_read_alone(tmp_path):
    h = history(*(insert(key, key, 10 * key, 10 * key + 5, key=key) for key in range(8)))
    write_parquet(h, tmp_path / "h.parquet")
    file = pq.ParquetFile(tmp_path / "h.parquet")
    assert key_ranges(file) == [(0, 7)]
    assert read_keys(file, (2, 3))["key"].to_pylist() == [2, 2, 3, 3]
    assert len(read_keys(file, None)) == 0
    assert len(read_columns(file)) == len(h)


@pytest.mark.parametrize("keys", [(0, 7), (2, 3), (1, 4), (3, 3), (8, 9), None])
def test_row_groups_are_read_whole_in_part_or_not_at_all(tmp_path, keys):
    calls = [insert(key, key, 10 * key, 10 * key + 5, key=key) for key in range(8)]
    table = table_of(history(*calls[:6], rest(58), *calls[6:]))
    pq.write_table(table, tmp_path / "h.parquet", row_group_size=4)
    within = [None] if keys is None else range(keys[0], keys[1] + 1)
    wanted = [key for key in table["key"].to_pylist() if key in within]
    got = read_keys(pq.ParquetFile(tmp_path / "h.parquet"), keys)["key"].to_pylist()
    assert got == wanted

"""A range of keys of a stored history is read alone, and judged as the whole history is."""

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from checkers_cases import final, histories, history, insert, read, rest
from hypothesis import given

from checkers.consistency.linearizable import Linearizable
from harness.core.errors import HistoryError
from harness.fleet.key_ranges import batches_of_keys, key_ranges
from harness.store.parquet import history_of_batches, table_of, write_parquet


def part(h, key):
    """Return the ops of one key."""
    table = table_of(h)
    batches = table.filter(pc.equal(table["key"], key)).to_batches()
    return history_of_batches(batches, whole=False)


@given(histories(keys=3, calls=12, unique=False))
def test_every_key_gets_the_verdict_that_it_gets_in_the_whole_history(h):
    for consistency in ("linearizable", "sequential"):
        checker = Linearizable(consistency)
        for whole in checker.judged_keys(h, 10.0):
            (alone,) = checker.judged_keys(part(h, whole.key), 10.0)
            assert (alone.status, alone.reason) == (whole.status, whole.reason)


def test_the_witness_has_the_indices_of_the_whole_history():
    h = history(
        insert(5, 8, 0, 5, key=7),
        insert(0, 1, 0, 10),
        insert(3, 9, 0, 10, kind="fail", error="286 QUORUM: busy"),
        read(1, [], 20, 30, node="ch2"),
        read(2, [1], 40, 50),
        rest(60),
        final(1, [1], 70, 71),
    )
    checker = Linearizable("linearizable")
    (alone,) = checker.judged_keys(part(h, 0), 1.0)
    (anomaly,) = checker.check(h).anomalies
    assert alone.anomaly == anomaly
    assert anomaly.ops == (1, 4, 6, 7)


def test_ops_of_a_part_that_break_the_rules_are_refused():
    table = table_of(history(insert(5, 8, 0, 5, key=7), insert(0, 1, 6, 9)))
    for rows, why in [
        ([3], "op #3: process 0 ends insert that it never invoked"),
        ([2, 1], "op #1: comes after op #2"),
    ]:
        with pytest.raises(HistoryError, match=why):
            history_of_batches(table.take(rows).to_batches(), whole=False)


def read_keys(file, keys):
    return [key for batch in batches_of_keys(file, keys) for key in batch["key"].to_pylist()]


def test_a_range_of_keys_is_read_alone(tmp_path):
    h = history(*(insert(key, key, 10 * key, 10 * key + 5, key=key) for key in range(8)))
    write_parquet(h, tmp_path / "h.parquet")
    file = pq.ParquetFile(tmp_path / "h.parquet")
    assert key_ranges(file) == [(0, 7)]
    assert read_keys(file, (2, 3)) == [2, 2, 3, 3]
    assert read_keys(file, None) == []
    assert read_keys(file, (0, 7)) == [op.key for op in h]


@pytest.mark.parametrize("keys", [(0, 7), (2, 3), (1, 4), (3, 3), (8, 9), None])
def test_row_groups_are_read_whole_in_part_or_not_at_all(tmp_path, keys):
    calls = [insert(key, key, 10 * key, 10 * key + 5, key=key) for key in range(8)]
    table = table_of(history(*calls[:6], rest(58), *calls[6:]))
    pq.write_table(table, tmp_path / "h.parquet", row_group_size=4)
    within = [None] if keys is None else range(keys[0], keys[1] + 1)
    wanted = [key for key in table["key"].to_pylist() if key in within]
    assert read_keys(pq.ParquetFile(tmp_path / "h.parquet"), keys) == wanted

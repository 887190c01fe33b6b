"""Frames and tables of any library go into pyporcupine as they are, without a copy."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyporcupine import HistoryError, check

LONG = 100_000
COUNT = 400


def columns() -> dict[str, list[Any]]:
    """Return puts of long texts, each followed by a get; the last get is stale."""
    texts = [str(at % 10) * LONG + str(at) for at in range(COUNT)]
    gets = [*texts[:-1], texts[0]]
    return {
        "process": [0, 1] * COUNT,
        "f": ["put", "get"] * COUNT,
        "value": [one for text in texts for one in (text, None)],
        "output": [one for text in gets for one in (None, text)],
        "call": list(range(0, 4 * COUNT, 2)),
        "ret": list(range(1, 4 * COUNT, 2)),
    }


def reader(table: pa.Table) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=100))


def arrow_backed(held: dict[str, list[Any]]) -> pd.DataFrame:
    """Return Arrow-backed columns, which are pandas 3's default for text; pandas 2 has Python
    objects."""
    return pa.table(held).to_pandas(types_mapper=pd.ArrowDtype)


MAKERS: dict[str, Callable[[dict[str, list[Any]]], Any]] = {
    "pyarrow table": pa.table,
    "pyarrow batch": lambda held: pa.table(held).combine_chunks().to_batches()[0],
    "pyarrow reader": lambda held: reader(pa.table(held)),
    "polars frame": pl.DataFrame,
    "polars series of structs": lambda held: pl.DataFrame(held).to_struct(),
    "pandas frame": arrow_backed,
}


@pytest.fixture(scope="module")
def held() -> dict[str, list[Any]]:
    return columns()


def peak_kb() -> int:
    """Return the peak memory of this process since the peak was reset."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return int(found[1])


@pytest.mark.parametrize("kind", MAKERS)
def test_no_copy(kind: str, held: dict[str, list[Any]]) -> None:
    frame = MAKERS[kind](held)
    check(MAKERS[kind]({name: column[:2] for name, column in held.items()}), "key-value")
    Path("/proc/self/clear_refs").write_text("5")  # the peak is what there is now
    before = peak_kb()
    (found,) = check(frame, "key-value").objects
    grown_kb = peak_kb() - before
    assert (found.status, found.witness[-1], found.operations) == ("INVALID", 799, 800)
    assert grown_kb < COUNT * LONG / 1000 / 4


def test_a_frame_without_a_column_is_refused() -> None:
    for frame in (pl.DataFrame({"f": ["put"]}), pd.DataFrame({"f": ["put"]})):
        with pytest.raises(HistoryError, match='there is no column "process"'):
            check(frame, "key-value")

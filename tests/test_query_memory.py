"""`harness query`: an answer that is too large for the memory of Spark is refused."""

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import fleet_cases as cases
import pytest
from test_query import rows, tables

from harness.core.errors import HarnessError, UsageError
from harness.fleet.spark import ANSWER_MAX, Fleet
from harness.fleet.store_sql import StoreSql


def test_an_answer_that_is_too_large_is_refused_and_says_what_to_do(tmp_path: Path) -> None:
    cases.run(tmp_path, "none", 1, cases.sound())
    with closing(Fleet("local[2]", tmp_path / "spark.log")) as fleet:
        spark = StoreSql(fleet, tables(tmp_path))
        settings = fleet._context._jsc.sc().conf()
        assert settings.get("spark.driver.maxResultSize") == ANSWER_MAX
        settings.set("spark.driver.maxResultSize", "1m")
        with pytest.raises(HarnessError) as large:
            spark.select("SELECT repeat('x', 1000000) FROM range(2)", 2)
        assert str(large.value) == (
            "SQL: the answer is larger than 1024.0 KiB (spark.driver.maxResultSize); select fewer "
            "columns, aggregate, give a lower --limit, or start harness by spark-submit with a "
            "higher figure"
        )
        assert not isinstance(large.value, UsageError)
        assert rows(spark, "SELECT 1") == [(1,)], "the next query has its answer"


def test_a_query_that_uses_up_the_memory_of_spark_says_so(tmp_path: Path) -> None:
    """Its JVM ends itself."""
    cases.run(tmp_path, "none", 1, cases.sound())
    everything = "SELECT collect_list(concat(id, repeat('x', 1000000))) FROM range(3000)"
    done = subprocess.run(
        [sys.executable, "-m", "harness.cli.main", "query", str(tmp_path), everything],
        capture_output=True, text=True, env={**os.environ, "COLUMNS": "500"},
    )  # fmt: skip
    assert done.returncode == 255
    assert done.stderr.startswith("harness: SQL: the memory of Spark is used up, 1 GB by default")
    assert "Traceback" not in done.stderr

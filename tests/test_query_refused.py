"""`harness query` refuses what cannot be asked before Spark starts."""

import fleet_cases as cases
import pytest
from click.testing import CliRunner

from harness.cli.query import query
from harness.core.errors import UsageError
from harness.fleet.spark import Fleet


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("local[0]", "0: expected a whole number from 1 to 256"),
        ("local[9999999999999]", "9999999999999: expected a whole number from 1 to 256"),
        ("local[two]", "two: expected a whole number from 1 to 256"),
        ("local[]", ": expected a whole number from 1 to 256"),
        ("local-cluster[2,0,1024]", "0: expected a whole number from 1 to 256"),
        ("local-cluster[2,1,0]", "0: expected a whole number from 1 to 1,000,000"),
        ("locale", "expected local[*], local[4], spark://HOST:PORT, yarn or k8s://URL"),
    ],
)
def test_a_master_that_cannot_be_is_refused_before_spark_starts(tmp_path, master, expected) -> None:
    with pytest.raises(UsageError) as refused:
        Fleet(master, tmp_path / "spark.log")
    assert str(refused.value) == f"--spark {master!r}: {expected}"


def test_what_is_no_store_or_no_query_is_refused_before_spark_starts(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("harness.cli.query.spark_fleet", None)

    def refused(*words: str) -> str:
        with pytest.raises(UsageError) as caught:
            CliRunner().invoke(query, words, catch_exceptions=False, standalone_mode=False)
        return str(caught.value)

    assert "has no runs; expected a store" in refused(str(tmp_path))
    assert refused(str(tmp_path), "cels") == (
        "query 'cels' is unknown; did you mean cells? expected one of cells, anomalies, checkers, "
        "or a SELECT"
    )


def test_a_store_that_was_never_checked_is_refused_before_spark_starts(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr("harness.cli.query.spark_fleet", None)
    cases.run(tmp_path, "none", 1, cases.sound())
    with pytest.raises(UsageError, match=r"has no verdicts; run `harness check .*` first$"):
        CliRunner().invoke(query, [str(tmp_path)], catch_exceptions=False, standalone_mode=False)

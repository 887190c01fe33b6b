"""`harness query`: SQL sees the verdicts that count, once, and every operation of the store."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from statistics import median

import fleet_cases as cases
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from query_cases import INNER, NO_QUERIES, PLACES

from harness.cli.query import query
from harness.core.errors import HarnessError, UsageError
from harness.core.seed import Seed
from harness.fleet.found_runs import found
from harness.fleet.location import Location
from harness.fleet.spark import Fleet
from harness.fleet.store_sql import StoreSql
from harness.fleet.stored_runs import StoredRuns, check_fleet
from harness.fleet.verdicts import Verdicts
from harness.fleet.views import PATH_COLUMNS, QUERIES, RUN_PATH, StoreTables
from harness.spec.workload_options import workload_of
from harness.store.parquet import SCHEMA, write_parquet
from harness.store.store import RunDirectory, Store

RUNS = StoredRuns(workload_of)
MANUAL = Path(__file__).parent.parent / "docs" / "fleet.md"
NONE, KILL = "quorum-set+none", "quorum-set+kill,pause"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    with closing(Fleet("local[2]", tmp_path_factory.mktemp("spark") / "spark.log")) as fleet:
        yield fleet


def run(root: Path, nemesis: str, day: int, history) -> str:
    """Write a run of a day of November, and return its path in the store."""
    at = datetime(2026, 11, day, 12, tzinfo=UTC)
    here = Store(root).create("quorum-set", nemesis, Seed(day), at)
    made = cases.run(root, nemesis, day, history)
    for file in (made.info_file, made.parquet_file):
        file.rename(here.path / file.name)
    for left in made.path.iterdir():
        left.unlink()
    made.path.rmdir()
    return str(here.path.relative_to(root))


@dataclass(frozen=True)
class Judged:
    root: Path
    verdicts: Verdicts
    runs: dict
    """The summary of each run, as `harness check` has it."""
    twice: str
    """A run that was VALID, then changed, and was judged again."""


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Judged:
    root = tmp_path_factory.mktemp("query") / "st o[r]{e}* %41"
    runs = [run(root, "none", day, cases.sound(day)) for day in (1, 2, 3)]
    run(root, "kill,pause", 4, cases.stale())
    run(root, "kill,pause", 5, cases.sound())
    check_fleet(found(root), RUNS, cases.in_process)
    (root / runs[1] / "history.parquet").unlink()
    write_parquet(cases.stale(), root / runs[1] / "history.parquet")
    checked = check_fleet(found(root), RUNS, cases.in_process)
    assert checked.judged == {runs[1]}
    return Judged(root, checked.verdicts, dict(checked.runs), runs[1])


def tables(root: Path) -> StoreTables:
    many, verdicts = found(root), Verdicts(Location.of(root / "verdicts"))
    files = [Location.of(root / run / "history.parquet") for run in many.runs]
    return StoreTables(store=many.root, verdicts=verdicts, judged=verdicts.judged(),
                       histories=files, history_schema=SCHEMA)  # fmt: skip


@pytest.fixture(scope="module")
def spark(fleet, store) -> StoreSql:
    return StoreSql(fleet, tables(store.root))


def rows(spark: StoreSql, sql: str) -> list[tuple]:
    answer = spark.select(sql, 10_000)
    assert answer.more == 0
    return list(answer.rows)


def test_of_a_run_that_was_judged_twice_the_last_verdict_counts(spark, store) -> None:
    got = rows(spark, "SELECT run, status, first_ns, kinds FROM runs ORDER BY run")
    assert got == [
        (run, one.status.value, one.first_ns, list(one.kinds))
        for run, one in sorted(store.runs.items())
    ]
    assert store.runs[store.twice].status.value == "INVALID"
    kept = pq.ParquetDataset(store.verdicts.place.below("runs").path).read()["run"].to_pylist()
    assert Counter(kept)[store.twice] == 2, "the dataset has both"


def test_rows_are_those_of_the_last_judgement(spark, store) -> None:
    names = ("run", "checker", "object", "status", "reason", "witness", "seed")
    got = rows(spark, f"SELECT {', '.join(names)} FROM rows")
    counted = store.verdicts.rows()
    expected = list(zip(*(counted[name].to_pylist() for name in names), strict=True))
    assert sorted(map(repr, got)) == sorted(map(repr, expected))
    kept = pq.ParquetDataset(store.verdicts.place.below("rows").path).read()
    assert len(kept) > len(got), "the dataset has those of the first judgement as well"
    assert rows(spark, "SELECT count(*) FROM rows NATURAL JOIN (SELECT run, cell, date FROM runs)")[
        0
    ] == (len(got),)


def test_ops_are_all_operations_with_what_the_path_says_of_the_run(spark, store) -> None:
    got = rows(spark, "SELECT run, cell, workload, nemesis, seed, date, count(*), max(`values`) "
                      "FROM ops GROUP BY ALL ORDER BY run")  # fmt: skip
    histories = {name: pq.read_table(store.root / name / "history.parquet") for name in store.runs}
    assert got == [
        (name, name.split("/")[0], "quorum-set", name.split("/")[0].split("+")[1],
         str(Seed(day)), date(2026, 11, day), len(table), list(range(20)))
        for name, table in sorted(histories.items())
        for day in [int(name.split("/")[1][6:8])]
    ]  # fmt: skip
    columns = "run, cell, workload, nemesis, seed, date"
    assert (
        rows(spark, f"SELECT DISTINCT {columns} FROM ops EXCEPT SELECT {columns} FROM runs") == []
    )


@pytest.mark.parametrize(
    ("run", "cell", "workload", "nemesis", "seed", "day"),
    [
        ("a+b/20261126T175235Z-0x5eed.2", "a+b", "a", "b", "0x5eed", date(2026, 11, 26)),
        ("mine/20261399T175235Z-7", "mine", "mine", None, "7", None),
        ("a+kill,pause/copied", "a+kill,pause", "a", "kill,pause", None, None),
    ],
)
def test_a_path_says_of_a_run_what_its_name_has(
    fleet, run, cell, workload, nemesis, seed, day
) -> None:
    columns = ", ".join(sql.format(path=RUN_PATH) for sql in PATH_COLUMNS.values())
    session = fleet.session()
    (got,) = session.sql(f"SELECT {columns} FROM VALUES ('{run}') AS t(run)").collect()
    assert tuple(got) == (run, cell, workload, nemesis, seed, day)


def files_read(spark: StoreSql, sql: str) -> tuple[int, str]:
    """Return how many files of histories a query reads, and its physical plan."""
    spark._session.conf.set("spark.sql.adaptive.enabled", "false")  # so that the plan is final
    try:
        frame = spark.frame(sql)
        frame.collect()
        plan = frame._jdf.queryExecution().executedPlan()
    finally:
        spark._session.conf.set("spark.sql.adaptive.enabled", "true")
    leaves = plan.collectLeaves()
    counts = [leaves.apply(at).metrics().get("numFiles") for at in range(leaves.size())]
    return sum(count.get().value() for count in counts if count.isDefined()), plan.toString()


@pytest.mark.parametrize(
    ("where", "files"),
    [
        ("true", 5),
        (f"cell = '{NONE}'", 3),
        ("nemesis LIKE '%pause'", 2),
        ("date >= '2026-11-02' AND date < DATE '2026-11-05'", 3),
        (f"run IN ('{NONE}/20261101T120000Z-0x1', 'no/such')", 1),
        (f"cell = '{KILL}' AND seed = '0x1'", 0),
        (f"cell = '{NONE}' AND key = 1 AND kind = 'ok'", 3),
    ],
)
def test_a_condition_on_the_run_reads_the_files_of_these_runs_alone(spark, where, files) -> None:
    read, plan = files_read(spark, f"SELECT f, count(*) FROM ops WHERE {where} GROUP BY f")
    assert read == files
    schema = re.search(r"ReadSchema: struct<(.*?)>", plan)[1]
    names = {column.partition(":")[0] for column in schema.split(",")}
    names.discard("_tmp_metadata_row_index")  # Spark counts it, no file has it
    assert names == ({"f", "key", "kind"} if "key" in where else {"f"})
    assert ("EqualTo(key,1)" in plan) == ("key" in where), "row groups are skipped by their keys"


def test_the_summary_of_cells_is_what_python_counts(spark, store) -> None:
    by_cell: dict = {}
    for name, one in store.runs.items():
        by_cell.setdefault((name.split("/")[0], one.conditions), []).append(one)
    expected = []
    for (cell, on), runs in by_cell.items():
        count = Counter(one.status.value for one in runs)
        firsts = [one.first_ns for one in runs if one.first_ns is not None]
        rate = round(count["INVALID"] / (len(runs) - count["UNKNOWN"]), 3)
        counts = (count["VALID"], count["UNKNOWN"], count["INVALID"])
        expected.append((on.servers, on.version, cell, on.settings, len(runs), *counts, rate,
                         round(median(firsts) / 1e9, 3)))  # fmt: skip
    assert len({row[:2] for row in expected}) == 1
    assert rows(spark, QUERIES["cells"].sql) == sorted(expected, key=lambda row: (-row[8], row[2]))


def test_runs_on_other_servers_or_with_other_settings_are_not_added(fleet, tmp_path) -> None:
    """Nor is an exploration of a model a run, nor a start that failed."""
    runs = [RunDirectory(tmp_path / run(tmp_path, "none", n, cases.stale())) for n in range(1, 6)]
    cases.changed(runs[1], cluster="sim", versions={"ch1": "18.16.1"})
    cases.changed(runs[2], insert="plain")
    cases.changed(runs[3], workload="explore-quorum", cluster="sim")
    cases.changed(runs[4], state="crashed", error="ClusterError: no image")
    runs[4].parquet_file.unlink()
    check_fleet(found(tmp_path), RUNS, cases.in_process)
    spark = StoreSql(fleet, tables(tmp_path))
    cells, kinds, checkers = (rows(spark, query.sql) for query in QUERIES.values())
    assert [(*row[:2], *row[3:5], row[7]) for row in cells] == [
        ("real", "", "defaults", 1, 1), ("real", "", "insert plain", 1, 1),
        ("simulated", "18.16.1", "defaults", 1, 1),
    ]  # fmt: skip
    assert {(row[0], row[3]) for row in kinds} == {("real", 2), ("simulated", 1)}
    assert {row[0] for row in checkers} == {"real", "simulated", "model"}


def test_the_summary_of_anomalies_is_what_python_counts(spark, store) -> None:
    runs_of: dict = {}
    for name, one in store.runs.items():
        for kind in one.kinds:
            runs_of.setdefault(kind, []).append(name)
    assert len(runs_of) > 1
    got = rows(spark, QUERIES["anomalies"].sql)
    assert [row[2:] for row in got] == [
        (kind, len(runs), len({run.split("/")[0] for run in runs}), min(runs))
        for kind, runs in sorted(runs_of.items(), key=lambda item: (-len(item[1]), item[0]))
    ]


def test_the_summary_of_checkers_is_what_python_counts(spark, store) -> None:
    by_checker: dict = {}
    for row in store.verdicts.rows().to_pylist():
        by_checker.setdefault(row["checker"], []).append(row)
    expected = {
        checker: (
            pytest.approx(sum(row["seconds"] for row in those), abs=0.001),
            pytest.approx(max(row["seconds"] for row in those), abs=0.001),
            len({row["run"] for row in those}),
            sum(row["object"] is not None for row in those),
            sum(row["checked"] for row in those),
        )
        for checker, those in by_checker.items()
    }
    got = rows(spark, QUERIES["checkers"].sql)
    assert {checker: tuple(rest) for _, checker, *rest in got} == expected
    assert [row[2] for row in got] == sorted((row[2] for row in got), reverse=True)


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELEC 1", r"SQL: Syntax error at or near 'SELEC' \(line 1, column 1\); expected a query "
                    r"of the views runs \(run, cell, .*judged_in\); rows \(.*\); ops \(.*error\)$"),
        ("SELECT stat FROM runs", r"`stat` cannot be resolved.*`status`.*\(at 'stat'\); expected a "
                                  r"query of the views .*runs \(run, cell, workload"),
        ("SELECT 1 FROM verdict", r"view `verdict` cannot be found.*\(at 'verdict'\)"),
        ("SELECT 1 / (key - key) FROM ops", r"SQL: Division by zero.*\(at '1 / \(key - key\)'\)$"),
        ("SELECT cell FROM runs GROUP BY run", r"SQL: The non-aggregating expression \"cell\""),
    ],
)  # fmt: skip
def test_an_error_in_sql_is_one_line_that_names_the_part_and_what_there_is(
    spark, capfd, sql, said
) -> None:
    with pytest.raises(UsageError) as refused:
        spark.select(sql, 10)
    assert re.search(said, str(refused.value)), refused.value
    assert "\n" not in str(refused.value)
    assert capfd.readouterr() == ("", "")


def test_what_is_no_query_is_refused_and_not_executed(spark, fleet, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    before = spark.select("SELECT count(*) FROM runs", 1)
    refusal = r"^SQL: ['\"].*['\"] is no query; expected one, such as SELECT"
    for sql in NO_QUERIES:
        with pytest.raises(UsageError, match=refusal):
            spark.select(sql, 10)
    assert spark.select("SELECT count(*) FROM runs", 1) == before
    assert spark._session.catalog.listTables() == [
        one for one in spark._session.catalog.listTables() if one.name in ("runs", "rows", "ops")
    ]
    assert spark._session.conf.get("spark.sql.ansi.enabled") == "true"
    assert [file for place in (tmp_path, fleet.log.parent) for file in place.rglob("*")] == [
        fleet.log
    ]


@pytest.mark.parametrize("place", PLACES)
def test_a_query_neither_calls_code_nor_opens_files(spark, fleet, place) -> None:
    for what, inner in INNER.items():
        with pytest.raises(UsageError) as refused:
            spark.select(PLACES[place].format(inner), 10)
        said = str(refused.value)
        assert "\n" not in said
        assert re.search(
            r"is refused, because|cannot be found|requires a single-part|Streaming", said
        ), what
        assert "expected a query of the views" in said, what
    assert fleet._context._jvm.java.lang.System.getProperty("owned") is None


def test_a_refusal_says_why(spark) -> None:
    with pytest.raises(UsageError) as refused:
        spark.select(INNER["java_method"], 10)
    assert str(refused.value).startswith(
        "SQL: java_method is refused, because it may call code or open files; expected a query of "
        "the views "
    )
    with pytest.raises(UsageError) as refused:
        spark.select(INNER["a script"], 10)
    assert str(refused.value) == (
        "SQL: TRANSFORM is refused, because it runs a program; expected a query of the views with "
        "the functions of Spark SQL"
    )


def test_a_function_with_a_harmless_name_stays(spark) -> None:
    assert rows(spark, "SELECT abs(-1), input_file_name() FROM runs LIMIT 1") == [(1, "")]


def test_a_query_ends_when_its_time_is_over(spark) -> None:
    endless = "SELECT count(*) FROM range(1000000000000000) WHERE id % 7 = 3"
    with pytest.raises(HarnessError) as late:
        spark.select(endless, 10, 1.0)
    assert str(late.value) == (
        "SQL: the query was cancelled after 1 s without an answer; narrow it, for instance by a "
        "condition on cell or date, or give a longer --time-limit"
    )
    assert not isinstance(late.value, UsageError)
    assert rows(spark, "SELECT 1") == [(1,)], "the next query has its answer"


def test_without_verdicts_ops_are_there_and_runs_say_what_to_do(fleet, tmp_path) -> None:
    cases.run(tmp_path, "none", 1, cases.sound())
    fresh = StoreSql(fleet, tables(tmp_path))
    assert rows(fresh, "SELECT count(*) AS runs FROM ops WHERE kind = 'invoke'") == [(47,)]
    for view in ("runs", "rows"):
        with pytest.raises(UsageError, match=r"has no verdicts; run `harness check .*` first$"):
            fresh.select(f"SELECT * FROM {view}", 1)
    without = StoreSql(fleet, replace(tables(tmp_path), histories=[]))
    with pytest.raises(UsageError, match=r"no run has a history\.parquet; run `harness check"):
        without.select("SELECT * FROM ops", 1)


def test_a_history_that_cannot_be_read_is_named_and_can_be_left_out(fleet, tmp_path) -> None:
    cases.run(tmp_path, "none", 1, cases.sound())
    broken = cases.run(tmp_path, "none", 2, cases.sound())
    broken.parquet_file.write_bytes(b"no Parquet")
    name = str(broken.path.relative_to(tmp_path))
    spark = StoreSql(fleet, tables(tmp_path))
    with pytest.raises(HarnessError) as caught:
        spark.select("SELECT count(f) FROM ops", 1)
    assert str(caught.value).startswith(f"{broken.parquet_file}: cannot be read; harness check ")
    assert not isinstance(caught.value, UsageError)
    assert rows(spark, f"SELECT count(f) FROM ops WHERE run != '{name}'") == [(94,)]


@pytest.fixture
def ask(fleet, monkeypatch):
    """Return the command, on the Spark of all tests: its standard output."""

    @contextmanager
    def shared(master, root):
        yield fleet

    monkeypatch.setattr("harness.cli.query.spark_fleet", shared)
    monkeypatch.setenv("COLUMNS", "100")

    def asked(*words: str) -> str:
        done = CliRunner().invoke(query, words, catch_exceptions=False, standalone_mode=False)
        assert done.return_value == 0
        return done.stdout

    return asked


def test_the_command_prints_a_table_and_how_many_rows_are_left(ask, store) -> None:
    output = ask(str(store.root), "SELECT kind, key, error FROM ops WHERE date = '2026-11-01' "
                 "ORDER BY `index`;", "--limit", "2")  # fmt: skip
    assert [line.rstrip() for line in output.splitlines()] == [
        "kind    key  error",
        "invoke    0  null",
        "ok        0  null",
        "and 92 more rows; --limit shows more",
    ]
    assert ask(str(store.root), "SELECT run, note FROM runs WHERE false") == "no rows (run, note)\n"
    lines = ask(str(store.root), "SELECT * FROM runs", "--limit", "1").splitlines()
    assert lines[0].split() == ["row", "1"]
    assert lines[2].split() == ["cell", KILL], "a row that is too wide has a line for each column"


def test_without_sql_the_command_answers_every_query_that_it_has(ask, store) -> None:
    output = ask(str(store.root))
    titles = [one.title for one in QUERIES.values()]
    assert [line for line in output.splitlines() if line in titles] == titles
    assert QUERIES["cells"].title not in ask(str(store.root), "anomalies")
    assert all(
        f"`{name}`" in query.help for name in (*QUERIES, *PATH_COLUMNS, "runs", "rows", "ops")
    )


def test_json_is_one_document_with_the_rows_as_objects(ask, store) -> None:
    sql = ("SELECT cell, date '2026-11-01' AS day, 1.50 AS price, double('NaN') AS odd, "
           "X'beef' AS raw, map('a', 1) AS m, array(null, 2) AS l, struct(1 AS x) AS s "
           "FROM runs ORDER BY run DESC")  # fmt: skip
    document = json.loads(ask(str(store.root), sql, "--json", "--limit", "1"))
    (result,) = document.pop("results")
    assert document == {"store": str(store.root), "notes": []}
    assert result == {
        "title": "",
        "sql": sql,
        "columns": ["cell", "day", "price", "odd", "raw", "m", "l", "s"],
        "rows": [{"cell": NONE, "day": "2026-11-01", "price": "1.50", "odd": "nan", "raw": "beef",
                  "m": [["a", 1]], "l": [None, 2], "s": {"x": 1}}],
        "more": 4,
    }  # fmt: skip
    with pytest.raises(UsageError, match="two columns are named 'run'; expected a name for each"):
        ask(str(store.root), "SELECT run, run FROM runs", "--json")


def test_the_command_says_which_runs_an_answer_leaves_out(ask, tmp_path) -> None:
    cases.run(tmp_path, "none", 1, cases.sound())
    check_fleet(found(tmp_path), RUNS, cases.in_process)
    cases.run(tmp_path, "none", 2, cases.sound(), journal=True, columns=False)
    asked = {view: json.loads(ask(str(tmp_path), f"SELECT count(*) FROM {view}", "--json"))
             for view in ("runs", "ops")}  # fmt: skip
    assert [asked[view]["notes"] for view in ("runs", "ops")] == [
        [f"no verdict yet: 1 of 2 runs; harness check {tmp_path} judges them"],
        [f"no history.parquet yet: 1 of 2 runs; harness check {tmp_path} makes it"],
    ]


def test_a_folder_of_a_store_shows_its_own_runs(ask, store) -> None:
    document = json.loads(ask(str(store.root / KILL), "SELECT DISTINCT cell FROM ops", "--json"))
    assert document["results"][0]["rows"] == [{"cell": KILL}]
    document = json.loads(ask(str(store.root / KILL), "SELECT count(*) AS n FROM runs", "--json"))
    assert document["results"][0]["rows"] == [{"n": 2}]


def test_the_queries_of_the_manual_are_answered(ask, store) -> None:
    text = MANUAL.read_text(encoding="utf-8")
    (block,) = re.findall(r"```sh\n(harness query .*?)```", text, re.DOTALL)
    asked = [
        shlex.split(line, comments=True)[3:] for line in block.replace("\\\n", "").splitlines()
    ]
    assert len(asked) > 3
    for words in asked:
        if not any("://" in word for word in words):
            assert "no rows" not in ask(str(store.root), *words), words


def test_without_pyspark_the_command_says_how_to_get_it(store) -> None:
    without = "import sys; sys.modules['pyspark'] = None; from harness.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", without, "query", str(store.root)],
        capture_output=True, text=True, env={**os.environ, "COLUMNS": "500"},
    )  # fmt: skip
    assert done.returncode == 254
    assert "expected what pip install 'clickhouse-harness[spark]' installs" in done.stderr

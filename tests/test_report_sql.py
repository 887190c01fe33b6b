"""The statements of a run: how they are kept, and how a report prints them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from report_cases import finished, stale

from harness.cli.report import report
from harness.clients.call_statements import statements_of_call
from harness.clients.clickhouse import ClickHouse
from harness.clients.sent_statement import SentStatement
from harness.core.errors import HarnessError, UsageError
from harness.report import call_sql as budget
from harness.report.call_sql import call_sql, forms_of, setup_of
from harness.report.run_files import draw, facts_in
from harness.report.sql import sql_of_op, sql_of_run
from harness.report.text import plain_report
from harness.store.statement_file import NAME, OpStatement, StatementFile, read_statements
from harness.store.store import RunDirectory

QUORUM = {"insert_quorum": 2}
CALL = next(p for p in stale().pairs if (p.invoke.f, p.invoke.value) == ("insert", 2))
"""Call of the stored run that has a statement."""


class Listener:
    """Channel that notes the statements and their query ids."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def ask(self, sql: str, settings: object, rows: object, query_id: str = "") -> Any:
        self.asked.append((sql, query_id))
        return []

    def keep_session(self) -> None: ...

    def disconnect(self) -> None: ...


def test_each_statement_of_a_call_has_a_query_id_that_names_run_and_op(tmp_path: Path) -> None:
    channel = Listener()
    connection = ClickHouse(channel, node="ch2")
    file = StatementFile(tmp_path, "run_7")
    connection.command("SELECT 0")
    with file.of_op(None):
        connection.command("CREATE DATABASE d")
    with file.of_op(12):
        connection.insert("d.t", [(0, 19)], QUORUM)
        connection.numbers("SELECT value FROM d.t WHERE key = 0")
        connection.insert("d.t", [(0, 20)], query_id="mine")
    file.close()
    assert channel.asked == [
        ("SELECT 0", ""),
        ("CREATE DATABASE d", "run_7-setup"),
        ("INSERT INTO d.t VALUES", "run_7-12"),
        ("SELECT value FROM d.t WHERE key = 0", "run_7-12.2"),
        ("INSERT INTO d.t VALUES", "mine"),
    ]
    assert read_statements(tmp_path) == [
        OpStatement(None, "run_7-setup", SentStatement("ch2", "CREATE DATABASE d", {})),
        OpStatement(12, "run_7-12", sent("INSERT INTO d.t VALUES", QUORUM, [(0, 19)])),
        OpStatement(12, "run_7-12.2", sent("SELECT value FROM d.t WHERE key = 0")),
        OpStatement(12, "mine", sent("INSERT INTO d.t VALUES", {}, [(0, 20)])),
    ]


def sent(sql: str, settings: Any = None, rows: Any = None) -> SentStatement:
    return SentStatement("ch2", sql, settings or {}, rows)


def test_texts_that_differ_in_numbers_alone_are_stored_once(tmp_path: Path) -> None:
    texts = [f"SELECT value FROM d2.t WHERE key = {key} AND x < -{key + 10}" for key in range(50)]
    texts += ["SELECT '{}', 1, map()", "SELECT {a: 1}", "SELECT 007, 1.5, '3'"]
    write(tmp_path, texts)
    assert read_statements(tmp_path) is not None
    assert [one.statement.sql for one in read_statements(tmp_path) or ()] == texts
    heads = [line for line in (tmp_path / NAME).read_text().splitlines() if '"sql"' in line]
    assert len(heads) == 4


def write(directory: Path, texts: Sequence[str]) -> None:
    write_to(StatementFile(directory, "run"), texts)


def write_to(file: StatementFile, texts: Sequence[str]) -> None:
    for op, text in enumerate(texts):
        with file.of_op(op):
            ClickHouse(Listener(), node="ch2").command(text)
    file.close()


def test_a_line_that_was_cut_short_is_left_out_and_a_wrong_one_is_named(tmp_path: Path) -> None:
    write(tmp_path, ["SELECT 1", "SELECT 2"])
    path = tmp_path / NAME
    text = path.read_text()
    path.write_text(text[:-9])
    assert [one.op for one in read_statements(tmp_path) or ()] == [0]
    path.write_text('{"op": 1}\n' + text)
    with pytest.raises(HarnessError, match="line 1 is no statement"):
        read_statements(tmp_path)


def test_a_full_disk_ends_the_file_and_not_the_call(tmp_path: Path) -> None:
    file = StatementFile(tmp_path / "gone", "run")
    with file.of_op(1):
        ClickHouse(Listener()).command("SELECT 1")
    assert "statements.jsonl is not complete: No such file" in file.trouble
    assert read_statements(tmp_path) is None


def test_a_disk_that_fills_up_is_a_trouble(tmp_path: Path) -> None:
    (tmp_path / NAME).symlink_to("/dev/full")
    file = StatementFile(tmp_path, "run")
    write_to(file, ["SELECT 1", "SELECT 2"])
    assert file.trouble == "statements.jsonl is not complete: No space left on device"


def test_a_block_within_a_block_has_its_own_ids() -> None:
    kept: list[str] = []
    channel = Listener()

    def keep(query_id: str, _: SentStatement) -> None:
        kept.append(query_id)

    with statements_of_call("a", keep):
        with statements_of_call("b", keep):
            ClickHouse(channel).command("SELECT 1")
        ClickHouse(channel).command("SELECT 2")
    assert kept == ["b", "a"]


@pytest.fixture
def stored(tmp_path: Path) -> RunDirectory:
    """Return a run whose insert of 2 has a statement, and the log of its server."""
    run = finished(tmp_path, stale())
    line = {
        "statement": 0,
        "op": CALL.invoke.index,
        "node": "ch1",
        "query_id": "r-4",
        "rows": [[0, 2]],
    }
    head = {"statement": 0, "sql": "INSERT INTO d.t VALUES", "settings": QUORUM}
    (run.path / NAME).write_text("".join(json.dumps(one) + "\n" for one in (head, line)))
    log = run.logs / "ch1" / "clickhouse-server.log"
    log.parent.mkdir(parents=True)
    log.write_text("{r-4} <Debug> executeQuery: its own\n{r-40} other\n{r-4.2} other\n")
    return run


PASTED = [
    "/* ch1 */",
    "SET insert_quorum = 2;",
    "INSERT INTO d.t VALUES (0, 2);",
    "SET insert_quorum = DEFAULT;",
]


def test_a_report_prints_the_statements_in_order(stored: RunDirectory) -> None:
    answer = CliRunner().invoke(report, [str(stored.path), "--sql"])
    assert answer.output.splitlines()[2:] == PASTED


@pytest.mark.parametrize("which", ["begin", "end"])
def test_a_report_shows_one_call_and_what_its_servers_logged(
    stored: RunDirectory, which: str
) -> None:
    assert CALL.end is not None
    number = CALL.invoke.index if which == "begin" else CALL.end.index
    answer = CliRunner().invoke(report, [str(stored.path), "--op", str(number)])
    first, *lines = answer.output.splitlines()
    assert first.startswith(f"-- call #{CALL.invoke.index}: insert on ch1, key 0, value 2 at ")
    assert lines == [
        *PASTED,
        "-- query_id r-4",
        "",
        "-- ch1/clickhouse-server.log",
        "--   {r-4} <Debug> executeQuery: its own",
    ]


def test_a_run_that_kept_none_has_those_that_its_workload_would_send(tmp_path: Path) -> None:
    run = finished(tmp_path, stale())
    answer = CliRunner().invoke(report, [str(run.path), "--sql"])
    assert "CREATE TABLE harness_run.t (key Int64, value Int64)" in answer.output
    assert "INSERT INTO harness_run.t VALUES (0, 2);" in answer.output
    assert "query_id" not in answer.output


def test_an_op_without_statements_is_refused_by_its_number(stored: RunDirectory) -> None:
    history, statements = stored.history(), read_statements(stored.path)
    assert statements is not None
    for number, why in ((10_000, "expected 0 to"), (0, "no statement was sent for it")):
        with pytest.raises(UsageError, match=rf"--op {number}: .*{why}"):
            list(sql_of_op(history, statements, number, stored.logs))
    assert list(sql_of_run(None, statements))[1] == f"-- call #{CALL.invoke.index}"


def test_a_page_has_the_statements_of_a_witness_first_and_within_its_budget(
    stored: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other calls are those that did not end ok, then the rest in order."""
    history = stale()
    calls = [pair for pair in history.pairs if pair.invoke.f in ("insert", "read")]
    sent = [
        OpStatement(pair.invoke.index, "", SentStatement("ch1", f"SELECT {at}", {}))
        for at, pair in enumerate(calls)
    ]
    last = calls[-1].invoke.index
    monkeypatch.setattr(budget, "STATEMENTS_MAX", 3)
    found = call_sql(history, sent, [last], stored.logs)
    failed = [pair.invoke.index for pair in calls if pair.kind.value != "ok"]
    assert [*found["calls"]] == [str(op) for op in (last, *failed)]
    assert found["heads"] == [["", "SELECT {}", ""]]
    monkeypatch.setattr(budget, "TEXT_MAX", 0)
    assert [*call_sql(history, sent, [last], stored.logs)["calls"]] == [str(last)]


def test_a_page_lists_what_was_sent_before_the_calls_and_the_forms_of_theirs() -> None:
    texts = ["CREATE TABLE t", *(f"SELECT {at}" for at in range(3)), "INSERT INTO t VALUES"]
    sent = [
        OpStatement(at or None, "", SentStatement("ch1", text, {"a": 1} if at else {}))
        for at, text in enumerate(texts)
    ]
    assert setup_of(sent) == "/* ch1 */\nCREATE TABLE t;"
    assert [(form.text, form.count) for form in forms_of(sent)] == [
        ("/* ch1 */\nSET a = 1;\nSELECT 0;\nSET a = DEFAULT;", 3),
        ("/* ch1 */\nSET a = 1;\nINSERT INTO t VALUES;\nSET a = DEFAULT;", 1),
    ]


def test_a_damaged_file_of_statements_is_a_notice_on_the_page(stored: RunDirectory) -> None:
    (stored.path / NAME).write_text("{}\n{}\n")
    assert draw(stored) is None
    assert "line 1 is no statement" in stored.report.read_text()


def test_the_text_has_the_statements_of_the_witness(stored: RunDirectory) -> None:
    """The witness is the insert of 2 and the read that misses it, which kept no statement."""
    text = plain_report(facts_in(stored))
    assert "INSERT INTO d.t VALUES (0, 2);\nSET insert_quorum = DEFAULT;\nsql  harness rep" in text

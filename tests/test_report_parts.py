"""Log lines about the part that an insert made, on every replica."""

import shutil
from pathlib import Path

import pytest
from test_conform import ROOT, TRACE, TXNS

from harness.conform.txnlog import ChangeKind
from harness.report import call_logs
from harness.report.call_logs import FileLines, logs_of_queries

TOKEN = ROOT.split("/")[2]
BLOCK, PART = next(
    (change.path.rpartition("/")[2], change.data.decode())
    for txn in TXNS
    for change in txn.changes
    if change.kind is ChangeKind.CREATE
    and change.data
    and change.path.startswith(f"{ROOT}/blocks/")
)
"""Block of an insert in a trace of real servers, and its part."""
TABLE = f"harness_{TOKEN}.t (uuid)"
WROTE = f"{{r-4}} <Debug> {TABLE} (Replicated OutputStream): Wrote block with ID '{BLOCK}', 1 rows"
FETCHED = f"{{}} <Debug> {TABLE}: Fetched part {PART} from default:{ROOT}/replicas/ch1"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Return the logs of two replicas, and the transaction log of the trace."""
    texts = {
        "ch1": [WROTE, "{r-5} <Debug> executeQuery: another call"],
        "ch2": [
            FETCHED,
            FETCHED.replace(TOKEN, f"{TOKEN}2"),
            FETCHED.replace(PART, f"{PART}_7"),
            FETCHED.replace(PART, f"1{PART}"),
            f"{{}} <Debug> {TABLE}: Removing {PART}.",
        ],
    }
    for node, lines in texts.items():
        (tmp_path / node).mkdir()
        (tmp_path / node / "clickhouse-server.log").write_text("".join(f"{x}\n" for x in lines))
    (tmp_path / "zk1").mkdir()
    shutil.copy(TRACE, tmp_path / "zk1" / "txnlog.tar.gz")
    return tmp_path


def test_other_replicas_lines_about_the_part_of_an_insert_follow_its_own(logs: Path) -> None:
    """Not those of another table's part of the same name, or of a name that contains it."""
    own, of_part = logs_of_queries(logs, ["r-4"]).by_query["r-4"]
    assert own == FileLines("ch1/clickhouse-server.log", (WROTE,), 0)
    removed = f"{{}} <Debug> {TABLE}: Removing {PART}."
    assert of_part == FileLines("ch2/clickhouse-server.log", (FETCHED, removed), 0, PART)
    assert of_part.title == f"ch2/clickhouse-server.log, part {PART}"


def test_a_line_with_the_query_id_that_names_the_part_is_there_once(logs: Path) -> None:
    own = f"{{r-4}} <Trace> {TABLE}: Renaming temporary part tmp_insert_{PART} to {PART}"
    file = logs / "ch1" / "clickhouse-server.log"
    file.write_text(f"{WROTE}\n{own}\n")
    first, second = logs_of_queries(logs, ["r-4"]).by_query["r-4"]
    assert (first.lines, second.file) == ((WROTE, own), "ch2/clickhouse-server.log")


def test_many_lines_about_a_part_are_counted(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_logs, "LINES_MAX", 1)
    _, of_part = logs_of_queries(logs, ["r-4"]).by_query["r-4"]
    assert (of_part.lines, of_part.left_out) == ((FETCHED,), 1)


@pytest.mark.parametrize("packed", [None, b"no archive"])
def test_without_zookeepers_log_there_are_the_lines_of_the_query_alone(
    logs: Path, packed: bytes | None
) -> None:
    archive = logs / "zk1" / "txnlog.tar.gz"
    archive.unlink()
    if packed is not None:
        archive.write_bytes(packed)
    (own,) = logs_of_queries(logs, ["r-4"]).by_query["r-4"]
    assert own.lines == (WROTE,)

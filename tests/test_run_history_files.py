"""Which of history.jsonl and history.parquet has the history, and that no writer loses it."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import fleet_cases as cases
import pytest
from store_cases import OPS

from checkers.judge import Judgement, judge
from checkers.ladder import Level, ladder_of
from checkers.stats import Stats
from harness.cli.main import app
from harness.core.history import History
from harness.core.verdict import Status
from harness.fleet.found_runs import found
from harness.fleet.stored_runs import StoredRuns, check_fleet
from harness.report.run_files import facts_in
from harness.spec.workload_options import workload_of
from harness.store.journal import journal_digest
from harness.store.parquet import read_parquet
from harness.store.store import RunDirectory

LOST = (
    "{}: was cut or changed after history.parquet was made from it; the history is that of "
    "history.parquet, {} operations, and both files are kept"
)


def made(store: Path) -> RunDirectory:
    """Return a run with a journal and its columns."""
    return cases.run(store, "none", 1, History(OPS), journal=True)


def judged(run: RunDirectory) -> None:
    run.save(judge(run.history(), [Stats()], 10, "eventual"))


def lines(count: int) -> Callable[[bytes], bytes]:
    return lambda whole: b"".join(whole.splitlines(keepends=True)[:count])


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "is empty": lambda _: b"",
    "is cut at the end of a line": lines(4),
    "is cut within a line": lambda whole: whole[: len(whole) // 2],
    "has zeros where a disk lost a page": lambda whole: whole[:100] + bytes(100) + whole[200:],
    "has another value": lambda whole: whole.replace(b'"value":8', b'"value":9'),
    "is cut and goes on": lambda whole: lines(4)(whole) + lines(8)(whole),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_whole_columns_that_were_judged_win_over_a_journal_that(
    damage: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    run = made(tmp_path)
    judged(run)
    digest = journal_digest(run.journal)
    files = {file.name for file in run.path.iterdir()}
    run.journal.write_bytes(damaged := damage(run.journal.read_bytes()))
    columns = run.parquet_file.read_bytes()
    said = LOST.format(run.journal, len(OPS))
    for _ in range(2):
        contents = run.contents()
        assert (tuple(contents.history), contents.damage) == (OPS, said)
        assert facts_in(run).troubles == (said,), "the verdict is that on these operations"
        assert tuple(read_parquet(run.parquet())) == OPS
        judged(run)
        assert run.results()["journal"] == digest
    assert (run.journal.read_bytes(), run.parquet_file.read_bytes()) == (damaged, columns)
    assert {file.name for file in run.path.iterdir()} == files


@pytest.mark.parametrize(
    ("damage", "ops"), [("is empty", 8), ("is cut at the end of a line", 8),
                        ("is cut within a line", 8), ("has another value", None)],
)  # fmt: skip
def test_columns_of_a_run_without_a_verdict_win_if_they_have_more(
    damage: str, ops: int | None, tmp_path: Path
) -> None:
    run = made(tmp_path)
    run.journal.write_bytes(DAMAGES[damage](run.journal.read_bytes()))
    before = run.path / "history.parquet.before"
    changed = read_parquet(run.parquet())
    if ops is None:  # nobody knows which of the two is right
        assert changed[6].value == 9
        assert tuple(read_parquet(before)) == OPS
    else:
        assert tuple(changed) == OPS
        assert not before.exists()


def test_a_journal_that_is_no_file_any_more_loses_to_columns_that_were_judged(
    tmp_path: Path,
) -> None:
    run = made(tmp_path)
    judged(run)
    run.journal.unlink()
    os.mkfifo(run.journal)
    assert (tuple(run.history()), run.contents().damage) == (OPS, LOST.format(run.journal, 8))
    assert tuple(read_parquet(run.parquet())) == OPS


def test_a_journal_that_went_on_after_a_check_has_the_history(tmp_path: Path) -> None:
    run = made(tmp_path)
    whole = run.journal.read_bytes()
    run.parquet_file.unlink()
    run.journal.write_bytes(lines(4)(whole))
    run.parquet()
    judged(run)
    run.journal.write_bytes(whole)
    assert (tuple(run.history()), run.contents().damage) == (OPS, None)
    assert run.outdated().startswith("history.jsonl has changed since it was judged")
    assert tuple(read_parquet(run.parquet())) == OPS
    assert not list(run.path.glob("history.parquet.*"))


def test_a_cut_journal_whose_columns_are_broken_has_what_is_left(tmp_path: Path) -> None:
    run = made(tmp_path)
    judged(run)
    run.journal.write_bytes(lines(4)(run.journal.read_bytes()))
    broken = run.parquet_file.read_bytes()[:-20]
    run.parquet_file.write_bytes(broken)
    assert tuple(run.history()) == OPS[:4]
    assert tuple(read_parquet(run.parquet())) == OPS[:4]
    assert (run.path / "history.parquet.broken").read_bytes() == broken


@pytest.mark.parametrize("damage", ["is empty", "is cut at the end of a line"])
def test_a_check_of_the_store_or_of_the_run_keeps_the_verdict(
    damage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = cases.run(tmp_path, "none", 2, cases.stale(), journal=True)
    store = found(tmp_path)
    assert store is not None
    checked = check_fleet(store, StoredRuns(workload_of), cases.in_process, save=True)
    columns = run.parquet_file.read_bytes()
    run.journal.write_bytes(DAMAGES[damage](run.journal.read_bytes()))
    said = LOST.format(run.journal, len(cases.stale()))
    for words in ([str(tmp_path), "--force"], [str(tmp_path)], [str(run.path)]):
        assert app(["check", *words, "--json"], standalone_mode=False) == 1
        report = json.loads(capsys.readouterr().out)
        assert report["status"] == "INVALID"
        notes = report.get("troubles") or [one["note"] for one in report["not_valid"]]
        assert said in notes, words
        assert run.parquet_file.read_bytes() == columns
    (before,) = checked.runs.values()
    assert before.status.value == run.results()["status"] == "INVALID"


def test_a_verdict_that_decided_is_kept_beside_one_that_does_not(tmp_path: Path) -> None:
    run = made(tmp_path)
    less, ok = (
        Judgement(status, (), ladder_of(Level.EVENTUAL, []), {})
        for status in (Status.UNKNOWN, Status.VALID)
    )
    run.save(ok)
    decided = run.results_file.read_bytes()
    kept = ("results.json was VALID before; it is kept as results.json.before",)
    assert run.save(less, ["late"]) == kept
    assert (run.results()["status"], run.results()["troubles"]) == ("UNKNOWN", ["late", *kept])
    assert run.save(less) == run.save(ok) == ()
    assert (run.path / "results.json.before").read_bytes() == decided

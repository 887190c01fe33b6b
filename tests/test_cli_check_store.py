"""`harness check STORE`: nothing that is wrong with one run costs another its verdict."""

import json
from pathlib import Path
from shutil import rmtree
from typing import Any

import fleet_cases as cases
import pytest

from harness.cli.main import app
from harness.core.errors import EXIT_INVALID, EXIT_UNKNOWN, EXIT_VALID, UsageError
from harness.store.store import RunDirectory, Store


def check(
    store: Path, *words: str, capsys: pytest.CaptureFixture[str]
) -> tuple[int, dict[str, Any]]:
    """Return the exit status and the report."""
    status = app(["check", f"{store}/", *words, "--json"], standalone_mode=False)
    return status, json.loads(capsys.readouterr().out)


def answer(store: Path, *words: str, capsys: pytest.CaptureFixture[str]) -> str:
    app(["check", f"{store}/", *words], standalone_mode=False)
    return capsys.readouterr().out.splitlines()[-1]


def name(run: RunDirectory) -> str:
    return f"{run.path.parent.name}/{run.path.name}"


def test_a_run_whose_plug_in_is_not_here_is_unknown_until_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store"
    cases.run(store, "none", 1, cases.sound())
    lacking = cases.run(store, "kill", 2, cases.sound())
    cases.changed(lacking, workload="elsewhere_set:workload")
    for _ in range(2):
        status, report = check(store, capsys=capsys)
        assert (status, report["statuses"]) == (2, {"VALID": 1, "UNKNOWN": 1, "INVALID": 0})
        [unknown] = report["not_valid"]
        assert unknown["run"] == name(lacking)
        assert unknown["reason"].startswith(
            "run: workload elsewhere_set:workload: there is no module elsewhere_set"
        )
    assert (report["judged"], report["unchanged"]) == (1, 1), "it is tried each time"
    library = tmp_path / "library"
    assert app(["new", "workload", "elsewhere-set", "--directory", str(library)],
               standalone_mode=False) in (None, 0)  # fmt: skip
    capsys.readouterr()
    monkeypatch.syspath_prepend(library)
    status, report = check(store, capsys=capsys)
    assert report["statuses"] == {"VALID": 2, "UNKNOWN": 0, "INVALID": 0}


NEVER = {
    "crashed": "ClusterError: the simulated server does not know: CREATE TABLE",
    "running": "it was killed while it was set up",
}


@pytest.mark.parametrize("state", NEVER)
def test_a_run_that_never_began_counts_as_nothing(
    state: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = cases.run(tmp_path, "kill", 2, cases.sound(), columns=False)
    cases.changed(run, state=state, error=NEVER[state] if state == "crashed" else None)
    alone, report = check(tmp_path, capsys=capsys)
    assert (alone, report["runs"]) == (EXIT_UNKNOWN, 0), "nothing was checked"
    cases.run(tmp_path, "none", 1, cases.sound())
    status, report = check(tmp_path, capsys=capsys)
    assert (status, report["runs"], report["not_valid"]) == (EXIT_VALID, 1, [])
    assert report["never_began"] == [{"run": name(run), "why": NEVER[state]}]
    assert answer(tmp_path, capsys=capsys).startswith(
        "VALID: 1 run: 1 VALID; 1 more never began, and count as nothing; verdicts: "
    )


def test_runs_on_other_servers_are_counted_apart_and_models_count_as_no_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cases.run(tmp_path, "none", 1, cases.sound())
    simulated = cases.run(tmp_path, "none", 2, cases.sound())
    cases.changed(simulated, cluster="sim", versions={"ch1": "18.16.1"})
    model = cases.run(tmp_path, "none", 3, cases.stale())
    cases.changed(model, workload="explore-quorum", cluster="sim")
    status, report = check(tmp_path, capsys=capsys)
    assert (status, report["runs"], report["not_valid"]) == (EXIT_VALID, 2, [])
    assert report["explorations"] == {"VALID": 0, "UNKNOWN": 0, "INVALID": 1}
    assert [(one["servers"], one["version"], one["runs"]) for one in report["by_servers"]] == [
        ("real", "", 1),
        ("simulated", "18.16.1", 1),
    ]
    assert answer(tmp_path, capsys=capsys).startswith(
        "VALID: 2 runs: 2 VALID; 1 explorations of models count apart; verdicts: "
    )
    alone, _ = check(tmp_path, capsys=capsys)
    assert alone == EXIT_VALID
    for run in Store(tmp_path).runs():
        if run.path != model.path:
            rmtree(run.path)
    assert check(tmp_path, capsys=capsys)[0] == EXIT_INVALID, "it was asked for alone"


@pytest.mark.parametrize(
    "fields",
    [{"state": "finished"}, {"state": "recorded"},
     {"state": "crashed", "zero_utc": "2026-11-20T17:45:09+00:00"}],
)  # fmt: skip
def test_a_run_that_has_lost_its_history_is_unknown(
    fields: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = cases.run(tmp_path, "kill", 2, cases.sound(), columns=False)
    cases.changed(run, **fields)
    status, report = check(tmp_path, capsys=capsys)
    assert (status, report["runs"], report["never_began"]) == (EXIT_UNKNOWN, 1, [])
    assert "has neither history.parquet nor history.jsonl" in report["not_valid"][0]["reason"]


@pytest.mark.parametrize(
    ("checkers", "status", "said"),
    [
        ("stats", EXIT_UNKNOWN, "UNKNOWN: 2 runs: 2 UNKNOWN; first: {}; by stats alone"),
        ("dedup", EXIT_UNKNOWN, "UNKNOWN: 2 runs: 2 UNKNOWN; first: {}; by dedup alone"),
        ("convergence,stats", EXIT_VALID, "VALID: 2 runs: 2 VALID; by convergence, stats alone"),
        ("linearizable", EXIT_INVALID, "INVALID: 2 runs: 1 VALID, 1 INVALID; first: {}; by line"),
    ],
)
def test_a_conclusion_counts_the_checkers_that_were_asked_for(
    checkers: str, status: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [cases.run(tmp_path, "none", seed, h) for seed, h in ((1, cases.stale()),
                                                                 (2, cases.sound()))]  # fmt: skip
    got, report = check(tmp_path, "--checkers", checkers, capsys=capsys)
    assert (got, report["checkers"]) == (status, sorted(checkers.split(",")))
    text = answer(tmp_path, "--checkers", checkers, capsys=capsys)
    assert text.startswith(said.format(name(runs[0])))
    assert "alone, whatever other checkers find; verdicts: " in text


@pytest.mark.parametrize("names", [",", "", ",,"])
def test_no_checker_at_all_is_refused(names: str, tmp_path: Path) -> None:
    cases.run(tmp_path, "none", 1, cases.sound())
    with pytest.raises(UsageError, match="names no checker; expected names, separated by commas"):
        app(["check", f"{tmp_path}/", "--checkers", names], standalone_mode=False)


def test_no_link_in_a_store_is_followed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, other = tmp_path / "store", tmp_path / "other"
    inside = cases.run(store, "none", 1, cases.sound())
    outside = cases.run(other, "kill", 2, cases.sound(), journal=True)
    outside.parquet_file.write_bytes(b"broken")
    (store / "quorum-set+kill").symlink_to(outside.path.parent)
    (store / "quorum-set+again").symlink_to(inside.path.parent)
    (inside.path.parent / "20000101T000000Z-0x1").symlink_to(outside.path)

    def changed_ns() -> dict[Path, int]:
        return {file: file.stat().st_ctime_ns for file in other.rglob("*")}

    before = changed_ns()
    _, report = check(store, capsys=capsys)
    assert (report["runs"], report["status"]) == (1, "VALID")
    assert changed_ns() == before
    _, report = check(store / "quorum-set+kill", capsys=capsys)
    assert (report["runs"], report["store"]) == (1, str(other)), "a link that is named is meant"

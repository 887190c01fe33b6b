"""`harness prune`: what is old goes, what is marked, alive or unjudged stays."""

import json
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import fleet_cases as cases
import pytest
from click.testing import CliRunner

from harness.cli.prune import prune
from harness.core.clock import utc_now
from harness.core.errors import UsageError
from harness.fleet.found_runs import found
from harness.fleet.stored_runs import StoredRuns, check_fleet
from harness.nights.matrix import read_matrix
from harness.spec.workload_options import workload_of
from harness.store.store import RunDirectory, Store


def run(store: Path, nemesis: str, seed: int, status: str | None, days: float) -> RunDirectory:
    """Return a run that began so many days ago, with logs."""
    directory = cases.run(store, nemesis, seed, cases.sound())
    info = json.loads(directory.info_file.read_text())
    info["started_utc"] = (utc_now() - timedelta(days=days)).isoformat(timespec="seconds")
    info |= {"state": "finished" if status else "running", "status": status}
    directory.info_file.write_text(json.dumps(info))
    (directory.logs / "ch1").mkdir(parents=True)
    (directory.logs / "ch1" / "server.log").write_bytes(bytes(5_000))
    return directory


def asked(store: Path, *words: str) -> dict:
    command = [*words, "--store", str(store), "--json"]
    done = CliRunner().invoke(prune, command, catch_exceptions=False, standalone_mode=False)
    return json.loads(done.stdout)


def test_what_is_old_goes_after_it_was_shown(tmp_path: Path) -> None:
    of = {
        "young": run(tmp_path, "none", 1, "VALID", 3),
        "logs": run(tmp_path, "none", 2, "VALID", 20),
        "valid": run(tmp_path, "none", 3, "VALID", 70),
        "killed": run(tmp_path, "kill", 4, None, 70),
        "invalid": run(tmp_path, "none", 5, "INVALID", 700),
        "marked": run(tmp_path, "none", 6, "VALID", 700),
        "alive": run(tmp_path, "none", 7, None, 700),
    }
    (of["marked"].path / "keep").touch()
    check_fleet(found(tmp_path), StoredRuns(workload_of), cases.in_process)
    before = sorted(tmp_path.rglob("*"))
    with ExitStack() as stack:
        stack.enter_context(of["alive"].held())
        shown = asked(tmp_path)
        assert sorted(tmp_path.rglob("*")) == before, "it only shows"
        assert {(one["rule"], one["path"]) for one in shown["removals"]} == {
            ("logs", str(of["logs"].logs)),
            ("logs", str(of["invalid"].logs)),
            ("valid", str(of["valid"].path)),
            ("unknown", str(of["killed"].path)),
        }
        assert shown["spared"] == {"has a file keep": 1, "still runs": 1}
        assert shown["bytes"] > shown["logs_bytes"] == 7 * 5_000
        done = asked(tmp_path, "--delete")
    assert [r["path"] for r in done["removals"]] == [r["path"] for r in shown["removals"]]
    left = {"young", "logs", "invalid", "marked", "alive"}
    assert {name for name, one in of.items() if one.path.exists()} == left
    assert {name for name in left if of[name].logs.exists()} == {"young", "marked", "alive"}
    assert not of["killed"].path.parent.exists()
    judged = check_fleet(found(tmp_path), StoredRuns(workload_of), pytest.fail)
    assert len(judged.unchanged) == 5
    assert len(judged.verdicts.judged()) == 5, "verdicts on runs that are gone go too"
    assert {p.name for p in tmp_path.iterdir()} >= {"latest", "quorum-set+none", "verdicts"}
    assert Store(tmp_path).find("latest").path.exists()
    rules = [one["rule"] for one in asked(tmp_path, "--invalid=0", "--logs=ever")["removals"]]
    assert sorted(rules) == ["invalid", "unknown"], "nobody holds the run that was alive"


def test_a_matrix_says_for_how_long(tmp_path: Path) -> None:
    matrix = tmp_path / "nightly.toml"
    top = 'workloads = ["quorum-set"]\nnemeses = ["none"]\n'
    matrix.write_text(f'{top}[retention]\nlogs = 1\nvalid = "ever"\n')
    run(tmp_path / "store", "none", 1, "VALID", 70)
    shown = asked(tmp_path / "store", str(matrix))
    assert shown["days"] == {"logs": 1.0, "valid": None, "unknown": 60.0, "invalid": None}
    assert [one["rule"] for one in shown["removals"]] == ["logs"]
    matrix.write_text(f"{top}[retention]\nvalid = -1\n")
    with pytest.raises(UsageError, match=r"line 4: retention\.valid: -1: expected a number of day"):
        read_matrix(matrix)

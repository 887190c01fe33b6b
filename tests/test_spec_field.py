"""A field that is added to `RunSpec` is an option everywhere, without a change of another file."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FIELD = """
    salt: Annotated[
        str | None,
        Option(type=Text(), panel=Panel.WORKLOAD, help="Salt of the soup."),
    ] = None
"""
RUN = ("run", "--cluster", "sim", "--time-limit", "1", "--rate", "20", "--seed", "7")
READING = """
import sys
from pathlib import Path
from harness.cli.hunt import hunt
from harness.nights.matrix import read_matrix
from harness.store.store import RunDirectory
from harness.web.summary import summary_of
(cell,) = read_matrix(Path("matrix.toml")).cells
print(cell.options["salt"], summary_of(RunDirectory(Path(sys.argv[1]))).settings)
print("--salt" in {flag for param in hunt.params for flag in param.opts})
"""


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with a copy of the harness in which a run has one more field."""
    at = tmp_path_factory.mktemp("changed")
    rust = shutil.ignore_patterns("src", "target", "tests", "__pycache__")
    shutil.copytree(ROOT / "harness", at / "harness", ignore=rust)
    file = at / "harness" / "spec" / "run_spec.py"
    text = file.read_text()
    at_end = "    workload_options: Mapping"
    assert text.count(at_end) == 1
    file.write_text(
        text.replace(at_end, f"{FIELD.lstrip()}{at_end}".replace("salt", "    salt", 1))
    )
    (at / "harness.toml").write_text('[run]\nsalt = "of a profile"\n')
    (at / "script.toml").write_text(
        '[options]\nsalt = "of a script"\ncluster = "sim"\ntime-limit = "0.5"\n\n'
        '[script]\ncalls = [{ at = 0.1, by = 0, on = "ch1", f = "insert", key = 0, value = 1 }]\n'
    )
    (at / "matrix.toml").write_text(
        'workloads = ["quorum-set"]\nnemeses = ["none"]\n[options]\nsalt = "of a matrix"\n'
    )
    return at


def harness(at: Path, *words: str, **variables: str) -> str:
    """Return what a command of the changed harness prints."""
    path = f"{at}{os.pathsep}{ROOT}"
    done = subprocess.run(
        [sys.executable, *(words if words[0] == "-c" else ("-m", "harness.cli.main", *words))],
        cwd=at, env={**os.environ, "PYTHONPATH": path, "COLUMNS": "120", **variables},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 2), done.stderr
    return done.stdout


def stored(at: Path, *words: str, **variables: str) -> tuple[Path, str, str]:
    """Return a run's directory, its value of the field, and the command that repeats it."""
    run = at / json.loads(harness(at, *words, "--json", **variables))["run"]
    info = json.loads((run / "run.json").read_text())
    return run, info["spec"]["salt"], info["again"]


def test_a_new_field_is_in_help_environment_profile_script_matrix_and_pages(changed: Path) -> None:
    assert "Salt of the soup." in harness(changed, "run", "--help", "workload")
    run, given, again = stored(changed, *RUN, "--salt", "typed")
    assert (given, "--salt typed" in again) == ("typed", True)
    assert "<dd>typed</dd>" in (run / "report.html").read_text()
    assert stored(changed, *RUN)[1] == "of a profile"
    assert stored(changed, *RUN, HARNESS_RUN_SALT="of a variable")[1] == "of a variable"
    assert stored(changed, "run", "--script", "script.toml")[1] == "of a script"
    assert harness(changed, "-c", READING, str(run)).splitlines() == [
        "of a matrix salt typed", "True"
    ]  # fmt: skip

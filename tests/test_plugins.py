"""Plug-ins: workloads, nemeses and checkers of a user's own are found, or refused with a reason."""

import json
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from click.testing import CliRunner
from report_cases import finished, stale

from checkers.ladder import Level
from harness.cli.list import list_
from harness.cli.main import app
from harness.cli.new import new
from harness.core import plugins
from harness.core.errors import UsageError
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.nights.matrix import read_matrix
from harness.spec.catalogue import plugin_checkers, workload_entry
from nemesis.catalogue import parse_nemesis
from nemesis.options import FaultOptions

THREE = Topology.of(shards=1, replicas=3, keepers=3)
OWN = """
class Family:
    def __init__(self, topology):
        self.f, self.once, self.needs, self.heal_rank = "own", True, (), 1
    def plan(self, seed, turn): ...
    begin = end = undo = broken = plan


class Partition(Family):
    def __init__(self, topology):
        super().__init__(topology)
        self.f = "partition"


class Judge:
    name = "own"
    def check(self, history): ...


def untyped(options, seed, promise, faults_expected): ...
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a working directory with plug-ins; afterwards none of them is imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.setenv(plugins.NAMED, "")
    plugins.name_modules(["own_faults:X", "own_broken:X", "own_set:X"])
    (tmp_path / "own_faults.py").write_text(OWN)
    (tmp_path / "own_broken.py").write_text("import nowhere_to_be_found")
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("own_")]:
        del sys.modules[name]


def test_a_new_workload_can_be_run_and_listed(here: Path) -> None:
    done = CliRunner().invoke(new, ["workload", "own-set"], catch_exceptions=False)
    assert "wrote own_set.py" in done.output
    entry = workload_entry("own_set:workload")
    made = entry.make(entry.options(), Seed(1), Level.EVENTUAL, True)
    assert made.name == "own-set"
    assert [checker.name for checker in made.checkers()] == ["stats", "set-full", "convergence"]
    listed = CliRunner().invoke(list_, ["own_set:workload"], catch_exceptions=False).output
    assert "reads-per-insert=1" in listed
    assert "Unique values inserted on any replica" in listed
    before = plugins.source_digest(plugins.WORKLOADS, "own_set:workload")
    (here / "own_set.py").write_text("changed = True")
    assert plugins.source_digest(plugins.WORKLOADS, "own_set:workload") != before
    with pytest.raises(UsageError, match="exists already"):
        CliRunner().invoke(new, ["workload", "own-set"], catch_exceptions=False)


@pytest.mark.usefixtures("here")
def test_a_family_of_ones_own_is_composed_with_others() -> None:
    made = parse_nemesis("kill,own_faults:Family", THREE, Seed(1), FaultOptions())
    assert made.fs == {"kill", "own"}
    with pytest.raises(UsageError, match="two families have the f 'partition'"):
        parse_nemesis("partition,own_faults:Partition", THREE, Seed(1), FaultOptions())


def test_a_matrix_names_workloads_and_faults_of_ones_own(here: Path) -> None:
    (here / "own_faults2.py").write_text(OWN)
    matrix = here / "own.toml"
    for faults, refused in (
        ("kill,own_faults2:Family", None),
        ("own_faults2:Fomily", "has no Fomily; did you mean Family"),
        ("nowhere:F", "there is no module nowhere"),
    ):
        matrix.write_text(f'workloads = ["quorum-set"]\nnemeses = ["none", "{faults}"]\n')
        if refused is None:
            names = [cell.name for cell in read_matrix(matrix).cells]
            assert names == ["quorum-set + none", f"quorum-set + {faults}"]
        else:
            with pytest.raises(UsageError, match=f"line 2.*{refused}"):
                read_matrix(matrix)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nowhere:W", "there is no module nowhere"),
        ("own_broken:W", "cannot be imported: ModuleNotFoundError at .*own_broken.py:1"),
        ("own_faults:Judgee", "has no Judgee; did you mean Judge"),
        ("own_faults:untyped", "a subclass of workloads.options.WorkloadOptions"),
        ("own faults:W", "expected MODULE:NAME"),
        ("quorum-sett", "did you mean quorum-set"),
    ],
)
def test_a_workload_that_cannot_be_used_is_refused(name: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        workload_entry(name)


@pytest.mark.usefixtures("here")
def test_installed_plugins_have_names(monkeypatch: pytest.MonkeyPatch) -> None:
    points = {
        plugins.CHECKERS: {"mine": EntryPoint("mine", "own_faults:Judge", plugins.CHECKERS)},
        plugins.NEMESES: {"bad": EntryPoint("bad", "nowhere:F", plugins.NEMESES)},
    }
    monkeypatch.setattr(plugins, "installed", lambda group: points.get(group, {}))
    assert [checker.name for checker in plugin_checkers(["set-full", "mine"])] == ["own"]
    assert plugins.descriptions(plugins.NEMESES)["bad"].startswith("unusable: bad (nowhere:F)")
    with pytest.raises(UsageError, match="'min' is unknown; did you mean mine"):
        plugin_checkers(["min"])


WORKLOAD = """
from pathlib import Path
from workloads.quorum_set import QuorumSet, QuorumSetOptions
Path("imported").touch()


class W(QuorumSet):
    def __init__(self, options: QuorumSetOptions, seed, promise, faults_expected):
        super().__init__(options, seed, promise, faults_expected)
"""
REFUSED = "the command line does not name it; expected one that is installed or on PYTHONPATH"


@pytest.mark.parametrize("path", [[], [""], ["."], ["HERE"]], ids=str)
@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("own_sent.py", "own_sent:W"),
        ("own_sent/__init__.py", "own_sent:W"),
        ("own_sent/deep.py", "own_sent.deep:W"),
        ("own_sent/deep/__init__.py", "own_sent.deep:W"),
    ],
)
def test_a_module_that_came_with_a_store_is_not_imported(
    file: str, name: str, path: list[str], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever Python and other plug-ins put on sys.path, as `python -m` does."""
    monkeypatch.delitem(sys.path_importer_cache, ".", raising=False)  # of another directory
    monkeypatch.setattr(sys, "path", [str(here) if p == "HERE" else p for p in path] + sys.path)
    (here / file).parent.mkdir(parents=True, exist_ok=True)
    (here / file).write_text(WORKLOAD)
    for use in (lambda: workload_entry(name), lambda: parse_nemesis(name, *NEMESIS)):
        with pytest.raises(UsageError, match=REFUSED):
            use()
    assert plugins.source_digest(plugins.WORKLOADS, name) == b""
    assert not (here / "imported").exists()


NEMESIS = (THREE, Seed(1), FaultOptions())


@pytest.mark.parametrize("allowed", ["named", "PYTHONPATH", "PYTHONPATH=."])
def test_a_module_is_imported_if_the_user_asks_for_it(
    allowed: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "own_sent.py").write_text(WORKLOAD)
    if allowed == "named":
        plugins.name_modules(["--nemesis=kill,own_sent:Faults"])
    else:
        monkeypatch.setenv("PYTHONPATH", "." if allowed.endswith(".") else str(here))
        sys.path.append(str(here))
    assert workload_entry("own_sent:W").simulated
    assert plugins.source_digest(plugins.WORKLOADS, "own_sent:W") != b""
    assert (here / "imported").exists()


def test_an_empty_entry_of_pythonpath_names_no_directory(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "own_sent.py").write_text(WORKLOAD)
    monkeypatch.setenv("PYTHONPATH", ":/nowhere")
    sys.path.append(str(here))
    with pytest.raises(UsageError, match=REFUSED):
        workload_entry("own_sent:W")


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    "name", ["os:system", "builtins:print", "subprocess:Popen", "click.utils:os.system"]
)
def test_what_is_of_python_itself_is_not_called(name: str) -> None:
    for use in (
        lambda: workload_entry(name),
        lambda: plugin_checkers([name]),
        lambda: parse_nemesis(name, *NEMESIS),
    ):
        with pytest.raises(UsageError, match="is of Python's own module"):
            use()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["check", "latest"], REFUSED),
        (["check", "store/"], ""),
        (["shrink", "latest"], REFUSED),
        (["compare", "latest", "--versions", "25.8"], REFUSED),
        (["reproduce", "latest"], REFUSED),
        (["report", "latest"], ""),
    ],
    ids=str,
)
def test_no_command_imports_what_came_with_a_store(words: list[str], text: str, here: Path) -> None:
    run = finished(here / "store", stale(), workload="own_sent:W")
    info = json.loads(run.info_file.read_text())
    info["again"] = "harness run --workload own_sent:W --cluster sim"
    run.info_file.write_text(json.dumps(info))
    (here / "own_sent.py").write_text(WORKLOAD)
    done = CliRunner().invoke(app, words)
    assert text in f"{done.output} {done.exception}"
    assert not (here / "imported").exists()

"""The documents as they are written: their code runs, their commands exist, their links lead on."""

import ast
import json
import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from report_cases import finished, stale

from checkers.ladder import Level
from checkers.triage.defects import DEFECTS, table
from harness.cli.main import app
from harness.clusters.docker_cluster import DockerCluster
from harness.core.engines import Engines
from harness.core.op import Kind, Op
from harness.core.seed import Seed
from harness.core.verdict import Status
from harness.run.phases import execute
from harness.run.run_context import RunContext
from harness.spec.catalogue import workload_entry
from harness.spec.manual import options_page
from harness.spec.run_spec import RunSpec
from harness.store.store import Store
from nemesis.composed import Composed, check_capabilities
from nemesis.options import FaultOptions

ROOT = Path(__file__).parent.parent
DOCS = sorted(
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "crates").rglob("README.md"),
        *(ROOT / "docs").rglob("*.md"),
    ]
)
PACKAGES = ("crates", "harness", "workloads", "nemesis", "checkers", "compose")
EXAMPLE = re.compile(r"<!-- file: (\w+)\.py -->\n```python\n(.*?)```", re.DOTALL)
LINES_MAX = 60


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """Yield every example as the file that it names, where it can be imported."""
    directory = tmp_path_factory.mktemp("examples")
    found = {
        name: code
        for document in DOCS
        for name, code in EXAMPLE.findall(document.read_text(encoding="utf-8"))
    }
    for name, code in found.items():
        (directory / f"{name}.py").write_text(code)
    sys.path.insert(0, str(directory))
    yield {name: directory / f"{name}.py" for name in found}
    sys.path.remove(str(directory))
    for name in found:
        sys.modules.pop(name, None)


def test_examples_are_short(examples: dict[str, Path]) -> None:
    assert examples.keys() == {"counts", "try_counts", "row_count", "blink", "cleanup"}
    for path in examples.values():
        assert len(path.read_text().splitlines()) < LINES_MAX, path.name


def test_the_checker_passes_its_own_trial(examples: dict[str, Path]) -> None:
    runpy.run_path(str(examples["try_counts"]))


@pytest.mark.containers
def test_workload_nemesis_and_checker_work_together(
    examples: dict[str, Path], servers: DockerCluster, tmp_path: Path
) -> None:
    assert {"row_count", "blink"} <= examples.keys()
    entry = workload_entry("row_count:row_count")
    workload = entry.make(entry.options(ops_per_s=20.0), Seed(7), Level.EVENTUAL, True)
    options = FaultOptions(interval_s=0.5, duration_s=0.5)
    family = import_module("blink").Blink(servers.topology)
    nemesis = Composed("blink", [family], Seed(7), options)
    check_capabilities(nemesis, servers)
    spec = RunSpec(workload="row-count", nemesis="blink", seed=Seed(7), rate=20.0,
                promise="eventual", time_limit_s=5.0)  # fmt: skip
    run = Store(tmp_path).create(spec.workload, spec.nemesis, spec.seed)
    run.begin(spec, Engines(), servers.topology, {})
    outcome = execute(
        RunContext.of(spec, servers, directory=run, workload=workload, nemesis=nemesis, drop=True)
    )
    assert outcome.troubles == ()
    assert outcome.judgement.status is Status.VALID, outcome.judgement.verdicts
    blinks = [op for op in outcome.history.nemesis if op.f == "blink" and op.kind is Kind.OK]
    assert len(blinks) >= 2
    assert family.touched == {str(op.value["nodes"][0]) for op in blinks}


@pytest.mark.containers
def test_a_statement_of_a_users_own_is_judged(
    examples: dict[str, Path], servers: DockerCluster, tmp_path: Path
) -> None:
    assert "cleanup" in examples
    options = {"statements": "optimize,cleanup:PURGE", "ops_per_s": 30.0}
    purged: list[Op] = []
    for time_limit_s in (5.0, 20.0, 80.0):  # busy servers answer few statements in five seconds
        spec = RunSpec(workload="statements", seed=Seed(7), promise="eventual",
                    time_limit_s=time_limit_s, workload_options=options)  # fmt: skip
        run = Store(tmp_path).create(spec.workload, spec.nemesis, spec.seed)
        run.begin(spec, Engines(), servers.topology, {})
        outcome = execute(RunContext.of(spec, servers, directory=run, drop=True))
        purged = [op for op in outcome.history if op.f == "cleanup:PURGE" and op.kind is Kind.OK]
        if len(purged) >= 2:
            break
    assert len(purged) >= 2
    assert outcome.judgement.status is Status.VALID, outcome.judgement.verdicts


def anchors(document: Path) -> set[str]:
    """Return the anchors that a forge gives to the headings of a document."""
    text = re.sub(r"```.*?```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in headings}


@pytest.mark.parametrize("document", DOCS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    for target, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", text):
        if "://" in target:
            continue
        file = document.parent / target if target else document
        assert file.exists(), f"{document.name}: {target}"
        assert not anchor or anchor in anchors(file), f"{document.name}: {target}#{anchor}"


@pytest.mark.parametrize("document", DOCS, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_exist(document: Path) -> None:
    """Every path of this repository in code is a file or a directory of it."""
    text = re.sub(r"```.*?```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
    paths = re.findall(rf"`((?:{'|'.join(PACKAGES)}|tests|benches|docs)/[\w./-]+)`", text)
    missing = [path for path in paths if not (ROOT / path).exists()]
    assert missing == [], document.name


def test_the_page_of_options_is_made_from_them() -> None:
    assert (ROOT / "docs" / "options.md").read_text(encoding="utf-8") == options_page()


def test_the_table_of_known_defects_is_made_from_them() -> None:
    assert f"\n{table()}\n" in (ROOT / "docs" / "triage.md").read_text(encoding="utf-8")


def test_each_known_defect_has_a_signature_that_says_what_the_record_must_show() -> None:
    """A function that has its name, or whose docstring has it, for one that finds several."""
    told: set[str] = set()
    for file in (ROOT / "checkers" / "triage").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and (text := ast.get_docstring(node)):
                told |= {
                    node.name.strip("_").replace("_", "-"),
                    *re.findall(r"[a-z]+(?:-[a-z]+)+", text),
                }
    assert [name for name in DEFECTS if name not in told] == []


def test_architecture_names_every_package() -> None:
    architecture = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| `([^`]+)` \|", architecture, re.MULTILINE))
    init = {file.parent for package in PACKAGES for file in (ROOT / package).rglob("__init__.py")}
    crates = {file.parent for package in PACKAGES for file in (ROOT / package).rglob("Cargo.toml")}
    found = {str(path.relative_to(ROOT)) for path in init | crates} - {"harness"}
    assert found - {"tests", "benches"} == rows - {"tests", "benches"}


@pytest.mark.parametrize("document", DOCS, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_are_commands(document: Path) -> None:
    """Every `harness …` in code names a command, and options that it has."""
    text = document.read_text(encoding="utf-8")
    lines = re.findall(r"`(?:\.venv/bin/)?(harness [^`\n]+)`", text)
    for block in re.findall(r"```(?:sh)?\n(.*?)```", text, re.DOTALL):
        lines += re.findall(r"^(?:\.venv/bin/)?(harness [^#\n]+)", block, re.MULTILINE)
    for line in lines:
        _, name, *words = shlex.split(line.replace("…", ""))
        if name.startswith("-") or name.isupper():
            continue
        command = app.get_command(None, name)
        assert command is not None, f"{document.name}: {line}"
        known = {
            option for param in command.params for option in (*param.opts, *param.secondary_opts)
        }
        for word in words:
            if word.startswith("--"):
                assert word.partition("=")[0] in known | {"--help"}, f"{document.name}: {line}"


def test_every_word_of_a_result_is_in_its_guide(tmp_path: Path) -> None:
    run = finished(tmp_path, stale())
    results, info = json.loads(run.results_file.read_text()), json.loads(run.info_file.read_text())
    words = {*results, *results["ladder"], *results["ladder"]["rungs"][0], *info}
    for verdict in results["verdicts"]:
        words |= {*verdict, *verdict["figures"]}
        words |= {word for anomaly in verdict["anomalies"] for word in anomaly}
    words |= set(pq.read_schema(run.parquet_file).names) | {
        file.name for file in run.path.iterdir()
    }
    guide = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert sorted(word for word in words if f"`{word}`" not in guide) == []


def test_the_matrix_of_mechanisms_is_complete() -> None:
    """Every mechanism has its verdicts on two versions and on simulated servers, and rows below."""
    text = (ROOT / "docs" / "lab" / "mechanisms.md").read_text(encoding="utf-8")
    sections = {
        part.split("\n", 1)[0]: part for part in re.split(r"^## ", text, flags=re.MULTILINE)
    }
    matrix, on_18_16, simulated = (
        [line.split(" | ") for line in sections[title].splitlines() if re.match(r"\| \d", line)]
        for title in ("Overview", "On 18.16", "The same on simulated servers")
    )
    every = [str(row) for row in range(1, 48)]
    assert [row[0].strip("| ") for row in matrix] == every
    assert all(len(row) == 4 and all(cell.strip("| ") for cell in row) for row in matrix)
    for section in (on_18_16, simulated):
        named = [number for row in section for number in row[0].strip("| ").split(", ")]
        assert list(dict.fromkeys(sorted(named, key=int))) == every
    lacking = [row[0].strip("| ") for row in matrix if "not simulated" in row[3]]
    without = [row[0].strip("| ").split(", ") for row in simulated if "not simulated" in row]
    assert lacking == sorted((number for row in without for number in row), key=int)

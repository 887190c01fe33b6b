"""Rules of the whole code: Rust files without circles, unique class names, importable benches, and
figures of its layout."""

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from harness.spec.catalogue import WORKLOADS
from harness.spec.run_spec import RunSpec

ROOT = Path(__file__).parents[1]
CRATES = sorted(path.parent for path in ROOT.glob("crates/*/src/lib.rs"))
IMPORT = re.compile(r"\b(crate|super)::((?:\w+::)*)(\w+|\{[^}]*)")
TESTS = re.compile(r"#\[cfg\(test\)\]\nmod \w+ \{.*", re.DOTALL)
COMMENT = re.compile(r"//.*")

File = tuple[str, ...]
"""Module path: ("keeper", "tree")."""


def files_of(src: Path) -> dict[File, str]:
    """Return the text of each file without comments and tests."""
    out = {}
    for path in src.rglob("*.rs"):
        file = path.relative_to(src).with_suffix("").parts
        file = file[:-1] if file[-1] in ("mod", "lib") else file
        out[file] = TESTS.sub("", COMMENT.sub("", path.read_text()))
    return out


def used(file: File, text: str, files: dict[File, str]) -> set[File]:
    """Return the files that a file names after `crate::` or `super::`."""
    out = set()
    for base, path, last in IMPORT.findall(text):
        start = () if base == "crate" else file[:-1]
        start += tuple(path.split("::")[:-1])
        names = re.findall(r"(?:^|,)\s*(\w+)", last.lstrip("{"))
        out |= {within((*start, name), files) for name in names}
    return out - {file, ()}


def within(item: File, files: dict[File, str]) -> File:
    """Return the file that contains an item, which may be the file itself."""
    while item not in files:
        item = item[:-1]
    return item


def circles(uses: dict[File, set[File]]) -> list[set[File]]:
    """Return sets of two or more files that depend on each other."""

    def reached(start: File) -> set[File]:
        seen: set[File] = set()
        ahead = list(uses[start])
        while ahead:
            file = ahead.pop()
            if file not in seen:
                seen.add(file)
                ahead += uses[file]
        return seen

    reach = {file: reached(file) for file in uses}

    def together() -> Iterator[frozenset[File]]:
        for file, others in reach.items():
            if file in others:
                yield frozenset(other for other in others if file in reach[other])

    return sorted((set(circle) for circle in set(together())), key=min)


def test_circles_are_found() -> None:
    files = {
        ("a",): "use crate::b::{c::C, D};",
        ("b",): "",
        ("b", "c"): "use super::d::E;",
        ("b", "d"): "fn f() { crate::a::g() }",
    }
    uses = {file: used(file, text, files) for file, text in files.items()}
    assert uses[("a",)] == {("b",), ("b", "c")}
    assert circles(uses) == [{("a",), ("b", "c"), ("b", "d")}]


@pytest.mark.parametrize("src", CRATES, ids=lambda src: src.parent.name)
def test_files_of_a_crate_make_no_circle(src: Path) -> None:
    files = files_of(src)
    uses = {file: used(file, text, files) for file, text in files.items()}
    assert circles(uses) == []


def test_generators_and_the_simulator_do_not_know_each_other() -> None:
    for crate, other in (("generators", "simulator"), ("simulator", "generators")):
        manifest = tomllib.loads((ROOT / "crates" / crate / "Cargo.toml").read_text())
        assert other not in manifest["dependencies"]


def test_simulated_zookeeper_does_not_know_its_clients() -> None:
    src = next(src for src in CRATES if src.parent.name == "simulator")
    files = files_of(src)
    own = {file: text for file, text in files.items() if file[:1] == ("keeper",)}
    known = {other[:1] for file, text in own.items() for other in used(file, text, files)}
    may = ("keeper", "disk", "errors", "network", "world")
    assert known == {(name,) for name in may}


ROOMS = ("harness", "workloads", "nemesis", "checkers", "compose")


def homes_by_class() -> dict[str, set[str]]:
    homes = defaultdict(set)
    for room in ROOMS:
        for path in (ROOT / room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    homes[node.name.lstrip("_")].add(path.relative_to(ROOT).as_posix())
    return homes


def test_a_class_name_stands_for_one_thing():
    homes = homes_by_class()
    assert {"KeyVerdict", "VerdictRow", "Op"} <= homes.keys()
    shared = {name: sorted(found) for name, found in homes.items() if len(found) > 1}
    assert not shared, "one name for several classes: rename the newer one"


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "benches").glob("*.py")))
def test_a_bench_can_be_imported(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)
    monkeypatch.syspath_prepend(ROOT / "benches")  # some are run as files, and share histories
    assert import_module(f"benches.{name}").__doc__


OPTION_LISTS = (
    *("NOT_IN_PLAN", "NOT_OF_A_RUN", "NOT_REPRODUCED", "NOT_IN_CELL", "CLUSTER", "NEEDED"),
    *("VERSION_OPTIONS", "NOT_OF_A_HUNT", "NOT_SETTINGS", "SIMULATED", "FLAGS"),
)


def python_of(*rooms: str) -> list[str]:
    """Return the text of each Python file of these rooms."""
    return [path.read_text() for room in rooms for path in (ROOT / room).rglob("*.py")]


def occurrences(pattern: str, *rooms: str) -> int:
    compiled = re.compile(pattern, re.MULTILINE)
    return sum(len(compiled.findall(text)) for text in python_of(*rooms))


TERMS_OF_CLICKHOUSE = {"zero-copy"}
"""Names of workloads that are words of the database as well."""


def names_in_crates() -> int:
    """Return how many lines of the crates name an option of the command line, or a workload whose
    name is no word of its own."""
    options = {f"--{name.replace('_', '-')}" for name in RunSpec.__struct_fields__}
    options |= set(re.findall(r'"(--[a-z-]+)', "".join(python_of("harness/cli", "harness/spec"))))
    workloads = {name for name in WORKLOADS if "-" in name} - TERMS_OF_CLICKHOUSE
    named = re.compile(rf"(?<![\w-])(?:{'|'.join(sorted(options | workloads))})(?![\w-])")
    texts = [path.read_text() for path in ROOT.glob("crates/*/src/**/*.rs")]
    assert len(texts) > 200
    return sum(1 for text in texts for line in text.splitlines() if named.search(line))


MEASURES = {
    "files that make a command's context outside of the command": (
        1,
        sum("make_context" in text for text in python_of("harness")),
    ),
    "lists of option names that are kept by hand": (
        0,
        occurrences(rf"^(?:{'|'.join(OPTION_LISTS)})\b.*=", "harness"),
    ),
    "places that build a RunContext": (
        1,
        occurrences(r"\bRunContext\($|\bRunContext\(\w", *ROOMS, "tests", "benches"),
    ),
    "lines with greenlets in the command line": (0, occurrences("^.*greenlet.*$", "harness/cli")),
    "casts after a check of capabilities": (0, occurrences("checked before the run", "nemesis")),
    "functions that turn what is stored into JSON or back": (
        7,
        occurrences(r"def (?:_?json|stored|as_json)\(", "harness", "checkers"),
    ),
    "files of the command line": (28, len(python_of("harness/cli"))),
    "lines of crates that name an option or a workload": (0, names_in_crates()),
    "stubs of Rust modules that are kept by hand": (
        0,
        sum(
            "Written by distribution/stubs.py" not in path.read_text()
            for room in ("crates", *ROOMS)
            for path in (ROOT / room).rglob("*.pyi")
        ),
    ),
}
"""Figures of the layout that may only fall: the limit and the figure. Whoever lowers a figure
lowers its limit."""


@pytest.mark.parametrize("name", MEASURES)
def test_a_figure_of_the_layout_only_falls(name: str) -> None:
    limit, figure = MEASURES[name]
    assert figure <= limit, "there are more than before"
    assert figure == limit, "there are fewer than before: lower the limit"

"""Stubs of the extension modules: they are what the Rust sources say, and what the modules have."""

import ast
import inspect
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "distribution"))
import stubs  # noqa: E402
from rust_items import RustError, items_of, text_of, tokens_of  # noqa: E402

import harness.native.explorer  # noqa: E402, F401 - in a checkout this compiles its module

MODULES = {
    "_explorer.pyi": "harness.native._explorer",
    "_native.pyi": "harness.native._native",
    "_pyporcupine.pyi": "pyporcupine._pyporcupine",
}
TYPES_ONLY = {"Unknown"}
"""Classes that their modules do not export."""
LIB = """
/// A counter: it counts.
///
/// Twice.
#[pyclass(frozen, name = "Tally")]
pub struct Counter {
    /// How often.
    #[pyo3(get)]
    pub(crate) count: u64,
    hidden: HashMap<String, u8>,
    #[pyo3(get)]
    names: Option<Vec<(String, f64)>>,
}

/// Which way. In Python: `Literal["up", "down"]`.
type Way = str;
type Pair<'a> = (&'a str, bool);

#[pymethods]
impl Counter {
    #[new]
    #[pyo3(signature = (start=0, *, names=vec![], limit=Some(1.5), way="up"))]
    fn new(start: u64, names: Vec<String>, limit: Option<f64>, way: &Way) -> PyResult<Self> {
        Ok(Counter { count: if start < 3 { start } else { 3 } })
    }

    /// Return the pairs: "a\\b".
    fn pairs<'py>(&self, py: Python<'py>, of: [i64; 2]) -> PyResult<Vec<Pair<'py>>> {
        let text = "} // no end";
        vec![]
    }

    #[staticmethod]
    fn table(rows: HashMap<String, Vec<u8>>, sink: &Bound<'_, PyAny>) {}

    fn __repr__(&self) -> String { String::new() }
}

/// Adds all to the module.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // LIMIT: int
    // As far as it counts.
    module.add("LIMIT", 3)?;
    module.add_class::<Counter>()
}
"""
STUB = '''"""Written by distribution/stubs.py from crates made."""

from collections.abc import Sequence
from typing import Any, Literal, final

LIMIT: int
"""As far as it counts."""

@final
class Tally:
    """A counter: it counts.

    Twice."""
    @property
    def count(self) -> int:
        """How often."""
    @property
    def names(self) -> list[tuple[str, float]] | None: ...
    def __new__(
        cls,
        start: int = 0,
        *,
        names: Sequence[str] = (),
        limit: float | None = 1.5,
        way: Literal["up", "down"] = "up",
    ) -> Tally: ...
    def pairs(self, of: Sequence[int]) -> list[tuple[str, bool]]:
        """Return the pairs: "a\\\\b"."""
    @staticmethod
    def table(rows: dict[str, list[int]], sink: Any) -> None: ...
'''
MADE = stubs.Stub("harness/made.pyi", ("made",), {"made.host": "host.py"})


def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> stubs.Stub:
    """Return the stub of a crate with one file."""
    source = tmp_path / "crates" / "made" / "src"
    source.mkdir(parents=True)
    (source / "lib.rs").write_text(text)
    (tmp_path / "host.py").write_text("class Host: ...\n")
    (tmp_path / "pyproject.toml").write_text("[tool.ruff]\nline-length = 100\n")
    monkeypatch.setattr(stubs, "ROOT", tmp_path)
    return MADE


def test_a_stub_has_what_a_crate_adds_to_its_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert stubs.stub_text(made(tmp_path, monkeypatch, LIB)) == STUB


@pytest.mark.parametrize(
    ("before", "after", "trouble"),
    [
        ("count: u64", "count: Odd", "count: Odd: no Python type is known for it"),
        ("// LIMIT: int", "// the limit", "LIMIT: no comment `LIMIT: TYPE`"),
        ("start=0,", "start=zero(),", r"new: zero\(\): no Python value is known"),
        ("start=0, ", "", r"new: its signature lacks \['start'\]"),
        ('Literal["up", "down"]', "Path", "Path: no module has this type"),
    ],
    ids=["a type", "a constant", "a default", "an argument", "an import"],
)
def test_what_is_not_understood_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str, after: str, trouble: str
) -> None:
    assert LIB.count(before) == 1
    with pytest.raises(RustError, match=trouble):
        stubs.stub_text(made(tmp_path, monkeypatch, LIB.replace(before, after)))


def test_items_end_where_rust_ends_them() -> None:
    text = "use a::{b, c}; const X: &[u8] = &[1]; const fn f() -> [u8; 2] { '}'; [1, 2] } mod m;"
    items = list(items_of(tokens_of(text), Path()))
    assert [(item.kind, item.name) for item in items] == [
        ("use", "a"),
        ("const", "X"),
        ("const", "fn"),
        ("mod", "m"),
    ]
    assert text_of(items[2].returned) == "[u8;2]"


@pytest.mark.parametrize("stub", stubs.STUBS, ids=lambda stub: Path(stub.path).name)
def test_a_stub_is_what_its_crates_say(stub: stubs.Stub) -> None:
    assert (ROOT / stub.path).read_text() == stubs.stub_text(stub), "run distribution/stubs.py"


def parameters(function: ast.FunctionDef) -> list[str]:
    """Return the names of a function's parameters in its stub."""
    arguments = function.args
    return [one.arg for one in (*arguments.args, *arguments.kwonlyargs)]


def built(stub: stubs.Stub) -> tuple[ModuleType, list[ast.stmt]]:
    """Return the compiled module of a stub, and the statements of the stub."""
    path = ROOT / stub.path
    return import_module(MODULES[path.name]), ast.parse(path.read_text()).body


@pytest.mark.parametrize("stub", stubs.STUBS, ids=lambda stub: Path(stub.path).name)
def test_the_module_has_the_names_of_its_stub(stub: stubs.Stub) -> None:
    module, statements = built(stub)
    names = {node.name for node in statements if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    names |= {ast.unparse(node.target) for node in statements if isinstance(node, ast.AnnAssign)}
    public = {name for name in vars(module) if not name.startswith("_")} | {"__version__"}
    assert names - TYPES_ONLY == public & vars(module).keys()


@pytest.mark.parametrize("stub", stubs.STUBS, ids=lambda stub: Path(stub.path).name)
def test_the_module_has_the_members_and_parameters_of_its_stub(stub: stubs.Stub) -> None:
    module, statements = built(stub)
    compared = 0
    for node in statements:
        if isinstance(node, ast.FunctionDef):
            owners: list[tuple[object, ast.FunctionDef]] = [(module, node)]
        elif isinstance(node, ast.ClassDef) and node.name not in TYPES_ONLY:
            owner = getattr(module, node.name)
            members = [one for one in node.body if isinstance(one, ast.FunctionDef)]
            seen = {name for name in vars(owner) if not name.startswith("_")}
            assert seen == {one.name for one in members if not one.name.startswith("_")}, node.name
            owners = [(owner, one) for one in members]
        else:
            continue
        for owner, function in owners:
            value = getattr(owner, function.name)
            if not callable(value) or function.name.startswith("__"):
                continue
            names = list(inspect.signature(value).parameters)
            assert names == parameters(function), f"{function.name} of {owner}"
            compared += 1
    assert compared > 1

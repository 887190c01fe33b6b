"""Documentation of pyporcupine: help() shows the stub's docstrings; the README's examples run."""

import ast
import inspect
import re
from pathlib import Path

import pyporcupine
import pytest

STUB = Path(__file__).resolve().parents[1] / "crates/porcupine/python/pyporcupine/_pyporcupine.pyi"
DOCUMENTED = {
    node.name: ast.get_docstring(node)
    for node in ast.parse(STUB.read_text()).body
    if isinstance(node, ast.ClassDef | ast.FunctionDef) and hasattr(pyporcupine, node.name)
}


def test_the_public_names_are_documented() -> None:
    names = ["HistoryError", "ModelError", "InvalidError", "UndecidedError", "Transaction"]
    names += ["Dependency", "Anomaly", "TransactionsResult", "Call", "Operation", "Annotation"]
    names += ["Step", "ObjectResult", "Result", "check", "check_transactions", "visualize"]
    names += ["Finding", "InvariantResult", "check_invariant", "visualize_transactions"]
    assert sorted(DOCUMENTED) == sorted(names)


@pytest.mark.parametrize("name", DOCUMENTED)
def test_help_shows_the_docstring_of_the_stub(name: str) -> None:
    assert inspect.getdoc(getattr(pyporcupine, name)) == DOCUMENTED[name]


README = Path(__file__).resolve().parents[1] / "crates/porcupine/README.md"


def test_examples_run_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```python\n(.*?)```", README.read_text(), re.S)
    assert len(examples) == 13
    names: dict[str, object] = {}
    for example in examples:
        exec(example, names)
    assert "A write was forgotten" in (tmp_path / "history.html").read_text()
    assert "Write skew" in (tmp_path / "skew.html").read_text()

"""Python's help() shows the docstrings of pyporcupine's stub file."""

import ast
import inspect
from pathlib import Path

import pyporcupine
import pytest

STUB = Path(__file__).resolve().parents[1] / "checkers/porcupine/pyporcupine.pyi"
DOCUMENTED = {
    node.name: ast.get_docstring(node)
    for node in ast.parse(STUB.read_text()).body
    if isinstance(node, ast.ClassDef | ast.FunctionDef) and hasattr(pyporcupine, node.name)
}


def test_the_public_names_are_documented() -> None:
    names = ["HistoryError", "Operation", "Step", "ObjectResult", "Result", "InvalidError"]
    names += ["UndecidedError", "ModelError", "Call", "check", "visualize"]
    assert list(DOCUMENTED) == names


@pytest.mark.parametrize("name", DOCUMENTED)
def test_help_shows_the_docstring_of_the_stub(name: str) -> None:
    assert inspect.getdoc(getattr(pyporcupine, name)) == DOCUMENTED[name]

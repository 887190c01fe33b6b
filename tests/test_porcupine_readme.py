"""The examples in the README of pyporcupine, as written."""

import re
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[1] / "checkers/porcupine/README.md"


def test_examples_run_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```python\n(.*?)```", README.read_text(), re.S)
    assert len(examples) == 3
    names: dict[str, object] = {}
    for example in examples:
        exec(example, names)
    assert "A write was forgotten" in (tmp_path / "history.html").read_text()

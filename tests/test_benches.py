"""Every bench still finds what it imports."""

from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "benches").glob("*.py")))
def test_a_bench_can_be_imported(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)
    monkeypatch.syspath_prepend(ROOT / "benches")  # some are run as files, and share histories
    assert import_module(f"benches.{name}").__doc__

"""What is distributed: one wheel, one version, and extras that are named where they are missing."""

import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "distribution"))
import release  # noqa: E402
import wheel_backend  # noqa: E402


def wheel(path: Path, files: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w") as written:
        for name, text in files.items():
            written.writestr(name, text)
    return path


def test_the_checker_is_moved_into_the_wheel_of_the_harness(tmp_path: Path) -> None:
    first = wheel(tmp_path / "a.whl", {"harness/x.py": "x", "a.dist-info/RECORD": "old"})
    second = wheel(
        tmp_path / "b.whl",
        {"pyporcupine/__init__.py": "", "b.dist-info/METADATA": "m", "b.dist-info/RECORD": "r"},
    )
    (tmp_path / "program").write_text("p")
    wheel_backend.merge(first, second, tmp_path / "both.whl", {"harness/p": tmp_path / "program"})
    with zipfile.ZipFile(tmp_path / "both.whl") as both:
        names = ["harness/x.py", "pyporcupine/__init__.py", "harness/p", "a.dist-info/RECORD"]
        assert both.namelist() == names
        assert both.getinfo("harness/p").external_attr >> 16 == 0o100755
        rows = [line.split(",") for line in both.read("a.dist-info/RECORD").decode().split()]
    assert [row[0] for row in rows] == names
    assert [row[2] for row in rows] == ["1", "0", "1", ""]
    assert rows[1][1] == "sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"


def test_a_build_without_rust_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit, match=r"Rust 1\.85 or newer is needed .* no cargo on PATH"):
        wheel_backend.get_requires_for_build_wheel()
    cargo = tmp_path / "cargo"
    cargo.write_text("#!/bin/sh\necho cargo 1.84.1\n")
    cargo.chmod(0o755)
    assert "cargo --version says 'cargo 1.84.1'" in (wheel_backend.missing_tool() or "")


def test_every_manifest_and_changelog_has_the_version() -> None:
    (version,) = {found for _, found in release.manifests()}
    named = [text for text in release.obstacles(version) if "no section" in text]
    assert named == []
    assert any("0.0.0" in text for text in release.obstacles("0.0.0"))

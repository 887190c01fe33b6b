"""What is distributed: one wheel, one version, and extras that are named where they are missing."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "distribution"))
import checker_wheel  # noqa: E402
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


def test_a_wheel_is_tried_out_where_nothing_else_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The README's example has to run with the wheel alone, and its failure is an error."""
    written = wheel(
        tmp_path / "pyporcupine-0.1.0-cp311-abi3-any.whl",
        {
            "pyporcupine/__init__.py": "number = 1\n",
            "pyporcupine-0.1.0.dist-info/METADATA": (
                "Metadata-Version: 2.1\nName: pyporcupine\nVersion: 0.1.0\n"
            ),
            "pyporcupine-0.1.0.dist-info/WHEEL": (
                "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            ),
            "pyporcupine-0.1.0.dist-info/RECORD": "",
        },
    )
    named = written.rename(tmp_path / "pyporcupine-0.1.0-py3-none-any.whl")
    monkeypatch.setattr(checker_wheel, "CHECKER", tmp_path)
    (tmp_path / "README.md").write_text("```python\nimport pyporcupine\n```\n```python\n1 / 0\n```")
    checker_wheel.try_out(named)
    (tmp_path / "README.md").write_text("```python\nimport pyporcupine, pyarrow\n```")
    with pytest.raises(subprocess.CalledProcessError):
        checker_wheel.try_out(named)


def test_a_wheel_must_be_for_the_stable_abi() -> None:
    manylinux = "pyporcupine-0.1.0-cp311-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"
    assert checker_wheel.NAME.match(manylinux)
    assert not checker_wheel.NAME.match("pyporcupine-0.1.0-cp312-cp312-linux_x86_64.whl")

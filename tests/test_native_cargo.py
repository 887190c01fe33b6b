"""Crates that a checkout compiles when they are first needed."""

from pathlib import Path

import pytest

from harness.clusters import programs
from harness.core.errors import ClusterError
from harness.native import cargo

MISSING = "harness.native._missing"


def test_a_module_that_is_in_its_place_is_not_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    cargo.load_extension("explorer", "harness.native._native")


def test_a_crate_without_its_source_is_asked_of_the_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cargo, "WORKSPACE", tmp_path)
    with pytest.raises(ImportError, match="explorer: neither the program nor its source"):
        cargo.load_extension("explorer", MISSING)
    with pytest.raises(ClusterError, match="faulty-disk: neither the program nor its source"):
        programs.program(programs.FAULTY_DISK)


@pytest.mark.parametrize(
    ("script", "trouble"),
    [
        (None, "cannot be compiled: .*; install Rust and cargo"),
        ("echo no linker >&2; exit 1", "cannot be compiled: cargo says\nno linker"),
    ],
    ids=["no cargo", "a failure"],
)
def test_what_cannot_be_compiled_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None, trouble: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    if script:
        (tmp_path / "cargo").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "cargo").chmod(0o755)
    with pytest.raises(ImportError, match=f"explorer: {trouble}"):
        cargo.load_extension("explorer", MISSING)
    with pytest.raises(ClusterError, match=f"packet-queue: {trouble}"):
        programs.program(programs.PACKET_QUEUE)

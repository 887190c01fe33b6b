"""Build backend of the distribution `clickhouse-harness`: one wheel with all extension modules and
the programs that run in containers.

maturin builds one extension module per wheel, and every run needs two: `harness.native._native` and
`pyporcupine`. They cannot be one library, because each brings a memory allocator of its own. So
maturin builds both wheels, and the package `pyporcupine` is moved into that of the harness. What
few commands need, a checkout compiles when it is first needed, and a wheel has compiled.
`pip install ./crates/porcupine` installs the checker alone; it does not use this backend.
"""

import base64
import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import maturin

ROOT = Path(__file__).resolve().parent.parent
CHECKER = ROOT / "crates" / "porcupine"
PACKAGE = "pyporcupine/"
"""What the checker's wheel contributes; its metadata stay behind."""
EXECUTABLE = 0o100755
RUST_MIN = (1, 85)
"""Also `rust-version` of the workspace."""


def get_requires_for_build_wheel(config_settings: Mapping[str, Any] | None = None) -> list[str]:
    """Return further requirements of a build: none. Exit if Rust or a linker is missing."""
    del config_settings
    missing = missing_tool()
    if missing:
        sys.exit(f"\nclickhouse-harness: {missing}\n")
    return []


get_requires_for_build_editable = get_requires_for_build_wheel


def prepare_metadata_for_build_wheel(
    metadata_directory: str, config_settings: Mapping[str, Any] | None = None
) -> str:
    """Write the metadata of the wheel; return the name of their directory."""
    return maturin.prepare_metadata_for_build_wheel(metadata_directory, config_settings)


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def build_wheel(
    wheel_directory: str,
    config_settings: Mapping[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Build the wheel; return its name."""
    name = maturin.build_wheel(wheel_directory, config_settings, metadata_directory)
    _add_checker(Path(wheel_directory) / name, config_settings, compiled_later())
    return name


def build_editable(
    wheel_directory: str,
    config_settings: Mapping[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Build the wheel of an editable installation; return its name. It holds a copy of
    `pyporcupine`: a change of its Python source needs another installation, as one of Rust does."""
    name = maturin.build_editable(wheel_directory, config_settings, metadata_directory)
    _add_checker(Path(wheel_directory) / name, config_settings)
    return name


def missing_tool() -> str | None:
    """Return what a build lacks and how to get it; None if it lacks nothing."""
    need = f"Rust {'.'.join(map(str, RUST_MIN))} or newer is needed to build the checkers"
    get = "install it (Debian: apt-get install cargo; elsewhere: rustup), then run this again"
    if shutil.which("cargo") is None:
        return f"{need}, and there is no cargo on PATH; {get}"
    told = subprocess.run(["cargo", "--version"], capture_output=True, text=True, check=False)
    version = told.stdout.split()[1:2]
    if not version or tuple(int(part) for part in version[0].split(".")[:2]) < RUST_MIN:
        return f"{need}, and cargo --version says {(told.stdout or told.stderr).strip()!r}; {get}"
    if shutil.which(os.environ.get("CC", "cc")) is None:
        return (
            "a C compiler is needed to link the checkers, and there is no cc on PATH; install it "
            "(Debian: apt-get install gcc libc6-dev), then run this again"
        )
    return None


def compiled_later() -> dict[str, Path]:
    """Compile what a checkout compiles when it is needed: the explorer, and the programs that run
    in containers. Return their files by their paths in the wheel."""
    sys.path.insert(0, str(ROOT))
    from harness.clusters import programs
    from harness.native import cargo

    return {
        "harness/native/_explorer.abi3.so": cargo.extension("explorer"),
        **{f"{programs.SHIPPED}/{name}": programs.program(name) for name in programs.PROGRAMS},
    }


def _add_checker(
    wheel: Path, config_settings: Mapping[str, Any] | None, more: Mapping[str, Path] | None = None
) -> None:
    """Build the checker's wheel, and move its package and more files into `wheel`."""
    with TemporaryDirectory() as scratch:
        with _inside(CHECKER):
            checker = Path(scratch) / maturin.build_wheel(scratch, config_settings)
        both = Path(scratch) / "both.whl"
        merge(wheel, checker, both, more or {})
        shutil.copyfile(both, wheel)


def merge(wheel: Path, checker: Path, out: Path, more: Mapping[str, Path]) -> None:
    """Write the files of `wheel`, those of the package in `checker` and `more`, executable programs
    by their paths, with a RECORD of all."""
    with zipfile.ZipFile(wheel) as first, zipfile.ZipFile(checker) as second:
        files = [(first, info) for info in first.infolist()]
        files += [(second, i) for i in second.infolist() if i.filename.startswith(PACKAGE)]
        (record,) = (i for _, i in files if i.filename.endswith(".dist-info/RECORD"))
        rows = []
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as written:
            for source, info in files:
                if info is record:
                    continue
                content = source.read(info)
                written.writestr(info, content, zipfile.ZIP_DEFLATED)
                rows.append(_row(info.filename, content))
            for path, file in more.items():
                info = zipfile.ZipInfo(path)
                info.external_attr = EXECUTABLE << 16
                written.writestr(info, file.read_bytes(), zipfile.ZIP_DEFLATED)
                rows.append(_row(path, file.read_bytes()))
            rows.append(f"{record.filename},,")
            written.writestr(record, "\n".join(rows) + "\n", zipfile.ZIP_DEFLATED)


def _row(path: str, content: bytes) -> str:
    """Return the line of a file in RECORD."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest())
    return f"{path},sha256={digest.decode().rstrip('=')},{len(content)}"


@contextmanager
def _inside(directory: Path) -> Iterator[None]:
    """Make it the working directory, from which maturin reads its configuration."""
    before = Path.cwd()
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)

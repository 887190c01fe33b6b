"""Programs of ours in the pods' image: crates of this directory, compiled before it is built.

They are linked statically, because the base image may have an older C library than this machine.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from harness.core.errors import ClusterError

CRATES: Final = ("packet_queue",)
"""Directories of the crates; a program is called like its crate, with hyphens."""
_HERE: Final = Path(__file__).parent
_WORKSPACE: Final = _HERE.parents[1]
_BUILD_S: Final = 600


def sources() -> Sequence[str]:
    """Return the names and texts of all sources, so that a change of one changes the image."""
    return tuple(
        f"{file.relative_to(_HERE)}\0{file.read_text()}"
        for crate in CRATES
        for file in sorted((_HERE / crate).glob("**/*.*"))
    )


def build(directory: Path) -> None:
    """Compile the programs into a new directory. Raises ClusterError."""
    directory.mkdir()
    for crate in CRATES:
        _build(crate, directory)


def _build(crate: str, directory: Path) -> None:
    name = crate.replace("_", "-")
    if not (_HERE / crate / "Cargo.toml").exists():
        raise ClusterError(
            f"{name}: a program of the pods' image, is not here as source; run from a checkout"
        )
    # A target directory of its own: a build of the modules would hold the lock of theirs.
    target = Path(os.environ.get("CARGO_TARGET_DIR", _WORKSPACE / "target")) / "pod"
    argv = (
        *("cargo", "rustc", "--quiet", "--release", "--package", name),
        *("--manifest-path", str(_HERE / crate / "Cargo.toml"), "--target-dir", str(target)),
        *("--", "-C", "target-feature=+crt-static", "-C", "strip=symbols"),
    )
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_BUILD_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ClusterError(
            f"{name}: cannot be compiled: {error}; install Rust and cargo"
        ) from error
    if done.returncode != 0:
        last = "\n".join(done.stderr.strip().splitlines()[-15:])
        raise ClusterError(f"{name}: cannot be compiled: cargo says\n{last}")
    shutil.copy(target / "release" / name, directory / name)

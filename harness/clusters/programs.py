"""Programs of ours that run in containers: crates of the workspace, linked statically, because an
image may have an older C library than this machine.

An installed wheel has them compiled. In a checkout they are compiled when they are first needed.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

from harness.core.errors import ClusterError

PACKET_QUEUE: Final = "packet-queue"
"""Degrades the links of a pod; it is in the pods' image."""
FAULTY_DISK: Final = "faulty-disk"
"""Disk of a server; its container mounts it."""
PROGRAMS: Final = (PACKET_QUEUE, FAULTY_DISK)
"""Each is called like its crate; the crate's directory has underscores."""
SHIPPED: Final = "harness/clusters/compiled"
"""Directory of a wheel that has the programs."""
_WORKSPACE: Final = Path(__file__).parents[2]
_BUILD_S: Final = 600


def inputs(name: str) -> Sequence[str]:
    """Return what a program is made of, so that a change changes the image that has it."""
    shipped = _shipped(name)
    if shipped.is_file():
        return (sha256(shipped.read_bytes()).hexdigest(),)
    crate = _crate(name)
    return tuple(
        f"{file.relative_to(crate)}\0{file.read_text()}"
        for file in sorted((*crate.glob("*.toml"), *crate.glob("src/**/*.rs")))
    )


def program(name: str) -> Path:
    """Return the compiled program. Raises ClusterError if it cannot be compiled."""
    shipped = _shipped(name)
    return shipped if shipped.is_file() else _compiled(name)


def install(name: str, directory: Path) -> None:
    """Copy the compiled program into a directory. Raises ClusterError."""
    directory.mkdir(exist_ok=True)
    shutil.copyfile(program(name), directory / name)
    (directory / name).chmod(0o755)


def _shipped(name: str) -> Path:
    return _WORKSPACE / SHIPPED / name


def _crate(name: str) -> Path:
    return _WORKSPACE / "crates" / name.replace("-", "_")


def _compiled(name: str) -> Path:
    manifest = _crate(name) / "Cargo.toml"
    if not manifest.is_file():
        raise ClusterError(
            f"{name}: neither the program nor its source is here; install the harness again"
        )
    # A target directory of its own: a build of the modules would hold the lock of theirs.
    target = Path(os.environ.get("CARGO_TARGET_DIR", _WORKSPACE / "target")) / "programs"
    argv = (
        *("cargo", "rustc", "--quiet", "--release", "--package", name),
        *("--manifest-path", str(manifest), "--target-dir", str(target)),
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
    return target / "release" / name


if __name__ == "__main__":
    for one in PROGRAMS:
        program(one)

"""Programs of ours that run in containers: crates of the workspace, linked statically, because an
image may have an older C library than this machine.

An installed wheel has them compiled. In a checkout they are compiled when they are first needed.
"""

import shutil
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

from harness.core.errors import ClusterError
from harness.native.cargo import WORKSPACE, CargoError, compiled, source

PACKET_QUEUE: Final = "packet-queue"
"""Degrades the links of a pod; it is in the pods' image."""
FAULTY_DISK: Final = "faulty-disk"
"""Disk of a server; its container mounts it."""
PROGRAMS: Final = (PACKET_QUEUE, FAULTY_DISK)
"""Each is called like its crate."""
SHIPPED: Final = "harness/clusters/compiled"
"""Directory of a wheel that has the programs."""


def inputs(name: str) -> Sequence[str]:
    """Return what a program is made of, so that a change changes the image that has it."""
    shipped = _shipped(name)
    if shipped.is_file():
        return (sha256(shipped.read_bytes()).hexdigest(),)
    crate = source(name)
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
    return WORKSPACE / SHIPPED / name


def _compiled(name: str) -> Path:
    try:
        return compiled(name, flags=("-C", "target-feature=+crt-static")) / name
    except CargoError as error:
        raise ClusterError(f"{name}: {error}") from error


if __name__ == "__main__":
    for one in PROGRAMS:
        program(one)

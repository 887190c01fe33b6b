"""Files that a recipe needs beside it to build its image: wheels or jars."""

import platform
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from compose.releases import Release, Wheel
from harness.core.errors import ClusterError

WHEEL_FILE: Final = "chdb.whl"
"""Name of the wheel in the recipe."""
REQUIREMENTS: Final = "requirements.txt"
"""Name of the file in a recipe that pins the wheels it needs; they are put into wheels/."""
_DOWNLOAD_S: Final = 600
_PLATFORM: Final = "manylinux2014_x86_64"
_PYTHON: Final = "3.11"
"""Platform and Python of the base image, for the wheels of a recipe."""
_MACHINE: Final = "x86_64"


def why_unsupported(release: Release) -> str | None:
    """Return why an image of a release, if built here, cannot run here; None if it can."""
    if release.wheel is None:
        return None
    if platform.machine() != _MACHINE:
        return f"it is for {_MACHINE}, and this machine is {platform.machine()}"
    flags = cpu_flags()
    if flags and "avx" not in flags:
        return "it needs a CPU with AVX, which /proc/cpuinfo does not list"
    return None


def cpu_flags() -> frozenset[str]:
    """Return the CPU's features as the kernel lists them; empty if it lists none."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((line for line in lines if line.startswith("flags")), "").split())


def fetch(release: Release, directory: Path) -> None:
    """Put the files that a release is built from into `directory`. Raises ClusterError."""
    why = why_unsupported(release)
    if why is not None:
        raise ClusterError(
            f"{release} cannot run here: {why}. Choose another version, or another machine"
        )
    if release.wheel is not None:
        _fetch_wheel(release, release.wheel, directory)
    elif (directory / REQUIREMENTS).exists():
        _download(release, directory / REQUIREMENTS, directory / "wheels")
    if release.jars:
        _copy_jars(release, directory / "jars")


def _fetch_wheel(release: Release, wheel: Wheel, directory: Path) -> None:
    requirements = directory / REQUIREMENTS
    requirements.write_text(wheel.requirement + "\n")
    download = directory / "download"
    _download(release, requirements, download, wheel=wheel)
    next(download.glob("*.whl")).rename(directory / WHEEL_FILE)
    shutil.rmtree(download)
    requirements.unlink()


def _download(
    release: Release, requirements: Path, target: Path, *, wheel: Wheel | None = None
) -> None:
    """Download the wheels of a requirements file, which has their hashes, into `target`.

    `wheel` is the only one if the file names a wheel; otherwise they are those of the recipe.
    Raises
    ClusterError.
    """
    what = str(wheel or "the wheels of its recipe")
    kind = (wheel.platform, wheel.python, wheel.abi) if wheel else (_PLATFORM, _PYTHON, "abi3")
    platform_tag, python, abi = kind
    argv = (
        *(sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet"),
        *("--no-deps", "--only-binary", ":all:", "--require-hashes", "--no-cache-dir"),
        *("--platform", platform_tag, "--python-version", python),
        *("--implementation", "cp", "--abi", abi, *(() if wheel else ("--abi", "cp311"))),
        *("--dest", str(target), "--requirement", str(requirements)),
    )
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=_DOWNLOAD_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ClusterError(
            f"{release}: {what} was not downloaded within {_DOWNLOAD_S} s; try again"
        ) from error
    if "DO NOT MATCH THE HASHES" in done.stderr:
        pinned = f"the wheel with sha256 {wheel.sha256}" if wheel else "what the recipe pins"
        raise ClusterError(
            f"{release}: what pip downloaded as {what} is not {pinned}; it was discarded. Which "
            "index does pip use (pip config list)?"
        )
    if done.returncode != 0 or not any(target.glob("*.whl")):
        last = (done.stderr.strip().splitlines() or ["pip says nothing"])[-1]
        raise ClusterError(
            f"{release}: {what} cannot be downloaded: {last}. Make pip's package index or a "
            "registry of images reachable"
        )


def _copy_jars(release: Release, target: Path) -> None:
    spec = find_spec("pyspark")
    source = Path(str(spec.origin)).parent / "jars" if spec and spec.origin else None
    target.mkdir()
    for pattern in release.jars:
        found = sorted(source.glob(pattern)) if source else []
        if not found:
            raise ClusterError(
                f"{release}: no {pattern} in {source or 'pyspark, which is not installed'}; "
                "`make spark` installs it"
            )
        shutil.copy(found[0], target)

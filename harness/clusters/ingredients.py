"""What is put into the directory of a recipe before its image is built: a wheel, or jars."""

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
"""What the recipe calls the wheel."""
_DOWNLOAD_S: Final = 600
_MACHINE: Final = "x86_64"


def unfit(release: Release) -> str | None:
    """Why the image of a release that is built here cannot run on this machine; None: it can."""
    if release.wheel is None:
        return None
    if platform.machine() != _MACHINE:
        return f"it is for {_MACHINE}, and this machine is {platform.machine()}"
    flags = cpu_flags()
    if flags and "avx" not in flags:
        return "it needs a CPU with AVX, which /proc/cpuinfo does not list"
    return None


def cpu_flags() -> frozenset[str]:
    """What the kernel lists of the CPU's abilities; empty where it does not."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((line for line in lines if line.startswith("flags")), "").split())


def fetch(release: Release, directory: Path) -> None:
    """Puts what a release is built from into `directory`. Raises ClusterError, with one reason."""
    why = unfit(release)
    if why is not None:
        raise ClusterError(
            f"{release} cannot run here: {why}. Choose another version, or another machine"
        )
    if release.wheel is not None:
        _fetch_wheel(release, release.wheel, directory)
    if release.jars:
        _copy_jars(release, directory / "jars")


def _fetch_wheel(release: Release, wheel: Wheel, directory: Path) -> None:
    requirements = directory / "requirements.txt"
    requirements.write_text(wheel.requirement + "\n")
    download = directory / "download"
    argv = (
        *(sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet"),
        *("--no-deps", "--only-binary", ":all:", "--require-hashes", "--no-cache-dir"),
        *("--platform", wheel.platform, "--python-version", wheel.python),
        *("--implementation", "cp", "--abi", wheel.abi),
        *("--dest", str(download), "--requirement", str(requirements)),
    )
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=_DOWNLOAD_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ClusterError(
            f"{release}: chdb {wheel.version} was not downloaded within {_DOWNLOAD_S} s; try again"
        ) from error
    if "DO NOT MATCH THE HASHES" in done.stderr:
        raise ClusterError(
            f"{release}: what pip downloaded as chdb {wheel.version} is not the wheel with sha256 "
            f"{wheel.sha256}; it was thrown away. Which index does pip use (pip config list)?"
        )
    files = sorted(download.glob("*.whl")) if done.returncode == 0 else []
    if not files:
        last = (done.stderr.strip().splitlines() or ["pip says nothing"])[-1]
        raise ClusterError(
            f"{release}: chdb {wheel.version} cannot be downloaded: {last}. It comes from where "
            "pip gets its packages; a registry of images would do, too"
        )
    files[0].rename(directory / WHEEL_FILE)
    shutil.rmtree(download)
    requirements.unlink()


def _copy_jars(release: Release, target: Path) -> None:
    spec = find_spec("pyspark")
    source = Path(str(spec.origin)).parent / "jars" if spec and spec.origin else None
    target.mkdir()
    for pattern in release.jars:
        found = sorted(source.glob(pattern)) if source else []
        if not found:
            raise ClusterError(
                f"{release}: no {pattern} in {source or 'pyspark, which is not installed'}; "
                "install the pyspark that constraints.txt names"
            )
        shutil.copy(found[0], target)

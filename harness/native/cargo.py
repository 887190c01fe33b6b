"""Compiles crates of a checkout when they are first needed; cargo knows what is up to date.

An installed harness has the results in its wheel and does not need this.
"""

import os
import subprocess
import sys
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Final

WORKSPACE: Final = Path(__file__).parents[2]
_BUILD_S: Final = 1800


class CargoError(Exception):
    """A crate cannot be compiled; the text says why."""


def source(package: str) -> Path:
    """Return the directory of a crate; only a checkout has it."""
    return WORKSPACE / "crates" / package.replace("-", "_")


def compiled(package: str, *options: str, flags: tuple[str, ...] = ()) -> Path:
    """Compile a crate with these options of cargo and flags of the compiler, unless that is done;
    return the directory of the results. Raises CargoError."""
    manifest = source(package) / "Cargo.toml"
    if not manifest.is_file():
        raise CargoError("neither the program nor its source is here; install the harness again")
    # A target directory of its own: a build of the modules would hold the lock of theirs.
    target = Path(os.environ.get("CARGO_TARGET_DIR", WORKSPACE / "target")) / "programs"
    argv = (
        *("cargo", "rustc", "--quiet", "--release", "--package", package, *options),
        *("--manifest-path", str(manifest), "--target-dir", str(target)),
        *("--", *flags, "-C", "strip=symbols"),
    )
    # An extension module does not link Python, and needs none to be built for the stable ABI.
    environment = {**os.environ, "PYO3_BUILD_EXTENSION_MODULE": "1", "PYO3_NO_PYTHON": "1"}
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=_BUILD_S, check=False, env=environment
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CargoError(f"cannot be compiled: {error}; install Rust and cargo") from error
    if done.returncode != 0:
        last = "\n".join(done.stderr.strip().splitlines()[-15:])
        raise CargoError(f"cannot be compiled: cargo says\n{last}")
    return target / "release"


def extension(package: str) -> Path:
    """Compile the extension module that a crate is; return its library. Raises CargoError."""
    return compiled(package, "--lib", "--features", "python") / f"lib{package}.so"


def load_extension(package: str, module: str) -> None:
    """Let an extension module be imported: from its place, where a wheel has it, otherwise from the
    crate of this checkout. Raises ImportError."""
    if find_spec(module) is not None:
        return
    try:
        library = extension(package)
    except CargoError as error:
        raise ImportError(f"{package}: {error}") from error
    spec = spec_from_file_location(module, library)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[module] = module_from_spec(spec)
    spec.loader.exec_module(sys.modules[module])

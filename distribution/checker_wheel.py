"""Build the wheel of pyporcupine, install it into an empty environment, and run the README's first
example there.

    python distribution/checker_wheel.py              build for this machine's glibc or a newer one
    python distribution/checker_wheel.py --manylinux  build for glibc 2.17 (manylinux2014)

The wheel is for the stable ABI of Python 3.11 (abi3), so that it serves every later version.
maturin and Rust must be there; --manylinux also needs zig (`pip install -r constraints-wheel.txt`).
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CHECKER = ROOT / "crates" / "porcupine"
MANYLINUX = ("--zig", "--compatibility", "manylinux2014")
NATIVE = ("--compatibility", "linux")
NAME = re.compile(r"^pyporcupine-[^-]+-cp311-abi3-[^-]+\.whl$")


class WheelError(Exception):
    """A wheel that was built is not as it must be."""


def build(out: Path, *, manylinux: bool) -> Path:
    """Build the wheel into a directory, and return its path."""
    before = set(out.glob("pyporcupine-*.whl"))
    for old in before:
        old.unlink()
    tags = MANYLINUX if manylinux else NATIVE
    command = ["maturin", "build", "--release", "--strip", *tags, "--out", str(out)]
    beside = Path(sys.executable).parent
    path = f"{beside}{os.pathsep}{os.environ.get('PATH', '')}"
    subprocess.run(command, cwd=CHECKER, check=True, env={**os.environ, "PATH": path})
    (wheel,) = out.glob("pyporcupine-*.whl")
    if not NAME.match(wheel.name):
        raise WheelError(f"the wheel is called {wheel.name}, expected the tag cp311-abi3")
    return wheel


def first_example(readme: str) -> str:
    """Return the first example in Python of a README."""
    found = re.search(r"```python\n(.*?)```", readme, re.S)
    if found is None:
        raise WheelError("the README has no example in Python, expected one after ```python")
    return found[1]


def try_out(wheel: Path) -> None:
    """Install a wheel into an environment that has nothing else, and run the README's first
    example there. Raises CalledProcessError if either fails."""
    example = first_example((CHECKER / "README.md").read_text("utf-8"))
    with tempfile.TemporaryDirectory() as scratch:
        venv.create(scratch, with_pip=True)
        python = f"{scratch}/bin/python"
        install = [python, "-m", "pip", "install", "-q", "--no-index", "--no-deps", str(wheel)]
        subprocess.run(install, check=True)
        subprocess.run([python, "-I", "-c", example], cwd=scratch, check=True)


def main() -> int:
    """Build and try out the wheel; return the exit status."""
    parser = argparse.ArgumentParser(description="Build the wheel of pyporcupine and try it out.")
    parser.add_argument("--manylinux", action="store_true", help="build for glibc 2.17, with zig")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="directory of the wheel")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    try:
        wheel = build(arguments.out, manylinux=arguments.manylinux)
        try_out(wheel)
    except (WheelError, subprocess.CalledProcessError) as error:
        print(f"wheel: {error}", file=sys.stderr)
        return 1
    print(f"{wheel.stat().st_size / 1e6:.2f} MB  {wheel}: installed, and the first example runs")
    return 0


if __name__ == "__main__":
    sys.exit(main())

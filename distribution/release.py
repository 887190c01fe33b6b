"""Check that a version may be released, and build its wheels.

    python distribution/release.py            check the version of this commit
    python distribution/release.py --build    check, then build both wheels into dist/

A version may be released if every manifest and both changelogs have its number, the changelogs do
not call it unreleased, the tree is clean, and the tag vVERSION is that of this commit. The wheel of
`pyporcupine` is built with zig for glibc 2.17 (manylinux2014); maturin, zig (`pip install -r
constraints-wheel.txt`) and Rust must be there.
"""

import argparse
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import checker_wheel

ROOT = Path(__file__).resolve().parent.parent
CHECKER = ROOT / "crates" / "porcupine"
CHANGELOGS = (ROOT / "CHANGELOG.md", CHECKER / "CHANGELOG.md")
UNRELEASED = "not yet released"


def manifests() -> Iterator[tuple[Path, str]]:
    """Yield each manifest that states a version, with the version."""
    for path in (ROOT / "pyproject.toml", CHECKER / "pyproject.toml"):
        yield path, tomllib.loads(path.read_text("utf-8"))["project"]["version"]
    cargo = ROOT / "Cargo.toml"
    yield cargo, tomllib.loads(cargo.read_text("utf-8"))["workspace"]["package"]["version"]


def obstacles(version: str) -> Iterator[str]:
    """Yield each reason for which the version may not be released."""
    for path, found in manifests():
        if found != version:
            yield f"{path.relative_to(ROOT)}: version {found}, expected {version}"
    for path in CHANGELOGS:
        heading = re.search(rf"^## {re.escape(version)}(.*)$", path.read_text("utf-8"), re.M)
        if heading is None:
            yield f"{path.relative_to(ROOT)}: no section {version}"
        elif UNRELEASED in heading[1]:
            yield f"{path.relative_to(ROOT)}: {version} is called {UNRELEASED}; expected its date"
    if git("status", "--porcelain"):
        yield "the working tree has changes; expected a commit"
    tags = git("tag", "--points-at", "HEAD").split()
    if f"v{version}" not in tags:
        yield f"this commit has the tags {tags}; expected v{version}"


def git(*words: str) -> str:
    """Return the output of a git command in the repository."""
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def build() -> None:
    """Build both wheels into dist/, and try out that of the checker."""
    out = str(ROOT / "dist")
    checker_wheel.try_out(checker_wheel.build(ROOT / "dist", manylinux=True))
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", out, str(ROOT)],
        check=True,
    )
    for wheel in sorted((ROOT / "dist").glob("*.whl")):
        print(f"{wheel.stat().st_size / 1e6:.2f} MB  {wheel.name}")


def main() -> int:
    """Check, build if asked to, and return the exit status."""
    parser = argparse.ArgumentParser(description="Check that this commit may be released.")
    parser.add_argument("--build", action="store_true", help="build the wheels as well")
    arguments = parser.parse_args()
    version = dict(manifests())[ROOT / "pyproject.toml"]
    found = list(obstacles(version))
    for reason in found:
        print(f"release {version}: {reason}", file=sys.stderr)
    if found:
        return 1
    print(f"release {version}: every manifest, changelog and tag agrees")
    if arguments.build:
        build()
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""A run's directory as one file."""

import tarfile
from pathlib import Path
from tempfile import mkstemp


def archive(directory: Path) -> Path:
    """Return the path of a `.tar.gz` in the system's temporary directory; the caller removes it.

    Regular files only: a link could lead out of the store.
    """
    descriptor, path = mkstemp(suffix=".tar.gz")
    with open(descriptor, "wb") as raw, tarfile.open(fileobj=raw, mode="w:gz") as tar:
        for file in sorted(directory.rglob("*")):
            if file.is_file() and not file.is_symlink() and _within(directory, file):
                tar.add(file, f"{directory.name}/{file.relative_to(directory)}", recursive=False)
    return Path(path)


def _within(directory: Path, file: Path) -> bool:
    """Return whether the path is inside, and no directory on the way is a link."""
    return file.resolve().is_relative_to(directory.resolve())

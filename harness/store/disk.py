"""Reasons why a file cannot be written, which name the disk."""

import errno
import os
from pathlib import Path
from typing import Final

FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Errors of a disk without space for this user."""


def why_unwritable(path: Path, error: OSError) -> str:
    """Return the operating system's message; for a full or read-only disk with its mount point."""
    said = error.strerror or str(error)
    if error.errno in FULL:
        return f"{said} (the disk at {_mount_point(path)} is full)"
    if error.errno == errno.EROFS:
        return f"{said} (the disk at {_mount_point(path)})"
    return said


def is_unwritable(error: OSError) -> bool:
    """Return whether the disk refuses the write, or the permissions on it."""
    return error.errno in FULL | {errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EIO}


def is_full(error: OSError) -> bool:
    """Return whether the disk has no space left."""
    return error.errno in FULL


def _mount_point(path: Path) -> Path:
    """Return the mount point above a path, which need not exist."""
    there = path.absolute()
    while not there.exists() and there != there.parent:
        there = there.parent
    there = there.resolve()
    while not os.path.ismount(there):
        there = there.parent
    return there

"""Why a file of a store cannot be written, in words that name the disk."""

import errno
import os
from pathlib import Path
from typing import Final

FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Errors of a disk without space for this user."""


def why_unwritable(path: Path, error: OSError) -> str:
    """Say what the operating system says; of a full or read-only disk also where it is mounted."""
    said = error.strerror or str(error)
    if error.errno in FULL:
        return f"{said} (the disk at {_mount_point(path)} is full)"
    if error.errno == errno.EROFS:
        return f"{said} (the disk at {_mount_point(path)})"
    return said


def is_unwritable(error: OSError) -> bool:
    """Whether it is the disk that refuses, or who owns what is on it."""
    return error.errno in FULL | {errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EIO}


def is_full(error: OSError) -> bool:
    """Whether the disk has no space left."""
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

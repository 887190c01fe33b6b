"""Directory of this user for locks and caches, which no other user can write to or redirect."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from harness.core.errors import HarnessError
from harness.core.file_lock import lock

_NAME: Final = "harness"


def own_directory() -> Path:
    """Return ~/.cache/harness, or XDG_CACHE_HOME/harness, after creating it with mode 0700.

    Without a writable home it is in XDG_RUNTIME_DIR. The cache comes first because all processes
    of a user have it, those of cron included: a lock must be one file.

    Raises HarnessError if it is a link, belongs to another user, or is writable by others.
    """
    refused: list[str] = []
    for base in _bases():
        path = base / _NAME
        try:
            base.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.mkdir(mode=0o700, exist_ok=True)
            found = path.lstat()
        except OSError as error:
            refused.append(f"{path}: {error.strerror}")
            continue
        why = _why_unsafe(found)
        if why:
            raise HarnessError(
                f"{path}: {why}; expected a directory of your own that nobody else may write to. "
                "Remove it, or set XDG_CACHE_HOME to another place"
            )
        return path
    raise HarnessError(
        f"no directory for locks: {'; '.join(refused)}. Set XDG_CACHE_HOME to a directory that "
        "you can write to"
    )


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Wait for a lock of this user and hold it while the block runs. No link is followed."""
    path = own_directory() / f"{name}.lock"
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        raise HarnessError(f"{path}: cannot be opened: {error.strerror}; remove it") from error
    try:
        lock(descriptor)  # without locks two processes may do the same work twice
        yield
    finally:
        os.close(descriptor)


def _bases() -> Iterator[Path]:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    with suppress(RuntimeError):  # this user has no home
        yield cache.expanduser()
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime:
        yield Path(runtime)


def _why_unsafe(found: os.stat_result) -> str:
    """Return why a directory is not this user's own; "" if it is."""
    if not stat.S_ISDIR(found.st_mode):
        return "is a link" if stat.S_ISLNK(found.st_mode) else "is no directory"
    if found.st_uid != os.getuid():
        return f"belongs to user {found.st_uid}"
    if found.st_mode & 0o022:
        return f"may be written to by others (mode {stat.S_IMODE(found.st_mode):04o})"
    return ""

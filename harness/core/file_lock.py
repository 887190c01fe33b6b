"""Locks of files and directories, which end with the process that holds them.

Some file systems have none, such as NFS without its lock daemon. There nobody waits, and nobody
knows whether another process goes on.
"""

import errno
import fcntl
from typing import IO, Any, Final

_NO_LOCKS: Final = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS})
"""Errors of a file system without locks."""
MEANING: Final = (
    "has no file locks: commands cannot tell a run that goes on from one that was killed, and "
    "nothing keeps two of them from one cluster"
)
"""What is said once of a place on such a file system."""


def lock(file: int | IO[Any], *, wait: bool = True) -> bool | None:
    """Lock an open file or directory for this process. Return False if another process holds it
    and nobody waits; None if its file system has no locks. Raises OSError."""
    return _lock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


def is_locked(file: int | IO[Any]) -> bool | None:
    """Return whether a process holds the lock of an open file or directory; None if its file system
    has no locks. Raises OSError."""
    is_free = _lock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    return None if is_free is None else not is_free


def _lock(file: int | IO[Any], operation: int) -> bool | None:
    try:
        fcntl.flock(file, operation)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        return None
    return True

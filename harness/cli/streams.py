"""Standard output and standard error of every command.

A reader may leave before a command is done (`| head -1`), a disk may be full, a terminal may be
closed. None of these may end a run or change its verdict. Therefore a failed write raises nothing:
the error is remembered, and everything written after it is dropped.
"""

import errno
import io
import os
import select
import sys
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_READER_LEFT: Final = frozenset({errno.EPIPE, errno.EIO})
"""Errors of a pipe or terminal that its reader has closed."""


class Outlet(io.FileIO):
    """Raw file whose writes never fail."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "wb", closefd=False)
        self.failure: OSError | None = None
        """First error; from then on the descriptor is /dev/null."""

    def write(self, data: "ReadableBuffer", /) -> int:
        """Write `data`, or drop it after an error; waits if the descriptor is non-blocking."""
        try:
            while (written := super().write(data)) is None:
                select.select([], [self], [])
        except OSError as error:
            self.failure = error
            _discard(self.fileno())
            return memoryview(data).nbytes
        return written


def protect() -> None:
    """Put an Outlet under `sys.stdout` and `sys.stderr`. A closed one is opened on /dev/null;
    otherwise the next file opened would get its number and what is printed."""
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        if stream is None:
            _discard(descriptor)
        elif _descriptor(stream) != descriptor:
            continue  # somebody captures what is printed
        else:
            stream.flush()
        text = io.TextIOWrapper(
            io.BufferedWriter(Outlet(descriptor)),
            encoding=getattr(stream, "encoding", "utf-8"),
            errors="backslashreplace",  # a character that the locale lacks is no reason to end
            line_buffering=getattr(stream, "line_buffering", False),
        )
        setattr(sys, name, text)


def lost_output() -> str | None:
    """Return why part of the output is lost; None if all of it was written, or if whoever
    read it has left and wants no more."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    outlet = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    failure = outlet.failure if isinstance(outlet, Outlet) else None
    if failure is None or failure.errno in _READER_LEFT:
        return None
    return f"standard output: {failure.strerror}; what was printed is incomplete"


def _descriptor(stream: TextIO) -> int | None:
    """Return the file descriptor that a stream writes to, or None if it writes to memory."""
    try:
        return stream.fileno()
    except OSError:
        return None


def _discard(descriptor: int) -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    if null != descriptor:
        os.dup2(null, descriptor)
        os.close(null)

"""Journal of a run: `history.jsonl`, one op a line, written during the run.

`harness.core.lines` defines the lines. Flushed lines belong to the operating system and survive the
death of the harness; the last tenth of a second may be lost.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b, file_digest
from io import BufferedReader
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Final

import msgspec
from pyporcupine import MEMORY_MB

from harness.core.bounded_json import open_regular
from harness.core.errors import HarnessError, HistoryError
from harness.core.history import History
from harness.core.lines import decoded, encoded
from harness.core.op import Op
from harness.core.rows import Rows
from harness.store.damaged_lines import ops_of_lines
from harness.store.disk import why_unwritable

TEXT_BYTES_MAX: Final = int(MEMORY_MB * 1e6)
"""Maximum size of the text of a history that is read, a quarter of the memory of this machine or
container: while it is read, a history takes some three times its text."""
FLUSH_S: Final = 0.05
"""Interval between flushes, in seconds. With the time of a flush it is well under a tenth of a
second."""


class Journal:
    """Appends ops to a file, from one thread at a time; a thread of its own encodes and writes
    them. Lines are written at once."""

    def __init__(self, path: Path, *, durable: bool = True) -> None:
        """Create the file. Raises HarnessError if it exists: a journal is never overwritten.

        `durable`: after `close` it survives a loss of power.
        """
        self.path = path
        self._durable = durable
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        except OSError as error:
            why = why_unwritable(path, error)
            raise HarnessError(f"journal {path}: cannot be made: {why}") from error
        self._length = 0
        """Number of bytes written."""
        self._ops: list[Op | bytes] = []
        self._writing = Lock()
        self._open = True
        self._closed = Event()
        """Set when the journal is closed, so that the writer ends."""
        self._failure: str | None = None
        self._writer: Thread | None = None
        """Thread that writes, from the first op on."""

    def append(self, op: Op) -> None:
        """Append an op. It is in the file within 0.1 s.

        Raises HarnessError if an earlier op could not be written.
        """
        if self._failure is not None:
            raise self._unwritable()
        assert self._open, "the journal is closed"
        if self._writer is None:
            self._writer = Thread(target=self._run, name="journal", daemon=True)
            self._writer.start()
        self._ops.append(op)

    def extend(self, lines: bytes) -> None:
        """Append ops that are lines already; they are the operating system's on return. Raises
        HarnessError."""
        assert self._open, "the journal is closed"
        self._ops.append(lines)
        self.flush()

    def flush(self) -> None:
        """Return when every op so far is the operating system's. Raises HarnessError."""
        self._write_out()
        if self._failure is not None:
            raise self._unwritable()

    def close(self) -> None:
        """Flush, to the disk if the journal is durable, and close; idempotent. Raises
        HarnessError."""
        if not self._open:
            return
        self._open = False
        self._closed.set()
        if self._writer is not None:
            self._writer.join()
        self._write_out()
        try:
            if self._durable:
                os.fsync(self._fd)
        except OSError as error:
            self._failure = self._failure or why_unwritable(self.path, error)
        os.close(self._fd)
        if self._failure is not None:
            raise self._unwritable()

    def history(self) -> History:
        """Return the history, read back from the file. Raises HistoryError."""
        return read_history(self.path)

    def _run(self) -> None:
        while not self._closed.wait(FLUSH_S):
            self._write_out()

    def _write_out(self) -> None:
        with self._writing:
            # The list is only ever appended to elsewhere, so its first `count` items are ours.
            count = len(self._ops)
            if not count or self._failure is not None:
                return
            lines: list[bytes] = []
            try:
                for op in self._ops[:count]:
                    lines.append(op if isinstance(op, bytes) else encoded(op))
            except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as error:
                assert not isinstance(op, bytes), "lines are as they are"
                self._failure = f"op #{op.index} ({op.f}) has a value that is not JSON: {error}"
            del self._ops[:count]
            self._write(b"".join(lines))

    def _write(self, lines: bytes) -> None:
        left = memoryview(lines)
        try:
            while left:
                left = left[os.write(self._fd, left) :]
            self._length += len(lines)
        except OSError as error:
            self._failure = why_unwritable(self.path, error)
            # A disk that is full takes the beginning of a line: only whole ones are kept.
            whole = lines.rfind(b"\n", 0, len(lines) - len(left)) + 1
            with suppress(OSError):
                os.ftruncate(self._fd, self._length + whole)

    def _unwritable(self) -> HarnessError:
        return HarnessError(
            f"journal {self.path}: cannot be written: {self._failure}; a run cannot go on without "
            "its history"
        )


class MemoryJournal:
    """Journal of a run that leaves no files."""

    def __init__(self) -> None:
        self._lines: list[bytes] = []

    def append(self, op: Op) -> None:
        """Append an op."""
        self._lines.append(encoded(op))

    def extend(self, lines: bytes) -> None:
        """Append ops that are lines already."""
        self._lines.append(lines)

    def close(self) -> None:
        """Do nothing."""

    def history(self) -> History:
        """Return the history."""
        return history_of_lines(b"".join(self._lines))


@dataclass(frozen=True, slots=True)
class Contents:
    """Contents of a journal."""

    history: History
    damage: str | None
    """What is wrong with the journal, such as text that was cut off because the harness died in the
    middle of a line; None if nothing is."""


def read_journal(path: Path) -> Contents:
    """Read a journal, also that of a run that died: its last line may be cut off. Raises
    HistoryError, with file and line, for anything else that is not an op, and if the ops break the
    rules of histories."""
    with _opened(path) as file:
        raw = file.read()
    end = raw.rfind(b"\n") + 1
    whole, rest = raw[:end], raw[end:]
    truncated = None
    if rest:
        try:
            whole += encoded(decoded(rest))
        except ValueError:
            line = whole.count(b"\n") + 1
            truncated = (
                f"{path}: line {line} is cut off after {len(rest)} bytes, for the "
                "harness died while it wrote; the history is that of the lines before"
            )
    try:
        return Contents(history_of_lines(whole), truncated)
    except HistoryError as error:
        raise HistoryError(f"{path}: {error}") from error


def journal_digest(path: Path) -> str:
    """Return a digest of every byte of a journal. Raises HistoryError."""
    with _opened(path) as file:
        return file_digest(file, lambda: blake2b(digest_size=16)).hexdigest()


def ends_mid_line(path: Path) -> bool:
    """Return whether a journal's last line has no end. Raises HistoryError."""
    with _opened(path) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        return size > 0 and file.read(1) != b"\n"


@contextmanager
def _opened(path: Path) -> Iterator[BufferedReader]:
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            check_text_size(size)
            yield file
    except OSError as error:
        raise HistoryError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise HistoryError(f"{path}: cannot be read: {error}") from error


def check_text_size(size: int) -> None:
    """Raise ValueError if the text of a history has too many bytes for this machine."""
    if size > TEXT_BYTES_MAX:
        raise ValueError(
            f"its text has {size:,} bytes, expected at most {TEXT_BYTES_MAX:,}, a quarter of this "
            "machine's memory"
        )


def read_history(path: Path) -> History:
    """Return the history in a journal. See `read_journal`."""
    return read_journal(path).history


def history_of_lines(lines: bytes) -> History:
    """Return the history in the lines of a journal; of damaged ones what `damaged_lines` says.
    Raises HistoryError."""
    try:
        return History(Rows.of_lines(lines))
    except ValueError:  # edited, damaged, or written by another program
        return History(_decoded_each(lines.split(b"\n")[:-1]))


def _decoded_each(lines: list[bytes]) -> list[Op]:
    try:
        return list(map(decoded, lines))
    except ValueError:
        return ops_of_lines(lines)

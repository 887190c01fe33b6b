"""Opens the files of histories."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import EllipsisType
from typing import Any, Final

from pyporcupine._pyporcupine import HistoryError, Operation, Transaction
from pyporcupine.bounded_json import OutOfBoundsError, check_size
from pyporcupine.importers.calls import FailedCas
from pyporcupine.importers.etcd import REPORT_FILES, WATCH_FILES
from pyporcupine.importers.formats import FORMATS, Model, read_text, read_transactions_text
from pyporcupine.importers.record import Malformed, Reading

FILE_BYTES_MAX: Final = 256 * 1024 * 1024
BINARY: Final = (".jepsen", ".fressian")
"""Suffixes of the stores that Jepsen writes for itself: test.jepsen, history.jepsen, and
test.fressian before Jepsen 0.3.0."""
LISTED_MAX: Final = 20
"""Maximum number of malformed lines that an error lists."""


@dataclass(frozen=True, slots=True)
class ImportedHistory:
    """The history in a file, and what its format says of it."""

    format: str
    operations: list[Operation] = field(repr=False)
    """The operations in the order of their invocations."""
    lines: list[tuple[int, int | None]] = field(repr=False)
    """Lines of the call and of the end of each operation; None if the call never returned."""
    left_out: int
    """Number of calls that certainly did not happen and say nothing."""
    broken: list[str] = field(default_factory=list, repr=False)
    """Promises that the file itself shows to be broken: of watches, in a report of etcd's."""

    def arguments(self, model: Model | None = None) -> dict[str, Any]:
        """Return `model` and `initial` for `check` and `visualize`: the model, by default that of
        the format, and the value with which its objects begin in this format. Raises ValueError if
        the format has no default model."""
        how = FORMATS[self.format]
        chosen = model or how.model
        if chosen is None:
            raise ValueError(f"no model: a file of the format {self.format} may be of any; name it")
        initial: int | str | EllipsisType = how.initial(chosen)
        return {"model": chosen, "initial": initial}


@dataclass(frozen=True, slots=True)
class ImportedTransactions:
    """The history of transactions in a file."""

    format: str
    transactions: list[Transaction] = field(repr=False)
    """The transactions in the order of their calls."""
    lines: list[tuple[int, int | None]] = field(repr=False)
    """Lines of the call and of the end of each transaction; None if the outcome is unknown."""


def read(
    path: str | os.PathLike[str],
    format: str | None = None,  # noqa: A002 # as in Python's own libraries
    *,
    keyed: bool | None = None,
    failed_cas: FailedCas | None = None,
) -> ImportedHistory:
    """Read the history in a file of Jepsen, Knossos or Porcupine, or of JSON lines, or in a report
    of etcd's robustness tests.

    `format` is "jepsen-log", "edn", "porcupine-kv", "history-txt", "jsonl", "json" or "etcd" (a
    directory); None follows the suffix: .log, .edn, .txt, .jsonl and .json. `keyed`: whether each
    value is a pair [key, value], as jepsen.independent writes them; None finds out. `failed_cas`:
    "ignore" a failed cas, or "observe" that it found another value than it expected; None follows
    the format.

    `check(history.operations, **history.arguments())` decides it.

    Raises HistoryError if the file is not such a history, with the file, the line, the field, its
    value and what was expected for each malformed line; OSError; and ValueError for an unknown
    format.
    """
    reading = _reading(
        Path(path),
        format,
        lambda text, name: reading_of(text, name, keyed=keyed, failed_cas=failed_cas),
    )
    return ImportedHistory(
        reading.format, reading.operations, reading.lines, reading.left_out, reading.broken
    )


def read_transactions(
    path: str | os.PathLike[str],
    format: str | None = None,  # noqa: A002 # as in Python's own libraries
) -> ImportedTransactions:
    """Read the history of transactions in a file of Jepsen's or Elle's.

    `format` is "edn", "json" (an array of events) or "jepsen-log"; None follows the suffix. The
    value of an event is a list such as [[:append 4 2] [:r 5 nil]], whose end has what the reads
    found; :f may be missing.

    `check_transactions(history.transactions, "list-append")` decides it. Raises as `read` does.
    """
    reading = _reading(Path(path), format, transactions_of)
    return ImportedTransactions(reading.format, reading.transactions, reading.lines)


def _reading(file: Path, format_: str | None, read_: Callable[[str, str], Reading]) -> Reading:
    name = format_ or format_of(file)
    if name is None or name not in FORMATS:
        if not format_ and (why := why_binary(file)):
            raise ValueError(f"{str(file)!r}: {why}")
        what = f"format is {format_!r}" if format_ else f"{str(file)!r}: unknown suffix"
        raise ValueError(f"{what}; expected a format of {', '.join(FORMATS)}")
    try:
        reading = read_(text_of(file), name)
    except OutOfBoundsError as error:
        raise HistoryError(f"{file}: {error}") from None
    except UnicodeDecodeError as error:
        raise HistoryError(f"{file}: {error}; expected a file of text in UTF-8") from None
    if reading.malformed:
        listed = [f"{file}:{bad.line}: {bad.text}" for bad in reading.malformed[:LISTED_MAX]]
        if len(reading.malformed) > LISTED_MAX:
            listed.append(f"and {len(reading.malformed) - LISTED_MAX:,} more malformed lines")
        raise HistoryError("\n".join(listed))
    return reading


def format_of(path: Path) -> str | None:
    """Return the name of the format that a file's suffix stands for, if any."""
    return next((name for name, how in FORMATS.items() if path.suffix in how.suffixes), None)


def why_binary(path: Path) -> str:
    """Return what to give in place of a binary store of Jepsen's; "" if a file is none by name."""
    if path.suffix not in BINARY:
        return ""
    beside = str(path.with_name("history.edn"))
    if os.path.isfile(beside):
        return f"a binary store, which only Jepsen reads; give {beside!r}, which has the same"
    load = f'(run! prn (:history (store/test "{path.parent}")))'
    return (
        f"a binary store, which only Jepsen reads, and {beside!r}, which Jepsen writes when a test "
        "ends, is not there; write it in a REPL: (require '[jepsen.store :as store]) "
        f'(spit "history.edn" (with-out-str {load}))'
    )


def reading_of(text: str, name: str, **options: Any) -> Reading:
    """Return the reading of a file's text. A text without an operation is malformed."""
    return _filled(read_text(text, name, **options), name)


def transactions_of(text: str, name: str) -> Reading:
    """Return the transactions of a file's text. A text without one is malformed."""
    return _filled(read_transactions_text(text, name), name)


def _filled(reading: Reading, name: str) -> Reading:
    if not (reading.calls or reading.malformed or reading.left_out):
        found, mend = "without an operation", f"is its format {name}?"
        reading.malformed = [Malformed(1, "the file", found, FORMATS[name].about, mend)]
    return reading


def text_of(path: Path) -> str:
    """Return what a file or a pipe holds, or the files of a report of etcd's, each below a line
    with NUL and its name. Raises OSError and ValueError.

    A pipe without a writer counts as empty; a blocking open would wait forever.
    """
    if path.is_dir() and any(path.glob(REPORT_FILES)):
        parts = sorted([*path.glob(REPORT_FILES), *path.glob(WATCH_FILES)], key=_client)
        check_size(sum(part.stat().st_size for part in parts), FILE_BYTES_MAX)
        return "".join(f"\0{part.relative_to(path)}\n{text_of(part)}\n" for part in parts)
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        os.set_blocking(file.fileno(), True)
        raw = file.read(FILE_BYTES_MAX + 1)
    if len(raw) > FILE_BYTES_MAX:
        raise OutOfBoundsError(f"larger than {FILE_BYTES_MAX:,} bytes")
    return raw.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")


def _client(part: Path) -> tuple[int, str]:
    """Return the place of a client's file among the others: client-10 comes after client-9."""
    number = part.parent.name.rpartition("-")[2]
    return int(number) if number.isdecimal() else 0, str(part)

"""The file formats by name, and the function that reads a text in one of them.

A reader turns the text of a file into events or operations. It does not stop at a line that it
cannot read: it reports what is wrong with the line beside the rest. `files` opens files.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import EllipsisType
from typing import Final, Literal, TypeAlias, get_args

from pyporcupine.importers.calls import READ_LIKE, TXN, FailedCas, operations
from pyporcupine.importers.edn import read_edn
from pyporcupine.importers.etcd import REPORT_FILES, is_etcd, read_etcd
from pyporcupine.importers.etcd_forms import ABSENT
from pyporcupine.importers.jepsen_log import is_history_txt, read_history_txt, read_jepsen_log
from pyporcupine.importers.json_events import read_json_events
from pyporcupine.importers.keys import split_keys
from pyporcupine.importers.record import NOT_THERE, Event, Malformed, Reading
from pyporcupine.importers.rows import read_rows
from pyporcupine.importers.transactions import transactions

Model: TypeAlias = Literal[
    "set",
    "register",
    "cas-register",
    "key-value",
    "append-log",
    "counter",
    "queue",
    "fifo-queue",
    "stack",
    "priority-queue",
    "deque",
    "mutex",
    "multi-register",
]


@dataclass(frozen=True, slots=True)
class Format:
    """Reader of a file format, and the defaults for its histories."""

    about: str
    suffixes: tuple[str, ...]
    model: Model | None = None
    """Model of the objects; None if the user must name it."""
    events: Callable[..., tuple[list[Event], list[Malformed]]] | None = None
    """Reader of events; None if each line is a whole operation."""
    rows: Callable[..., Reading] | None = None
    """Reader of whole operations; None if there are events."""
    files: str = ""
    """Pattern of the files below a directory that make a history together."""
    may_lack_f: bool = False
    """Whether the reader takes the f of events that have none, as those of transactions may."""
    register_initial: int | str | EllipsisType = ...
    """Initial value of a register; ... means None, the model's own."""
    failed_cas: FailedCas = "observe"

    def initial(self, model: object) -> int | str | EllipsisType:
        """Return the initial value of a model's objects; ... means the model's own."""
        return self.register_initial if model == "register" else ...


FORMATS: Final[Mapping[str, Format]] = {
    "jepsen-log": Format(
        "lines of a Jepsen log: process, type, f, value",
        (".log",),
        "cas-register",
        read_jepsen_log,
    ),
    "edn": Format(
        "Jepsen's history.edn",
        (".edn",),
        None,
        read_edn,
        may_lack_f=True,
        failed_cas="ignore",
    ),
    "porcupine-kv": Format(
        "maps of :process, :type, :f, :key, :value, a line each",
        (".txt",),
        "key-value",
        read_edn,
    ),
    "history-txt": Format(
        "lines of Jepsen's history.txt: process, type, f, value",
        (),
        None,
        read_history_txt,
        failed_cas="ignore",
    ),
    "jsonl": Format(
        "an operation a line, as a JSON object", (".jsonl",), rows=read_rows, register_initial=0
    ),
    "json": Format(
        "a JSON array of Jepsen's events, or else the format jsonl",
        (".json",),
        None,
        read_json_events,
        may_lack_f=True,
        failed_cas="ignore",
    ),
    "etcd": Format(
        "the directory of a report of etcd's robustness tests",
        (),
        "register",
        rows=lambda text, *_: read_etcd(text),
        files=REPORT_FILES,
        register_initial=ABSENT,
    ),
}

MODELS: Final[tuple[Model, ...]] = get_args(Model)


def format_within(name: str, text: str) -> str:
    """Return the format of a text: a `.json` file that is no array has the format jsonl, but one
    that begins with a request of etcd's that of its report, and a `.txt` file that begins with an
    operation in place of a map is Jepsen's history.txt."""
    if name in ("json", "jsonl") and is_etcd(text):
        return "etcd"
    if name == "json" and not text.lstrip().startswith("["):
        return "jsonl"
    return "history-txt" if name == "porcupine-kv" and is_history_txt(text) else name


def read_text(
    text: str,
    format_: str,
    *,
    keyed: bool | None = None,
    failed_cas: FailedCas | None = None,
    reads: Collection[str] = READ_LIKE,
) -> Reading:
    """Return the operations in a file's text. Options that are None follow the format; `reads` are
    the operations whose end says what they found."""
    format_ = format_within(format_, text)
    how = FORMATS[format_]
    failed_cas = failed_cas or how.failed_cas
    if how.rows is not None:
        reading = how.rows(text, failed_cas, reads)
    else:
        assert how.events is not None, "a format has events or rows"
        events, malformed = how.events(text)
        reading = operations(split_keys(events, keyed), failed_cas, reads=reads)
        reading.malformed = sorted([*malformed, *reading.malformed], key=lambda bad: bad.line)
    reading.format = format_
    if not reading.operations:
        reading.malformed = _in_one_sentence(reading.malformed, how)
    return reading


def read_transactions_text(text: str, format_: str) -> Reading:
    """Return the transactions in a file's text."""
    format_ = format_within(format_, text)
    how = FORMATS[format_]
    if how.events is None:
        found, expected = f"of the format {format_}", "events: edn, json or jepsen-log"
        bad = Malformed(1, "the file", found, expected, "write calls and ends as events")
        return Reading(malformed=[bad], format=format_)
    events, malformed = how.events(text, TXN) if how.may_lack_f else how.events(text)
    reading = transactions(events)
    reading.malformed = sorted([*malformed, *reading.malformed], key=lambda bad: bad.line)
    reading.format = format_
    return reading


def _in_one_sentence(malformed: list[Malformed], how: Format) -> list[Malformed]:
    """Return one entry for the whole file if everything in it lacks the same field: no line of such
    a file needs to be corrected."""
    lacks = {bad.field for bad in malformed if bad.found == NOT_THERE}
    if len(malformed) < 2 or len(lacks) != 1 or any(bad.found != NOT_THERE for bad in malformed):
        return malformed
    found = f"in none of its {len(malformed):,} entries"
    mend = "no line needs a correction; it is a history of another kind, which no model judges"
    return [Malformed(malformed[0].line, lacks.pop(), found, how.about, mend)]

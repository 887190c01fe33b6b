"""The formats by name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import EllipsisType
from typing import Final, Literal, TypeAlias, get_args

from harness.foreign.calls import FailedCas, operations
from harness.foreign.edn import read_edn
from harness.foreign.jepsen_log import read_jepsen_log
from harness.foreign.keys import split_keys
from harness.foreign.record import Event, Malformed, Reading
from harness.foreign.rows import read_rows

Model: TypeAlias = Literal[
    "set",
    "register",
    "cas-register",
    "key-value",
    "append-log",
    "counter",
    "queue",
    "fifo-queue",
    "mutex",
    "multi-register",
]


@dataclass(frozen=True, slots=True)
class Format:
    """How a file is read and what it is taken for where nothing is said."""

    about: str
    suffixes: tuple[str, ...]
    model: Model | None = None
    """None: must be given."""
    events: Callable[[str], tuple[list[Event], list[Malformed]]] | None = None
    """None: its lines are whole operations."""
    register_initial: int | EllipsisType = ...
    """What a register holds at first; ...: None, as the model has it."""
    failed_cas: FailedCas = "observe"


FORMATS: Final[Mapping[str, Format]] = {
    "jepsen-log": Format(
        "lines of a Jepsen log: process, type, f, value",
        (".log",),
        "cas-register",
        read_jepsen_log,
    ),
    "edn": Format("Jepsen's history.edn", (".edn",), None, read_edn, failed_cas="ignore"),
    "porcupine-kv": Format(
        "maps of :process, :type, :f, :key, :value, a line each",
        (".txt",),
        "key-value",
        read_edn,
    ),
    "jsonl": Format(
        "an operation a line, as a JSON object", (".jsonl", ".json"), register_initial=0
    ),
}

MODELS: Final[tuple[Model, ...]] = get_args(Model)


def read(
    text: str, format_: str, *, keyed: bool | None = None, failed_cas: FailedCas | None = None
) -> Reading:
    """Return the operations of a file's text. Options that are None follow the format."""
    how = FORMATS[format_]
    failed_cas = failed_cas or how.failed_cas
    if how.events is None:
        return read_rows(text, failed_cas)
    events, malformed = how.events(text)
    reading = operations(split_keys(events, keyed), failed_cas)
    reading.malformed = sorted([*malformed, *reading.malformed], key=lambda bad: bad.line)
    return reading

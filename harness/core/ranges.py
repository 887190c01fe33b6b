"""Ranges of all numbers that a user may choose, and messages about names that nobody knows.

The command line, `-o NAME=VALUE`, matrices and topologies all read this table, and `--help` shows
it. Every range is finite. The maxima are generous: they refuse only values that would hang or
exhaust the memory.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from math import nan
from typing import Any, Final, Literal, TypeAlias

from harness.core.errors import UsageError

SHOWN_MAX: Final = 40
"""Maximum number of characters of an invalid value that an error shows."""
WORD_MAX: Final = 300
"""Maximum number of characters of any word of an error. Names that are valid, such as paths, are
longer than SHOWN_MAX."""


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers from `low` to `high`, both included; NaN and infinities are in no range."""

    low: float
    high: float
    unit: str = ""
    """Unit, such as "seconds", or with an article the kind of number, such as "a probability"; ""
    for whole numbers."""
    word: str = ""
    """Word that is allowed in place of a number; "" if none is."""
    second: float = 0.0
    """Length of a second in a range of durations, whose text may have a unit: 1h; 0 in others."""

    @property
    def whole(self) -> bool:
        """Return whether only whole numbers are allowed."""
        return not self.unit

    @property
    def expected(self) -> str:
        """Return what an error says was expected."""
        what = self.unit if self.unit.startswith("a ") else f"a number of {self.unit}"
        what = "a whole number" if self.whole else what
        word = f", or {self.word}" if self.word else ""
        return f"expected {what} from {self.low:,.10g} to {self.high:,.10g}{word}"

    def parse(self, given: object) -> float | str:
        """Return the number, or the word that is allowed in its place.

        Raises ValueError with the value given and what was expected.
        """
        if self.word and given == self.word:
            return self.word
        value = nan
        shown = given
        if self.second and isinstance(given, str) and (match := _DURATION.fullmatch(given)):
            given = round(float(match["number"]) * _UNITS_S[match["unit"]] * self.second, 9)
        plain = is_plain_number(given) if isinstance(given, str) else not isinstance(given, bool)
        if plain and isinstance(given, str | int | float):
            try:
                value = int(given) if self.whole else float(given)
            except (ValueError, OverflowError):
                value = nan
            if isinstance(given, float) and value != given:  # 2.5 is not a whole number
                value = nan
        if not self.low <= value <= self.high:
            raise ValueError(f"{shortened(shown)}: {self.expected}")
        return value


_UNITS_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_DURATION: Final = re.compile(rf"(?P<number>[0-9]+(\.[0-9]+)?)(?P<unit>{'|'.join(_UNITS_S)})")


def is_plain_number(text: str) -> bool:
    """Return whether a text may be a number: Python takes 1_0, and the digits of every script."""
    return text.isascii() and "_" not in text


def shortened(given: object) -> str:
    """Return a value as text for an error, cut off if it is long."""
    text = str(given)
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…"


def quoted(given: object) -> str:
    """Return a value in quotes for an error, cut off if it is long."""
    return repr(shortened(given))


def shorten_words(text: str, typed: Iterable[str] = ()) -> str:
    """Return a message without words that are too long for a name or a path, whoever stored them,
    and without arguments of the command line that are, whatever is in them."""
    for one in typed:
        text = text.replace(one, shortened(one)) if len(one) > WORD_MAX else text
    return re.sub(rf"\S{{{WORD_MAX + 1},}}", lambda match: shortened(match[0]), text)


SECONDS: Final = Range(0.001, 604_800, "seconds", second=1)
"""Range of durations, up to a week."""
_CALL_SECONDS: Final = Range(0.001, 3_600, "seconds", second=1)
_MILLISECONDS: Final = Range(1, 3_600_000, second=1_000)
_PER_SECOND: Final = Range(0.001, 1_000_000, "operations a second")
_ROWS: Final = Range(1, 1_000_000)

AUTO: Final = "auto"
"""Value of `insert_quorum` for a quorum of a majority of the replicas."""
Quorum: TypeAlias = int | Literal["auto"]
"""Number of replicas that must have an insert: the type of an option of workloads."""


def majority(replicas: int) -> int:
    """Return the number of replicas that a quorum of AUTO needs."""
    return replicas // 2 + 1


NODES_MAX: Final = 64
"""Maximum number of servers of one cluster, ClickHouse and ZooKeeper together. Each is a container
and a pod."""

RANGES: Final[Mapping[str, Range]] = {
    # Amount and duration of runs.
    "kept_days": Range(0.0, 36_500.0, "days", word="ever", second=1 / 86_400),
    "count": Range(1, 100_000),
    "runs": Range(1, 100_000),
    "jobs": Range(1, 256),
    "hunt_runs": Range(1, 100_000_000),
    "kept": Range(1, 1_000),
    "nights": Range(1, 10_000),
    "clusters": Range(1, 16),
    "tries": Range(1, 10_000),
    "op": Range(0, 1_000_000_000),
    "confidence": Range(0.5, 0.999999, "a probability"),
    "candidates": Range(1, 1_000_000),
    "sim_events": Range(1, 1_000_000_000_000),
    "accept_rate": Range(0.02, 0.99, "a probability"),
    "reject_rate": Range(0.01, 0.98, "a probability"),
    "hours": Range(0.000001, 8_760, "hours", second=1 / 3_600),
    "time_limit": SECONDS,
    "extend": Range(1, 1_000),
    "rate": _PER_SECOND,
    "concurrency": Range(1, 1_000),
    "quiesce": SECONDS,
    "interval": SECONDS,
    "duration": SECONDS,
    "jitter": Range(0.0, 0.99, "a share"),
    # The cluster.
    "replicas": Range(1, 32),
    "keepers": Range(1, 15),
    "shards": Range(1, 32),
    # Budgets of checkers and searches.
    "check_time": SECONDS,
    "time_s": SECONDS,
    "memory_mb": Range(1, 1_000_000, "megabytes"),
    "states_max": Range(1, 2**32 - 1),
    "records": Range(1, 100),
    "reads": Range(0, 100),
    "rows_shown": Range(1, 1_000_000),
    "port": Range(0, 65_535),
    # Options of workloads. `validate` refuses what depends on the topology as well.
    "quorum": Range(0, 32, word=AUTO),
    "quorum_timeout_ms": _MILLISECONDS,
    "keys": Range(1, 10_000),
    "retries": Range(0, 1_000),
    "tables": Range(1, 100),
    "ops_per_key": _ROWS,
    "values_per_key": _ROWS,
    "writers": Range(1, 1_000),
    "share": Range(0.0, 0.99, "a share"),
    "timeout_s": _CALL_SECONDS,
    "session_s": _CALL_SECONDS,
    "slack_s": _CALL_SECONDS,
    "task_timeout_s": Range(1, 3_600),
    "sync_timeout_s": Range(1, 3_600),
    "ops_per_s": _PER_SECOND,
    "calls_per_s": _PER_SECOND,
    "reads_per_s": _PER_SECOND,
    "big_rows": Range(2, 200_000),
    "one_in": Range(2, 1_000_000),
    "cancel_one_in": Range(1, 1_000_000),
    "own_rows": Range(1, 2_000_000),
    "window": Range(1, 1_000_000),
    "window_s": Range(0, 604_800),
    "limit_s": Range(0, 3600),
    "keep_min": Range(1, 1_000_000),
    "keep_max": Range(1, 1_000_000),
    "statements": Range(1, 1_000),
    "alters": Range(1, 1_000),
    "inserts": Range(0.01, 100.0, "a factor"),
    "pause_ms": Range(0, 3_600_000),
    "sync": Range(-1, 2),
}
"""Ranges by the name of an option as Python spells it."""

_ANY: Final = {int: Range(-1_000_000_000, 1_000_000_000), float: Range(-1e9, 1e9, "any unit")}


def range_of(name: str, kind: type) -> Range:
    """Return the range of a workload's option. `kind` is int or float.

    The range of an option that is not in the table, such as that of a user's own workload, is
    finite too.
    """
    found = RANGES.get(name)
    return found if found is not None and found.whole == (kind is int) else _ANY[kind]


def validate_numbers(options: Any) -> None:
    """Raise UsageError if a number of a workload's options, a dataclass, is out of range."""
    for field in fields(options):
        value, kind = getattr(options, field.name), type(field.default)
        if kind in (int, float):
            try:
                range_of(field.name, kind).parse(value)
            except ValueError as error:
                raise UsageError(f"{field.name.replace('_', '-')} {error}") from None


LISTED_MAX: Final = 12
"""Number of known names that a message lists; more would hide what was wrong."""
CLOSE_MAX: Final = 3


def did_you_mean(name: str, known: Collection[str]) -> str:
    """Return a question that names the closest known names and ends in a space; "" if none is
    close."""
    close = get_close_matches(name.replace("_", "-"), known, n=CLOSE_MAX)
    return f"did you mean {' or '.join(close)}? " if close else ""


def unknown_name(name: str, known: Collection[str], listed_by: str = "") -> str:
    """Return a message about an unknown name: the known names that are close to it, then all of
    them, or, if they are many, the command that lists them."""
    if listed_by and len(known) > LISTED_MAX:
        expected = f"see `{listed_by}`"
    else:
        expected = f"expected one of {', '.join(known)}"
    return f"{shortened(name)!r} is unknown; {did_you_mean(name, known)}{expected}"

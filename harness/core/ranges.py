"""The range of every number that a user may choose: finite, in one place.

The command line, `-o NAME=VALUE`, matrices and topologies all read this table, and `--help` shows
it. The upper ends are generous: they refuse what could only hang or eat the machine's memory.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import nan
from typing import Any, Final, Literal, TypeAlias

from harness.core.errors import UsageError

SHOWN_MAX: Final = 40
"""Characters of an offending value that an error shows."""


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers from `low` to `high`, both included; NaN and infinities are in no range."""

    low: float
    high: float
    unit: str = ""
    """Empty for a whole number; else what a number counts, as in "seconds", or with an article
    what it is, as in "a probability"."""
    word: str = ""
    """A word that may stand in place of a number; "" where none may."""

    @property
    def whole(self) -> bool:
        """Whether only whole numbers are allowed."""
        return not self.unit

    @property
    def expected(self) -> str:
        """What an error says was expected."""
        what = self.unit if self.unit.startswith("a ") else f"a number of {self.unit}"
        what = "a whole number" if self.whole else what
        word = f", or {self.word}" if self.word else ""
        return f"expected {what} from {self.low:,.10g} to {self.high:,.10g}{word}"

    def parse(self, given: object) -> float | str:
        """Return the number, or the word that may stand in its place; raise ValueError, with the
        given value and what was expected."""
        if self.word and given == self.word:
            return self.word
        value = nan
        if isinstance(given, str | int | float) and not isinstance(given, bool):
            try:
                value = int(given) if self.whole else float(given)
            except (ValueError, OverflowError):
                value = nan
            if isinstance(given, float) and value != given:  # 2.5 is no whole number
                value = nan
        if not self.low <= value <= self.high:
            raise ValueError(f"{shortened(given)}: {self.expected}")
        return value


def shortened(given: object) -> str:
    """Show a value in an error, cut off when it is long."""
    text = str(given)
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…"


SECONDS: Final = Range(0.001, 604_800, "seconds")
"""Up to a week."""
_CALL_SECONDS: Final = Range(0.001, 3_600, "seconds")
_MILLISECONDS: Final = Range(1, 3_600_000)
_PER_SECOND: Final = Range(0.001, 1_000_000, "operations a second")
_ROWS: Final = Range(1, 1_000_000)

AUTO: Final = "auto"
"""A quorum of a majority of the replicas, as `insert_quorum` spells it."""
Quorum: TypeAlias = int | Literal["auto"]
"""How many replicas must have an insert: the type of an option of workloads."""


def majority(replicas: int) -> int:
    """Return how many replicas a quorum of AUTO is."""
    return replicas // 2 + 1


NODES_MAX: Final = 64
"""ClickHouse and ZooKeeper servers of one cluster together: each is a container and a pod."""

RANGES: Final[Mapping[str, Range]] = {
    # How much is run.
    "count": Range(1, 100_000),
    "runs": Range(1, 100_000),
    "jobs": Range(1, 256),
    "clusters": Range(1, 16),
    "tries": Range(1, 10_000),
    "confidence": Range(0.5, 0.999999, "a probability"),
    "hours": Range(0.000001, 8_760, "hours"),
    "time_limit": SECONDS,
    "extend": Range(1, 1_000),
    "rate": _PER_SECOND,
    "concurrency": Range(1, 1_000),
    "quiesce": SECONDS,
    "interval": SECONDS,
    "duration": SECONDS,
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
    "port": Range(0, 65_535),
    # Options of workloads. What depends on the topology as well, `settle` refuses.
    "quorum": Range(0, 32, word=AUTO),
    "quorum_timeout_ms": _MILLISECONDS,
    "keys": Range(1, 10_000),
    "ops_per_key": _ROWS,
    "values_per_key": _ROWS,
    "writers": Range(1, 1_000),
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
    "own_rows": Range(1, 200_000),
    "window": Range(1, 1_000_000),
    "keep_min": Range(1, 1_000_000),
    "keep_max": Range(1, 1_000_000),
    "statements": Range(1, 1_000),
    "mutations": Range(1, 1_000),
    "alters": Range(1, 1_000),
    "pause_ms": Range(0, 3_600_000),
    "sync": Range(-1, 2),
}
"""By the name of an option as Python spells it."""

_ANY: Final = {int: Range(-1_000_000_000, 1_000_000_000), float: Range(-1e9, 1e9, "any unit")}


def range_of(name: str, kind: type) -> Range:
    """Return the range of an option of a workload. One that is not in the table, such as that of
    a workload of your own, is finite all the same. `kind` is int or float."""
    found = RANGES.get(name)
    return found if found is not None and found.whole == (kind is int) else _ANY[kind]


def settle_numbers(options: Any) -> None:
    """Raise UsageError for a number of a workload's options, a dataclass, that is out of range."""
    for field in fields(options):
        value, kind = getattr(options, field.name), type(field.default)
        if kind in (int, float):
            try:
                range_of(field.name, kind).parse(value)
            except ValueError as error:
                raise UsageError(f"{field.name.replace('_', '-')} {error}") from None

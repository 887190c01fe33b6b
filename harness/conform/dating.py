"""Dates transactions, even those of a leader whose clock is wrong.

ZooKeeper dates a transaction by the clock of its leader. Whoever asks the servers again and again
for the number of their newest transaction knows between which two moments each was committed, by a
clock that is right: after the last answer of the leader that had a lower number, and before the
first answer that had this one. On a busy machine these are a quarter of a second apart.

A clock that is right, or that has jumped, is wrong by exactly what it was set to. So a date that
fits the two moments by one of these errors is right to the millisecond. One that fits by none, for
the clock drifts or stands still, is known only to be between the two; and so are those shortly
before and after it, which fit because such an error is small at first.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from harness.core.clock_fault import VARIANTS

ERRORS_MS: Final = (
    0,
    *sorted({round(f.offset_s * 1e3) for _, faults in VARIANTS.values() for f in faults} - {0}),
)
"""By how much a leader's clock may be ahead."""
LATE_MS: Final = 150
"""Time after which a transaction is committed at the latest that its leader has dated."""
NEAR_MS: Final = 500
"""Time before and after a date that fits no error in which another one may fit by chance."""
PRECISE_MS: Final = 30
"""A time that may be wrong by more is vague."""

ANSWERS_MAX: Final = 100_000
"""Answers that are kept, some minutes of them. Without earlier ones a time is only less precise."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What a server said of its newest transaction, in wall-clock ms of a clock that is right."""

    asked_ms: float
    answered_ms: float
    zxid: int
    leads: bool
    """Whether the server leads, so that nothing is committed before it is applied there."""


@dataclass(slots=True)
class CommitTime:
    """When a transaction was committed."""

    dated_ms: int
    """Its date."""
    since_ms: float
    until_ms: float
    """Between which two times it was committed."""
    at_ms: float
    """Its time by what is known; it is final after `Dating.settle`."""
    within_ms: float = 0.0
    """By how much the time may be wrong."""

    @staticmethod
    def of(dated_ms: int) -> "CommitTime":
        """Return the time of a transaction whose date is right."""
        return CommitTime(dated_ms, dated_ms, dated_ms, dated_ms)


@dataclass
class Dating:
    """What servers answered since `begin_ms`, in order, and the times that this gives. One thread
    may add answers while another one asks for times."""

    begin_ms: float
    """When the first transaction was not committed yet, in wall-clock ms."""
    commits: list[CommitTime] = field(default_factory=list)
    _answers: deque[Progress] = field(default_factory=lambda: deque(maxlen=ANSWERS_MAX))
    """Those since the newest of these commits."""
    _since_ms: float = field(init=False)
    """When the leader last did not have that one."""

    def __post_init__(self) -> None:
        self._since_ms = self.begin_ms

    def add(self, answer: Progress) -> None:
        """Note an answer."""
        self._answers.append(answer)

    def commit(self, zxid: int, dated_ms: int) -> CommitTime:
        """Return the time of a transaction of this date. Transactions are asked for in the order
        of their numbers."""
        answers = self._answers
        while answers and answers[0].zxid < zxid:
            answer = answers.popleft()
            if answer.leads:
                self._since_ms = max(self._since_ms, answer.asked_ms)
        until_ms = answers[0].answered_ms if answers else float("inf")
        found = CommitTime(dated_ms, min(self._since_ms, until_ms), until_ms, dated_ms)
        self.commits.append(found)
        return found

    def settle(self) -> None:
        """Put all times right, as far as that is possible."""
        unfit = []
        for one in self.commits:
            fits = [
                one.dated_ms - error
                for error in ERRORS_MS
                if one.since_ms - LATE_MS <= one.dated_ms - error <= one.until_ms
            ]
            if len(fits) == 1:
                one.at_ms, one.within_ms = max(fits[0], one.since_ms), 0.0
            else:
                unfit.append(one.since_ms)
                _make_vague(one)
        before_ms = self.begin_ms
        for one in self.commits:
            near = bisect_left(unfit, one.since_ms - NEAR_MS)
            if near < len(unfit) and unfit[near] <= one.since_ms + NEAR_MS:
                _make_vague(one)
                one.at_ms = max(one.at_ms, before_ms)  # in their order, which is certain
            before_ms = one.at_ms

    def vague(self) -> Iterator[tuple[float, float]]:
        """Yield since when and until when each transaction was committed of which this is not known
        precisely; one answer for all that two answers have between them."""
        last: tuple[float, float] | None = None
        for one in self.commits:
            between = (one.since_ms, one.until_ms)
            if one.within_ms > PRECISE_MS and between != last:
                yield between
                last = between


def _make_vague(one: CommitTime) -> None:
    one.within_ms = one.until_ms - one.since_ms
    one.at_ms = min(max(one.dated_ms, one.since_ms), one.until_ms)

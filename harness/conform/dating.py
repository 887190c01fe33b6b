"""Dates transactions, even those of a leader whose clock is wrong.

ZooKeeper dates a transaction by the clock of its leader. Whoever asks the servers again and again
for the number of their newest transaction knows between which two moments each was committed, by a
clock that is right: after the last answer of the leader that had a lower number, and before the
first answer that had this one. A date between them may be right and is kept; another one is moved
to the nearer of the two.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

UNCERTAIN_MS: Final = 250
"""Longest period between whose ends a transaction counts as dated."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What a server said of its newest transaction, in wall-clock ms of a clock that is right."""

    asked_ms: float
    answered_ms: float
    zxid: int
    leads: bool
    """Whether the server leads, so that nothing is committed before it is applied there."""


@dataclass
class Dating:
    """What servers answered, in order, and how well this dates transactions. One thread may add
    answers while another one asks for dates."""

    corrected: int = 0
    """Transactions whose date was wrong, and was put right."""
    uncertain: int = 0
    """Transactions whose period is longer than `UNCERTAIN_MS`."""
    within_ms: int = 0
    """The longest period of all others."""
    _answers: deque[Progress] = field(default_factory=deque)
    """Those since the newest transaction that was dated."""
    _since_ms: float = 0.0
    """When the leader last did not have that transaction."""

    def add(self, answer: Progress) -> None:
        """Note an answer. One that is not used later costs no memory for long."""
        self._answers.append(answer)

    def true_ms(self, zxid: int, dated_ms: int) -> int:
        """Return when a transaction of this date was committed, to `within_ms` unless it is
        uncertain. Transactions are asked for in the order of their numbers."""
        answers = self._answers
        while answers and answers[0].zxid < zxid:
            answer = answers.popleft()
            if answer.leads:
                self._since_ms = max(self._since_ms, answer.asked_ms)
        until_ms = answers[0].answered_ms if answers else float("inf")
        since_ms = min(self._since_ms, until_ms)
        if until_ms - since_ms > UNCERTAIN_MS:
            self.uncertain += 1
        else:
            self.within_ms = max(self.within_ms, round(until_ms - since_ms))
        true_ms = round(min(max(dated_ms, since_ms), until_ms))
        self.corrected += true_ms != dated_ms
        return true_ms

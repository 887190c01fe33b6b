"""A checker of something that the documents say does not hold."""

from dataclasses import replace

from harness.core.history import History
from harness.core.protocols import Checker
from harness.core.verdict import Status, Verdict


class Documented:
    """Judges as another checker does, and says with what is broken that nobody promised it.

    The status stays INVALID: what was asked for does not hold, and `--promise` decides whether that
    counts.
    """

    def __init__(self, checker: Checker, reason: str) -> None:
        """`reason` is such as "ClickHouse documents that A does not work with B"."""
        self.name = checker.name
        """Which decides the level of the ladder."""
        self._checker = checker
        self._reason = reason

    def check(self, history: History, *, deadline_s: float) -> Verdict:
        """Return the verdict of the other checker, with the reason in the summary of INVALID."""
        verdict = self._checker.check(history, deadline_s=deadline_s)
        if verdict.status is not Status.INVALID:
            return verdict
        return replace(verdict, summary=f"{verdict.summary} ({self._reason})")

"""Checker of a history whose journal had lines that could not be read."""

from checkers.conclusion import unjudged
from harness.core.history import History
from harness.core.verdict import Verdict


class WholeRecord:
    """Is UNKNOWN, because what is missing could be what was violated: with it no run is VALID.
    `judge` adds it to the checkers of a damaged history."""

    name = "record"

    def check(self, history: History) -> Verdict:
        """Return UNKNOWN with what could not be read."""
        assert history.damage is not None, "judge adds it to no whole history"
        return unjudged(self.name, history.damage)

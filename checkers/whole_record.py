"""Checker of a history whose journal had lines that could not be read."""

from harness.core.history import History
from harness.core.op import UNREADABLE
from harness.core.verdict import Status, Verdict


class WholeRecord:
    """Is UNKNOWN, because what is missing could be what was violated: with it no run is VALID.
    `judge` adds it to the checkers of a damaged history."""

    name = "record"

    def check(self, history: History) -> Verdict:
        """Return UNKNOWN with what could not be read."""
        value = history.calls(UNREADABLE)[0].invoke.value
        text = value["text"] if isinstance(value, dict) else value
        return Verdict(checker=self.name, status=Status.UNKNOWN, summary=str(text), checked=0)


def is_damaged(history: History) -> bool:
    """Return whether a history lacks what a line said that could not be read."""
    return len(history.calls(UNREADABLE)) > 0

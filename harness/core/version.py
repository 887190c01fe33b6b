"""Versions of servers."""

import re
from dataclasses import dataclass

from harness.core.errors import UsageError


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """First three numbers of a server's version."""

    major: int
    minor: int
    patch: int = 0

    @staticmethod
    def of(text: str) -> "Version":
        """Return the first version in a text, such as "ClickHouse client version 18.16.1.".

        Raises UsageError if there is none.
        """
        found = re.search(r"(\d+)\.(\d+)\.(\d+)", text)
        if not found:
            raise UsageError(f"version {text!r}: expected three numbers such as 18.16.1")
        return Version(*map(int, found.groups()))

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"

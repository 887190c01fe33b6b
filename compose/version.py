"""What a ClickHouse server understands follows its version."""

import re
from dataclasses import dataclass

from harness.core.errors import UsageError


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """The first three numbers of a server's version."""

    major: int
    minor: int
    patch: int

    @staticmethod
    def of(text: str) -> "Version":
        """The first version number in a text, such as "ClickHouse client version 18.16.1.".

        Raises UsageError when there is none.
        """
        found = re.search(r"(\d+)\.(\d+)\.(\d+)", text)
        if not found:
            raise UsageError(f"version {text!r}: expected three numbers such as 18.16.1")
        return Version(*map(int, found.groups()))

    @property
    def root(self) -> str:
        """The root element of its configuration. 18.16.1 reads only the first; every server
        since late 2021 reads both; those of today warn about the first."""
        return "yandex" if self < Version(22, 1, 0) else "clickhouse"

    @property
    def parallel_quorum(self) -> bool:
        """Whether it has `insert_quorum_parallel`, on by default since 21.1, with which
        `select_sequential_consistency` does not work."""
        return self >= Version(20, 10, 0)

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"

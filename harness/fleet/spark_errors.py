"""Errors of Spark in one line each, from what it says in many."""

import re
from collections.abc import Sequence
from typing import Final

from harness.core.ranges import shortened

USED_UP: Final = "the memory of Spark is used up, 1 GB by default (spark.driver.memory)"
"""What is said of a query that was too large for the heap of a JVM."""


def last_error(text: str) -> str:
    """Return in one line why Spark's job failed: the cause of the task's last failure, in Python's
    words if Python raised it."""
    lost = re.search(r"Task \d+ in stage \S+ failed (\d+) times?, most recent failure: (.*)", text)
    trace = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(\S.*)", re.M)
    raised = trace.findall(text)
    if lost is None and not raised:
        return text.strip().split("\n")[0]
    tries = "at every attempt" if lost is None else f"{lost[1]} times"
    found = raised[-1] if raised or lost is None else lost[2]
    why = re.sub(r"^Lost task \S+ in stage \S+ \(TID \d+\) ", "", found)
    return f"a task failed {tries}, the last time with {why.strip()}"


def sql_error(text: str, fragments: Sequence[str]) -> str:
    """Return in one line what Spark says of a query, with the part of it that it means: the first
    of these fragments of the query, or else the place that the text names."""
    said, _, rest = text.strip().split("\n")[0].partition(" SQLSTATE: ")
    said = re.sub(r"^\[[A-Z0-9_.]+\] ", "", said).rstrip(".;")
    where = re.search(r"line (\d+), pos (\d+)", rest)
    if fragments:
        return f"{said} (at {shortened(fragments[0])!r})"
    return f"{said} (line {where[1]}, column {int(where[2]) + 1})" if where else said


def exceeded_memory(text: str) -> str | None:
    """Return which limit of memory a query exceeded; None if that is not the error. Spark has no
    error class for either: the job fails with this text."""
    size = re.search(r"is bigger than spark\.driver\.maxResultSize \((\S+ \w+)\)", text)
    if size:
        return f"the answer is larger than {size[1]} (spark.driver.maxResultSize)"
    return USED_UP if re.search(r"\b(Spark)?OutOfMemoryError\b", text) else None


def unreadable_file(text: str) -> str | None:
    """Return the URI of the file that Spark could not read; None if that is not the error."""
    found = re.search(r"FAILED_READ_FILE\S* Encountered error while reading file (\S+)\.\s", text)
    return found[1] if found else None

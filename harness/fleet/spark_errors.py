"""Errors of Spark in one line each, from what it says in many."""

import re


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

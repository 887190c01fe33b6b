"""The rules of findings in Python, for an integration test, which has the text of one of them.

A rule takes the calls of a test in the order of their ends, and returns a sentence for each
violation. Each says what the program of awk with its name says (`findings.py`), and uses nothing
but `AnsweredCall` and the parameters.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final


@dataclass
class AnsweredCall:
    """A call of a client: what it asked of a server, when, and the answer."""

    number: str
    node: str
    name: str
    client: int
    key: int | None
    values: list[int]
    session: int
    begin: float
    end: float
    error: str
    answer: list[int]

    def is_insert(self) -> bool:
        """Return whether it is an insert that was acknowledged."""
        return self.name.removeprefix("final-").startswith("insert") and not self.error

    def is_read(self) -> bool:
        """Return whether it is a read that was answered."""
        return self.name.endswith("read") and not self.error

    def is_final(self) -> bool:
        """Return whether it was made when all was at rest."""
        return self.name.startswith("final-")


def stale(calls: list[AnsweredCall]) -> list[str]:
    """Return the reads that miss what was acknowledged before they began."""
    return [
        f"call {read.number} on {read.node} did not return {value}, which {insert.node} had "
        f"acknowledged before (call {insert.number})"
        for read in calls
        for insert in calls
        for value in insert.values
        if read.is_read() and insert.is_insert() and insert.key == read.key
        if insert.end < read.begin and value not in read.answer
    ]


def read_your_writes(calls: list[AnsweredCall]) -> list[str]:
    """Return the reads that miss what was acknowledged to their own client."""
    return [
        f"client {read.client} did not read {value} on {read.node} (call {read.number}), which was "
        f"acknowledged to it by {insert.node} (call {insert.number})"
        for read in calls
        for insert in calls
        for value in insert.values
        if read.is_read() and insert.is_insert() and insert.key == read.key
        if (insert.client, insert.session) == (read.client, read.session)
        if insert.end < read.begin and value not in read.answer
    ]


def monotonic_writes(calls: list[AnsweredCall]) -> list[str]:
    """Return the reads of a write without an earlier one of the same client."""
    inserts = [call for call in calls if call.is_insert()]
    return [
        f"call {read.number} on {read.node} returned {late} without {early}, which the same client "
        f"had written before (calls {later.number}, {earlier.number})"
        for read in calls
        for earlier in inserts
        for later in inserts
        for early in earlier.values
        for late in later.values
        if read.is_read() and earlier.key == later.key == read.key
        if (earlier.client, earlier.session) == (later.client, later.session)
        if earlier.end < later.begin and later.end <= read.end
        if late in read.answer and early not in read.answer
    ]


def monotonic_reads(calls: list[AnsweredCall]) -> list[str]:
    """Return the reads that lack what their client has read before."""
    seen: dict[object, list[int]] = {}
    found = []
    for read in calls:
        if read.is_read():
            who = (read.client, read.session, read.key)
            found += [
                f"client {read.client} had read {value} before, and call {read.number} on "
                f"{read.node} lacks it"
                for value in seen.get(who, [])
                if value not in read.answer
            ]
            seen[who] = read.answer
    return found


def incomparable(calls: list[AnsweredCall]) -> list[str]:
    """Return the pairs of reads of which each has a value that the other lacks, so that no order of
    the inserts explains both."""
    reads = [call for call in calls if call.is_read()]
    found = []
    for at, one in enumerate(reads):
        for other in reads[at + 1 :]:
            only_one = [value for value in one.answer if value not in other.answer]
            only_other = [value for value in other.answer if value not in one.answer]
            if one.key == other.key and only_one and only_other:
                found.append(
                    f"call {one.number} on {one.node} returned {only_one[0]} without "
                    f"{only_other[0]}, and call {other.number} on {other.node} returned "
                    f"{only_other[0]} without {only_one[0]}"
                )
    return found


def lost(calls: list[AnsweredCall]) -> list[str]:
    """Return what was acknowledged and no replica returns in the end."""
    last: dict[int | None, set[int]] = {}
    for read in calls:
        if read.is_read() and read.is_final():
            last.setdefault(read.key, set()).update(read.answer)
    return [
        f"{insert.node} acknowledged {value} (call {insert.number}), and no replica returns it"
        for insert in calls
        for value in insert.values
        if insert.is_insert() and insert.key in last and value not in last[insert.key]
    ]


def duplicate(calls: list[AnsweredCall]) -> list[str]:
    """Return the reads of a value that is there more than once."""
    return [
        f"call {read.number} on {read.node} returned {value} more than once"
        for read in calls
        for value in sorted(set(read.answer))
        if read.is_read() and read.answer.count(value) > 1
    ]


def diverged(calls: list[AnsweredCall]) -> list[str]:
    """Return what one replica returns at rest and another does not."""
    shown = {
        (call.key, call.node): call.answer for call in calls if call.is_read() and call.is_final()
    }
    return [
        f"{node} returns {value} of key {key} and {other} does not"
        for (key, node), values in shown.items()
        for (other_key, other), others in shown.items()
        for value in values
        if key == other_key and value not in others
    ]


def unanswered(calls: list[AnsweredCall]) -> list[str]:
    """Return the calls at rest to which no try got an answer."""
    last: dict[str, str] = {}
    for call in calls:
        if call.is_final():
            what = f"{call.name} of key {call.key} on {call.node}"
            last[what] = call.error if last.get(what) != "" else ""
    return [f"{what}: {error[:300]}" for what, error in last.items() if error]


def torn(calls: list[AnsweredCall]) -> list[str]:
    """Return the reads of a part of one INSERT."""
    return [
        f"call {read.number} on {read.node} returned {got} of the {len(insert.values)} rows of one "
        f"INSERT (call {insert.number})"
        for read in calls
        for insert in calls
        for got in [sum(value in read.answer for value in insert.values)]
        if read.is_read() and insert.name == "insert-many" and 0 < got < len(insert.values)
    ]


def half(calls: list[AnsweredCall]) -> list[str]:
    """Return the reads at rest of a part of one INSERT."""
    return [
        f"{read.node} has {got} of the {len(insert.values)} rows of one INSERT (call "
        f"{insert.number}) for good"
        for read in calls
        for insert in calls
        for got in [sum(value in read.answer for value in insert.values)]
        if read.is_read() and read.is_final()
        if insert.name == "insert-many" and 0 < got < len(insert.values)
    ]


def rows(
    allowed: dict[tuple[int, int], list[str]], shown: dict[tuple[str, int], dict[int, str]]
) -> list[str]:
    """Return the rows that are not as the statements leave them; `allowed` has what they may show
    by partition and number, `shown` what each server shows of the rows of a partition."""
    return [
        f"row {row} of partition {partition}: {node} shows {rows.get(row, 'nothing')}; the "
        f"statements, each of which was acknowledged, leave {' or '.join(states)}"
        for (node, place), rows in shown.items()
        for (partition, row), states in allowed.items()
        if place == partition and rows.get(row, "nothing") not in states
    ]


_RULES: Final[Mapping[str, Callable[..., list[str]]]] = {
    "stale": stale,
    "read-your-writes": read_your_writes,
    "monotonic-writes": monotonic_writes,
    "monotonic-reads": monotonic_reads,
    "incomparable": incomparable,
    "lost": lost,
    "duplicate": duplicate,
    "diverged": diverged,
    "unanswered": unanswered,
    "torn": torn,
    "half": half,
    "rows": rows,
}
"""Rules by the names of the programs of awk."""


def rule_named(name: str) -> Callable[..., list[str]]:
    """Return the rule that says what the program of awk with this name says."""
    return _RULES[name]


def text_of(*parts: Callable[..., object]) -> str:
    """Return the source of a rule or of `AnsweredCall`."""
    return "\n\n".join(inspect.getsource(part) for part in parts)

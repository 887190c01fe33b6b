"""Judges what servers logged about a table that clients of somebody else wrote to.

The history of an audit has a call "logged-insert" for each INSERT of the servers'
`system.query_log`, whose end has `InsertedParts`, and one op of the nemesis, "audit", with
`ServerLogs`. With ZooKeeper's log the history has a call "transactions" as well
(`checkers.replication.agreed`). What clients read is not in such logs, so that no read is judged. A
part *covers* another if it has all of its blocks.

Violated, of an acknowledged insert that made a part:
failed              the quorum of its part failed
acknowledged-early  fewer replicas than its quorum had its part, or one that covers it, when it was
                    acknowledged: by ZooKeeper's log, else by the replicas' logs and by more than
                    clocks may differ
gone                at the end no replica has its part or one that covers it
missing-rows        where merges keep every row, a part of a replica has fewer rows than were
                    inserted into the parts that it covers
And of the table:
diverged            two replicas have different data in parts of one name
last-part-back      /quorum/last_part went back to a lower block number

Doubtful: nothing was read from the servers, a statement that may have removed or changed rows, a
replica without a log, a gap in ZooKeeper's, a quorum insert that is not in it, a part whose name is
not understood, and no acknowledged insert. With such statements nothing is gone or missing.

That a part is no longer there is no anomaly, because replicas merge:
    insert → ok, part 0_5_5_0     at the end ch1 has 0_0_9_2
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from operator import attrgetter, itemgetter
from typing import Final

import msgspec

from checkers.conclusion import Findings
from checkers.look import decode
from checkers.phrasing import listed, number
from checkers.quorum.audited_quorums import (
    AuditedInserts,
    AuditedQuorums,
    InsertedParts,
    said_of,
)
from checkers.replication.parts import Part
from harness.core.history import History, Pair
from harness.core.op import Kind, Op
from harness.core.verdict import Verdict

AUDIT: Final = "audit"
LOGGED: Final = "logged-insert"
"""Name of an insert that a server logged: of its value the log has the parts alone."""


class ServerLogs(msgspec.Struct, frozen=True):
    """What the servers logged about the table."""

    created: list[tuple[int, str, str, int]] = []
    """Time in ns, replica, part and rows of each part that a replica inserted, fetched, merged or
    mutated."""
    active: dict[str, dict[str, tuple[int, str | int]]] = {}
    """Rows of each part of a replica at the end, and a hash of its data."""
    failed: list[str] = []
    """Parts whose quorum failed."""
    removals: list[str] = []
    """Statements that may remove or change rows."""
    plain: bool = False
    """Whether merges keep every row."""
    silent: list[str] = []
    """Replicas without a part_log."""
    clock_error_ns: int = 0
    """Time by which two servers' clocks may differ."""
    zero_ms: float = 0
    """Wall-clock time of the history's begin."""
    versions: list[str] = []
    """Versions of the ClickHouse servers, each once."""


def server_logs(history: History) -> ServerLogs | None:
    """Return what the servers logged; None if nothing was read from them. Raises HistoryError."""
    ops = [op for op in history.nemesis if op.f == AUDIT and op.kind is Kind.OK]
    return decode(ops[-1], ServerLogs) if ops else None


class _Logs:
    """What the servers logged, indexed."""

    def __init__(self, said: ServerLogs) -> None:
        self.said = said
        self.rows: dict[str, int] = {}
        """Rows of each part when it was made."""
        self.made: dict[str, list[tuple[int, str, Part]]] = defaultdict(list)
        """By partition, in order: when which replica got which part."""
        self._own: dict[str, list[tuple[int, str]]] = defaultdict(list)
        """By part: when which replica got it under its own name."""
        self._active: dict[tuple[str, str], list[Part]] = defaultdict(list)
        """Active parts of each replica and partition, which have no block in common."""
        for time_ns, replica, name, rows in said.created:
            part = part_of(name)
            if part is not None:
                self.rows.setdefault(name, rows)
                self.made[part.partition].append((time_ns, replica, part))
                self._own[name].append((time_ns, replica))
        for replica, parts in said.active.items():
            for name in parts:
                part = part_of(name)
                if part is not None:
                    self._active[replica, part.partition].append(part)
        for made in self.made.values():
            made.sort(key=itemgetter(0))
        for active in self._active.values():
            active.sort(key=attrgetter("first"))

    def holders(self, part: Part, until_ns: int, enough: int) -> frozenset[str]:
        """Return the replicas that had got a part by a time, or one that covers it; if enough had
        got it under its own name, only these."""
        own = frozenset(r for at_ns, r in self._own.get(part.name, ()) if at_ns <= until_ns)
        if len(own) >= enough:
            return own
        every = self.made.get(part.partition, [])
        early = every[: bisect_right(every, until_ns, key=itemgetter(0))]
        return frozenset(replica for _, replica, one in early if one.covers(part))

    def covering(self, part: Part) -> Iterator[tuple[str, Part]]:
        """Yield the replicas that have a part at the end, or one that covers it, with that part."""
        for replica in self.said.active:
            active = self._active.get((replica, part.partition), [])
            at = bisect_right(active, part.first, key=attrgetter("first"))
            if at and active[at - 1].covers(part):
                yield replica, active[at - 1]


def part_of(name: str) -> Part | None:
    """Return a part by its name; None for a name in another form."""
    try:
        return Part.of(name)
    except ValueError:
        return None


class Audited:
    """Judges the acknowledged inserts of an audit by what the servers logged."""

    name = AUDIT

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs an acknowledged insert with a part."""
        ops = [op for op in history.nemesis if op.f == AUDIT and op.kind is Kind.OK]
        said = decode(ops[-1], ServerLogs) if ops else ServerLogs()
        logs = _Logs(said)
        inserts = [
            (pair, made)
            for pair in history.calls(LOGGED, kinds=(Kind.OK,))
            if pair.end is not None and (made := decode(pair.end, InsertedParts)).parts
        ]
        quorums = AuditedQuorums(history, said.zero_ms, said.clock_error_ns)
        found = Findings(self.name)
        _judge_failed(found, frozenset(said.failed) | quorums.failed, inserts)
        quorums.judge(found, inserts)
        _judge_times(found, logs, inserts, quorums)
        _judge_data(found, logs, ops)
        if not said.removals:
            _judge_parts(found, logs, inserts)
        found.doubts += [] if ops else ["nothing was read from the servers"]
        found.doubts += _doubts(said)
        if ops and not inserts:
            found.add_doubt("no acknowledged insert made a part")
        found.doubts += quorums.doubts(inserts)
        names = (name for _, made in inserts for name in made.parts)
        odd = [f"part {n}: its name is not understood" for n in names if part_of(n) is None]
        found.doubts += odd[:1]
        return found.verdict(
            checked=len(inserts),
            broken=found.tally,
            held=f"{number(len(inserts), 'acknowledged insert')}, the rows of each are there",
            figures={"inserts": len(inserts)},
        )


def _doubts(said: ServerLogs) -> Iterator[str]:
    for statement in said.removals[:1]:
        count = number(len(said.removals), "statement")
        yield f"{count} may have removed or changed rows, such as {statement}"
    if said.silent:
        yield f"{', '.join(said.silent)}: no part_log"


def _judge_failed(found: Findings, failed: frozenset[str], inserts: AuditedInserts) -> None:
    for insert, made in inserts:
        for name in made.parts:
            if name in failed:
                text = f"{said_of(insert)} was acknowledged, and the quorum of {name} failed"
                found.add_anomaly("failed", text, insert)


def _judge_parts(found: Findings, logs: _Logs, inserts: AuditedInserts) -> None:
    """Add inserts without any part at the end, and parts with fewer rows than were inserted."""
    within: dict[tuple[str, str], list[tuple[Pair, str]]] = defaultdict(list)
    for insert, made in inserts:
        for name in made.parts:
            part = part_of(name)
            over = [] if part is None else list(logs.covering(part))
            if part is not None and not over:
                text = f"{said_of(insert)} was acknowledged, and no replica has its part {name}"
                found.add_anomaly("gone", text, insert)
            for replica, one in over:
                within[replica, one.name].append((insert, name))
    for (replica, name), replaced in within.items() if logs.said.plain else ():
        rows = logs.said.active[replica][name][0]
        expected = sum(logs.rows.get(one, 0) for _, one in replaced)
        if rows < expected:
            text = (
                f"{name} of {replica} has {number(rows, 'row')}, and {expected:,} were inserted "
                f"into it and acknowledged, in {listed([one for _, one in replaced])}"
            )
            found.add_anomaly("missing-rows", text, replaced[0][0])


def _judge_times(
    found: Findings, logs: _Logs, inserts: AuditedInserts, quorums: AuditedQuorums
) -> None:
    """Add inserts that were acknowledged before their quorum had the part, by the replicas' logs.
    ZooKeeper's, which are exact, are preferred."""
    if logs.said.silent:
        return
    error_ns = logs.said.clock_error_ns
    for insert, made in inserts:
        assert insert.end is not None, "an acknowledged insert has an end"
        needed = made.quorum
        for name in made.parts if needed > 1 else ():
            part = part_of(name)
            if part is None or quorums.knows(name):
                continue
            holders = logs.holders(part, insert.end.time_ns + error_ns, needed)
            if len(holders) < needed:
                text = (
                    f"{said_of(insert)} was acknowledged for a quorum of {needed}, and by then "
                    f"{', '.join(sorted(holders)) or 'no replica'} had its part {name}"
                )
                found.add_anomaly("acknowledged-early", text, insert)


def _judge_data(found: Findings, logs: _Logs, ops: Sequence[Op]) -> None:
    seen: dict[str, tuple[str, tuple[int, str | int]]] = {}
    for replica, parts in logs.said.active.items():
        for name, content in parts.items():
            other, before = seen.setdefault(name, (replica, content))
            if before != content:
                text = f"{name} has {before[0]:,} rows on {other} and {content[0]:,} on {replica}"
                text += "" if before[0] != content[0] else ", with other data"
                found.add_anomaly("diverged", text, ops[-1], time_ns=0)

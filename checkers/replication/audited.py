"""Judges what servers logged about a table that clients of somebody else wrote to.

The history of an audit has an insert for each INSERT of the servers' `system.query_log`, whose end
has {"parts": the parts that it made, "quorum": the replicas that it asked for}, and one op of the
nemesis:

audit   {"created": [time in ns, replica, part, rows] for each part that a replica inserted,
        fetched, merged or mutated, "active": {replica: {part: [rows, hash of its data]}},
        "failed": parts whose quorum failed, "removals": statements that may remove or change rows,
        "plain": whether merges keep every row, "silent": replicas without a part_log,
        "clock_error_ns": by how much two servers' clocks may differ, "zero_ms": wall-clock time
        of the history's begin}

With ZooKeeper's log the history has a call "transactions" as well (`checkers.replication.agreed`).
What clients read is not in such logs, so that no read is judged.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Any, Final

from checkers.conclusion import conclude, count_kinds, few_of_each_kind, mapping_of, summarize
from checkers.phrasing import listed, number
from checkers.quorum.audited_quorums import AuditedQuorums, said_of
from checkers.replication.parts import Part
from harness.core.history import History, Pair
from harness.core.op import Kind, Op
from harness.core.verdict import Anomaly, Verdict

AUDIT: Final = "audit"


class _Logs:
    """What the op `audit` says, indexed."""

    def __init__(self, said: Mapping[str, Any]) -> None:
        self.said = said
        self.rows: dict[str, int] = {}
        """Rows of each part when it was made."""
        self.made: dict[str, list[tuple[int, str, Part]]] = defaultdict(list)
        """By partition, in order: when which replica got which part."""
        self._own: dict[str, list[tuple[int, str]]] = defaultdict(list)
        """By part: when which replica got it under its own name."""
        self._active: dict[tuple[str, str], list[Part]] = defaultdict(list)
        """Active parts of each replica and partition, which have no block in common."""
        for time_ns, replica, name, rows in said.get("created", ()):
            part = part_of(name)
            if part is not None:
                self.rows.setdefault(name, rows)
                self.made[part.partition].append((time_ns, replica, part))
                self._own[name].append((time_ns, replica))
        for replica, parts in said.get("active", {}).items():
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
        for replica in self.said.get("active", {}):
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
    """INVALID: an acknowledged insert whose quorum failed, whose part no replica has in any form,
    or whose rows are missing from the part that replaced it; an insert that was acknowledged before
    as many replicas as its quorum had its part, by more than clocks may differ, or by ZooKeeper's
    log; replicas with parts of one name and different data; /quorum/last_part went back. UNKNOWN:
    statements that remove rows, a replica without a log, a gap in ZooKeeper's.
    """

    name = AUDIT

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs an acknowledged insert with a part."""
        ops = [op for op in history.nemesis if op.f == AUDIT and op.kind is Kind.OK]
        logs = _Logs(mapping_of(ops[-1] if ops else None))
        inserts = [
            pair
            for pair in history.calls("insert", kinds=(Kind.OK,))
            if mapping_of(pair.end)["parts"]
        ]
        quorums = AuditedQuorums(
            history, logs.said.get("zero_ms", 0), int(logs.said.get("clock_error_ns", 0))
        )
        broken = [
            *_failed(frozenset(logs.said.get("failed", ())) | quorums.failed, inserts),
            *quorums.broken(inserts),
            *_early(logs, inserts, quorums),
            *_diverged(logs, ops),
            *(() if logs.said.get("removals") else _lost(logs, inserts)),
        ]
        doubts = [*_doubts(logs.said, len(inserts)), *quorums.doubts(inserts)]
        names = (name for one in inserts for name in mapping_of(one.end)["parts"])
        doubts += [f"part {n}: its name is not understood" for n in names if part_of(n) is None][:1]
        held = f"{number(len(inserts), 'acknowledged insert')}, the rows of each are there"
        return Verdict(
            checker=self.name,
            status=conclude(broken, doubts=doubts),
            summary=summarize(broken, doubts, held),
            checked=len(inserts),
            anomalies=few_of_each_kind(broken),
            figures={"inserts": len(inserts), "anomalies": count_kinds(broken)},
        )


def _doubts(said: Mapping[str, Any], inserts: int) -> Iterator[str]:
    if not said:
        yield "nothing was read from the servers"
    for statement in tuple(said.get("removals", ()))[:1]:
        count = number(len(said["removals"]), "statement")
        yield f"{count} may have removed or changed rows, such as {statement}"
    if said.get("silent"):
        yield f"{', '.join(said['silent'])}: no part_log"
    if said and not inserts:
        yield "no acknowledged insert made a part"


def _failed(failed: frozenset[str], inserts: Sequence[Pair]) -> Iterator[Anomaly]:
    for insert in inserts:
        for name in mapping_of(insert.end)["parts"]:
            if name in failed:
                text = f"{said_of(insert)} was acknowledged, and the quorum of {name} failed"
                yield _anomaly("failed", text, insert)


def _lost(logs: _Logs, inserts: Sequence[Pair]) -> Iterator[Anomaly]:
    """Yield inserts without any part at the end, and parts with fewer rows than were inserted."""
    within: dict[tuple[str, str], list[tuple[Pair, str]]] = defaultdict(list)
    for insert in inserts:
        for name in mapping_of(insert.end)["parts"]:
            part = part_of(name)
            over = [] if part is None else list(logs.covering(part))
            if part is not None and not over:
                text = f"{said_of(insert)} was acknowledged, and no replica has its part {name}"
                yield _anomaly("gone", text, insert)
            for replica, one in over:
                within[replica, one.name].append((insert, name))
    for (replica, name), replaced in within.items() if logs.said.get("plain") else ():
        rows, expected = (
            logs.said["active"][replica][name][0],
            sum(logs.rows.get(one, 0) for _, one in replaced),
        )
        if rows < expected:
            text = (
                f"{name} of {replica} has {number(rows, 'row')}, and {expected:,} were inserted "
                f"into it and acknowledged, in {listed([one for _, one in replaced])}"
            )
            yield _anomaly("missing-rows", text, replaced[0][0])


def _early(logs: _Logs, inserts: Sequence[Pair], quorums: AuditedQuorums) -> Iterator[Anomaly]:
    """Yield inserts that were acknowledged before their quorum had the part, by the replicas' logs.
    ZooKeeper's, which are exact, are preferred."""
    if logs.said.get("silent"):
        return
    error_ns = int(logs.said.get("clock_error_ns", 0))
    for insert in inserts:
        assert insert.end is not None, "an acknowledged insert has an end"
        said = mapping_of(insert.end)
        needed = int(said.get("quorum", 0))
        for name in said["parts"] if needed > 1 else ():
            part = part_of(name)
            if part is None or quorums.knows(name):
                continue
            holders = logs.holders(part, insert.end.time_ns + error_ns, needed)
            if len(holders) < needed:
                text = (
                    f"{said_of(insert)} was acknowledged for a quorum of {needed}, and by then "
                    f"{', '.join(sorted(holders)) or 'no replica'} had its part {name}"
                )
                yield _anomaly("acknowledged-early", text, insert)


def _diverged(logs: _Logs, ops: Sequence[Op]) -> Iterator[Anomaly]:
    seen: dict[str, tuple[str, Sequence[Any]]] = {}
    for replica, parts in logs.said.get("active", {}).items():
        for name, content in parts.items():
            other, before = seen.setdefault(name, (replica, content))
            if list(before) != list(content):
                text = f"{name} has {before[0]:,} rows on {other} and {content[0]:,} on {replica}"
                text += "" if before[0] != content[0] else ", with other data"
                yield Anomaly(kind="diverged", text=text, ops=(ops[-1].index,))


def _anomaly(kind: str, text: str, insert: Pair) -> Anomaly:
    assert insert.end is not None, "an acknowledged insert has an end"
    ops = (insert.invoke.index, insert.end.index)
    return Anomaly(kind=kind, text=text, ops=ops, time_ns=insert.end.time_ns)

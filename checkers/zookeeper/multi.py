"""Checks that a multi of ZooKeeper is seen whole or not at all, and in one order.

Every key has a few nodes, which only multis write, each of them all of the key's nodes. So all
nodes have the same version, and it is the multi's place in the order of the key's multis. "multi"
writes a value of its own; "cas" does so if the first node still has the version that it was read
with; "refused" sets all nodes but the last, whose check no version passes. A read gets the nodes
one after the other through one session.

Violated:
- "torn": a multi gave the nodes different versions, or its value was read at two of them;
- "half": a read got a node at a lower version than a node that it had got before;
- "forked": two multis have one version;
- "not-increasing": a multi has a version below that of one which was acknowledged, or was read,
  before it began;
- "stale": with a sync before each read, a read got a version below one that was acknowledged, or
  that another read returned, before it began; without, below one of its own session;
- "passed": a multi was acknowledged whose check no version passes;
- "phantom": a value that was read, though no multi wrote it, or it was refused, or it began later.

With the versions known this is linearizability of the key, each get a read of its own, and without
a sync what sessions promise: no order but that of the versions can explain the reads. Two gets of
one read may differ:
    p0 get a → version 3     p1 multi → version 4     p0 get b → version 4
Doubtful: no multi was read.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from checkers.conclusion import Findings
from checkers.look import decode
from checkers.numbering import overtaken
from checkers.phrasing import during, number, on_key, seconds, where
from harness.core.history import History, Pair
from harness.core.op import Kind, Op
from harness.core.rows import NEVER_NS
from harness.core.verdict import Verdict

MULTI, CAS, REFUSED = "multi", "cas", "refused"
READS = ("read", "final-read")
ABSENT = -1
"""Version, and value, of a node that does not exist."""
KINDS = ("torn", "half", "forked", "not-increasing", "stale", "passed", "phantom")


class ReadNodes(msgspec.Struct, frozen=True):
    """Look of a read: value and version of each node, in the order in which it got them."""

    values: list[int]
    versions: list[int]


@dataclass(slots=True)
class _WrittenKey:
    """What is known of one key."""

    writes: dict[int, Pair] = field(default_factory=dict)
    """Multi of each value."""
    versions: dict[int, tuple[int, Op]] = field(default_factory=dict)
    """Version of each value, with the op that shows it first."""
    values: dict[int, tuple[int, Op]] = field(default_factory=dict)
    """Value of each version, with the op that shows it first."""


class _ShownVersion(NamedTuple):
    """What shows a version, or a multi that has it."""

    begin_ns: int
    ack_ns: int
    op: Op
    version: int
    pair: Pair | None = None


class Multi:
    """Judges multis and the reads of the nodes that they write."""

    name = "multi"

    def __init__(self, *, synced: bool) -> None:
        """`synced`: a sync comes before each read, not only before a final one."""
        self.synced = synced

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs a read that got what a multi wrote."""
        found = Findings(self.name, kinds=KINDS)
        keys: dict[int | None, _WrittenKey] = {}
        for pair in history.calls(MULTI, CAS, REFUSED):
            key = keys.setdefault(pair.invoke.key, _WrittenKey())
            assert isinstance(pair.invoke.value, int), "a multi writes a number"
            key.writes[pair.invoke.value] = pair
            if pair.invoke.f == REFUSED and pair.kind is Kind.OK:
                text = (
                    f"multi {pair.invoke.value}{on_key(pair.invoke)} was acknowledged"
                    f"{where(pair.invoke)}, though its check cannot pass"
                )
                found.add_anomaly("passed", text, pair, key=pair.invoke.key)
        self._collect(found, history, keys)
        self._judge_order(found, history, keys)
        reads = [(*pair, decode(pair[1], ReadNodes)) for pair in history.answered(*READS)]
        for invoke, end, look in reads:
            _judge_read(
                found, history, keys.setdefault(invoke.key, _WrittenKey()), invoke, end, look
            )
        self._judge_fresh(found, history)
        seen = sum(ABSENT not in look.versions for *_, look in reads)
        known = sum(len(key.versions) for key in keys.values())
        return found.verdict(
            checked=seen,
            held=f"{number(known, 'multi')} of {number(len(keys), 'key')} whole and in order, in "
            f"{number(seen, 'read')}",
            nothing="no read got what a multi wrote",
            figures={"keys": len(keys), "multis": known, "reads": seen},
        )

    def _collect(
        self, found: Findings, history: History, keys: dict[int | None, _WrittenKey]
    ) -> None:
        """Learn the versions of values, and add those that contradict each other."""
        for end, value, version in _shown(history):
            key = keys.setdefault(end.key, _WrittenKey())
            at, first = key.versions.setdefault(value, (version, end))
            if at != version:
                text = (
                    f"multi {value}{on_key(end)} has version {at} in op #{first.index} and version "
                    f"{version} in op #{end.index}{where(end)}{during(history, end.time_ns)}"
                )
                found.add_anomaly("torn", text, first, end, key=end.key, value=value)
            other, before = key.values.setdefault(version, (value, end))
            if other != value:
                text = (
                    f"version {version}{on_key(end)} is multi {other} in op #{before.index} and "
                    f"multi {value} in op #{end.index}{where(end)}{during(history, end.time_ns)}"
                )
                found.add_anomaly("forked", text, before, end, key=end.key, value=value)

    def _judge_order(
        self, found: Findings, history: History, keys: dict[int | None, _WrittenKey]
    ) -> None:
        """Add multis below a version that was known before they began."""
        # A read shows that a version was there; it is taken to begin first of all.
        events = [
            _ShownVersion(0, end.time_ns, end, version) for end, _, version in _shown(history)
        ]
        for key in keys.values():
            for value, pair in key.writes.items():
                if value in key.versions:
                    op, version = pair.invoke, key.versions[value][0]
                    events.append(_ShownVersion(op.time_ns, NEVER_NS, op, version, pair))
        events.sort(key=lambda one: one.begin_ns)
        for before, at in overtaken(
            [one.begin_ns for one in events],
            [one.ack_ns for one in events],
            [one.op.key for one in events],
            [one.version for one in events],
        ):
            earlier, begun = events[before], events[at].op
            text = (
                f"{begun.f} {begun.value}{on_key(begun)}, op #{begun.index} begun at "
                f"{seconds(begun.time_ns)}{where(begun)}, has version {events[at].version}, and op "
                f"#{earlier.op.index} had shown version {earlier.version} at "
                f"{seconds(earlier.op.time_ns)}{during(history, begun.time_ns)}"
            )
            proof = (earlier.op, events[at].pair)
            found.add_anomaly("not-increasing", text, *proof, key=begun.key)

    def _judge_fresh(self, found: Findings, history: History) -> None:
        """Add reads below a version that was known before they began."""
        shown = [(end.time_ns, end, max(versions)) for end, _, versions in _answers(history)]
        begun = [
            (invoke.time_ns, invoke, end, decode(end, ReadNodes).versions)
            for invoke, end in history.answered(*READS)
        ]
        at = 0
        known: dict[object, tuple[int, Op]] = {}
        for begin_ns, invoke, end, versions in begun:
            while at < len(shown) and shown[at][0] < begin_ns:
                _, op, version = shown[at]
                for of in (op.key, (op.key, op.process)):
                    if version > known.get(of, (ABSENT, op))[0]:
                        known[of] = version, op
                at += 1
            fresh = self.synced or invoke.f == "final-read"
            least = known.get(invoke.key if fresh else (invoke.key, invoke.process))
            if least is None or versions[0] >= least[0]:
                continue
            version, before = least
            text = (
                f"op #{invoke.index} {invoke.f}{on_key(invoke)}{where(invoke)}, begun at "
                f"{seconds(begin_ns)}, got version {versions[0]}, and op #{before.index} had shown "
                f"version {version} at {seconds(before.time_ns)}{during(history, begin_ns)}"
            )
            found.add_anomaly("stale", text, before, invoke, end, key=invoke.key)


def _answers(history: History) -> Iterator[tuple[Op, list[int], list[int]]]:
    """Yield the acknowledgements of multis, and the reads, in order of their ends, each with the
    values and versions that it shows."""
    answered = [end for _, end in history.answered(MULTI, CAS, REFUSED, *READS)]
    for end in sorted(answered, key=lambda op: op.index):
        if end.f in READS:
            look = decode(end, ReadNodes)
            yield end, look.values, look.versions
        else:
            assert isinstance(end.value, tuple), "an acknowledged multi has its versions"
            value, *versions = end.value
            yield end, [value] * len(versions), versions


def _shown(history: History) -> Iterator[tuple[Op, int, int]]:
    """Yield each value and version that an answer shows, with its op."""
    for end, values, versions in _answers(history):
        for value, version in dict.fromkeys(zip(values, versions, strict=True)):
            if version != ABSENT:
                yield end, value, version


def _judge_read(
    found: Findings, history: History, key: _WrittenKey, invoke: Op, end: Op, look: ReadNodes
) -> None:
    """Add what is wrong with a read by itself."""
    got = f"op #{invoke.index} {invoke.f}{on_key(invoke)}{where(invoke)} got"
    when = f" at {seconds(end.time_ns)} (op #{end.index}){during(history, end.time_ns)}"
    highest = ABSENT
    for version in look.versions:
        if version < highest:
            text = f"{got} the nodes at versions {', '.join(map(str, look.versions))}{when}"
            found.add_anomaly("half", text, invoke, end, key=invoke.key)
            break
        highest = version
    for value in dict.fromkeys(look.values):
        if value == ABSENT:
            continue
        wrote = key.writes.get(value)
        if wrote is None:
            why = "which no multi wrote"
        elif wrote.invoke.f == REFUSED or wrote.kind is Kind.FAIL:
            why = f"though multi #{wrote.invoke.index} was refused"
        elif wrote.invoke.time_ns > end.time_ns:
            why = f"though multi #{wrote.invoke.index} began later"
        else:
            continue
        found.add_anomaly(
            "phantom", f"{got} {value}{when}, {why}", invoke, end, wrote, key=invoke.key
        )

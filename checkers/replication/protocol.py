"""Checks the rules of replication against the record of what replicas and ZooKeeper agreed on.

The record is the entry "protocol" of the run's "quiesce": facts in order, each a list of its name,
its time in ns, and what `Simulation.record` says of it. Only a simulated cluster, which
sees every write, leaves one. These are the invariants of the protocol; what clients
see of a breach, if anything, other checkers say.

Violated: a breach of one of `RULES`, each of which says what it looks for, or a healed cluster that
never came to rest ("stuck"). Doubtful: no record, or one without a fact.

That /quorum/last_part goes back is counted and no breach, in 18.16.1 too: an insert that took its
number first may be the last to be committed.
    p0 takes 4     p1 takes 5     part 0_5_5_0 reaches its quorum     part 0_4_4_0 reaches its
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from checkers.conclusion import Findings, anomaly, mapping_of, unjudged
from checkers.phrasing import number, seconds
from harness.core.history import History
from harness.core.op import Kind, Op
from harness.core.verdict import Verdict

SLACK_MS: Final = 3000
"""Slack for sessions, which may outlive their timeout by some ticks and an election."""
LOST: Final = "lost"
"""Name of the fact that an empty part took the place of one that no replica had any more."""

Fact: TypeAlias = list[Any]
Breach = tuple[int, str]
"""Time of a breach, and a sentence that describes it."""


class ProtocolRecord:
    """The facts of the record, in order."""

    def __init__(self, every: Sequence[Fact]) -> None:
        self.every = every
        self._by_name: dict[str, list[Fact]] = defaultdict(list)
        for fact in every:
            self._by_name[fact[0]].append(fact)

    def named(self, name: str) -> Sequence[Fact]:
        """Return the facts with this name."""
        return self._by_name.get(name, ())


class ReplicationRules:
    """INVALID for a breach of a rule, or if a healed cluster never came to rest."""

    name = "protocol"

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs a fact."""
        record = _record(history)
        if record is None:
            return unjudged(self.name, "there is no record")
        op, every = record
        facts = ProtocolRecord(every)
        found = Findings(self.name)
        for rule, check in RULES.items():
            _add(found, rule, check(facts), op)
        _add(found, "stuck", _stuck(op), op)
        held = f"{number(len(every), 'fact')}, all right"
        return found.verdict(
            checked=len(every),
            broken="broken: " + ", ".join(f"{rule} {n:,}" for rule, n in found.counts.items()),
            nothing=held,
            held=held,
            figures={
                "last_part_went_back": _went_back(facts),
                **({"lost_parts": len(lost)} if (lost := facts.named(LOST)) else {}),
            },
        )


def _add(found: Findings, rule: str, breaches: Sequence[Breach], op: Op) -> None:
    those = (anomaly(rule, text, op, time_ns=at) for at, text in breaches)
    found.add_anomalies(rule, those, len(breaches))


def facts_of(history: History) -> Sequence[Fact]:
    """Return the facts of a history's record; () if it has none."""
    found = _record(history)
    return () if found is None else found[1]


def versions_of(history: History) -> Sequence[str]:
    """Return the versions whose protocol the servers of a history's record follow; () if the record
    does not name them."""
    found = _record(history)
    return () if found is None else tuple(mapping_of(found[0]).get("versions") or ())


EVERY_REPLICA: Final = "all (multiple leaders Ok)"
"""What servers write instead of a leader's name since every replica leads (20.5)."""


def _record(history: History) -> tuple[Op, Sequence[Fact]] | None:
    for op in reversed(history.nemesis):
        if op.f == "quiesce" and op.kind is Kind.OK and isinstance(op.value, Mapping):
            facts = op.value.get("protocol")
            return (op, facts) if isinstance(facts, list) else None
    return None


def _stuck(op: Op) -> list[Breach]:
    pending = op.value.get("pending") if isinstance(op.value, Mapping) else None
    if not isinstance(pending, list):
        return []
    return [
        (op.time_ns, f"the healed cluster never came to rest: {why}")
        for why in pending
        if not str(why).startswith(("the run was stopped", "the cluster was not healed"))
    ]


def _durability(facts: ProtocolRecord) -> list[Breach]:
    """Return quorums that ended although fewer replicas than required have the part."""
    return [
        (
            at,
            f"the quorum of {part} ended at {seconds(at)} with {len(holders)} of {needed} replicas",
        )
        for name in ("ended", "parallel")
        for _, at, part, needed, holders in facts.named(name)
        if len(holders) < needed
    ]


def _last_part(facts: ProtocolRecord) -> list[Breach]:
    """Return quorums after which last_part was behind their part."""
    out: list[Breach] = []
    last: dict[str, int] = {}
    ended: dict[str, tuple[int, int]] = {}

    def compare() -> None:
        for partition, (at, block) in ended.items():
            if last.get(partition, -1) < block:
                text = f"the quorum of block {block} ended at {seconds(at)}, last_part is"
                out.append((at, f"{text} block {last.get(partition)} of partition {partition}"))
        ended.clear()

    for fact in facts.every:
        if fact[0] == "ended":
            compare()
            partition, block, *_ = str(fact[2]).split("_")
            ended[partition] = (fact[1], int(block))
        elif fact[0] == "last":
            last[fact[2]] = fact[3]
    compare()
    return out


def _went_back(facts: ProtocolRecord) -> int:
    """Return how often last_part took a lower block number."""
    last: dict[str, int] = {}
    back = 0
    for _, _, partition, block in facts.named("last"):
        back += block < last.get(partition, -1)
        last[partition] = block
    return back


def _places(facts: ProtocolRecord) -> list[Breach]:
    """Return replicas that point below the log's first entry and are not marked as lost."""
    return [
        (
            at,
            f"{replica}, {'active' if active else 'inactive'}, points at {pointer} at "
            f"{seconds(at)}, the log begins at {first}, and it is not marked as lost",
        )
        for _, at, first, places in facts.named("places")
        for replica, (pointer, active, lost) in places.items()
        if pointer < first and not lost
    ]


def _pointers(facts: ProtocolRecord) -> list[Breach]:
    """Return pointers that moved by more or fewer entries than were copied, without a lost
    replica's clone."""
    return [
        (at, f"{replica}'s pointer went from {came} to {to} at {seconds(at)}, {copied} copied")
        for _, at, replica, came, to, copied, lost in facts.named("pointer")
        if to - came != copied and not lost
    ]


def _checksums(facts: ProtocolRecord) -> list[Breach]:
    """Return parts of one name with different rows. An empty part that takes the place of one that
    nobody had any more begins anew."""
    first: dict[str, tuple[str, int]] = {}
    out: list[Breach] = []
    for what, at, replica, name, *hashed in facts.every:
        if what == LOST:
            first.pop(name, None)
        if what != "part":
            continue
        (rows,) = hashed
        other, known = first.setdefault(name, (replica, rows))
        if known != rows:
            out.append((at, f"part {name} of {replica} differs from {other}'s at {seconds(at)}"))
    return out


def _leaders(facts: ProtocolRecord) -> list[Breach]:
    """Return merges that were chosen by a replica other than the leader, if there is one."""
    return [
        (at, f"{by} chose the merge {name} at {seconds(at)}, but {leader or 'nobody'} leads")
        for _, at, name, by, leader in facts.named("merge")
        if leader not in (by, EVERY_REPLICA)
    ]


def _sessions(facts: ProtocolRecord) -> list[Breach]:
    """Return sessions that lived although they were silent for longer than their timeout."""
    return [
        (at, f"a session was silent for {silent / 1000:.1f} s of {allowed / 1000:.1f} s and lived")
        for _, at, silent, allowed in facts.named("session")
        if silent > allowed + SLACK_MS
    ]


RULES: Mapping[str, Callable[[ProtocolRecord], list[Breach]]] = {
    "quorum-too-small": _durability,
    "last-part": _last_part,
    "log-pointer": _places,
    "pointer-step": _pointers,
    "checksums": _checksums,
    "no-leader": _leaders,
    "session": _sessions,
}

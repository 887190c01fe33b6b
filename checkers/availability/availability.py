"""Checks which servers answer during an outage: which calls need ZooKeeper, and which do not.

A call is judged if it ended, and if the run recorded its replica's ensemble of ZooKeeper. With the
times of faults as `checkers.availability.downtime` defines them:

near        a fault may affect a call from its invocation until `recover_s` after its end; it is
            near a replica that it names
alone       a majority of ZooKeeper was killed, `settle_s` before the call began and until after it
            had ended
served      less than half of ZooKeeper is down, in faults that were in force `recover_s` before the
            call and during all of it, and the replica may connect to a server that runs

Violated: a plain read on a replica that no fault is near was not answered ("unanswered-read"),
whatever ZooKeeper does; an insert was acknowledged or a sequentially consistent read answered while
its replica was alone ("served-without-zookeeper"); an insert on a replica that is served, and that
no fault is near, was not acknowledged ("refused-insert"), however many other replicas are dead.
Doubtful: a run in which no call tested any of this.

A call near a fault without nodes, such as a partition, is not judged, and "alone" must not begin
with the kill: a session outlives its server for some time, so that this is right:
    kill zk1 zk2 at 1.0 s     insert 7 on ch1 at 1.1 s → ok
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec import UNSET

from checkers.availability.downtime import Outage, RecentOutages, outages
from checkers.conclusion import Findings, anomaly
from checkers.phrasing import during, listed, number, on_key, seconds, where
from checkers.quiescence import states_at_rest
from harness.core.history import History, Pair
from harness.core.op import Kind
from harness.core.verdict import Anomaly, Verdict

PLAIN, SEQUENTIAL, INSERT = "read", "read-sequential", "insert"

CLAIMS: Mapping[str, tuple[str, str]] = {
    "plain-reads": ("plain read", "answered"),
    "plain-reads-alone": ("", "without ZooKeeper"),
    "inserts": ("insert", "accepted"),
    "inserts-short": ("", "while another replica was down"),
    "inserts-minority": ("", "while a minority of ZooKeeper was down"),
    "refused-alone": ("insert or sequential read", "refused without ZooKeeper"),
}
"""Noun, or "" for a part of the calls above, and predicate of the calls that support a claim."""


@dataclass(frozen=True, slots=True)
class Member:
    """A replica's view of ZooKeeper, as the run observed it at its end."""

    keepers: frozenset[str]
    ensemble: int


class Availability:
    """Checks the calls whose circumstances are known."""

    name = "availability"

    def __init__(self, *, settle_s: float = 2.0, recover_s: float = 20.0) -> None:
        self._settle_ns = round(settle_s * 1e9)
        self._recover_ns = round(recover_s * 1e9)

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs calls that test a claim."""
        members = _members(history)
        recent = RecentOutages(outages(history), self._recover_ns)
        counts: Counter[str] = Counter()
        found = Findings(self.name)
        for pair in history.calls(PLAIN, SEQUENTIAL, INSERT):
            if pair.end is None or pair.invoke.node is None:
                continue
            member = members.get(pair.invoke.node)
            if member is None:
                continue
            near = recent.near(pair.invoke.time_ns, pair.end.time_ns)
            claims, wrong = self._judged(pair, near, member)
            counts.update(claims)
            for kind in wrong:
                found.add_anomalies(kind, _witness(history, kind, pair))
        checked = sum(counts[name] for name in ("plain-reads", "inserts", "refused-alone"))
        return found.verdict(
            checked=checked + sum(found.counts.values()),
            broken="; ".join(number(count, kind) for kind, count in sorted(found.counts.items())),
            nothing="no call tested a claim" if members else "the run did not record its replicas",
            held=_supported(counts),
            figures={**counts},
        )

    def _judged(
        self, pair: Pair, recent: Sequence[Outage], member: Member
    ) -> tuple[list[str], list[str]]:
        """Return the claims that the call supports, and the anomalies that it is. `recent` are the
        outages that may affect it."""
        assert pair.end is not None, "only calls that ended are judged"
        invoke, ok = pair.invoke, pair.kind is Kind.OK
        begin_ns, end_ns = invoke.time_ns, pair.end.time_ns
        if any(not f.nodes for f in recent):
            return [], []
        alone = self._alone(recent, begin_ns, end_ns, member)
        near = any(f.strikes(str(invoke.node)) for f in recent)
        if invoke.f == PLAIN and not near:
            if not ok:
                return [], ["unanswered-read"]
            return ["plain-reads", *(["plain-reads-alone"] if alone else [])], []
        if alone and invoke.f in (INSERT, SEQUENTIAL):
            return ([], ["served-without-zookeeper"]) if ok else (["refused-alone"], [])
        if invoke.f == INSERT and not near and self._serves(recent, begin_ns, end_ns, member):
            if not ok:
                return [], ["refused-insert"]
            dead = {n for f in recent if f.spans(begin_ns, end_ns, 0) for n in f.nodes}
            short = ["inserts-short"] if any(n.startswith("ch") for n in dead) else []
            minority = ["inserts-minority"] if any(n.startswith("zk") for n in dead) else []
            return ["inserts", *short, *minority], []
        return [], []

    def _alone(self, recent: Sequence[Outage], begin_ns: int, end_ns: int, member: Member) -> bool:
        """Return whether a majority of ZooKeeper was dead during the whole call."""
        dead = {
            node
            for fault in recent
            if fault.name.startswith("kill") and fault.spans(begin_ns, end_ns, self._settle_ns)
            for node in fault.nodes
            if node.startswith("zk")
        }
        return 2 * (member.ensemble - len(dead)) <= member.ensemble

    def _serves(self, recent: Sequence[Outage], begin_ns: int, end_ns: int, member: Member) -> bool:
        """Return whether ZooKeeper has a majority that this replica can connect to, and no recent
        fault."""
        down: set[str] = set()
        for fault in recent:
            keepers = {node for node in fault.nodes if node.startswith("zk")}
            if not keepers:
                continue
            if not fault.spans(begin_ns, end_ns, self._recover_ns):
                return False
            down |= keepers
        return 2 * len(down) < member.ensemble and bool(member.keepers - down)


def _members(history: History) -> dict[str, Member]:
    """Return the replicas, as the run observed them at rest."""
    seen = states_at_rest(history)
    return {
        node: Member(frozenset(state.keepers), state.ensemble)
        for node, state in (seen[1].items() if seen is not None else ())
        if state.keepers is not UNSET and state.ensemble is not UNSET
    }


def _supported(counts: Mapping[str, int]) -> str:
    supported = [
        f"{number(counts[name], noun) if noun else f'{counts[name]:,} of them'} {text}"
        for name, (noun, text) in CLAIMS.items()
        if counts.get(name)
    ]
    return listed(supported, most=len(CLAIMS))


_WHY = {
    "unanswered-read": "a plain read needs no ZooKeeper and no other replica",
    "served-without-zookeeper": "there was no majority of ZooKeeper to ask",
    "refused-insert": "ZooKeeper had a majority, and no fault was near this replica",
}


def _witness(history: History, kind: str, pair: Pair) -> Iterator[Anomaly]:
    invoke, end = pair.invoke, pair.end
    assert end is not None, "only calls that ended are judged"
    ended = f"ended {end.kind}" + (f" ({end.error})" if end.error else "")
    yield anomaly(
        kind,
        f"op #{invoke.index} {invoke.f}{on_key(invoke)}{where(invoke)} at "
        f"{seconds(invoke.time_ns)} {ended}, yet {_WHY[kind]}{during(history, invoke.time_ns)}",
        pair,
        key=invoke.key,
        time_ns=invoke.time_ns,
    )

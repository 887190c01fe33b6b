"""Checks rows written through a Distributed table: on the right shards, as often as they should
be.

Every insert writes one row of its value to each shard. The final reads are of the local tables,
and return -1 - value for a row of another shard; the last one of each replica counts.

Violated, of a value on a shard:
lost          acknowledged, and on no replica of the shard
missing-copy  with `every_copy`, on some replicas and not on others, if it was acknowledged or the
              tables replicate among themselves
duplicate     more than once on a replica, or without `every_copy` on the shard
phantom       on a replica, though it was refused or nobody tried it
misplaced     on a replica of another shard
not-placed    with `placed`, acknowledged, and right afterwards not on one replica of the shard, or
              not on each; a replica that did not answer may have it

Doubtful: a run that did not record its shards or had not come to rest, a replica without a final
read, no acknowledged insert, and with `placed` none that was looked for at once. Before rest
nothing is lost or lacks a copy.

Replicas that differ in a value of unknown outcome are counted (`unknown_differs`), and wrong only
where the tables replicate, because otherwise the server sends each replica a file of its own:
    insert 1 → info     final-read on ch1 → [1]     final-read on ch2 → []
At rest everything has been sent, so that a server that acknowledges before it sends is seen only by
`placed`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import msgspec
from msgspec import UNSET

from checkers.conclusion import Findings, anomaly
from checkers.look import decode
from checkers.phrasing import during, listed, number, seconds, where
from checkers.quiescence import quiescence_of, states_at_rest
from checkers.sets.key_sets import FINAL_READ, INSERT, insert_value, read_values
from harness.core.history import History, Pair
from harness.core.op import Kind
from harness.core.verdict import Anomaly, Verdict


class Placed(StrEnum):
    """Places where the rows of an acknowledged insert must be as soon as it is acknowledged."""

    LATER = "later"
    """Nowhere: they may still be in a file of the replica that got them."""
    ONE = "one"
    """One replica of each shard."""
    EACH = "each"
    """Every replica of each shard."""


class PlacedInsert(msgspec.Struct, frozen=True):
    """End of an insert that was looked for right after its acknowledgement."""

    value: int
    copies: dict[str, int] = {}
    """Number of times that each replica that answered has the value."""


@dataclass(frozen=True, slots=True)
class WrongShard:
    """A wrong count of one value on one shard."""

    kind: str
    value: int
    shard: int
    said: str


class Distributed:
    """Judges the final reads of local tables against the inserts, and with `placed` what the local
    tables had right after an acknowledgement."""

    name = "distributed"

    def __init__(
        self, *, every_copy: bool, replicated: bool, placed: Placed = Placed.LATER
    ) -> None:
        self._every_copy = every_copy
        self._replicated = replicated
        self._placed = placed

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs rest, an acknowledged value, and a final read of every
        replica."""
        shards, rest = replicas_by_shard(history), quiescence_of(history)
        finals = _finals(history)
        inserts = inserts_by_value(history)
        silent = [node for nodes in shards.values() for node in nodes if node not in finals]
        found = Findings(self.name)
        found.doubts += _doubts(shards, silent, inserts, rest.pending)
        wrong: list[WrongShard] = []
        differs = 0
        for shard, nodes in shards.items():
            counts = [finals[node] for node in nodes if node in finals]
            values = sorted({*inserts, *(v for count in counts for v in count)})
            for value in values if len(counts) == len(nodes) else ():
                here = [count[value] for count in counts]
                kind = inserts[value].kind if value in inserts else None
                wrong += self._judged(value, shard, kind, here)
                unknown = kind is Kind.INFO and self._every_copy
                differs += unknown and bool(min(here)) != bool(max(here))
        looked, absent = self._at_once(history, shards)
        wrong += absent
        if self._placed is not Placed.LATER and not looked:
            found.add_doubt("no acknowledged insert was looked for at once")
        late = {"lost", "missing-copy"} if not rest.reached else set()
        for one in wrong:
            if one.kind not in late:
                found.add_anomalies(one.kind, _witness(history, one, inserts, shards))
        acknowledged = sum(pair.kind is Kind.OK for pair in inserts.values())
        kinds = ", ".join(f"{kind}: {count}" for kind, count in sorted(found.counts.items()))
        return found.verdict(
            checked=acknowledged * len(shards),
            broken=f"{kinds} (of {acknowledged:,} acknowledged)",
            held=f"{number(acknowledged, 'acknowledged value')} where they belong on "
            f"{number(len(shards), 'shard')}",
            figures={
                "acknowledged": acknowledged,
                "info": sum(pair.kind is Kind.INFO for pair in inserts.values()),
                "unknown_differs": differs,
                "looked_at_once": looked,
            },
        )

    def _at_once(
        self, history: History, shards: Mapping[int, Sequence[str]]
    ) -> tuple[int, Sequence[WrongShard]]:
        """Return on how many shards an acknowledged value was looked for at once, and where it was
        not."""
        looked, out = 0, list[WrongShard]()
        for value, pair in (
            inserts_by_value(history).items() if self._placed is not Placed.LATER else ()
        ):
            if pair.end is None or pair.kind is not Kind.OK or isinstance(pair.end.value, int):
                continue
            copies = decode(pair.end, PlacedInsert).copies
            for shard, nodes in shards.items():
                counts = {node: copies[node] for node in nodes if node in copies}
                least = 1 if self._placed is Placed.EACH else len(nodes)
                if len(counts) < least:
                    continue  # One that did not answer may have it.
                looked += 1
                empty = [node for node, count in counts.items() if not count]
                if len(empty) == len(counts) or (empty and self._placed is Placed.EACH):
                    said = f"acknowledged, and not on {listed(empty)} right afterwards"
                    out.append(WrongShard("not-placed", value, shard, said))
        return looked, out

    def _judged(
        self, value: int, shard: int, kind: Kind | None, here: Sequence[int]
    ) -> Sequence[WrongShard]:
        """Return what is wrong with a value on a shard. `here` is its count on each replica of the
        shard."""
        times = "+".join(map(str, here))
        if value < 0:
            return (WrongShard("misplaced", -1 - value, shard, "belongs to another shard"),)
        if kind is None or (kind is Kind.FAIL and any(here)):
            return (WrongShard("phantom", value, shard, f"refused or never tried, found {times}"),)
        if kind is Kind.OK and not any(here):
            return (WrongShard("lost", value, shard, "on no replica"),)
        if max(here) > 1 or (not self._every_copy and sum(here) > 1):
            return (WrongShard("duplicate", value, shard, f"found {times} times"),)
        must = kind is Kind.OK or self._replicated
        if self._every_copy and must and any(here) and not all(here):
            return (WrongShard("missing-copy", value, shard, f"found {times} times"),)
        return ()


def inserts_by_value(history: History) -> dict[int, Pair]:
    """Return the inserts by value."""
    return {insert_value(pair.invoke): pair for pair in history.calls(INSERT)}


def _finals(history: History) -> dict[str, Counter[int]]:
    """Return the last final read of each replica."""
    return {str(end.node): Counter(read_values(end)) for _, end in history.answered(FINAL_READ)}


def replicas_by_shard(history: History) -> dict[int, list[str]]:
    """Return the replicas of each shard, as the run observed them at rest."""
    out: dict[int, list[str]] = {}
    seen = states_at_rest(history)
    for node, state in sorted(seen[1].items()) if seen is not None else ():
        if state.shard is not UNSET:
            out.setdefault(state.shard, []).append(node)
    return out


def _doubts(
    shards: Mapping[int, Sequence[str]],
    silent: Sequence[str],
    inserts: Mapping[int, Pair],
    pending: Sequence[str] | None,
) -> list[str]:
    doubts = [] if shards else ["the run did not tell its shards"]
    if silent:
        doubts.append(f"no final read on {listed(silent)}")
    if not any(pair.kind is Kind.OK for pair in inserts.values()):
        doubts.append("no insert was acknowledged")
    if pending is None or pending:
        doubts.append(f"not at rest: {listed(pending or ('nothing was said',))}")
    return doubts


def _witness(
    history: History,
    one: WrongShard,
    inserts: Mapping[int, Pair],
    shards: Mapping[int, Sequence[str]],
) -> Iterator[Anomaly]:
    nodes = shards[one.shard]
    reads = {p.invoke.node: p.end for p in history.calls(FINAL_READ) if p.end}
    steps: list[str] = []
    pair = inserts.get(one.value)
    if pair is not None:
        ended = "never ended" if pair.end is None else f"ended {pair.end.kind}"
        why = f" ({pair.end.error})" if pair.end and pair.end.error else ""
        steps.append(
            f"op #{pair.invoke.index} insert {one.value}{where(pair.invoke)} began at "
            f"{seconds(pair.invoke.time_ns)} and {ended}{why}"
            f"{during(history, pair.invoke.time_ns)}"
        )
    yield anomaly(
        one.kind,
        f"value {one.value} on shard {one.shard} ({' '.join(nodes)}): {one.said}",
        *(reads.get(node) for node in nodes),
        None if pair is None else pair.invoke,
        value=one.value,
        time_ns=pair.invoke.time_ns if pair is not None else 0,
        steps=steps,
    )

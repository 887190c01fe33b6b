"""Finds the outcome of every value of a set: lost, stale, never read, duplicated, phantom, or
correct.

Modelled on Jepsen's `set-full`, with multiplicity and values that nobody inserted as well. Each key
is a set of its own. Several tries of one value are one insert, which is acknowledged once its first
try ended ok; a read is one that was answered. Times are closed intervals: a read is *after* an
acknowledgement if it was invoked at a later nanosecond. Of an acknowledged value:

lost         no final read returned it, though every replica answered one after the acknowledgement
unaccounted  no final read returned it, and some replica answered none after the acknowledgement
missed       some read after the acknowledgement did not return it
stale        missed, and not lost; for as long as from the acknowledgement to the invocation of the
             last read that missed it

And of any value that a read returned:

duplicate    some read returned it more than once
phantom      some read returned it, and had ended before a try of it that was not refused began

Violated: a lost, duplicate or phantom value; under the linearizable promise also a stale one.
Doubtful: no insert was acknowledged or no read answered, an unaccounted value, and under the
eventual promise a lost value if the cluster had not come to rest, because it may still appear. A
value whose only promised copies were on disks that faults struck is not lost (`checkers.taken`).

An insert of unknown outcome may take effect at any time after its invocation, or never, so that
neither its absence nor its late appearance is an anomaly. And a value is not lost because a final
read lacks it, as long as another has it: that the replicas differ is for `convergence` to say, and
the value is stale.
    insert 1 → ok     final-read on ch1 → []     final-read on ch2 → [1]
"""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import TypeAlias

from checkers.conclusion import Findings, anomaly
from checkers.phrasing import (
    FEW,
    during,
    insert_acknowledged,
    listed,
    milliseconds,
    number,
    on_key,
    read_answered,
    seconds,
    where,
)
from checkers.quiescence import quiescence_of
from checkers.sets.key_sets import AnsweredRead, InsertOutcome, KeySet, key_sets
from checkers.sets.set_findings import KeyFindings, Missed, Seen, examined
from checkers.taken import copies_of, not_promised, taken_of
from harness.core.history import History
from harness.core.op import Json
from harness.core.ranges import Quorum
from harness.core.verdict import Anomaly, Status, Verdict

NAME = "set-full"
OK, FAIL, INFO = range(3)
"""Positions of the ends in the counts of inserts."""


ExaminedKeys: TypeAlias = Sequence[tuple[KeySet, KeyFindings]]


class SetFull:
    """Judges every key as a set of unique values, under the linearizable or the eventual promise.
    Linear in the number of values read."""

    name = NAME

    def __init__(self, *, linearizable: bool, duplicates: bool = True, copies: Quorum = 1) -> None:
        """Create a checker. With `duplicates` a value that is returned twice breaks the promise;
        otherwise another checker judges multiplicity. `copies` is the number of replicas that are
        promised to have an acknowledged value, which faults of disks may take."""
        self.linearizable = linearizable
        self.duplicates = duplicates
        self.copies = copies

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs an acknowledged value, an answered read, and a final read
        that accounts for every acknowledged value."""
        keys, rest = key_sets(history), quiescence_of(history)
        taken, copies = taken_of(history), copies_of(self.copies, len(rest.nodes))
        examined_keys = [(key, examined(key, rest, taken, copies)) for key in keys]
        of_keys = [findings for _, findings in examined_keys]
        # A value that no replica shows may still appear, unless the cluster was at rest. In a
        # history that does not record rest, "final-read" implies it.
        eventual = {"duplicate", "phantom"} | (set() if rest.pending else {"lost"})
        if not self.duplicates:
            eventual -= {"duplicate"}
        breaking = eventual | {"lost", "stale"} if self.linearizable else eventual
        counts = _counts(of_keys)
        found = Findings(self.name, kinds=[k for k in counts if k in breaking], smallest_first=True)
        found.doubts += _doubts(keys, of_keys, rest.pending or ())
        witnesses = {"duplicate": _duplicates, "phantom": _phantoms, "stale": _stale, "lost": _lost}
        for kind, first in witnesses.items():
            if kind in breaking and counts[kind]:
                found.add_anomalies(kind, first(history, examined_keys), counts[kind])
        gone = [name for findings in of_keys for name in findings.taken.values()]
        figures = _figures(keys, of_keys)
        acknowledged = int(str(figures["acknowledged"]))
        late = (
            f"; {figures['stale']:,} missing from some reads at first" if figures["stale"] else ""
        )
        kept = Status.UNKNOWN if found.doubts else Status.VALID
        figures |= {"not_promised": len(gone)} if gone else {}
        figures["anomalies"] = {**found.counts}
        figures["eventual"] = (Status.INVALID if any(counts[k] for k in eventual) else kept).value
        figures["doubts"] = list(found.doubts)
        return found.verdict(
            checked=acknowledged,
            broken=f"{_described(found.counts)} (of {acknowledged:,} acknowledged)",
            held=f"{number(acknowledged, 'acknowledged value')}, none lost{late}",
            after=not_promised(gone),
            figures=figures,
        )


def _counts(found: Sequence[KeyFindings]) -> dict[str, int]:
    """Return the number of values of each kind of anomaly, whether or not it breaks the promise."""
    return {
        "lost": sum([findings.lost_count for findings in found]),
        "duplicate": sum([len(findings.found.duplicates) for findings in found]),
        "phantom": sum([len(findings.found.phantoms) for findings in found]),
        "stale": sum([len(findings.stale_ns) for findings in found]),
    }


def _duplicates(history: History, keys: ExaminedKeys) -> Iterator[Anomaly]:
    return _in_reads(
        history, "duplicate", [(k, one) for k, found in keys for one in found.duplicates]
    )


def _phantoms(history: History, keys: ExaminedKeys) -> Iterator[Anomaly]:
    return _in_reads(history, "phantom", [(k, one) for k, found in keys for one in found.phantoms])


def _in_reads(
    history: History, kind: str, seens: Sequence[tuple[KeySet, Seen]]
) -> Iterator[Anomaly]:
    """Return values that reads must not contain, or only once, the first read first."""
    for key, seen in sorted(seens, key=lambda one: one[1].read.end.index):
        yield _wrong_in_read(history, kind, key, seen)


def _stale(history: History, keys: ExaminedKeys) -> Iterator[Anomaly]:
    """Return the first stale values, and the longest stale one, as many as a verdict shows."""
    stale = [(key, missed) for key, findings in keys for missed in findings.stale]
    stale.sort(key=lambda one: one[1].first.invoke.index)
    longest = max(stale, key=lambda one: one[1].stale_ns)
    first = stale[: FEW - 1]
    for key, missed in first if longest in first else [*first, longest]:
        yield _stale_value(history, key, missed)


def _lost(history: History, keys: ExaminedKeys) -> Iterator[Anomaly]:
    lost = [(key, *one) for key, findings in keys for one in findings.lost]
    for key, insert, reads in sorted(lost, key=lambda one: one[1].invoke.index):
        yield _lost_value(history, key, insert, reads)


def _lost_value(
    history: History, key: KeySet, insert: InsertOutcome, reads: tuple[AnsweredRead, ...]
) -> Anomaly:
    ack = insert.ack
    assert ack is not None, "only an acknowledged value can be lost"
    # One final read of each replica proves it; take the latest.
    by_node = {read.invoke.node: read for read in reads}
    shown = sorted(by_node.values(), key=lambda read: read.invoke.index)
    lacks = f"without {insert.value}"
    return anomaly(
        "lost",
        f"value {insert.value}{on_key(ack)}, op #{ack.index} ok at {seconds(ack.time_ns)}"
        f"{where(ack)}{during(history, ack.time_ns)}",
        ack,
        *(op for read in shown for op in (read.invoke, read.end)),
        key=key.key,
        value=insert.value,
        time_ns=ack.time_ns,
        steps=(
            insert_acknowledged(history, insert.value, ack),
            *(read_answered(history, read.invoke, read.end, lacks) for read in shown),
        ),
    )


def _stale_value(history: History, key: KeySet, missed: Missed) -> Anomaly:
    insert, ack = missed.insert, missed.insert.ack
    assert ack is not None, "only an acknowledged value can be missed"
    read = missed.last
    lacks = f"without {insert.value}"
    return anomaly(
        "stale",
        f"value {insert.value}{on_key(ack)}, op #{ack.index} ok at {seconds(ack.time_ns)}"
        f"{where(ack)}, is missing from op #{read.invoke.index} {read.invoke.f}"
        f"{where(read.invoke)}, begun {milliseconds(missed.stale_ns)} later"
        f"{during(history, read.invoke.time_ns)}",
        *(ack, read.invoke, read.end),
        key=key.key,
        value=insert.value,
        time_ns=missed.first.invoke.time_ns,
        steps=(
            insert_acknowledged(history, insert.value, ack),
            read_answered(history, read.invoke, read.end, lacks),
        ),
    )


def _wrong_in_read(history: History, kind: str, key: KeySet, seen: Seen) -> Anomaly:
    read, insert = seen.read, key.inserts.get(seen.value)
    return anomaly(
        kind,
        f"value {seen.value}{on_key(read.invoke)} in op #{read.end.index} {read.end.f}"
        f"{where(read.end)} at {seconds(read.end.time_ns)}: {seen.why}"
        f"{during(history, read.end.time_ns)}",
        *(read.invoke, read.end, None if insert is None else insert.invoke),
        key=key.key,
        value=seen.value,
        time_ns=read.end.time_ns,
        steps=(read_answered(history, read.invoke, read.end, f"with {seen.value}: {seen.why}"),),
    )


def _doubts(
    keys: Sequence[KeySet], found: Sequence[KeyFindings], pending: Sequence[str]
) -> list[str]:
    """Return the reasons against VALID."""
    doubts: list[str] = []
    if not any(key.found.ends()[OK] for key in keys):
        doubts.append("no insert was acknowledged")
    if not any(key.found.reads_count() for key in keys):
        doubts.append("no read was answered")
    unaccounted = [value for findings in found for value in findings.unaccounted]
    if unaccounted:
        doubts.append(
            f"{number(len(unaccounted), 'acknowledged value')} in no final read, and not every "
            f"replica answered one: {listed(unaccounted)}"
        )
    if pending and any(findings.lost_count for findings in found):
        doubts.append(f"not at rest before the final reads: {listed(pending)}")
    return doubts


def _figures(keys: Sequence[KeySet], found: Sequence[KeyFindings]) -> dict[str, Json]:
    by_key = [key.found.ends() for key in keys]
    ends = [sum([of_key[kind] for of_key in by_key]) for kind in (OK, FAIL, INFO)]
    stale_ms = [stale_ns / 1e6 for findings in found for stale_ns in findings.stale_ns]
    counted = [findings.found for findings in found]
    lost = sum([findings.lost_count for findings in found])
    return {
        "attempts": sum(ends),
        "acknowledged": ends[OK],
        "refused": ends[FAIL],
        "info": ends[INFO],
        "info_appeared": sum([one.appeared for one in counted]),
        "reads_ok": sum([key.found.reads_count() for key in keys]),
        "final_reads_ok": sum([len(key.found.finals()) for key in keys]),
        "stale": len(stale_ms),
        "stale_reads": sum([one.stale_reads for one in counted]),
        "stale_ms_max": max(stale_ms, default=None),
        "stale_ms_median": median(stale_ms) if stale_ms else None,
        "missed": sum([len(one.missed) for one in counted]),
        "lost": lost,
        "unaccounted": sum([len(one.unaccounted) for one in counted]),
        "never_read": sum([one.never_read for one in counted]),
        "duplicated": sum([len(one.duplicates) for one in counted]),
        "phantom": sum([len(one.phantoms) for one in counted]),
    }


_PHRASES = {
    "lost": ("acknowledged value", "missing from the final read"),
    "stale": ("acknowledged value", "missing from reads begun after the acknowledgement"),
    "duplicate": ("value", "returned more than once by one read"),
    "phantom": ("value", "read though refused, never tried or not yet begun"),
}


def _described(counts: Mapping[str, int]) -> str:
    """Return the number of anomalies of each kind in words."""
    return "; ".join(
        f"{number(count, noun)} {'is' if count == 1 else 'are'} {text}"
        for kind, (noun, text) in _PHRASES.items()
        if (count := counts.get(kind, 0))
    )

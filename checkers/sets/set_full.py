"""Finds the outcome of every value of a set: lost, stale, never read, duplicated, phantom, or
correct.

Modelled on Jepsen's `set-full`, with multiplicity and values that nobody inserted as well.
`checkers.sets.set_findings` defines the outcomes.
"""

from collections.abc import Mapping, Sequence
from statistics import median

from checkers.conclusion import conclude
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
from checkers.sets.set_findings import Findings, Missed, Seen, examined
from checkers.taken import copies_of, not_promised, taken_of
from harness.core.history import History
from harness.core.op import Json
from harness.core.ranges import Quorum
from harness.core.verdict import Anomaly, Verdict

NAME = "set-full"
OK, FAIL, INFO = range(3)
"""Positions of the ends in the counts of inserts."""


class SetFull:
    """Judges every key as a set of unique values.

    `linearizable`: stale reads break the promise; otherwise the promise is eventual, and staleness
    is only a figure. Lost, duplicated and phantom values break every promise, except that under the
    eventual promise nothing counts as lost if the run recorded that the cluster had not come to
    rest. Linear in the number of values read.
    """

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
        found = [(key, examined(key, rest, taken, copies)) for key in keys]
        # A value that no replica shows may still appear, unless the cluster was at rest. In a
        # history that does not record rest, "final-read" implies it.
        eventual = {"duplicate", "phantom"} | (set() if rest.pending else {"lost"})
        if not self.duplicates:
            eventual -= {"duplicate"}
        breaking = eventual | {"lost", "stale"} if self.linearizable else eventual
        counts = _counts([findings for _, findings in found])
        doubts = _doubts(keys, found, rest.pending or ())
        broken = {kind: counts[kind] for kind in counts if kind in breaking}
        anomalies = _anomalies(history, found, breaking)
        gone = [name for _, findings in found for name in findings.taken.values()]
        figures = _figures(keys, [findings for _, findings in found])
        figures |= {"not_promised": len(gone)} if gone else {}
        figures["anomalies"] = {**broken}
        figures["eventual"] = conclude(any(counts[kind] for kind in eventual), doubts=doubts).value
        figures["doubts"] = list(doubts)
        return Verdict(
            checker=self.name,
            status=conclude(anomalies, doubts=doubts),
            summary=_summary(broken, doubts, figures) + not_promised(gone),
            checked=int(str(figures["acknowledged"])),
            anomalies=anomalies,
            figures=figures,
        )


def _counts(found: Sequence[Findings]) -> dict[str, int]:
    """Return the number of values of each kind of anomaly, whether or not it breaks the promise."""
    return {
        "lost": sum([findings.lost_count for findings in found]),
        "duplicate": sum([len(findings.found.duplicates) for findings in found]),
        "phantom": sum([len(findings.found.phantoms) for findings in found]),
        "stale": sum([len(findings.stale_ns) for findings in found]),
    }


def _anomalies(
    history: History, found: Sequence[tuple[KeySet, Findings]], kinds: set[str]
) -> tuple[Anomaly, ...]:
    """Return the first anomalies of each kind, at most FEW, and the longest of the stale ones.
    Those with the fewest ops come first."""
    out: list[Anomaly] = []
    for kind in ("duplicate", "phantom"):
        seens = [
            (key, seen)
            for key, findings in found
            for seen in (findings.duplicates if kind == "duplicate" else findings.phantoms)
            if kind in kinds
        ]
        seens.sort(key=lambda one: one[1].read.end.index)
        out += [_seen_anomaly(history, kind, key, seen) for key, seen in seens[:FEW]]
    if "stale" in kinds:
        stale = [(key, missed) for key, findings in found for missed in findings.stale]
        stale.sort(key=lambda one: one[1].first.invoke.index)
        longest = max(stale, key=lambda one: one[1].stale_ns, default=None)
        first = stale[: FEW - 1]
        shown = first if longest is None or longest in first else [*first, longest]
        out += [_stale_anomaly(history, key, missed) for key, missed in shown]
    if "lost" in kinds:
        lost = [(key, *one) for key, findings in found for one in findings.lost]
        lost.sort(key=lambda one: one[1].invoke.index)
        out += [_lost_anomaly(history, key, insert, reads) for key, insert, reads in lost[:FEW]]
    return tuple(sorted(out, key=lambda anomaly: len(anomaly.ops)))


def _lost_anomaly(
    history: History, key: KeySet, insert: InsertOutcome, reads: tuple[AnsweredRead, ...]
) -> Anomaly:
    ack = insert.ack
    assert ack is not None, "only an acknowledged value can be lost"
    # One final read of each replica proves it; take the latest.
    by_node = {read.invoke.node: read for read in reads}
    shown = sorted(by_node.values(), key=lambda read: read.invoke.index)
    lacks = f"without {insert.value}"
    indices = {ack.index} | {op.index for read in shown for op in (read.invoke, read.end)}
    return Anomaly(
        kind="lost",
        text=(
            f"value {insert.value}{on_key(ack)}, op #{ack.index} ok at {seconds(ack.time_ns)}"
            f"{where(ack)}{during(history, ack.time_ns)}"
        ),
        ops=tuple(sorted(indices)),
        key=key.key,
        value=insert.value,
        time_ns=ack.time_ns,
        steps=(
            insert_acknowledged(history, insert.value, ack),
            *(read_answered(history, read.invoke, read.end, lacks) for read in shown),
        ),
    )


def _stale_anomaly(history: History, key: KeySet, missed: Missed) -> Anomaly:
    insert, ack = missed.insert, missed.insert.ack
    assert ack is not None, "only an acknowledged value can be missed"
    read = missed.last
    lacks = f"without {insert.value}"
    return Anomaly(
        kind="stale",
        text=(
            f"value {insert.value}{on_key(ack)}, op #{ack.index} ok at {seconds(ack.time_ns)}"
            f"{where(ack)}, is missing from op #{read.invoke.index} {read.invoke.f}"
            f"{where(read.invoke)}, begun {milliseconds(missed.stale_ns)} later"
            f"{during(history, read.invoke.time_ns)}"
        ),
        ops=(ack.index, read.invoke.index, read.end.index),
        key=key.key,
        value=insert.value,
        time_ns=missed.first.invoke.time_ns,
        steps=(
            insert_acknowledged(history, insert.value, ack),
            read_answered(history, read.invoke, read.end, lacks),
        ),
    )


def _seen_anomaly(history: History, kind: str, key: KeySet, seen: Seen) -> Anomaly:
    read, insert = seen.read, key.inserts.get(seen.value)
    ops = {read.invoke.index, read.end.index}
    if insert is not None:
        ops.add(insert.invoke.index)
    return Anomaly(
        kind=kind,
        text=(
            f"value {seen.value}{on_key(read.invoke)} in op #{read.end.index} {read.end.f}"
            f"{where(read.end)} at {seconds(read.end.time_ns)}: {seen.why}"
            f"{during(history, read.end.time_ns)}"
        ),
        ops=tuple(sorted(ops)),
        key=key.key,
        value=seen.value,
        time_ns=read.end.time_ns,
        steps=(read_answered(history, read.invoke, read.end, f"with {seen.value}: {seen.why}"),),
    )


def _doubts(
    keys: Sequence[KeySet], found: Sequence[tuple[KeySet, Findings]], pending: Sequence[str]
) -> tuple[str, ...]:
    """Return the reasons against VALID."""
    doubts: list[str] = []
    if not any(key.found.ends()[OK] for key in keys):
        doubts.append("no insert was acknowledged")
    if not any(key.found.reads_count() for key in keys):
        doubts.append("no read was answered")
    unaccounted = [value for _, findings in found for value in findings.unaccounted]
    if unaccounted:
        doubts.append(
            f"{number(len(unaccounted), 'acknowledged value')} in no final read, and not every "
            f"replica answered one: {listed(unaccounted)}"
        )
    if pending and any(findings.lost_count for _, findings in found):
        doubts.append(f"not at rest before the final reads: {listed(pending)}")
    return tuple(doubts)


def _figures(keys: Sequence[KeySet], found: Sequence[Findings]) -> dict[str, Json]:
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


def _summary(
    broken: Mapping[str, int], doubts: tuple[str, ...], figures: Mapping[str, Json]
) -> str:
    violations = []
    for kind, (noun, text) in _PHRASES.items():
        count = broken.get(kind, 0)
        if count:
            violations.append(f"{number(count, noun)} {'is' if count == 1 else 'are'} {text}")
    acknowledged = int(str(figures["acknowledged"]))
    if violations:
        return f"{'; '.join(violations)} (of {acknowledged:,} acknowledged)"
    if doubts:
        return "; ".join(doubts)
    late = f"; {figures['stale']:,} missing from some reads at first" if figures["stale"] else ""
    return f"{number(acknowledged, 'acknowledged value')}, none lost{late}"

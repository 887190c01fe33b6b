"""Checks inserts of unknown outcome: they may take effect or not, and nothing else."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from checkers.conclusion import conclude
from checkers.phrasing import (
    FEW,
    during,
    insert_began,
    listed,
    number,
    on_key,
    read_answered,
    seconds,
)
from checkers.quiescence import quiescence_of
from checkers.sets.key_sets import FINAL_READ, AnsweredRead, InsertOutcome, KeySet, key_sets
from harness.core.history import History
from harness.core.op import Kind, Op
from harness.core.verdict import Anomaly, Verdict


class UnknownOutcomes:
    """Judges values whose every try ended info, once the cluster is at rest.

    INVALID: some replicas have the value and others do not ("split"), or a sequentially consistent
    read returned it and at rest no replica has it ("vanished": it was in no committed part).
    """

    name = "unknown-outcomes"

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs an insert of unknown outcome, rest, and final reads on
        every replica."""
        rest = quiescence_of(history)
        split: list[Anomaly] = []
        vanished: list[Anomaly] = []
        here = nowhere = 0
        doubts = rest.doubts
        for key in key_sets(history):
            unknown = list(key.ended(Kind.INFO))
            finals = {str(read.invoke.node): read for read in key.finals}
            silent = set(rest.nodes) - set(finals)
            if unknown and silent:
                doubts.append(f"no final read of key {key.key} on {listed(sorted(silent))}")
                continue
            shown = {node: frozenset(read.values) for node, read in finals.items()}
            seen = frozenset().union(*shown.values())
            early = _early(key, {value for value in unknown if value not in seen})
            for value in unknown:
                have = {node for node, own in shown.items() if value in own}
                here += len(have) == len(finals)
                nowhere += not have
                if have and len(have) < len(finals):
                    split.append(_split(history, key, key.inserts[value], finals, have))
                elif value in early:
                    insert, read = key.inserts[value], early[value]
                    vanished.append(_vanished(history, key, insert, read, finals))
        broken = [*split, *vanished] if rest.reached else []
        checked = here + nowhere + len(split)
        if not checked:
            doubts.append("no insert ended with its outcome unknown")
        summary = (
            f"{number(checked, 'insert')} of unknown outcome: {here:,} on every replica, "
            f"{nowhere:,} on none, {len(split):,} on some, {len(vanished):,} read and gone"
        )
        return Verdict(
            checker=self.name,
            status=conclude(broken, doubts=doubts),
            summary=summary if broken or not doubts else "; ".join(doubts),
            checked=checked,
            anomalies=(*split[:FEW], *vanished[:FEW]) if broken else (),
            figures={
                "unknown": checked,
                "everywhere": here,
                "nowhere": nowhere,
                "anomalies": {"split": len(split), "vanished": len(vanished)},
            },
        )


def _early(key: KeySet, values: AbstractSet[int]) -> dict[int, AnsweredRead]:
    """Return the first read during the run that has each of these values."""
    found: dict[int, AnsweredRead] = {}
    for read in key.reads if values else ():
        if read.invoke.f != FINAL_READ:
            for value in values & set(read.values):
                found.setdefault(value, read)
    return found


def _split(
    history: History,
    key: KeySet,
    insert: InsertOutcome,
    finals: Mapping[str, AnsweredRead],
    have: set[str],
) -> Anomaly:
    one = next(read for node, read in sorted(finals.items()) if node in have)
    other = next(read for node, read in sorted(finals.items()) if node not in have)
    return _anomaly(
        history,
        "split",
        f"at rest on {' '.join(sorted(have))} and not on {other.invoke.node}",
        key,
        insert,
        {f"with {insert.value}": one, f"without {insert.value}": other},
    )


def _vanished(
    history: History,
    key: KeySet,
    insert: InsertOutcome,
    early: AnsweredRead,
    finals: Mapping[str, AnsweredRead],
) -> Anomaly:
    last = finals[min(finals)]
    return _anomaly(
        history,
        "vanished",
        f"read on {early.invoke.node} at {seconds(early.end.time_ns)} and on no replica at rest",
        key,
        insert,
        {f"with {insert.value}": early, f"without {insert.value}": last},
    )


def _anomaly(
    history: History,
    kind: str,
    how: str,
    key: KeySet,
    insert: InsertOutcome,
    reads: Mapping[str, AnsweredRead],
) -> Anomaly:
    invoke: Op = insert.invoke
    ops = {invoke.index} | {op.index for r in reads.values() for op in (r.invoke, r.end)}
    return Anomaly(
        kind=kind,
        text=(
            f"value {insert.value}{on_key(invoke)}, whose insert on {invoke.node} (op "
            f"#{invoke.index}) has an unknown outcome, is {how}{during(history, invoke.time_ns)}"
        ),
        ops=tuple(sorted(ops)),
        key=key.key,
        value=insert.value,
        time_ns=min(read.end.time_ns for read in reads.values()),
        steps=(
            insert_began(history, insert.value, invoke),
            *(read_answered(history, r.invoke, r.end, found) for found, r in reads.items()),
        ),
    )

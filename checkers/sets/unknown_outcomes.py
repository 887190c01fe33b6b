"""Checks inserts of unknown outcome: they may take effect or not, and nothing else.

Judged is a value that no try acknowledged and not every try refused, by the last final read of each
replica.

Violated, at rest: some replicas have it and others do not ("split"); no replica has it, though a
sequentially consistent read returned it during the run ("vanished"), because what such a read
returns was in a committed part. Doubtful: a cluster that was not at rest, a replica without a final
read of a key that has such values, and a run without such values.

That a value is on no replica is no anomaly by itself, and neither is one that appears after its
insert has ended, for nobody knows when that takes effect:
    insert 1 → info     read → []     final-read on ch1 → [1]     final-read on ch2 → [1]
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from checkers.conclusion import Findings
from checkers.phrasing import (
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
from harness.core.op import Kind
from harness.core.verdict import Verdict


class UnknownOutcomes:
    """Judges values of unknown outcome, once the cluster is at rest."""

    name = "unknown-outcomes"

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs an insert of unknown outcome, rest, and final reads on
        every replica."""
        rest = quiescence_of(history)
        found = Findings(self.name, kinds=["split", "vanished"])
        found.doubts += rest.doubts
        vanished = Findings(self.name)
        here = nowhere = 0
        for key in key_sets(history):
            unknown = list(key.ended(Kind.INFO))
            finals = {str(read.invoke.node): read for read in key.finals}
            silent = set(rest.nodes) - set(finals)
            if unknown and silent:
                found.add_doubt(f"no final read of key {key.key} on {listed(sorted(silent))}")
                continue
            shown = {node: frozenset(read.values) for node, read in finals.items()}
            seen = frozenset().union(*shown.values())
            early = _early(key, {value for value in unknown if value not in seen})
            for value in unknown:
                have = {node for node, own in shown.items() if value in own}
                here += len(have) == len(finals)
                nowhere += not have
                if have and len(have) < len(finals):
                    _add_split(found, history, key.inserts[value], finals, have)
                elif value in early:
                    last = finals[min(finals)]
                    _add_vanished(vanished, history, key.inserts[value], early[value], last)
        found.extend(vanished)
        checked = here + nowhere + found.counts["split"]
        if not checked:
            found.add_doubt("no insert ended with its outcome unknown")
        summary = (
            f"{number(checked, 'insert')} of unknown outcome: {here:,} on every replica, "
            f"{nowhere:,} on none, {found.counts['split']:,} on some, "
            f"{found.counts['vanished']:,} read and gone"
        )
        return found.verdict(
            checked=checked,
            broken=summary,
            held=summary,
            certain=rest.reached,
            figures={"unknown": checked, "everywhere": here, "nowhere": nowhere},
        )


def _early(key: KeySet, values: AbstractSet[int]) -> dict[int, AnsweredRead]:
    """Return the first read during the run that has each of these values."""
    found: dict[int, AnsweredRead] = {}
    for read in key.reads if values else ():
        if read.invoke.f != FINAL_READ:
            for value in values & set(read.values):
                found.setdefault(value, read)
    return found


def _add_split(
    found: Findings,
    history: History,
    insert: InsertOutcome,
    finals: Mapping[str, AnsweredRead],
    have: set[str],
) -> None:
    one = next(read for node, read in sorted(finals.items()) if node in have)
    other = next(read for node, read in sorted(finals.items()) if node not in have)
    how = f"at rest on {' '.join(sorted(have))} and not on {other.invoke.node}"
    _add(found, history, "split", how, insert, one, other)


def _add_vanished(
    found: Findings,
    history: History,
    insert: InsertOutcome,
    early: AnsweredRead,
    last: AnsweredRead,
) -> None:
    seen = f"read on {early.invoke.node} at {seconds(early.end.time_ns)}"
    how = f"{seen} and on no replica at rest"
    _add(found, history, "vanished", how, insert, early, last)


def _add(
    found: Findings,
    history: History,
    kind: str,
    how: str,
    insert: InsertOutcome,
    with_it: AnsweredRead,
    without: AnsweredRead,
) -> None:
    invoke, value = insert.invoke, insert.value
    reads = {f"with {value}": with_it, f"without {value}": without}
    found.add_anomaly(
        kind,
        f"value {value}{on_key(invoke)}, whose insert on {invoke.node} (op "
        f"#{invoke.index}) has an unknown outcome, is {how}{during(history, invoke.time_ns)}",
        invoke,
        *(op for read in reads.values() for op in (read.invoke, read.end)),
        key=invoke.key,
        value=value,
        time_ns=min(read.end.time_ns for read in reads.values()),
        steps=(
            insert_began(history, value, invoke),
            *(read_answered(history, r.invoke, r.end, which) for which, r in reads.items()),
        ),
    )

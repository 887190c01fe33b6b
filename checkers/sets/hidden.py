"""Finds rows that a replica at rest has, and that its sequentially consistent reads do not return.

A run that makes inserts in several modes reads every key once more at rest, without
`select_sequential_consistency` ("final-plain-read"). Of each acknowledged value, with the last
answer of each kind of final read on each replica:

gone     some replica's plain read does not return it
hidden   every replica's plain read returns it, and some replica's sequentially consistent read does
         not

Violated, at rest: a value that is gone or hidden. Doubtful: a cluster that was not at rest, a
replica without one of the two reads of a key that has acknowledged values, and a run without such
values.

`set-full` calls both of them lost, if no sequentially consistent read returns them: hidden rows are
on the disks of replicas, those that are gone are not. A value is not hidden merely because a
consistent read lacks it, since a replica that has no part of it cannot show it either:
    final-plain-read on ch1 → []     final-read on ch1 → []     (value 1 is gone)
"""

from collections.abc import Mapping
from typing import Final

from checkers.conclusion import Findings
from checkers.phrasing import (
    during,
    insert_acknowledged,
    listed,
    number,
    on_key,
    read_answered,
    where,
)
from checkers.quiescence import quiescence_of
from checkers.sets.key_sets import AnsweredRead, InsertOutcome, KeySet, key_sets, read_values
from harness.core.history import History
from harness.core.op import Kind, Op
from harness.core.verdict import Verdict

PLAIN: Final = "final-plain-read"


class Hidden:
    """Judges acknowledged values by two kinds of final reads."""

    name = "hidden"

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs an acknowledged value, rest, and both reads of its key on
        every replica."""
        rest = quiescence_of(history)
        plain = _plain_reads(history)
        found = Findings(self.name, kinds=["hidden", "gone"])
        found.doubts += rest.doubts
        hidden = Findings(self.name)
        checked = 0
        for key in key_sets(history):
            sequential = _last_reads(key)
            here = {node: one for (of, node), one in plain.items() if of == key.key}
            inserts = key.found.ends()[0]
            silent = set(rest.nodes) - (set(sequential) & set(here))
            if inserts and silent:
                found.add_doubt(f"no final reads of key {key.key} on {listed(sorted(silent))}")
            checked += inserts
            values = {node: frozenset(read_values(one)) for node, one in here.items()}
            shown = {node: frozenset(read.values) for node, read in sequential.items()}
            for value in key.ended(Kind.OK):
                lacks = [node for node, own in values.items() if value not in own]
                unseen = [
                    node
                    for node, own in values.items()
                    if value in own and value not in shown.get(node, own)
                ]
                if lacks:
                    _add_gone(found, history, key.inserts[value], here[lacks[0]], lacks)
                elif unseen:
                    read, of = sequential[unseen[0]], here[unseen[0]]
                    _add_hidden(hidden, history, key.inserts[value], read, of, unseen)
        found.extend(hidden)
        if not checked:
            found.add_doubt("no insert was acknowledged")
        summary = (
            f"{number(checked, 'acknowledged value')} at rest: {found.counts['hidden']:,} on the "
            "replicas and missing from sequentially consistent reads, "
            f"{found.counts['gone']:,} missing from a replica"
        )
        return found.verdict(
            checked=checked,
            broken=summary,
            held=summary,
            certain=rest.reached,
            figures={"acknowledged": checked},
        )


def _plain_reads(history: History) -> dict[tuple[int | None, str | None], Op]:
    """Return the last answered plain read at rest, by key and node."""
    return {(end.key, end.node): end for _, end in history.answered(PLAIN)}


def _last_reads(key: KeySet) -> Mapping[str | None, AnsweredRead]:
    """Return the last sequentially consistent read at rest, by node."""
    return {read.invoke.node: read for read in key.finals}


def _add_hidden(
    found: Findings,
    history: History,
    insert: InsertOutcome,
    read: AnsweredRead,
    plain: Op,
    nodes: list[str | None],
) -> None:
    ack = insert.ack
    assert ack is not None, "only acknowledged values are judged"
    found.add_anomaly(
        "hidden",
        f"value {insert.value}{on_key(ack)}, op #{ack.index} ok{where(ack)}"
        f"{during(history, ack.time_ns)}, is on {listed(sorted(map(str, nodes)))} at rest "
        f"(op #{plain.index}) and missing there from sequentially consistent reads "
        f"(op #{read.end.index})",
        *(insert.invoke, ack, read.invoke, read.end, plain),
        key=ack.key,
        value=insert.value,
        time_ns=ack.time_ns,
        steps=(
            insert_acknowledged(history, insert.value, ack),
            read_answered(history, read.invoke, read.end, f"without {insert.value}"),
        ),
    )


def _add_gone(
    found: Findings, history: History, insert: InsertOutcome, plain: Op, nodes: list[str | None]
) -> None:
    ack = insert.ack
    assert ack is not None, "only acknowledged values are judged"
    found.add_anomaly(
        "gone",
        f"value {insert.value}{on_key(ack)}, op #{ack.index} ok{where(ack)}"
        f"{during(history, ack.time_ns)}, is missing from {listed(sorted(map(str, nodes)))} at "
        f"rest (op #{plain.index})",
        *(insert.invoke, ack, plain),
        key=ack.key,
        value=insert.value,
        time_ns=ack.time_ns,
        steps=(insert_acknowledged(history, insert.value, ack),),
    )

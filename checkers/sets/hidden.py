"""Finds rows that a replica at rest has, and that its sequentially consistent reads do not return.

A run that makes inserts in several modes reads every key once more at rest, without
`select_sequential_consistency` (`final-plain-read`). This splits what set-full calls lost: hidden
rows are on the disks of replicas, lost rows are not.
"""

from collections.abc import Mapping
from typing import Final

from checkers.conclusion import conclude
from checkers.phrasing import (
    FEW,
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
from harness.core.verdict import Anomaly, Verdict

PLAIN: Final = "final-plain-read"


class Hidden:
    """Judges acknowledged values by two kinds of final reads. Anomalies:

    hidden: acknowledged, on a replica at rest by a plain read, and in none of its sequentially
    consistent reads at rest.
    gone: acknowledged, and in no plain read at rest of a replica.
    """

    name = "hidden"

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs an acknowledged value, rest, and both reads of its key on
        every replica."""
        rest = quiescence_of(history)
        plain = _plain_reads(history)
        doubts = rest.doubts
        hidden: list[Anomaly] = []
        gone: list[Anomaly] = []
        checked = 0
        for key in key_sets(history):
            sequential = _last_reads(key)
            here = {node: one for (of, node), one in plain.items() if of == key.key}
            inserts = key.found.ends()[0]
            silent = set(rest.nodes) - (set(sequential) & set(here))
            if inserts and silent:
                doubts.append(f"no final reads of key {key.key} on {listed(sorted(silent))}")
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
                    gone.append(_gone(history, key, key.inserts[value], here[lacks[0]], lacks))
                elif unseen:
                    read, of = sequential[unseen[0]], here[unseen[0]]
                    hidden.append(_hidden(history, key, key.inserts[value], read, of, unseen))
        broken = [*gone[:FEW], *hidden[:FEW]] if rest.reached else []
        if not checked:
            doubts.append("no insert was acknowledged")
        summary = (
            f"{number(checked, 'acknowledged value')} at rest: {len(hidden):,} on the replicas and "
            f"missing from sequentially consistent reads, {len(gone):,} missing from a replica"
        )
        return Verdict(
            checker=self.name,
            status=conclude(broken, doubts=doubts),
            summary=summary if broken or not doubts else "; ".join(doubts),
            checked=checked,
            anomalies=tuple(broken),
            figures={
                "acknowledged": checked,
                "anomalies": {"hidden": len(hidden), "gone": len(gone)},
            },
        )


def _plain_reads(history: History) -> dict[tuple[int | None, str | None], Op]:
    """Return the last answered plain read at rest, by key and node."""
    return {(end.key, end.node): end for _, end in history.answered(PLAIN)}


def _last_reads(key: KeySet) -> Mapping[str | None, AnsweredRead]:
    """Return the last sequentially consistent read at rest, by node."""
    return {read.invoke.node: read for read in key.finals}


def _hidden(
    history: History,
    key: KeySet,
    insert: InsertOutcome,
    read: AnsweredRead,
    plain: Op,
    nodes: list[str | None],
) -> Anomaly:
    ack = insert.ack
    assert ack is not None, "only acknowledged values are judged"
    return Anomaly(
        kind="hidden",
        text=(
            f"value {insert.value}{on_key(ack)}, op #{ack.index} ok{where(ack)}"
            f"{during(history, ack.time_ns)}, is on {listed(sorted(map(str, nodes)))} at rest "
            f"(op #{plain.index}) and missing there from sequentially consistent reads "
            f"(op #{read.end.index})"
        ),
        ops=(insert.invoke.index, ack.index, read.invoke.index, read.end.index, plain.index),
        key=key.key,
        value=insert.value,
        time_ns=ack.time_ns,
        steps=(
            insert_acknowledged(history, insert.value, ack),
            read_answered(history, read.invoke, read.end, f"without {insert.value}"),
        ),
    )


def _gone(
    history: History, key: KeySet, insert: InsertOutcome, plain: Op, nodes: list[str | None]
) -> Anomaly:
    ack = insert.ack
    assert ack is not None, "only acknowledged values are judged"
    return Anomaly(
        kind="gone",
        text=(
            f"value {insert.value}{on_key(ack)}, op #{ack.index} ok{where(ack)}"
            f"{during(history, ack.time_ns)}, is missing from {listed(sorted(map(str, nodes)))} at "
            f"rest (op #{plain.index})"
        ),
        ops=(insert.invoke.index, ack.index, plain.index),
        key=key.key,
        value=insert.value,
        time_ns=ack.time_ns,
        steps=(insert_acknowledged(history, insert.value, ack),),
    )

"""Explains anomalies that are no matter of a read: those of the quorum and of the protocol.

A verdict is explained only if every anomaly that it counts is listed, by the verdict or in `EVERY`,
and each is explained.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, TypeAlias

from checkers.availability.answers import unanswered
from checkers.consistency.calls import Consistency
from checkers.phrasing import seconds
from checkers.replication.agreed import agreed_of
from checkers.sets.key_sets import INSERT, READS
from checkers.triage import answers
from checkers.triage.databases import dropped_view, set_aside
from checkers.triage.events import departures
from checkers.triage.evidence import Evidence
from checkers.triage.inserts import Values
from checkers.triage.keeper_map import deleted_twice, repeated_insert
from checkers.triage.kept import KEEP_FAILED
from harness.core.history import History
from harness.core.verdict import Anomaly, Verdict

_PART: Final = re.compile(r"\b\w+_\d+_\d+_\d+\b")


Evidences: TypeAlias = tuple[History, Evidence, Values]
Signature: TypeAlias = Callable[[Anomaly, Evidences], str]
"""Returns the evidence that a known defect explains the anomaly; "" if there is none."""


def explained(
    verdict: Verdict, evidences: Evidences, known: frozenset[str]
) -> Sequence[tuple[str, str]] | None:
    """Return for each anomaly the known defect that explains it and the evidence; None unless the
    verdict has been decided and all of its anomalies are explained. `evidences` have the history
    that was judged."""
    if verdict.cut_short:
        return None
    every = EVERY.get(verdict.checker)
    anomalies = verdict.anomalies if every is None else [*every(evidences[0])]
    counts = verdict.figures.get("anomalies")
    counted = sum(counts.values()) if isinstance(counts, dict) else len(anomalies)
    if counted > len(anomalies):
        return None
    found = [
        next(_explanations(verdict.checker, anomaly, evidences, known), None)
        for anomaly in anomalies
    ]
    return None if None in found else [one for one in found if one is not None]


def _explanations(
    checker: str, anomaly: Anomaly, evidences: Evidences, known: frozenset[str]
) -> Iterator[tuple[str, str]]:
    for name, signature in SIGNATURES.get((checker, anomaly.kind), ()):
        why = signature(anomaly, evidences) if name in known else ""
        if why:
            yield name, why


def _uncounted(anomaly: Anomaly, evidences: Evidences) -> str:
    """A quorum was ended that too few replicas had, and last_part names another part."""
    _, evidence, values = evidences
    own = _PART.findall(anomaly.text)
    if anomaly.value is not None:
        inserted = values.get((anomaly.key, anomaly.value))
        own += sorted(inserted.parts) if inserted else []
    for ended, at_ns in evidence.uncounted.items():
        if ended in own or at_ns == anomaly.time_ns:
            return (
                f"at {seconds(at_ns)} the quorum of {ended}, which too few replicas had, was "
                "ended, and last_part named another part"
            )
    return ""


def _kept_failed(anomaly: Anomaly, evidences: Evidences) -> str:
    """A replica became active with a part whose quorum had failed, and it is that replica."""
    history, _, values = evidences
    inserted = values.get((anomaly.key, anomaly.value)) if anomaly.value is not None else None
    nodes = {history[index].node for index in anomaly.ops if history[index].f in READS}
    parts = {*_PART.findall(anomaly.text), *(inserted.parts if inserted else ())}
    for replica, part in departures(history, KEEP_FAILED):
        if part in parts and (not nodes or replica in nodes):
            return f"{replica} became active with {part}, whose quorum had failed"
    return ""


def _refused_itself(anomaly: Anomaly, evidences: Evidences) -> str:
    """Every INSERT of the value was refused because its row exists, and nobody else adds it: the
    first try of one of them did."""
    tries = [
        pair
        for pair in evidences[0].calls(INSERT)
        if (pair.invoke.key, pair.invoke.value) == (anomaly.key, anomaly.value)
    ]
    errors = [(pair.end and pair.end.error) or "" for pair in tries]
    if not tries or not all("REFUSED: " in error and "(Node exists)" in error for error in errors):
        return ""
    return f"op #{tries[0].invoke.index} inserted the row of value {anomaly.value}, and was refused"


def _repeated(consistency: Consistency) -> Signature:
    """Return the signature of INSERTs that a server made twice, for a level of consistency."""
    return lambda anomaly, evidences: repeated_insert(evidences[0], anomaly, consistency)


def _deleted_twice(anomaly: Anomaly, evidences: Evidences) -> str:
    return deleted_twice(evidences[0], anomaly)


def _went_back(anomaly: Anomaly, evidences: Evidences) -> str:
    """last_part was set to the part whose quorum had just ended, which is lower."""
    _, evidence, _ = evidences
    named = [part for name in _PART.findall(anomaly.text) if (part := evidence.part(name))]
    for partition, every in evidence.last.items():
        for before, now in pairwise(every):
            own = [part for part in named if part.partition == partition]
            if now.own and now.high < before.high and any(now.high == p.high for p in own):
                return f"last_part of partition {partition} went back to block {now.high}"
    return ""


def _ended_later(anomaly: Anomaly, evidences: Evidences) -> str:
    """The transaction that set last_part back ended the quorum of the part that it names."""
    agreed = agreed_of(evidences[0])
    ended = {(zxid, part) for _, zxid, part in agreed.named("end")}
    for _, zxid, partition, part in agreed.named("last"):
        if f" {zxid:#x}:" in anomaly.text and (zxid, part) in ended:
            return f"last_part of partition {partition} was set to {part} when its quorum ended"
    return ""


def _of_the_last_answer(errors: re.Pattern[str], signature: answers.Signature) -> Signature:
    """Return a signature of the calls that were answered with such an error at last."""

    def evidence_for(anomaly: Anomaly, evidences: Evidences) -> str:
        history, evidence, _ = evidences
        ends = [history[index] for index in anomaly.ops if history[index].error]
        matches = bool(ends) and errors.search(ends[-1].error or "")
        return signature(history, evidence, ends[-1]) if matches else ""

    return evidence_for


EVERY: Final[Mapping[str, Callable[[History], Iterator[Anomaly]]]] = {"answers": unanswered}
"""Functions that return all anomalies of a checker whose verdict lists a few, by checker."""
SIGNATURES: Final[Mapping[tuple[str, str], Sequence[tuple[str, Signature]]]] = {
    ("set-full", "lost"): (("set-aside", set_aside), ("dropped-view", dropped_view)),
    ("set-full", "phantom"): (("refused-itself", _refused_itself),),
    ("sequential", "phantom"): (("refused-itself", _refused_itself),),
    ("linearizable", "phantom"): (("refused-itself", _refused_itself),),
    ("sequential", "cycle"): (("repeated-insert", _repeated("sequential")),),
    ("linearizable", "cycle"): (
        ("repeated-insert", _repeated("linearizable")),
        ("deleted-twice", _deleted_twice),
    ),
    ("protocol", "quorum-too-small"): (("uncounted-quorum", _uncounted),),
    ("protocol", "last-part"): (("uncounted-quorum", _uncounted),),
    ("durability", "acknowledged-early"): (("uncounted-quorum", _uncounted),),
    ("durability", "overlap"): (("uncounted-quorum", _uncounted),),
    ("durability", "last-part-back"): (("overtaken-insert", _went_back),),
    ("audit", "last-part-back"): (("overtaken-insert", _ended_later),),
    ("failed-parts", "read-again"): (("failed-part-missed", _kept_failed),),
    ("failed-parts", "back"): (("failed-part-missed", _kept_failed),),
    ("failed-parts", "kept"): (("failed-part-missed", _kept_failed),),
    ("answers", "unanswered"): [
        (name, _of_the_last_answer(errors, signature))
        for name, (errors, signature) in answers.SIGNATURES.items()
    ],
}
"""Signatures by checker and kind of anomaly."""

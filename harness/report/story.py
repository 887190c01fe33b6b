"""A run's conclusion in three sentences, for readers who have never seen a history."""

from collections.abc import Sequence

from checkers.exercise import Exercise, exercise_of
from checkers.ladder import Ladder, Level
from checkers.phrasing import during, listed, number, seconds
from checkers.quiescence import quiescence_of
from checkers.sets.key_sets import READS
from checkers.witness import EXPECTED, breaks
from harness.core.history import Fault, History, Pair
from harness.core.op import Kind
from harness.core.verdict import Anomaly, Status, Verdict
from harness.report.facts import RUNNING, UNREADABLE, Facts


def duration(ns: int) -> str:
    """Return a duration as "3.1 ms", "44.9 s" or "2 min 5 s"."""
    if ns < 1_000_000:
        return f"{ns / 1e3:.0f} µs"
    if ns < 1_000_000_000:
        return f"{ns / 1e6:.1f} ms" if ns < 100_000_000 else f"{ns / 1e6:.0f} ms"
    if ns < 120_000_000_000:
        return f"{ns / 1e9:.1f} s"
    return f"{ns // 60_000_000_000} min {ns // 1_000_000_000 % 60} s"


def lifetime(fault: Fault) -> str:
    """Return "invoked at 2.085 s, verified at 2.489 s, over at 4.102 s", or "from 2.085 s to 2.489
    s" if one call was the whole fault."""
    if fault.invoked_ns == fault.begin_ns:
        end = "the end" if fault.end_ns is None else seconds(fault.end_ns)
        return f"from {seconds(fault.begin_ns)} to {end}"
    over = "until the end" if fault.end_ns is None else f"over at {seconds(fault.end_ns)}"
    return f"invoked at {seconds(fault.invoked_ns)}, verified at {seconds(fault.begin_ns)}, {over}"


def promise_and_held(facts: Facts) -> str:
    """Return "promised linearizable, held session"; without a verdict only what was promised."""
    ladder = facts.judgement.ladder if facts.judgement else None
    promised = ladder.promise.value if ladder else str(facts.info.spec.get("promise", ""))
    if not promised:
        return ""
    if ladder is None or facts.status == Status.UNKNOWN.value:
        return f"promised {promised}"
    return f"promised {promised}, held {ladder.held.value if ladder.held else 'no level'}"


def exercise(facts: Facts) -> Exercise | None:
    """Return what a VALID run exercised; None for another run, or without a history."""
    if facts.judgement is None or facts.history is None:
        return None
    return exercise_of(facts.judgement, facts.history)


def sentences(facts: Facts) -> tuple[str, ...]:
    """Return three sentences about a run with a verdict; about another run, what is known."""
    judgement, history = facts.judgement, facts.history
    if judgement is None:
        return _unjudged(facts)
    if judgement.status is Status.INVALID and facts.witness and history is not None:
        return _violation(facts, history)
    if judgement.status is Status.UNKNOWN:
        reasons = [v for v in judgement.deciding if v.status is Status.UNKNOWN]
        said = [*_by_reason(reasons), *judgement.ladder.contradictions]
        return (
            "Nothing can be concluded from this run.",
            f"Reasons: {'; '.join(said) or 'none given'}.",
            "This is not a success: run it longer, or with more operations.",
        )
    held = judgement.ladder.held
    level = f"Every level up to {held.value} held." if held else "The promise held."
    return (*_seen(history), level)


def _by_reason(verdicts: Sequence[Verdict]) -> list[str]:
    """Return each reason once, behind the checkers that give it."""
    checkers: dict[str, list[str]] = {}
    for verdict in verdicts:
        checkers.setdefault(verdict.summary, []).append(verdict.checker)
    return [f"{', '.join(names)}: {summary}" for summary, names in checkers.items()]


def _unjudged(facts: Facts) -> tuple[str, ...]:
    if facts.alive:
        first = "This run is in progress; it has no verdict yet."
    elif facts.status == UNREADABLE:
        first = "A file of this run cannot be read, so nothing is known of its verdict."
    elif facts.info.error:
        first = f"The harness itself failed: {facts.info.error.rstrip('.')}."
    else:
        first = (
            "The harness process is gone and left no reason: it was killed, or the machine failed."
        )
    if facts.history is None:
        return first, "Its history cannot be read, so nothing is known of what happened."
    many = number(len(facts.history), "op")
    if facts.status == UNREADABLE:
        return first, f"Its history can be read: {many}, shown on its page."
    second = f"{many} reached the disk before that, shown on its page."
    if facts.status == RUNNING:
        return first, f"{many} reached the disk so far, shown on its page."
    return first, second, f"It has no verdict; harness check {facts.name} gives one."


def _seen(history: History | None) -> tuple[str, ...]:
    if history is None:
        return ("It was judged, but its history can no longer be read.",)
    ok = {f: ends[0] for f, ends, *_ in history.columns.tally(())[0]}
    reads = sum(ok.pop(f, 0) for f in READS)
    asked = sum(map(_asks, history.calls(*ok, kinds=(Kind.OK,)))) if ok else 0
    faults = len(history.faults)
    broke = (
        f"{number(faults, 'fault')} took effect, and nothing broke the promise"
        if faults
        else "No fault was in force, and nothing broke the promise"
    )
    return (
        f"{number(sum(ok.values()) - asked, 'acknowledged write')} and "
        f"{number(reads + asked, 'answered read')} were checked.",
        f"{broke}.",
    )


def _asks(pair: Pair) -> bool:
    """Return whether the call, which has not the name of a read, asked for a value and changed
    nothing. A CAS returns a tuple, too."""
    return pair.invoke.value is None and pair.end is not None and pair.end.value is not None


def _violation(facts: Facts, history: History) -> tuple[str, ...]:
    assert facts.witness is not None
    assert facts.judgement is not None
    verdict, anomaly = facts.witness
    broken = _broken(facts.judgement.ladder, verdict, anomaly)
    return _told(
        history, verdict, anomaly, f"{broken}{_rest(facts.judgement.ladder, *facts.witness)}."
    )


def further(facts: Facts, verdict: Verdict, anomaly: Anomaly) -> tuple[str, ...]:
    """Return the sentences of another witness of the same run."""
    assert facts.history is not None
    assert facts.judgement is not None
    broken = _broken(facts.judgement.ladder, verdict, anomaly)
    return _told(facts.history, verdict, anomaly, f"{broken}.")


def _told(history: History, verdict: Verdict, anomaly: Anomaly, third: str) -> tuple[str, ...]:
    write, reads = _write(history, anomaly), _reads(history, anomaly)
    first = _first(write, anomaly, history)
    second = _second(write, reads, anomaly, history)
    if first and second:
        return first, second, third
    return _sentence(verdict.summary), _sentence(anomaly.text), third


def _violated(ladder: Ladder) -> list[Level]:
    return [rung.level for rung in ladder.rungs if rung.status is Status.INVALID]


def _broken(ladder: Ladder, verdict: Verdict, anomaly: Anomaly) -> str:
    """Return which levels the anomaly contradicts."""
    own = [level for level in _violated(ladder) if level in breaks(verdict, anomaly)]
    rule = EXPECTED.get(anomaly.kind, "")
    told = f"That breaks {listed(own) if own else f'what {verdict.checker} checks'}"
    return told + (f" ({rule})" if rule else "")


def _rest(ladder: Ladder, verdict: Verdict, anomaly: Anomaly) -> str:
    """Return which levels other anomalies contradict, and which one held."""
    others = [level for level in _violated(ladder) if level not in breaks(verdict, anomaly)]
    held = ladder.held
    told = f"; other calls break {listed(others)}" if others else ""
    return told + (f"; {held.value} held" if held and held is not Level.LINEARIZABLE else "")


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def _write(history: History, anomaly: Anomaly) -> Pair | None:
    """Return the write of the value that the anomaly is about."""
    if anomaly.value is None:
        return None
    for pair in history.pairs:
        same = pair.invoke.value == anomaly.value and pair.invoke.key == anomaly.key
        if same and isinstance(pair.invoke.value, int):
            return pair
    return None


def _reads(history: History, anomaly: Anomaly) -> list[Pair]:
    ops = set(anomaly.ops)
    return [
        pair
        for pair in history.pairs
        if pair.end is not None and isinstance(pair.end.value, tuple) and pair.end.index in ops
    ]


def _first(write: Pair | None, anomaly: Anomaly, history: History) -> str:
    if write is None or write.end is None or anomaly.kind not in ("lost", "stale"):
        return ""
    end = write.end
    key = "" if end.key is None else f" into key {end.key}"
    return (
        f"{end.node or 'The server'} acknowledged the {end.f} of {anomaly.value}{key} at "
        f"{seconds(end.time_ns)}{during(history, end.time_ns)}."
    )


def _second(write: Pair | None, reads: list[Pair], anomaly: Anomaly, history: History) -> str:
    if write is None or write.end is None or not reads:
        return ""
    nodes = listed(sorted({read.invoke.node or "?" for read in reads}))
    last = max(reads, key=lambda read: read.invoke.time_ns)
    later = duration(last.invoke.time_ns - write.end.time_ns)
    if anomaly.kind == "lost":
        at_ns = quiescence_of(history).at_ns
        rest = f", with the replicas at rest since {seconds(at_ns)}" if at_ns else ""
        return f"The final reads on {nodes}, begun {later} later{rest}, do not return it."
    assert last.end is not None
    assert isinstance(last.end.value, tuple)
    return (
        f"A read on {nodes} that began {later} later, at {seconds(last.invoke.time_ns)}"
        f"{during(history, last.invoke.time_ns)}, returned "
        f"{number(len(last.end.value), 'value')} without {anomaly.value}."
    )

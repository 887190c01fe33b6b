"""Histories by hand: a call a line, times in ms. And small random ones for property tests."""

from dataclasses import dataclass

from hypothesis import strategies as st

from harness.core.history import History
from harness.core.op import NEMESIS, Kind, Op

MS = 1_000_000


@dataclass(frozen=True)
class Event:
    time_ns: int
    op: dict


def insert(process, value, begin, end=None, kind="ok", *, node="ch1", key=0, error=None):
    """Return a client's insert; with end None the history ends before it does."""
    return _call(process, "insert", begin, end, kind, node, key, value, value, error)


def read(process, values, begin, end=None, kind="ok", *, node="ch1", key=0, f="read", error=None):
    """Return a client's read; with values None it has no answer."""
    answer = None if values is None else tuple(values)
    return _call(process, f, begin, end, kind, node, key, None, answer, error)


def final(process, values, begin, end, *, node="ch1", key=0, kind="ok"):
    return read(process, values, begin, end, kind, node=node, key=key, f="final-read")


def fault(begin, end, text="{ch1 | ch2}", name="partition", number=1, *, invoked=None, **more):
    """Return a fault in force between the ends of two nemesis ops; with end None it is never
    healed. `invoked`: time of the invocation, by default that of the verification. `more`: other
    fields of its ops."""
    edges = [("begin", begin, invoked)] + ([] if end is None else [("end", end, None)])
    out = []
    for edge, time, since in edges:
        value = {"fault": number, "edge": edge, "name": name, "text": text, **more}
        out += _nemesis(name, time, "ok", value, invoked=since)
    return out


def broken_fault(time, error):
    """Return a fault whose effect was not seen."""
    return _nemesis("partition", time, "info", None, error)


def rest(time, *pending, kind="ok", **replicas):
    """Return a quiesce with what was still pending, and the states of replicas by name."""
    states = {"replicas": replicas} if replicas else {}
    return _nemesis("quiesce", time, kind, {"pending": list(pending), **states})


def gave_up(time, error):
    """Return a quiesce that ended without naming what was pending."""
    return _nemesis("quiesce", time, "info", None, error)


def observe(time, **replicas):
    """Queue lengths by node."""
    return _nemesis(
        "observe", time, "ok", {"replicas": {n: {"queue": q} for n, q in replicas.items()}}
    )


def history(*calls):
    """Return the history of some calls. Events of equal times keep the order of the calls."""
    events = sorted((e for call in calls for e in call), key=lambda e: e.time_ns)
    return History([Op(index=i, time_ns=e.time_ns, **e.op) for i, e in enumerate(events)])


def _call(process, f, begin, end, kind, node, key, value, answer, error):
    same = {"process": process, "f": f, "key": key, "node": node}
    out = [Event(round(begin * MS), {**same, "kind": Kind.INVOKE, "value": value})]
    if end is not None:
        how = {"kind": Kind(kind), "value": answer, "error": error}
        out.append(Event(round(end * MS), {**same, **how}))
    return out


def _nemesis(f, time, kind, value, error=None, *, invoked=None):
    same = {"process": NEMESIS, "f": f}
    at = round(time * MS)
    return [
        Event(at if invoked is None else round(invoked * MS), {**same, "kind": Kind.INVOKE}),
        Event(at, {**same, "kind": Kind(kind), "value": value, "error": error}),
    ]


@st.composite
def histories(draw, *, calls=8, values=5, processes=3, keys=1, unique=True, ties=True):
    """Draw any mixture of inserts and reads, right and wrong, some unanswered.

    `unique`: each value is tried once at most. Times are small numbers, so that many are equal.
    """
    out, free, retired = [], dict.fromkeys(range(processes), 0), 0
    left = list(range(values))
    for _ in range(draw(st.integers(0, calls))):
        process = draw(st.sampled_from(sorted(free)))
        gap, took = draw(st.integers(0 if ties else 1, 3)), draw(st.integers(0 if ties else 1, 6))
        begin = free.pop(process) + gap
        key, node = draw(st.integers(0, keys - 1)), f"ch{process % 2 + 1}"
        kind = draw(st.sampled_from(("ok", "ok", "ok", "fail", "info", None)))
        end = None if kind is None else begin + took
        if draw(st.booleans()) and (left or not unique):
            value = left.pop() if unique else draw(st.integers(0, values - 1))
            out.append(insert(process, value, begin, end, kind or "ok", node=node, key=key))
        else:
            answer = draw(st.lists(st.integers(0, values - 1), max_size=values + 1))
            if draw(st.booleans()):
                answer = sorted(set(answer))
            f = draw(st.sampled_from(("read", "read", "final-read")))
            answer = answer if kind == "ok" else None
            call = read(process, answer, begin, end, kind or "ok", node=node, key=key, f=f)
            out.append(call)
        if end is None or kind == "info":
            retired += 1
            free[processes + retired] = begin if end is None else end
        else:
            free[process] = end
    return history(*out)


@st.composite
def sound_histories(draw, *, calls=10, lag=0):
    """Draw a history of a real set behind one lock, hence linearizable; with a lag, reads may miss
    the newest values, and then it is often not linearizable."""
    out, time, state = [], dict.fromkeys(range(3), 0), []
    now = 0
    for value in range(draw(st.integers(0, calls))):
        process = draw(st.integers(0, 2))
        point = max(now, time[process]) + draw(st.integers(0, 2))
        begin = draw(st.integers(time[process], point))
        end = point + draw(st.integers(0, 3))
        now, time[process] = point, end + 1
        if draw(st.booleans()):
            state.append(value)
            out.append(insert(process, value, begin, end))
        else:
            known = len(state) - draw(st.integers(0, lag))
            out.append(read(process, state[: max(0, known)], begin, end))
    return history(*out)


def told(f, value, begin, end=None, *, process=0, node="ch1", key=None, kind="ok", asked=None):
    """Return a call whose answer is not a list of values."""
    events = read(process, None, begin, begin + 1 if end is None else end, kind, f=f, node=node)
    events[0].op.update(value=asked, key=key)
    events[1].op.update(value=value, key=key)
    return events


def kinds(checker, *calls):
    """Return a checker's status and the kinds of its anomalies, in order."""
    said = checker.check(history(*calls))
    return said.status, [anomaly.kind for anomaly in said.anomalies]

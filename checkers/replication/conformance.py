"""Reports whether ZooKeeper's transactions of a run are a behaviour of the protocol's model.

A run on servers that keep a transaction log replays it (`harness/conform`), and records at rest

departure    for some departures from the model: {"table", "step": the names of what the transaction
             does, "zxid", "time_s", "replica", "kind": the name of a known departure of the
             server, "" for another one, "text": what happened, "allowed": what the model allows}
conformance  {"tables": {path: {"steps", "actions": {name of a step or departure: count},
             "departures": {name: count}, "stopped": reason or null, "unmodelled": bool,
             "digest"}}, "gaps": [...]}, or {"unavailable": reason}
trace        for each table {"table", "versions": those of the servers, "keepers": {replica: its
             ZooKeeper servers}, "facts": those of `checkers.replication.agreed` about parts and
             quorums, with the time in ms in place of the zxid, "ended": why the facts end early,
             or "", "gaps": [...], "dates": {"corrected": how many transactions were dated by a
             leader whose clock was wrong, "vague": [since, until] in ms, between which transactions
             were committed, where no more is known of their time}, {} where no clock can be wrong},
             by which `checkers.triage` explains anomalies

The verdict does not decide the run: what clients saw does. A departure that nobody has seen before
is a defect of the server, or of the model.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from checkers.conclusion import conclude, count_kinds, few_of_each_kind, mapping_of
from checkers.phrasing import number
from harness.core.history import History
from harness.core.op import Kind, Op
from harness.core.verdict import Anomaly, Verdict

CONFORMANCE: Final = "conformance"
DEPARTURE: Final = "departure"
TRACE: Final = "trace"
UNKNOWN_DEPARTURE: Final = "unknown-departure"
"""Kind of a step that the model does not allow, and that is no known departure of the server."""


class Conformance:
    """INVALID: a departure from the model. UNKNOWN: the log has gaps, or an entry of a kind that
    the model does not have."""

    name = CONFORMANCE

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs a step."""
        op = conformance_of(history)
        said = mapping_of(op)
        tables: Mapping[str, Mapping[str, Any]] = said.get("tables") or {}
        departures = [_anomaly(one) for one in _ended(history, DEPARTURE)]
        counts: dict[str, int] = {}
        for table in tables.values():
            for name, count in table["departures"].items():
                counts[name] = counts.get(name, 0) + count
        doubts = [f"ZooKeeper's log has a gap: {gap}" for gap in said.get("gaps") or ()]
        doubts += [str(said[key]) for key in ("unavailable",) if key in said]
        doubts += [str(t["stopped"]) for t in tables.values() if t["unmodelled"]]
        steps = sum(int(table["steps"]) for table in tables.values())
        actions: Counter[str] = Counter()
        for table in tables.values():
            actions.update(table.get("actions", {}))
        if not (steps or doubts):
            doubts.append("no step of the protocol was seen")
        broken = [] if said.get("gaps") else departures
        for kind, count in count_kinds(broken).items():
            counts.setdefault(kind, count)
        taken = f"the model takes each of {number(steps, 'step')} in ZooKeeper"
        found = f"departures from the model in {number(steps, 'step')}: " + ", ".join(
            f"{kind} {count:,}" for kind, count in counts.items()
        )
        return Verdict(
            checker=self.name,
            status=conclude(broken, doubts=doubts),
            summary=found if broken else "; ".join(doubts) or taken,
            checked=steps,
            anomalies=few_of_each_kind(broken),
            figures={"steps": steps, "actions": dict(actions), "anomalies": {**counts}},
        )


def conformance_of(history: History) -> Op | None:
    """Return the op that says whether the run conforms; None if it was not looked at."""
    ends = _ended(history, CONFORMANCE)
    return ends[-1] if ends else None


def _ended(history: History, f: str) -> list[Op]:
    return [op for op in history.nemesis if op.f == f and op.kind is Kind.OK]


def _anomaly(op: Op) -> Anomaly:
    said = mapping_of(op)
    at_s = float(said.get("time_s", 0.0))
    return Anomaly(
        kind=str(said.get("kind") or UNKNOWN_DEPARTURE),
        text=f"at {at_s:.3f} s {said.get('replica') or 'a session'}: {said.get('text')}",
        ops=(op.index,),
        time_ns=int(at_s * 1e9),
        steps=(
            f"zxid {said.get('zxid')}: {'; '.join(said.get('step') or ())}",
            f"the model allows: {said.get('allowed')}",
        ),
    )

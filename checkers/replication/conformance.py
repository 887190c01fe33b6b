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

Violated: a departure from the model; the anomaly has the name of a known departure of the server,
or is an "unknown-departure". The tables count all departures, also those that are not recorded one
by one. Doubtful: a gap in the log, because what follows it may depart only from what is missing;
an entry of a kind that the model does not have; a run without a step.

The verdict does not decide the run: what clients saw does. A departure that nobody has seen before
is a defect of the server, or of the model.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from checkers.conclusion import Findings, mapping_of
from checkers.phrasing import number
from harness.core.history import History
from harness.core.op import Kind, Op
from harness.core.verdict import Verdict

CONFORMANCE: Final = "conformance"
DEPARTURE: Final = "departure"
TRACE: Final = "trace"
UNKNOWN_DEPARTURE: Final = "unknown-departure"
"""Kind of a step that the model does not allow, and that is no known departure of the server."""


class Conformance:
    """Judges the steps and departures that the replay of a run's transactions recorded."""

    name = CONFORMANCE

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs a step."""
        op = conformance_of(history)
        said = mapping_of(op)
        tables: Mapping[str, Mapping[str, Any]] = said.get("tables") or {}
        actions, departures = Counter[str](), Counter[str]()
        for table in tables.values():
            actions.update(table.get("actions", {}))
            departures.update(table["departures"])
        found = Findings(self.name, kinds=departures)
        for departure in _ended(history, DEPARTURE) if not said.get("gaps") else ():
            _add_departure(found, departure)
        found.counts |= departures
        found.doubts += [f"ZooKeeper's log has a gap: {gap}" for gap in said.get("gaps") or ()]
        found.doubts += [str(said["unavailable"])] if "unavailable" in said else []
        found.doubts += [str(t["stopped"]) for t in tables.values() if t["unmodelled"]]
        steps = sum(int(table["steps"]) for table in tables.values())
        counts = ", ".join(f"{kind} {count:,}" for kind, count in found.counts.items())
        return found.verdict(
            checked=steps,
            broken=f"departures from the model in {number(steps, 'step')}: {counts}",
            nothing="no step of the protocol was seen",
            held=f"the model takes each of {number(steps, 'step')} in ZooKeeper",
            figures={"steps": steps, "actions": dict(actions)},
        )


def conformance_of(history: History) -> Op | None:
    """Return the op that says whether the run conforms; None if it was not looked at."""
    ends = _ended(history, CONFORMANCE)
    return ends[-1] if ends else None


def _ended(history: History, f: str) -> list[Op]:
    return [op for op in history.nemesis if op.f == f and op.kind is Kind.OK]


def _add_departure(found: Findings, op: Op) -> None:
    said = mapping_of(op)
    at_s = float(said.get("time_s", 0.0))
    found.add_anomaly(
        str(said.get("kind") or UNKNOWN_DEPARTURE),
        f"at {at_s:.3f} s {said.get('replica') or 'a session'}: {said.get('text')}",
        op,
        time_ns=int(at_s * 1e9),
        steps=(
            f"zxid {said.get('zxid')}: {'; '.join(said.get('step') or ())}",
            f"the model allows: {said.get('allowed')}",
        ),
    )

"""Reports whether ZooKeeper's transactions of a run are a behaviour of the protocol's model.

A run on servers that keep a transaction log replays it (`harness/conform`), and records at rest

departure    for some departures from the model, `RecordedDeparture`
conformance  `ConformanceReport`
trace        for each table {"table", "versions": those of the servers, "keepers": {replica: its
             ZooKeeper servers}, "facts": those of `checkers.replication.agreed` about parts and
             quorums, with the time in ms in place of the zxid, "ended": why the facts end early,
             or "", "gaps": [...], "dates": {"corrected": how many transactions were dated by a
             leader whose clock was wrong, "vague": [since, until] in ms, between which transactions
             were committed, where no more is known of their time}, {} where no clock can be wrong},
             by which `checkers.triage` explains anomalies

Violated: a departure from the model; the anomaly has the name of a known departure of the server,
or is an "unknown-departure". The tables count all departures, also those that are not recorded one
by one. Doubtful: a gap in the log, because what follows it may depart only from what is missing; a
fault by which ZooKeeper lost what it had committed, for the same reason; an entry of a kind that
the model does not have; a run without a step.

The verdict does not decide the run, unless it is to fail on it: what clients saw does. A departure
that nobody has seen before is a defect of the server, or of the model.
"""

from collections import Counter
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from checkers.conclusion import Findings
from checkers.look import decode
from checkers.phrasing import number
from harness.core.history import History
from harness.core.op import Kind, Op
from harness.core.verdict import Verdict

CONFORMANCE: Final = "conformance"
DEPARTURE: Final = "departure"
TRACE: Final = "trace"
UNKNOWN_DEPARTURE: Final = "unknown-departure"
"""Kind of a step that the model does not allow, and that is no known departure of the server."""


class RecordedDeparture(msgspec.Struct, frozen=True):
    """A step that the model does not allow."""

    text: str
    """What happened."""
    kind: str = ""
    """Name of a known departure of the server; "" for another one."""
    time_s: float = 0.0
    zxid: str | None = None
    step: list[str] = []
    """Names of what the transaction does."""
    replica: str | None = None
    """The replica that made it; None for another session."""
    allowed: str | None = None
    """What the model allows."""


class ReplayedTable(msgspec.Struct, frozen=True):
    """The steps of one table."""

    steps: int
    unmodelled: bool
    """Whether the log has an entry of a kind that the model does not have."""
    departures: dict[str, int]
    """Number of departures of each kind."""
    actions: dict[str, int] = {}
    """Number of steps and departures of each name."""
    elements: list[str] = []
    """What the steps covered: each with the state of the table in which it was taken."""
    stopped: str | None = None
    """Why the replay ended early."""


class ConformanceReport(msgspec.Struct, frozen=True):
    """What the replay came to."""

    tables: dict[str, ReplayedTable] = {}
    gaps: list[str] = []
    unavailable: str | UnsetType = UNSET
    """Why there is no log, in place of the others."""


class Conformance:
    """Judges the steps and departures that the replay of a run's transactions recorded."""

    name = CONFORMANCE

    def __init__(self, *, only_reports: bool = True) -> None:
        self.only_reports = only_reports
        """Whether its verdict does not decide the run."""

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs a step."""
        op = conformance_of(history)
        report = ConformanceReport() if op is None else decode(op, ConformanceReport)
        actions, departures = Counter[str](), Counter[str]()
        for table in report.tables.values():
            actions.update(table.actions)
            departures.update(table.departures)
        found = Findings(self.name, kinds=departures)
        gaps = [*report.gaps, *_forgotten(history)]
        for departure in _ended(history, DEPARTURE) if not gaps else ():
            _add_departure(found, departure)
        found.counts |= departures
        found.doubts += [f"ZooKeeper's log has a gap: {gap}" for gap in gaps]
        found.doubts += [] if report.unavailable is UNSET else [report.unavailable]
        found.doubts += [str(table.stopped) for table in report.tables.values() if table.unmodelled]
        steps = sum(table.steps for table in report.tables.values())
        elements = {element for table in report.tables.values() for element in table.elements}
        counts = ", ".join(f"{kind} {count:,}" for kind, count in found.counts.items())
        return found.verdict(
            checked=steps,
            broken=f"departures from the model in {number(steps, 'step')}: {counts}",
            nothing="no step of the protocol was seen",
            held=f"the model takes each of {number(steps, 'step')} in ZooKeeper",
            figures={
                "steps": steps,
                "actions": dict(actions),
                "elements": sorted(elements),
            },
        )


def conformance_of(history: History) -> Op | None:
    """Return the op that says whether the run conforms; None if it was not looked at."""
    ends = _ended(history, CONFORMANCE)
    return ends[-1] if ends else None


def _forgotten(history: History) -> list[str]:
    """Return why what follows is no behaviour of the model: all ZooKeeper servers have lost what
    they had committed, and give the numbers of transactions once more."""
    names = sorted({one.name for one in history.faults if one.name.startswith("keeper-")})
    return [f"what it had committed is gone ({name})" for name in names]


def _ended(history: History, f: str) -> list[Op]:
    return [op for op in history.nemesis if op.f == f and op.kind is Kind.OK]


def _add_departure(found: Findings, op: Op) -> None:
    one = decode(op, RecordedDeparture)
    found.add_anomaly(
        one.kind or UNKNOWN_DEPARTURE,
        f"at {one.time_s:.3f} s {one.replica or 'a session'}: {one.text}",
        op,
        time_ns=int(one.time_s * 1e9),
        steps=(f"zxid {one.zxid}: {'; '.join(one.step)}", f"the model allows: {one.allowed}"),
    )

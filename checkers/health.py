"""Reports what servers say of themselves: errors that they call defects, and tables that are not
whole at rest.

A run on servers whose logs can be read records `health` after its final reads, a `HealthReport`: of
each server the kinds of `KINDS` that its log or its system tables show. A server may say so of what
a fault has taken from it: `EXPECTED` has what, each with its reason. That is counted, and breaks
nothing.

Violated: anything else, also what is `REPORTED_UPSTREAM`. Doubtful: a server whose log or tables
could not be read, or of whose log the beginning is missing.

The verdict does not decide the run, unless it is to fail on it: what clients saw does.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from checkers.conclusion import Findings
from checkers.fault_edges import edge_of
from checkers.look import decode
from checkers.phrasing import number
from harness.core.dialect import Dialect, Mechanism
from harness.core.history import History, memoize_per_history
from harness.core.op import Kind, Op
from harness.core.verdict import Verdict

HEALTH: Final = "health"


class Complaint(msgspec.Struct, frozen=True):
    """What one server says of itself, of one kind."""

    kind: str
    text: str
    """The first line of its log, or the first row of its system tables, that says so."""
    count: int = 1
    """Number of lines or rows that say it."""


class HealthReport(msgspec.Struct, frozen=True):
    """What the servers say of themselves, by node."""

    servers: dict[str, list[Complaint]] = {}
    unread: dict[str, str] = {}
    """Why what a server says is not known in full."""


@dataclass(frozen=True, slots=True)
class HealthKind:
    """A way in which a server says that it is not well."""

    text: str
    """What it means."""
    pattern: str = ""
    """Regular expression that a line of the server's error log contains."""
    sql: str = ""
    """Query of a server at rest that returns a text in each row; in place of `pattern`."""
    needs: tuple[Mechanism, ...] = ()
    """Mechanisms of the server that it needs."""
    seconds_min: int = 0
    """Number of seconds at rest in which lines with the same groups must have been written, so that
    they do not end; 0 for a line at any time."""


_TAKEN_NUMBER: Final = "is already written by concurrent request"
KINDS: Final[Mapping[str, HealthKind]] = {
    "logical-error": HealthKind(
        "an assertion of the server failed (LOGICAL_ERROR, 49)",
        pattern=rf"^(?!.*{_TAKEN_NUMBER}).*(\(LOGICAL_ERROR\)|\bCode: 49\b)",
    ),
    "taken-number": HealthKind(
        "an insert got the number of a part that its replica has (LOGICAL_ERROR, 49)",
        pattern=_TAKEN_NUMBER,
    ),
    "fatal": HealthKind("the server reports its own crash", pattern=r"<Fatal>"),
    "lost-forever": HealthKind(
        "a replica gives a part up for lost", pattern=r"(?i)\blost forever\b"
    ),
    "broken-part": HealthKind(
        "a part of the server's own disk is broken", pattern=r"(?i)\bbroken (data )?part\b"
    ),
    "unexpected-part": HealthKind(
        "a replica that starts sets parts aside which ZooKeeper does not know",
        pattern=r"<Warning>.*doesn't look like the set of parts in ZooKeeper",
    ),
    "refused-start": HealthKind(
        "a replica does not start, for too many of its rows are in parts that ZooKeeper does not "
        "know (TOO_MANY_UNEXPECTED_DATA_PARTS, 231)",
        pattern=r"\bCode: 231\b.*doesn't look like the set of parts in ZooKeeper",
    ),
    "recovered-database": HealthKind(
        "a replica takes the definitions of a Replicated database's tables from ZooKeeper, and "
        "drops its own or puts them aside",
        pattern=r"<Warning> DatabaseReplicated .*Cleaned [1-9]\d* outdated objects",
    ),
    "keeper-error": HealthKind(
        "a thread of ZooKeeper died, or it cannot read what it has written",
        pattern=r"Severe unrecoverable error|Unexpected exception causing shutdown"
        r"|Unable to load database|CRC is corrupted|Unreasonable length",
    ),
    "failed-join": HealthKind(
        "a follower of ZooKeeper broke off while it joined its leader, by an error of its own",
        pattern=r"Exception when following the leader: java\.lang\.\w*(NullPointer|ClassCast)",
    ),
    "log-disorder": HealthKind(
        "ZooKeeper wrote a transaction to its log behind later ones, or read it there",
        pattern=r"Current zxid \d+ is <= \d+ for|\(highestZxid\) > \d+\(next log\)",
    ),
    "tree-differs": HealthKind(
        "ZooKeeper's tree after a transaction is not that of its leader",
        # The thread `main` reads the log of a server that starts, whose disorder is told above.
        pattern=r"^(?!.*\[main\]).*(digest mismatch|Digests are not matching)",
    ),
    "failing-task": HealthKind(
        "a background task fails again and again at rest",
        # A server that refuses what others ask of it does not fail itself.
        pattern=r"<Error> (?!executeQuery|TCPHandler|HTTP|DynamicQueryHandler|ForcedCritical"
        r"|InterserverIOHTTPHandler)"
        r"(.+?): .*?\bCode: (\d+)|<Warning> (.+?): Part (\S+) from own log doesn't exist",
        seconds_min=3,
    ),
    "read-only": HealthKind(
        "a table is read-only after the heal",
        sql="SELECT concat(database, '.', table, ' is read-only') FROM system.replicas "
        "WHERE is_readonly",
    ),
    "lost-part": HealthKind(
        "a replica counts parts that it lost",
        sql="SELECT concat(database, '.', table, ' lost ', toString(lost_part_count), ' parts') "
        "FROM system.replicas WHERE lost_part_count > 0",
        needs=(Mechanism.CLEANUP_BACKOFF,),
    ),
    "detached-part": HealthKind(
        "a part was put aside as broken or unexpected",
        sql="SELECT concat(database, '.', table, ' has put ', name, ' aside as ', reason) "
        "FROM system.detached_parts WHERE reason LIKE '%broken%' OR reason LIKE '%unexpected%'",
        needs=(Mechanism.ATOMIC_DATABASES,),
    ),
    "failing-entry": HealthKind(
        "an entry of a replication queue fails at rest",
        sql="SELECT concat(database, '.', table, ' ', type, ' of ', new_part_name, ' failed ', "
        "toString(num_tries), ' times: ', substring(last_exception, 1, 200)) "
        "FROM system.replication_queue WHERE last_exception != ''",
    ),
    "failing-mutation": HealthKind(
        "a mutation fails at rest",
        sql="SELECT concat(database, '.', table, ' ', mutation_id, ': ', "
        "substring(latest_fail_reason, 1, 200)) FROM system.mutations "
        "WHERE NOT is_done AND latest_fail_reason != ''",
        needs=(Mechanism.WAITED_MUTATIONS,),
    ),
}
"""What servers say, by name."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What a server may say under a fault, and why that is no defect of its own."""

    kind: str
    why: str
    faults: tuple[str, ...]
    """Beginnings of the names of faults, one of which must have been injected."""


@dataclass(frozen=True, slots=True)
class Reported:
    """A defect that is reported upstream, by what the server says."""

    kind: str
    words: str
    """Regular expression of the text."""
    report: str


DISKS: Final = ("disk-", "power-cut", "empty-disk", "old-disk", "keeper-", "replace")
"""Beginnings of the names of faults that take files from servers."""
STARTS: Final = (
    *("kill", "restart", "upgrade", "merge-kill", "drop-kill", "fetch-kill", "clone-kill"),
    *("commit-kill", "pull-kill", "register-kill", "finish-kill", "quorum-end-kill"),
)
"""Beginnings of the names of other faults after which a server starts."""
EXPECTED: Final[Sequence[Expected]] = (
    Expected("unexpected-part", "a fault took files", faults=DISKS),
    Expected("unexpected-part", "a server started again", faults=STARTS),
    Expected("broken-part", "a fault took files", faults=DISKS),
    Expected("detached-part", "a fault took files", faults=DISKS),
    Expected("lost-forever", "a fault took files", faults=DISKS),
    Expected("lost-part", "a fault took files", faults=DISKS),
    Expected("keeper-error", "a fault took files", faults=DISKS),
    Expected("recovered-database", "a fault took files", faults=DISKS),
    # ZooKeeper counts the blocks from its copy on. Any other fault must not make it count twice.
    Expected("taken-number", "ZooKeeper was put back", faults=("keeper-rewound",)),
)


REPORTED_UPSTREAM: Final[Sequence[Reported]] = (
    Reported("keeper-error", r"SyncThread", "ZOOKEEPER-4409, ZOOKEEPER-4541"),
    Reported("recovered-database", r"moved [1-9]", "ClickHouse#111374"),
    Reported("recovered-database", r"and [1-9]\d* tables", "ClickHouse#111935, ClickHouse#111957"),
    Reported("log-disorder", r"\[(SyncThread|main)", "ZOOKEEPER-4541, ZOOKEEPER-4712"),
    Reported("failed-join", r'"pif" is null', "ZOOKEEPER-4394"),
)
"""`keeper-error` and `log-disorder` are what a follower of 3.8.0 does that loses its leader while
transactions are on their way to its log: the thread that writes them outlives the follower, and
writes beside that of the next one (`Follower.shutdown`, since ZOOKEEPER-3642; apache/zookeeper#2154
mends it). 3.9.5 has not shown them. `failed-join` is what `Learner.syncWithLeader` of 3.8.0 does
with a commit that comes between NEWLEADER and UPTODATE (apache/zookeeper#2152 mends it)."""


class Health:
    """Judges what the servers said of themselves at the end of a run."""

    name = HEALTH

    def __init__(self, *, only_reports: bool = True) -> None:
        self.only_reports = only_reports
        """Whether its verdict does not decide the run."""

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs a server that was asked."""
        op = health_of(history)
        report = HealthReport() if op is None else decode(op, HealthReport)
        injected = {edge_of(one).name for one in history.nemesis} - {""}
        found, expected, reported = Findings(self.name), dict[str, int](), dict[str, set[str]]()
        for node, complaints in report.servers.items():
            for one in complaints:
                if why := _expected(one, injected):
                    known = f"{one.kind} ({why})"
                    expected[known] = expected.get(known, 0) + one.count
                    continue
                assert op is not None
                reported.setdefault(one.kind, set()).add(_report_of(one))
                found.add_anomaly(one.kind, _sentence(node, one, _report_of(one)), op)
        found.doubts += [f"{node}: {why}" for node, why in report.unread.items()]
        asked = number(len(report.servers), "server")
        also = ", ".join(f"{count:,} {kind}" for kind, count in expected.items())
        return found.verdict(
            checked=len(report.servers),
            broken=f"servers complain of themselves: {found.tally}",
            nothing="no server was asked",
            held=f"{asked} complained of nothing"
            + (f" but what is expected: {also}" if also else ""),
            figures={
                "expected": expected,
                "reported": {
                    kind: ", ".join(sorted(reports))
                    for kind, reports in reported.items()
                    if "" not in reports
                },
            },
        )


def health_of(history: History) -> Op | None:
    """Return the op that says what the servers said of themselves; None if they were not asked."""
    ends = [op for op in history.nemesis if op.f == HEALTH and op.kind is Kind.OK]
    return ends[-1] if ends else None


@memoize_per_history
def complaints_of(history: History) -> Mapping[str, Mapping[str, Complaint]]:
    """Return what each server said of itself at the end of a run, by its name and the kind."""
    op = health_of(history)
    report = HealthReport() if op is None else decode(op, HealthReport)
    return {node: {one.kind: one for one in said} for node, said in report.servers.items()}


def complaints_in(log: str, rest: datetime | None = None) -> list[Complaint]:
    """Return what a server's error log says, of each kind the first line and their number. A line
    that continues another one belongs to it if it names an exception of Java, and is left out
    otherwise, as the frames of a stack are. `rest` is the time in UTC from which on what does not
    end is looked for; None to look for nothing of that."""
    lines: dict[tuple[str, ...], list[str]] = {}
    at_rest = "" if rest is None else rest.strftime(TIME)
    for line in _messages(log):
        for kind, pattern in _PATTERNS.items():
            endless = bool(KINDS[kind].seconds_min)
            counts = not endless or ("" < at_rest <= line)
            if counts and (said := pattern.search(line)):
                lines.setdefault((kind, *(said.groups("") if endless else ())), []).append(line)
    found: dict[str, Complaint] = {}
    for (kind, *_), of in lines.items():
        seconds = {line[:TIME_CHARS] for line in of}
        if kind not in found and len(seconds) >= KINDS[kind].seconds_min:
            found[kind] = Complaint(kind, of[0][:TEXT_MAX], len(of))
    return [*found.values()]


def questions(dialect: Dialect) -> Mapping[str, str]:
    """Return the queries, by kind, that servers of this dialect can answer."""
    return {
        name: kind.sql for name, kind in KINDS.items() if kind.sql and not dialect.lacks(kind.needs)
    }


REST_S: Final = 10.0
"""Length of the end of a rest in which a server says what does not end. A rest of less than twice
that says nothing: what a fault began may take as long to end."""
TIME: Final = "%Y.%m.%d %H:%M:%S"
"""Time at the beginning of a message of a database server, in UTC."""
TIME_CHARS: Final = 19
TEXT_MAX: Final = 400
"""Length of a line from which it is cut off."""
_MESSAGE: Final = re.compile(r"\d{4}[.-]\d\d[.-]\d\d[ T]")
"""Beginning of a line of a log that is a message of its own."""
_EXCEPTION: Final = re.compile(r"java\.[\w.$]+(Exception|Error)\b")
_PATTERNS: Final = {name: re.compile(one.pattern) for name, one in KINDS.items() if one.pattern}


def _messages(log: str) -> Iterable[str]:
    """Yield the messages of a log, each with the exception of Java that it is about."""
    message = ""
    for line in log.splitlines():
        if _MESSAGE.match(line):
            if message:
                yield message
            message = line
        elif message and _EXCEPTION.match(line):
            message = f"{message}: {line}"
    if message:
        yield message


def _expected(complaint: Complaint, injected: Iterable[str]) -> str:
    """Return why a server may say this under these faults; "" if it may not."""
    for one in EXPECTED:
        if one.kind == complaint.kind and any(fault.startswith(one.faults) for fault in injected):
            return one.why
    return ""


def _report_of(one: Complaint) -> str:
    """Return the report upstream of what a server says of itself; "" without one."""
    reports = (
        known.report
        for known in REPORTED_UPSTREAM
        if known.kind == one.kind and re.search(known.words, one.text)
    )
    return next(reports, "")


def _sentence(node: str, one: Complaint, report: str) -> str:
    times = f" ({one.count:,} times)" if one.count > 1 else ""
    what = KINDS[one.kind].text if one.kind in KINDS else one.kind
    known = f", known as {report}" if report else ""
    return f"{node}: {what}{times}{known}: {one.text}"

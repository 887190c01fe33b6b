"""What servers say of themselves: which lines of a log count, and which faults expect them."""

from datetime import datetime

import pytest

from checkers.every_run import applicable, every_run
from checkers.headline import headline
from checkers.health import KINDS, Complaint, Health, HealthReport, complaints_in, health_of
from checkers.judge import judge, judgement_of
from checkers.ladder import Level
from checkers.look import encode
from harness.core.history import History
from harness.core.op import NEMESIS, Json, Kind, Op
from harness.core.verdict import Status

LOG = """\
2026.11.27 12:00:00.000001 [ 12 ] {} <Error> void DB::run(): Code: 49. DB::Exception: No entry. \
(LOGICAL_ERROR), Stack trace (when copying this message, always include the lines below):

0. DB::Exception::Exception() @ 0x1
2026.11.27 12:00:01.000001 [ 12 ] {} <Error> void DB::run(): Code: 49. DB::Exception: No entry. \
(LOGICAL_ERROR)
2026.11.27 12:00:02.000001 [ 13 ] {} <Fatal> BaseDaemon: ########################################
2026.11.27 12:00:02.000002 [ 13 ] {} <Fatal> BaseDaemon: Received signal Segmentation fault (11)
2026.11.27 12:00:03.000001 [ 14 ] {} <Error> t (PartCheckThread): Part 0_1_1_0 is lost forever.
2026-11-27 12:00:03,000 WARN  [SyncThread:2] FileTxnLog: Current zxid 4294968508 is <= 4294968541 \
for multi
2026-11-27 12:00:03,100 WARN  [QuorumPeer] Learner: Exception when following the leader
java.io.EOFException
	at java.base/java.io.DataInputStream.readInt(DataInputStream.java:398)
2026-11-27 12:00:03,200 WARN  [QuorumPeer] Learner: Exception when following the leader
java.lang.NullPointerException: Cannot read field "hdr" because "pif" is null
	at org.apache.zookeeper.server.quorum.Learner.syncWithLeader(Learner.java:658)
2026.11.27 12:00:04.000001 [ 15 ] {} <Warning> t: Code: 490. DB::Exception: not 49
"""


def history(report: HealthReport | None, *faults: str) -> History:
    """Return a history whose run injected these faults and ended with this report."""
    values: list[tuple[str, Json]] = [
        *((name, {"edge": "once", "name": name}) for name in faults),
        *([] if report is None else [("health", encode(report))]),
    ]
    return History(
        [
            Op(index=2 * at + half, process=NEMESIS, kind=kind, f=f, time_ns=at, value=value)
            for at, (f, value) in enumerate(values)
            for half, kind in enumerate((Kind.INVOKE, Kind.OK))
        ]
    )


def test_each_kind_has_its_first_line_and_a_number() -> None:
    found = {one.kind: one for one in complaints_in(LOG)}

    assert {kind: one.count for kind, one in found.items()} == {
        "logical-error": 2,
        "fatal": 2,
        "lost-forever": 1,
        "log-disorder": 1,
        "failed-join": 1,
    }
    assert found["logical-error"].text.startswith("2026.11.27 12:00:00.000001")


FETCH = (
    "2026.11.27 12:00:{:02}.000001 [ 7 ] {{q::0_1_1_0}} <Error> db.t::0_1_1_0 (uuid): void "
    "DB::executeQueueEntry(): Code: 235. DB::Exception: Part 0_1_1_0 already exists."
)
OTHER = FETCH.replace("235", "234")
LACKS = (
    "2026.11.27 12:00:{:02}.000001 [ 7 ] {{}} <Warning> db.t (uuid): Part 0_1_1_0 from own log "
    "doesn't exist."
)
QUERY = (
    "2026.11.27 12:00:{:02}.000001 [ 8 ] {{q}} <Error> executeQuery: Code: 242. DB::Exception: "
    "Table is in readonly mode"
)

ASKED = (
    "2026.11.27 12:00:{:02}.000001 [ 9 ] {{}} <Error> InterserverIOHTTPHandler: Code: 232. "
    "DB::Exception: No part 0_0_13_2 in table. (NO_SUCH_DATA_PART)"
)


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        ([FETCH.format(second) for second in (21, 23, 25)], 3),
        ([LACKS.format(second) for second in (21, 21, 23, 25)], 4),
        ([FETCH.format(second) for second in (21, 23, 23)], 0),
        ([FETCH.format(second) for second in (17, 19, 21, 23)], 0),
        ([FETCH.format(21), OTHER.format(23), FETCH.format(25)], 0),
        ([QUERY.format(second) for second in (21, 23, 25)], 0),
        ([ASKED.format(second) for second in (21, 23, 25)], 0),
    ],
    ids=[
        "again and again",
        "its own part",
        "in two seconds",
        "before the end",
        "two errors",
        "a client's calls",
        "another replica's fetches",
    ],
)
def test_a_task_fails_without_end_only_if_it_does_so_at_rest(lines: list[str], count: int) -> None:
    log, rest = "\n".join(lines), datetime(2026, 11, 27, 12, 0, 20)

    found = [(one.kind, one.count) for one in complaints_in(log, rest)]

    assert found == ([("failing-task", count)] if count else [])
    assert complaints_in(log) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_a_violation(kind: str) -> None:
    verdict = Health().check(history(HealthReport({"ch1": [Complaint(kind, "so it is")]})))

    assert verdict.status is Status.INVALID
    assert [(one.kind, "ch1" in one.text) for one in verdict.anomalies] == [(kind, True)]


def test_what_a_fault_takes_is_expected_and_counted() -> None:
    report = HealthReport({"ch1": [Complaint("lost-part", "lost 3", 3)], "ch2": []})

    struck = Health().check(history(report, "power-cut-torn"))
    older = Health().check(history(report, "old-disk-clickhouse-one"))
    other = Health().check(history(report, "kill-clickhouse"))

    assert (struck.status, older.status) == (Status.VALID, Status.VALID)
    assert struck.figures["expected"] == {"lost-part (a fault took files)": 3}
    assert other.status is Status.INVALID


TAKEN = (
    "2026.11.27 12:00:05.000001 [ 8 ] {q} <Error> executeQuery: Code: 49. DB::Exception: Part with "
    "name all_0_0_0 is already written by concurrent request. (LOGICAL_ERROR)"
)


@pytest.mark.parametrize(
    ("log", "fault", "broken"),
    [
        (TAKEN, "keeper-rewound-zookeeper-all", []),
        # Nothing else makes ZooKeeper count the same blocks twice, and nothing else is expected.
        (TAKEN, "kill-zookeeper-all", ["taken-number"]),
        (f"{TAKEN}\n{LOG}", "keeper-rewound-zookeeper-all", ["logical-error"]),
    ],
)
def test_a_number_that_is_assigned_twice_is_expected_when_zookeeper_was_put_back(
    log: str, fault: str, broken: list[str]
) -> None:
    said = [one for one in complaints_in(log) if one.kind in ("taken-number", "logical-error")]
    verdict = Health().check(history(HealthReport({"ch1": said}), fault))

    assert [one.kind for one in verdict.anomalies] == broken


RECOVERED = (
    "2026.11.27 12:00:06.000001 [ 8 ] {{}} <Warning> DatabaseReplicated (d): Cleaned {} outdated "
    "objects: dropped 0 dictionaries and {} tables, moved {} tables"
)


@pytest.mark.parametrize(
    ("counts", "report"),
    [((1, 1, 0), "#111935"), ((2, 0, 2), "#111374"), ((0, 0, 0), None)],
)
def test_a_database_that_is_recovered_names_the_report_on_what_it_did(
    counts: tuple[int, int, int], report: str | None
) -> None:
    said = complaints_in(RECOVERED.format(*counts))
    verdict = Health().check(history(HealthReport({"ch1": said})))
    found = [(one.kind, str(report) in one.text) for one in verdict.anomalies]

    assert found == ([("recovered-database", True)] if report else [])


def test_what_is_reported_upstream_names_the_report() -> None:
    kinds = {"log-disorder": "ZOOKEEPER-4712", "failed-join": "ZOOKEEPER-4394"}
    known = [one for one in complaints_in(LOG) if one.kind in kinds]
    verdict = Health().check(history(HealthReport({"zk2": known, "ch1": [Complaint("fatal", "")]})))

    assert [(one.kind, "ZOOKEEPER" in one.text) for one in verdict.anomalies] == [
        *((kind, True) for kind in kinds),
        ("fatal", False),
    ]
    assert all(kinds.get(one.kind, "") in one.text for one in verdict.anomalies)


def test_a_server_that_was_not_read_is_a_doubt() -> None:
    unread = Health().check(history(HealthReport({"ch1": []}, {"ch1": "no answer"})))
    nobody = Health().check(history(HealthReport()))

    assert (unread.status, unread.summary) == (Status.UNKNOWN, "ch1: no answer")
    assert nobody.status is Status.UNKNOWN


def test_it_judges_the_runs_that_asked() -> None:
    without, asked = history(None), history(HealthReport({"ch1": []}))

    assert health_of(without) is None
    assert "health" not in [one.name for one in applicable(every_run(), without)]
    assert "health" in [one.name for one in applicable(every_run(), asked)]


@pytest.mark.parametrize(
    ("fail_on", "complaints", "status"),
    [
        ((), ["fatal"], Status.UNKNOWN),  # of a run of which nothing else is known
        (("health",), ["fatal"], Status.INVALID),
        (("health",), [], Status.VALID),
    ],
)
def test_it_decides_only_a_run_that_is_to_fail_on_it(
    fail_on: tuple[str, ...], complaints: list[str], status: Status
) -> None:
    told = history(HealthReport({"ch1": [Complaint(kind, "so it is") for kind in complaints]}))
    judgement = judge(told, applicable(every_run(fail_on), told), 60, Level.EVENTUAL)

    assert judgement.status is status
    assert judgement_of(judgement.results()).deciding == judgement.deciding
    assert ("complain of themselves" in headline(judgement)) is bool(complaints)


def test_a_run_that_is_to_fail_on_it_and_never_asked_is_unknown() -> None:
    told = history(None)

    judgement = judge(told, applicable(every_run(("health",)), told), 60, Level.EVENTUAL)

    assert [one.summary for one in judgement.deciding] == ["no server was asked"]
    assert judgement.status is Status.UNKNOWN

"""`harness audit`: judge what the servers of somebody else logged about a table."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import msgspec
import rich_click as click
from rich.table import Table

from checkers.headline import headline
from checkers.ladder import Level
from harness.cli.parameter_types import WORD, json_option, number, store_option
from harness.cli.result import CommandAnswer, print_answer
from harness.cli.terminal import Terminal, print_json
from harness.core.clock import utc_now
from harness.core.errors import UsageError
from harness.core.history import History
from harness.core.seed import Seed
from harness.core.verdict import Status, Verdict
from harness.report.run_files import draw
from harness.run.audit import AuditRequest, audited, zero_of
from harness.run.audit_demo import audit_demo
from harness.run.audit_log import ZooKeeperLogs
from harness.run.made_history import Origin, StoredHistory, origin_of, store_history
from harness.run.server_file import ServerFile, read_servers
from harness.run.stop import Stop
from harness.spec.run_spec import RunSpec
from harness.store.store import Store
from workloads.audited_table import AUDITED

PROVABLE: Final = (
    ("an acknowledged insert is lost", "yes: no replica has its part, or too few of its rows"),
    ("its quorum had failed", "yes, while ZooKeeper or its log has the failed part"),
    (
        "it was acknowledged early",
        "yes, by ZooKeeper's log; else if by more than clocks may differ",
    ),
    ("/quorum/last_part went back", "by ZooKeeper's log: reads may have been stale"),
    ("replicas differ", "yes: parts of one name with other data"),
    ("an acknowledged duplicate is lost", "no: a duplicate makes no part"),
    ("rows are there twice", "no: a block may have been inserted twice on purpose"),
    ("a read was stale", "no: no log has what a query returned"),
)
"""What may have gone wrong, and whether logs show it."""
FLUSHED: Final = timedelta(seconds=15)
"""Age at which a server has written the rows of its logs."""


class NamedAnomaly(msgspec.Struct, frozen=True):
    """What `audit --json` says of an anomaly."""

    kind: str
    text: str


class AuditAnswer(msgspec.Struct, frozen=True):
    """What `audit --json` prints: fields of the verdict, and what such logs can show."""

    status: Status
    summary: str
    checked: int
    anomalies: tuple[NamedAnomaly, ...]
    run: str
    """Directory in which the audit is stored."""
    provable: dict[str, str] = msgspec.field(default_factory=lambda: dict(PROVABLE))


@click.command("audit")
@click.option(
    "--servers",
    type=WORD,
    metavar="FILE",
    help="Addresses of the servers, see docs/external-clusters.md.",
)
@click.option("--table", metavar="DATABASE.TABLE", help="The replicated table.")
@click.option(
    "--since",
    metavar="TIME",
    help="Begin of the period in UTC, as 2026-11-25T12:00. Default: an hour ago.",
)
@click.option("--until", metavar="TIME", help="End of the period. Default: 15 seconds ago.")
@click.option(
    "--clock-error",
    type=number("interval"),
    default=1.0,
    show_default=True,
    help="Seconds by which the clocks of two servers may differ.",
)
@click.option(
    "--zookeeper-log",
    "zookeeper_logs",
    type=WORD,
    metavar="DIR",
    multiple=True,
    help="A copy of a ZooKeeper server's directory version-2, or an archive of it. Most of the "
    "servers are needed; say it once for each.",
)
@click.option(
    "--demo",
    is_flag=True,
    help="Try it: bring up servers in containers, write orders there, let one overtake another, "
    "and audit that.",
)
@store_option
@json_option
def audit(store: str, *, demo: bool, as_json: bool, **given: Any) -> int:
    """Judge the inserts that servers logged: is every acknowledged one still there?

    It reads system.query_log, part_log and parts of each replica, which quorums have failed from
    ZooKeeper, and copies of ZooKeeper's log; it changes nothing. The audit is stored as a run is,
    with a page. Exit status: 0 all is there, 1 something is not, 2 the logs do not say.
    """
    console, runs = Terminal(stderr=as_json, highlight=False), Store(Path(store))
    console.warn(runs.prepare())
    source = _demo(runs, console) if demo else _somebody_elses(**given)
    spec = RunSpec(
        workload=AUDITED,
        nemesis="none",
        seed=Seed(0),
        cluster="docker" if demo else "external",
        promise=Level.EVENTUAL.value,
        command=source.command,
    )
    history = source.history
    made = store_history(runs, spec, "none", history, source.origin, zero_of(history), explain=True)
    troubles = [*made.troubles, *filter(None, [draw(made.directory, source.history)])]
    (verdict,) = made.judgement.verdicts
    if as_json:
        answer = AuditAnswer(
            status=verdict.status,
            summary=verdict.summary,
            checked=verdict.checked,
            anomalies=tuple(NamedAnomaly(one.kind, one.text) for one in verdict.anomalies),
            run=str(made.directory.path),
        )
        print_json(answer)
    else:
        _show(made, verdict, Terminal())
    for trouble in troubles:
        console.warn(trouble)
    return verdict.status.exit_status


@dataclass(frozen=True, slots=True)
class Source:
    """What servers logged, and the command that asked them."""

    history: History
    origin: Origin
    command: str


def _demo(store: Store, console: Terminal) -> Source:
    def note(text: str) -> None:
        console.print(text, style="dim")

    stop = Stop()
    with stop.obeying_signals(), stop.interrupting():
        history, origin = audit_demo(store, note)
    return Source(history, origin, "harness audit --demo")


def _somebody_elses(
    servers: str | None,
    table: str | None,
    since: str | None,
    until: str | None,
    clock_error: float,
    zookeeper_logs: Sequence[str],
) -> Source:
    """Ask the servers of a file. Raises UsageError and ClusterError."""
    if servers is None or table is None:
        lacking = "--servers" if servers is None else "--table"
        raise UsageError(f"{lacking}: is missing; expected --servers FILE and --table, or --demo")
    database, _, name = table.partition(".")
    if not (database and name):
        raise UsageError(f"--table {table}: expected DATABASE.TABLE")
    file = read_servers(Path(servers))
    now = utc_now()
    request = AuditRequest(
        database=database,
        table=name,
        since=_time("--since", since) if since else now - timedelta(hours=1),
        until=_time("--until", until) if until else now - FLUSHED,
        clock_error_s=clock_error,
        zookeeper=_zookeeper(file, zookeeper_logs),
    )
    if request.since >= request.until:
        raise UsageError(f"--since {request.since:%FT%T}: expected before {request.until:%FT%T}")
    cluster = file.cluster()
    words = ["--servers", servers, "--table", table, "--clock-error", f"{clock_error:g}"]
    words += ["--since", f"{request.since:%FT%T}", "--until", f"{request.until:%FT%T}"]
    words += [word for path in zookeeper_logs for word in ("--zookeeper-log", path)]
    command = shlex.join(["harness", "audit", *words])
    return Source(audited(cluster, request), origin_of(cluster), command)


def _zookeeper(servers: ServerFile, paths: Sequence[str]) -> ZooKeeperLogs | None:
    if not paths:
        return None
    keepers = len(servers.topology.keepers)
    return ZooKeeperLogs(paths=[Path(path) for path in paths], servers=keepers)


def _time(flag: str, text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{flag} {text}: expected a time such as 2026-11-25T12:00") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _show(made: StoredHistory, verdict: Verdict, console: Terminal) -> None:
    table = Table("what may have gone wrong", "do such logs show it?", box=None, pad_edge=False)
    for what, answer in PROVABLE:
        table.add_row(what, answer)
    console.print(table)
    for one in verdict.anomalies:
        console.print(f"{one.kind}: {one.text}", markup=False)
    invalid = verdict.status is Status.INVALID
    summary = headline(made.judgement) if invalid else verdict.summary
    last = CommandAnswer(verdict.status, f"{summary}; report: {made.directory.report}")
    print_answer(console, last)

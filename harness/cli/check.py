"""`harness check`: judge a stored run again, or histories of other systems."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast, get_args

import rich_click as click
from click.core import ParameterSource
from msgspec import structs
from pyporcupine import LEVELS
from pyporcupine.importers.calls import READ_LIKE, FailedCas
from pyporcupine.importers.formats import FORMATS
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from checkers.every_run import applicable, every_run
from checkers.judge import fitting, judge
from checkers.ladder import Level
from checkers.phrasing import number as counted
from harness.cli import check_files
from harness.cli.display import Pace
from harness.cli.parameter_types import (
    WORD,
    Name,
    NameOrReference,
    json_option,
    number,
    open_option,
    store_option,
)
from harness.cli.result import (
    STATUS_STYLE,
    CommandAnswer,
    open_page,
    print_answer,
    print_result,
    result,
)
from harness.cli.terminal import Terminal, print_json
from harness.core.errors import HarnessError, UsageError
from harness.core.ranges import quoted
from harness.core.verdict import Status
from harness.fleet.engine import SPARK_FROM, EngineName
from harness.fleet.found_runs import Found, found, runs_at
from harness.fleet.location import Location
from harness.importers.files import check_files as judge_files
from harness.importers.files import exit_status, files
from harness.importers.judge import MEMORY_MB, TIME_S, CheckParameters, draw_file, reads_of
from harness.importers.options import MODEL_NAMES, ORDERS, CheckOptions, parameters, refuse
from harness.importers.transactions import TransactionParameters, draw_transactions
from harness.report.run_files import draw
from harness.spec.workload_options import workload_of
from harness.store.store import LATEST, RunDirectory, Store, run_in

if TYPE_CHECKING:
    from harness.fleet.store_check import StoreReport

SHOWN_MAX = 20
"""Number of runs of a store that are printed; the JSON has all."""
RUN_OPTIONS = ("store", "promise", "check_time", "open_")
STORE_OPTIONS = ("spark", "engine", "force", "checkers")
FILE_OPTIONS = (
    "model", "format_", "consistency", "initial", "time_s", "memory_mb", "keyed", "failed_cas",
    "picture", "writes_follow_reads", "sequential_keys", "linearizable_keys", "negative_balances",
)  # fmt: skip
_Stored: TypeAlias = RunDirectory | Found


@click.command("check")
@click.argument("targets", nargs=-1, type=WORD, metavar="[RUN | FILE…]")
@store_option
@click.option(
    "--promise",
    type=Name([level.value for level in Level]),
    help="Judge against this level; the stored verdict stays that on the run's own promise. "
    "Default: the run's own.",
)
@click.option(
    "--check-time",
    type=number("check_time"),
    default=120.0,
    show_default=True,
    help="Time budget of the checkers of a run in seconds, times the millions of operations of a "
    "longer history; what they have not decided by then is UNKNOWN.",
)
@click.option(
    "--spark",
    type=WORD,
    metavar="MASTER",
    help="Stores: judge on the Spark of this master, such as spark://HOST:PORT, yarn, k8s://URL, "
    "or local[*] on this machine.",
)
@click.option(
    "--engine",
    type=Name([name.value for name in EngineName]),
    default=EngineName.AUTO.value,
    show_default=True,
    help=f"Stores: what judges; auto: Spark from {SPARK_FROM:,} histories on, if installed.",
)
@click.option("--force", is_flag=True, help="Stores: also judge runs that have not changed.")
@click.option(
    "--checkers",
    help="Stores: run only these checkers, separated by commas; MODULE:CLASS for one of your own.",
)
@click.option(
    "--model",
    type=NameOrReference(MODEL_NAMES),
    help="Files: model of the object in the histories, or an invariant; MODULE:CLASS for a model "
    "of your own.",
)
@click.option(
    "--format",
    "format_",
    type=Name(FORMATS),
    help="Files: format. Default: by the suffix of each file.",
)
@click.option(
    "--consistency",
    type=Name([*ORDERS, *LEVELS]),
    help="Files: consistency to check: linearizable (the default) or sequential; for list-append "
    "and rw-register a level of isolation. Default: serializable.",
)
@click.option("--initial", help="Files: initial value, as JSON. Default: that of the model.")
@click.option(
    "--time-s",
    type=number("time_s"),
    default=TIME_S,
    show_default=True,
    help="Files: time budget in seconds of all files; keys undecided by then are UNKNOWN.",
)
@click.option(
    "--memory-mb",
    type=number("memory_mb"),
    default=MEMORY_MB,
    show_default="a quarter of the machine's",
    help="Files: memory budget in megabytes of all keys of a file; keys beyond it are UNKNOWN.",
)
@click.option(
    "--keyed/--not-keyed",
    default=None,
    help="Files: whether values are [key, value]. Default: detected.",
)
@click.option(
    "--failed-cas",
    type=Name(get_args(FailedCas)),
    help="Files: ignore a failed cas, or take it as an observation of another value. Default: "
    "ignore for edn and json, observe for the others.",
)
@click.option(
    "--writes-follow-reads/--no-writes-follow-reads",
    default=True,
    help="Files, rw-register: what a transaction writes is later than what it read of the key.",
)
@click.option(
    "--sequential-keys",
    is_flag=True,
    help="Files, rw-register: each process meets the versions of a key in order.",
)
@click.option(
    "--linearizable-keys",
    is_flag=True,
    help="Files, rw-register: no transaction meets an older version of a key than one that "
    "returned before it was called.",
)
@click.option(
    "--negative-balances",
    is_flag=True,
    help="Files, bank: allow balances below zero.",
)
@click.option(
    "--picture",
    type=WORD,
    metavar="OUT.html",
    help="Files: draw the history of one file into this page, with the smallest failing part.",
)
@open_option
@json_option
@click.pass_context
def check(
    context: click.RichContext, /, targets: tuple[str, ...], as_json: bool, **values: Any
) -> int:
    """Judge a stored run again: a directory, a path within the store, or latest (the default).

    A word without a slash is looked up in the store; write ./NAME or /PATH for a directory. For a
    run that crashed or was killed, judges the operations in its journal. For a store, or a folder
    of one, judges all runs that are new or have changed. A store may also be a URI, such as
    s3://BUCKET/PREFIX.

    With `--model` or `--format`, judges histories of other systems, given as files, directories or
    patterns.
    """
    options = CheckOptions(**values)
    chosen = {name for name in values if _chosen(context, name)}
    if chosen & {"model", "format_"}:
        refuse(chosen & {*RUN_OPTIONS, *STORE_OPTIONS}, "for stored runs, and these are files")
        return _check_files(targets, as_json, options, chosen)
    refuse(chosen & set(FILE_OPTIONS), "for files; give --model as well")
    if len(targets) == 1 and "://" in targets[0]:
        place = Location.of(targets[0])
        # A path is a path, also as a URI: what it names may be a run.
        targets = targets if place.path is None else (f"{place.path}",)
        if place.path is None:
            many = runs_at(place)
            return _check_store(many, as_json, options, own_time="check_time" in chosen)
    what = _stored(Store(Path(options.store)), targets)
    if isinstance(what, Found):
        return _check_store(what, as_json, options, own_time="check_time" in chosen)
    refuse(chosen & set(STORE_OPTIONS), f"for stores, and {str(what.path)!r} is a run")
    return _check_run(what, as_json, options)


def _stored(store: Store, targets: tuple[str, ...]) -> _Stored:
    """Return the run, the store or the folder of a store that is to be judged."""
    if len(targets) > 1:
        _refuse_files(targets)
        raise UsageError(f"{len(targets)} runs; expected one, or --model to judge files")

    def look(place: Path) -> _Stored | None:
        return run_in(place) or found(place)

    try:
        # mypy infers object as the join of a union with None.
        return cast(_Stored, store.look(targets[0] if targets else LATEST, look))
    except UsageError:
        _refuse_files(targets)
        raise


def _refuse_files(targets: tuple[str, ...]) -> None:
    for target in targets:
        if os.path.isfile(target):  # unlike Path.is_file, False if the name is too long
            models = ", ".join(MODEL_NAMES)
            raise UsageError(
                f"{quoted(target)} is a file; expected a run, or files with --model, one of "
                f"{models}"
            )


def _check_store(found: Found, as_json: bool, options: CheckOptions, *, own_time: bool) -> int:
    """Judge a store. The time budget of each run is that of the command line if `own_time`, else
    the one that the run itself had."""
    # Slow to import, and the other forms of the command do not need it.
    from harness.fleet.store_check import StoreCheckOptions, check_store

    console = Terminal(stderr=as_json)
    store_options = StoreCheckOptions(
        engine=EngineName(options.engine),
        spark=options.spark,
        force=options.force,
        checkers=options.checkers,
        promise=options.promise,
        check_s=options.check_time if own_time else None,
    )
    report, unstored = check_store(found, store_options, partial(_progress, console))
    console.warn(f"not stored: {unstored}" if unstored else "")
    if as_json:
        print_json(report)
    else:
        _show_store(console, report)
    return report.status.exit_status


def _chosen(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE


def _check_files(
    targets: tuple[str, ...], as_json: bool, options: CheckOptions, chosen: set[str]
) -> int:
    if not targets:
        raise UsageError("no file; expected files, directories or patterns such as 'logs/*.log'")
    paths = files(targets, options.format_)
    given = parameters(options, {name for _, name in paths}, chosen)
    if options.picture and len(paths) != 1:
        raise UsageError(f"--picture draws one file, and these are {len(paths)}")
    console = Terminal(stderr=as_json)
    pace = Pace("files", len(paths), options.time_s)
    with console.status(pace.text(0)) if console.is_terminal else nullcontext() as spinner:
        judged = judge_files(
            paths,
            given,
            lambda done: None if spinner is None else spinner.update(pace.text(done)),
            keyed=options.keyed,
            failed_cas=options.failed_cas,
            reads=READ_LIKE | reads_of(given),
        )
    if options.picture and isinstance(given, CheckParameters):
        draw_file(judged[0], given, Path(options.picture))
    elif options.picture and isinstance(given, TransactionParameters):
        draw_transactions(judged[0], given, Path(options.picture))
    if as_json:
        print_json(check_files.as_json(judged))
    else:
        check_files.show(judged, console)
    return exit_status(judged)


def _check_run(directory: RunDirectory, as_json: bool, options: CheckOptions) -> int:
    info, contents = directory.info(), directory.contents()
    promised = Level.named(info.spec.promise)
    level = promised if options.promise is None else Level.named(options.promise)
    workload = workload_of(structs.replace(info.spec, promise=level.value))
    own = fitting(workload.checkers(), info.engines.dialect)
    checkers = applicable((*own, *every_run(info.spec.fail_on)), contents.history)
    judgement = judge(contents.history, checkers, options.check_time, level, explain=True)
    troubles = (
        [f"the run never ended: {info.error or info.state}"]
        if info.state not in ("finished", "recorded")
        else list(info.troubles)
    )
    if contents.damage:
        troubles.append(contents.damage)
    page = None
    if level is promised:
        try:
            troubles += directory.save(judgement, troubles)
        except HarnessError as error:
            troubles.append(f"the verdict is not stored: {error}")
        undrawn = draw(directory, None if contents.damage else contents.history)
        troubles += [undrawn] if undrawn else []
        page = None if undrawn else directory.report
    console = Terminal(stderr=as_json)
    if as_json:
        print_json({"run": directory.path, "troubles": troubles, **judgement.results()})
    else:
        panel = result(
            judgement,
            contents.history,
            title=str(directory.path),
            workload=info.spec.workload,
            repro_command=info.spec.command,
            troubles=troubles,
        )
        print_result(console, panel)
        if level is not promised:
            console.print(
                f"not stored: results.json and the page keep the verdict on the run's own promise, "
                f"{promised}",
                soft_wrap=True,
                highlight=False,
            )
        print_answer(console, CommandAnswer.of(judgement, page))
    if options.open_:
        open_page(console, page)
    return judgement.status.exit_status


@contextmanager
def _progress(console: Console, items: int, begin: str) -> Iterator[Callable[[int], None]]:
    """Show a bar while the block runs, and yield what moves it."""
    pace = Pace("items", items)
    bar = Progress(
        BarColumn(),
        TextColumn("{task.description}"),
        console=console,
        transient=True,
        auto_refresh=begin != "judging",  # its thread must not be copied to the processes
    )
    with bar:
        task = bar.add_task(begin, total=items)

        def show(done: int) -> None:
            bar.update(task, completed=done, description=f"judging: {pace.text(done)}")
            bar.refresh()

        yield show


def _show_store(console: Console, report: "StoreReport") -> None:
    if report.not_valid:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
        table.add_column("run", overflow="fold")
        table.add_column("verdict", no_wrap=True)
        table.add_column("why", overflow="fold")
        for one in report.not_valid_by_severity[:SHOWN_MAX]:
            why = Text(one.reason)
            if one.note and one.note not in one.reason:
                why.append(f"\n! {one.note}", "yellow")
            table.add_row(one.run, Text(one.status.value, STATUS_STYLE[one.status]), why)
        console.print(table)
        if len(report.not_valid) > SHOWN_MAX:
            console.print(f"and {len(report.not_valid) - SHOWN_MAX:,} more", style="dim")
    if len(report.by_servers) > 1:
        _show_by_servers(console, report)
    for run in report.never_began[:SHOWN_MAX]:
        console.print(f"never began: {run.run}: {run.why}", style="dim", markup=False,
                      highlight=False)  # fmt: skip
    console.print(
        f"promise: {report.promise or 'of each run'}; {report.judged:,} judged in "
        f"{report.seconds:.1f} s, {report.unchanged:,} unchanged, known from "
        f"{report.bytes_read:,} bytes",
        style="dim",
        highlight=False,
    )
    console.print(f"judged by {report.engine}", style="dim", highlight=False)
    print_answer(console, _answer_on_store(report))


def _show_by_servers(console: Console, report: "StoreReport") -> None:
    """Print what the runs on each kind and version of servers came to."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    for name in ("servers", "runs", *map(str, Status), "anomalies"):
        table.add_column(name, overflow="fold")
    for one in report.by_servers:
        kinds = ", ".join(f"{kind} {count}" for kind, count in one.anomalies.items())
        table.add_row(one.on, f"{one.runs:,}", *map(str, one.statuses.values()), kinds)
    console.print(table)


def _answer_on_store(report: "StoreReport") -> CommandAnswer:
    """Return the number of each status, and of the worst one the first run."""
    counts = report.statuses
    tally = ", ".join(f"{count:,} {status.value}" for status, count in counts.items() if count)
    first = next((one for one in report.not_valid if one.status is report.status), None)
    detail = "" if first is None or report.status is Status.VALID else f"; first: {first.run}"
    if report.explorations:
        detail += f"; {sum(report.explorations.values()):,} explorations of models count apart"
    if report.never_began:
        detail += f"; {len(report.never_began):,} more never began, and count as nothing"
    if report.checkers is not None:
        detail += f"; by {', '.join(report.checkers)} alone, whatever other checkers find"
    text = f"{counted(report.runs, 'run')}: {tally}{detail}; verdicts: {report.verdicts}"
    return CommandAnswer(report.status, text)

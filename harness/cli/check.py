"""`harness check`: judges a stored run again, or histories that others wrote."""

import json
import os
from dataclasses import replace
from pathlib import Path
from types import EllipsisType
from typing import Any, TypeAlias, cast, get_args

import rich_click as click
from click.core import ParameterSource

from checkers.judge import fitting, judge
from checkers.ladder import Level
from checkers.protocol import Protocol, applicable
from harness.cli import check_files as foreign
from harness.cli.parameter_types import WORD, number, store_option
from harness.cli.result import print_result, result
from harness.cli.terminal import Terminal
from harness.cli.workload import workload_of
from harness.core.errors import HarnessError, UsageError
from harness.foreign.calls import FailedCas
from harness.foreign.formats import FORMATS, MODELS, Model
from harness.foreign.judge import MEMORY_MB, TIME_S, Question
from harness.run.fleet import Found, found
from harness.run.store import LATEST, RunDirectory, Store, run_in
from harness.web.drawing import draw

OF_RUNS = ("store", "promise", "check_time")
OF_STORES = ("spark", "force", "checkers")
OF_FILES = (
    "model", "format_", "consistency", "initial", "time_s", "memory_mb", "keyed",
    "failed_cas",
)  # fmt: skip
_Stored: TypeAlias = RunDirectory | Found


@click.command("check")
@click.argument("targets", nargs=-1, type=WORD, metavar="[RUN | FILE…]")
@store_option
@click.option(
    "--promise",
    type=click.Choice([level.value for level in Level]),
    help="Judge against this level, once: a run keeps the verdict on its own promise. Default: "
    "the run's own.",
)
@click.option(
    "--check-time",
    type=number("check_time"),
    default=120.0,
    show_default=True,
    help="Seconds for all checkers of a run together; what they do not decide is UNKNOWN.",
)
@click.option(
    "--spark",
    type=WORD,
    metavar="MASTER",
    help="Stores: local[4], spark://HOST:PORT, yarn, k8s://URL. Default: local[*].",
)
@click.option("--force", is_flag=True, help="Stores: judge also what has not changed.")
@click.option("--checkers", help="Stores: these alone, with commas between them.")
@click.option("--model", type=click.Choice(MODELS), help="Files: what they are histories of.")
@click.option(
    "--format", "format_", type=click.Choice(list(FORMATS)), help="Files: default by the suffix."
)
@click.option(
    "--consistency",
    type=click.Choice(["linearizable", "sequential"]),
    default="linearizable",
    help="Files.",
)
@click.option("--initial", help="Files: the value at the start, as JSON; default: the model's own.")
@click.option(
    "--time-s",
    type=number("time_s"),
    default=TIME_S,
    show_default=True,
    help="Files: seconds for all of them together; a key past them is UNKNOWN.",
)
@click.option(
    "--memory-mb",
    type=number("memory_mb"),
    default=MEMORY_MB,
    show_default="a quarter of the machine's",
    help="Files: megabytes for all keys of a file together; a key past them is UNKNOWN.",
)
@click.option(
    "--keyed/--not-keyed",
    default=None,
    help="Files: values are [key, value]; default: as it looks.",
)
@click.option(
    "--failed-cas",
    type=click.Choice(get_args(FailedCas)),
    help="Files: ignore a failed cas, or observe that it found another value. Default: ignore for "
    "edn, observe for the others.",
)
@click.option("--json", "as_json", is_flag=True, help="Results as JSON on standard output.")
@click.pass_context
def check(
    context: click.RichContext, /, targets: tuple[str, ...], as_json: bool, **given: Any
) -> int:
    """Judge a stored run again: a directory, a path within the store, or latest (the default).

    A word without a slash is looked up in the store; for a directory say ./NAME or /PATH. Also a
    run that crashed or was killed: what its journal holds is judged. A store, or a folder of one,
    is judged on Spark: all runs that are new or changed.

    With `--model` or `--format`, judge files that others wrote: paths, directories, patterns.
    """
    chosen = {name for name in given if _chosen(context, name)}
    if chosen & {"model", "format_"}:
        _refuse(chosen & {*OF_RUNS, *OF_STORES}, "of stored runs, and these are files")
        return _check_files(targets, as_json, **given)
    _refuse(chosen & set(OF_FILES), "of files; say --model as well")
    what = _stored(Store(Path(given["store"])), targets)
    if isinstance(what, Found):
        return _check_store(what, as_json, chosen, given)
    _refuse(chosen & set(OF_STORES), f"of stores, and {str(what.path)!r} is a run")
    return _check_run(what, as_json, promise=given["promise"], check_time=given["check_time"])


def _stored(store: Store, targets: tuple[str, ...]) -> _Stored:
    """Return the run, the store or the folder of one that is to be judged."""
    if len(targets) > 1:
        _refuse_files(targets)
        raise UsageError(f"{len(targets)} runs; expected one, or --model to judge files")

    def look(place: Path) -> _Stored | None:
        return run_in(place) or found(place)

    try:
        # mypy takes the join of a union with None for object.
        return cast(_Stored, store.look(targets[0] if targets else LATEST, look))
    except UsageError:
        _refuse_files(targets)
        raise


def _refuse_files(targets: tuple[str, ...]) -> None:
    for target in targets:
        if os.path.isfile(target):  # for which a name may be too long
            raise UsageError(f"{target!r} is a file; expected --model to say of what, or a run")


def _check_store(many: Found, as_json: bool, chosen: set[str], given: dict[str, Any]) -> int:
    # Spark and what it needs are loaded where they are used.
    from harness.cli.check_fleet import FleetOptions, check_store

    options = FleetOptions(
        spark=given["spark"],
        force=given["force"],
        checkers=given["checkers"],
        promise=given["promise"],
        check_s=given["check_time"] if "check_time" in chosen else None,
    )
    return check_store(many, options, as_json=as_json)


def _chosen(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE


def _refuse(names: set[str], why: str) -> None:
    if names:
        flag = min(names).rstrip("_").replace("_", "-")
        raise UsageError(f"--{flag} is {why}")


def _check_files(targets: tuple[str, ...], as_json: bool, **given: Any) -> int:
    if not targets:
        raise UsageError("no file; expected files, directories or patterns such as 'logs/*.log'")
    paths = foreign.files(targets, given["format_"])
    models: set[Model | None] = {given["model"] or FORMATS[name].model for _, name in paths}
    model = models.pop()
    if model is None or models:
        raise UsageError(f"no --model; expected one of {', '.join(MODELS)}")
    question = Question(
        model,
        given["consistency"],
        _initial(given["initial"]),
        given["time_s"],
        given["memory_mb"],
    )
    judged = foreign.check_files(
        paths,
        question,
        keyed=given["keyed"],
        failed_cas=given["failed_cas"],
    )
    if as_json:
        click.echo(foreign.as_json(judged))
    else:
        foreign.show(judged, Terminal())
    return foreign.exit_status(judged)


def _initial(text: str | None) -> int | str | bool | EllipsisType | None:
    if text is None:
        return ...
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        value = text
    if value is None or isinstance(value, int | str):
        return value
    raise UsageError(f"--initial is {text}, expected a whole number, a text, true, false or null")


def _check_run(
    directory: RunDirectory, as_json: bool, *, promise: str | None, check_time: float
) -> int:
    info, contents = directory.info(), directory.contents()
    promised = Level.named(info.plan.promise)
    level = promised if promise is None else Level.named(promise)
    workload = workload_of(replace(info.plan, promise=level.value))
    own = fitting(workload.checkers(), info.plan.engines.dialect)
    checkers = applicable((*own, Protocol()), contents.history)
    judgement = judge(contents.history, checkers, check_time, level)
    troubles = (
        [f"the run never ended: {info.error or info.state}"]
        if info.state not in ("finished", "recorded")
        else list(info.troubles)
    )
    if contents.truncated:
        troubles.append(contents.truncated)
    page = None
    if level is promised:
        try:
            directory.save(judgement, troubles)
        except HarnessError as error:
            troubles.append(f"the verdict is not stored: {error}")
        undrawn = draw(directory, None if contents.truncated else contents.history)
        troubles += [undrawn] if undrawn else []
        page = None if undrawn else directory.report
    if as_json:
        click.echo(
            json.dumps({"run": str(directory.path), "troubles": troubles, **judgement.json()})
        )
    else:
        panel = result(
            judgement,
            contents.history,
            title=str(directory.path),
            workload=info.plan.workload,
            again=info.plan.again,
            troubles=troubles,
        )
        console = Terminal()
        print_result(console, panel)
        if level is not promised:
            console.print(
                f"asked for once: results.json and the page keep the verdict on the run's own "
                f"promise, {promised}",
                soft_wrap=True,
                highlight=False,
            )
        if page is not None:
            console.print(f"report: {page}", soft_wrap=True, highlight=False)
    return judgement.status.exit_status

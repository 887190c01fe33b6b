"""`harness check`: judges a stored run again, or histories that others wrote."""

import json
from dataclasses import replace
from pathlib import Path
from types import EllipsisType
from typing import Any

import rich_click as click
from click.core import ParameterSource
from rich.console import Console

from checkers.judge import judge
from checkers.ladder import Level
from checkers.protocol import Protocol, applicable
from harness.cli import check_files as foreign
from harness.cli.result import print_result, result
from harness.cli.workload import workload_of
from harness.core.errors import UsageError
from harness.foreign.formats import FORMATS, MODELS, Model
from harness.foreign.judge import Question
from harness.run.fleet import Found, found
from harness.run.store import Store
from harness.web.drawing import draw

OF_RUNS = ("store", "promise", "check_time")
OF_STORES = ("spark", "force", "checkers")
OF_FILES = (
    "model", "format_", "consistency", "initial", "time_s", "memory_mb", "keyed",
    "ignore_failed_cas",
)  # fmt: skip
POSITIVE = click.FloatRange(min=0, min_open=True)


@click.command("check")
@click.argument("targets", nargs=-1, metavar="[RUN | FILE…]")
@click.option(
    "--store", type=click.Path(file_okay=False), default="store", help="Where runs are kept."
)
@click.option(
    "--promise", type=click.Choice([level.value for level in Level]), help="Default: the run's own."
)
@click.option("--check-time", type=POSITIVE, default=120.0, help="Seconds for the checkers.")
@click.option(
    "--spark",
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
@click.option("--time-s", type=POSITIVE, help="Files: seconds for each key, then UNKNOWN.")
@click.option("--memory-mb", type=POSITIVE, help="Files: megabytes for each key, then UNKNOWN.")
@click.option(
    "--keyed/--not-keyed",
    default=None,
    help="Files: values are [key, value]; default: as it looks.",
)
@click.option(
    "--ignore-failed-cas",
    is_flag=True,
    help="Files: a failed cas says nothing. Else it found another value.",
)
@click.option("--json", "as_json", is_flag=True, help="Results as JSON on standard output.")
@click.pass_context
def check(
    context: click.RichContext, /, targets: tuple[str, ...], as_json: bool, **given: Any
) -> int:
    """Judge a stored run again: a directory, a path within the store, or latest (the default).

    Also a run that crashed or was killed: what its journal holds is judged. A store, or a folder
    of one, is judged on Spark: all runs that are new or changed.

    With `--model` or `--format`, judge files that others wrote: paths, directories, patterns.
    """
    chosen = {name for name in given if _chosen(context, name)}
    if chosen & {"model", "format_"}:
        _refuse(chosen & {*OF_RUNS, *OF_STORES}, "of stored runs, and these are files")
        return _check_files(targets, as_json, **given)
    _refuse(chosen & set(OF_FILES), "of files; say --model as well")
    files = [target for target in targets if Path(target).is_file()]
    if files:
        raise UsageError(
            f"{files[0]!r} is a file; expected --model to say of what, or a stored run"
        )
    if len(targets) > 1:
        raise UsageError(f"{len(targets)} runs; expected one, or --model to judge files")
    run = targets[0] if targets else "latest"
    many = None if (Path(run) / "run.json").is_file() else found(Path(run))
    if many is not None:
        return _check_store(many, as_json, chosen, given)
    _refuse(chosen & set(OF_STORES), f"of stores, and {run!r} is none with runs")
    return _check_run(run, as_json, **{name: given[name] for name in OF_RUNS})


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
        failed_cas_found_another=not given["ignore_failed_cas"],
    )
    if as_json:
        click.echo(foreign.as_json(judged))
    else:
        foreign.show(judged, Console())
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
    run: str, as_json: bool, *, store: str, promise: str | None, check_time: float
) -> int:
    directory = Store(Path(store)).find(run)
    info, contents = directory.info(), directory.contents()
    level = Level.named(promise or info.plan.promise)
    workload = workload_of(replace(info.plan, promise=level.value))
    checkers = applicable((*workload.checkers(), Protocol()), contents.history)
    judgement = judge(contents.history, checkers, check_time, level)
    troubles = (
        [f"the run never ended: {info.error or info.state}"] if info.state != "finished" else []
    )
    if contents.truncated:
        troubles.append(contents.truncated)
    directory.save(judgement, troubles)
    undrawn = draw(directory, None if contents.truncated else contents.history)
    troubles += [undrawn] if undrawn else []
    if as_json:
        click.echo(json.dumps({"run": str(directory.path), **judgement.json()}))
    else:
        panel = result(
            judgement,
            contents.history,
            title=str(directory.path),
            workload=info.plan.workload,
            again=info.plan.again,
            troubles=troubles,
        )
        console = Console()
        print_result(console, panel)
        console.print(f"report: {directory.report}", soft_wrap=True, highlight=False)
    return judgement.status.exit_status

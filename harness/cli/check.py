"""`harness check`: judges a stored run again."""

import json
from dataclasses import replace
from pathlib import Path

import rich_click as click
from rich.console import Console

from checkers.judge import judge
from checkers.ladder import Level
from harness.cli.result import print_result, result
from harness.cli.workload import workload_of
from harness.run.store import Store


@click.command("check")
@click.argument("run", default="latest")
@click.option(
    "--store", type=click.Path(file_okay=False), default="store", help="Where runs are kept."
)
@click.option(
    "--promise", type=click.Choice([level.value for level in Level]), help="Default: the run's own."
)
@click.option(
    "--check-time",
    type=click.FloatRange(min=0, min_open=True),
    default=120.0,
    help="Seconds for the checkers.",
)
@click.option("--json", "as_json", is_flag=True, help="Results as JSON on standard output.")
def check(run: str, store: str, promise: str | None, check_time: float, as_json: bool) -> int:
    """Judge a stored run again: a directory, a path within the store, or latest.

    Also a run that crashed or was killed: what its journal holds is judged.
    """
    directory = Store(Path(store)).find(run)
    info, contents = directory.info(), directory.contents()
    level = Level.named(promise or info.plan.promise)
    workload = workload_of(replace(info.plan, promise=level.value))
    judgement = judge(contents.history, workload.checkers(), check_time, level)
    troubles = (
        [f"the run never ended: {info.error or info.state}"] if info.state != "finished" else []
    )
    if contents.truncated:
        troubles.append(contents.truncated)
    directory.save(judgement, troubles)
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
        print_result(Console(), panel)
    return judgement.status.exit_status

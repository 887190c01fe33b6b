"""`harness reproduce`: play a simulated INVALID run on real servers. `harness export`: write a
scenario as a reproduction that needs no harness."""

import json
from pathlib import Path
from typing import Final

import rich_click as click

from checkers.phrasing import number as counted
from compose.releases import ImageChoice, ImageOptions
from harness.cli.parameter_types import WORD, image_options, json_option, number, store_option
from harness.cli.terminal import Terminal, print_json
from harness.core.errors import EXIT_VALID, UsageError
from harness.core.op import Json
from harness.export.reproduction import reproduction_of
from harness.run.run_request import Invocation
from harness.run.stop import Stop
from harness.search.candidates import request_of
from harness.search.reproduction import RunReproduction, Tries
from harness.spec.workload_options import scenario_of
from harness.store.store import Store

MODELLED: Final = "18.16"
"""Version that the simulator models."""


@click.command("reproduce")
@click.argument("run", type=WORD, default="latest")
@click.option(
    "--kind",
    metavar="CHECKER:KIND",
    help="Anomaly that must show. Default: the gravest one of the run.",
)
@click.option(
    "--tries", type=number("tries"), default=10, help="Number of runs on one cluster. Default: 10."
)
@click.option(
    "--dry-run", is_flag=True, help="Translate the run and write the script, but do not play it."
)
@image_options
@click.option("--keep-cluster", is_flag=True, help="Leave the cluster running.")
@click.option("--reuse", type=WORD, metavar="CLUSTER", help="Run on a kept cluster.")
@store_option
@json_option
def reproduce(
    run: str,
    kind: str | None,
    tries: int,
    dry_run: bool,
    keep_cluster: bool,
    reuse: str | None,
    store: str,
    as_json: bool,
    **images: str | None,
) -> int:
    """Translate a simulated INVALID run into a script for real servers, and play it there.

    The script has the calls of the run, or of its shrunk.toml, and rules by which proxies hold back
    single messages, in place of times. It is written to the run's directory as reproduced.toml,
    which `harness run --script` plays too. The servers are ClickHouse 18.16, which the simulator
    models, unless --clickhouse says otherwise.

    Exit status: 0 at least one try reproduced the anomaly, 1 none did, 2 no try was decided.
    """
    console = Terminal(stderr=as_json, highlight=False)
    kept = Store(Path(store))
    reproduction = RunReproduction.of(run, kept, kind)
    script, constraints = reproduction.translation.run, reproduction.translation.constraints
    reproduction.write(script)
    console.print(
        f"{reproduction.red.name}: {reproduction.kind}; {counted(len(constraints), 'constraint')}",
        markup=False,
    )
    if dry_run:
        console.print(f"script  {reproduction.path}", soft_wrap=True)
        return EXIT_VALID
    chosen = {name.replace("_", "-"): value for name, value in images.items() if value}
    if not reuse and "clickhouse-image" not in chosen:
        chosen = {"clickhouse": MODELLED, **chosen}
    invocation = Invocation(
        keep_cluster=keep_cluster, reuse=reuse, store=str(kept.root), report="none"
    )
    played = Tries(
        script,
        reproduction.kind,
        tries,
        lambda text: console.print(text, markup=False, soft_wrap=True),
    )
    stop = Stop()
    with stop.obeying_signals():
        request = request_of(script, invocation, reproduction.path, chosen)
        console.warn(request.store.prepare())
        played.play(request, stop)
    reproduction.write(played.script, played.lines)
    console.print(f"{played.sentence}; script: {reproduction.path}", soft_wrap=True)
    if as_json:
        click.echo(json.dumps(_json(reproduction, played)))
    return played.exit_status


def _json(reproduction: RunReproduction, played: Tries) -> dict[str, Json]:
    return {
        "run": str(reproduction.red.directory.path),
        "kind": str(reproduction.kind),
        "constraints": [str(one) for one in reproduction.translation.constraints],
        "given_up": list(played.given_up),
        "hits": played.counts.hits,
        "tries": [
            {"result": one.result.value.upper(), "why": one.why, "run": one.run}
            for one in played.tries
        ],
        "script": str(reproduction.path),
    }


@click.command("export")
@click.argument("scenario", type=WORD)
@click.option(
    "--to",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Directory that is written; it must be empty or not exist.",
)
@image_options
@json_option
def export(scenario: str, to: Path, as_json: bool, **images: str | None) -> int:
    """Write a scenario as a reproduction that needs Docker and nothing of the harness.

    The directory gets compose.yml with public images, the servers' configuration, statements.sql,
    and reproduce.sh, which starts the servers, sends the statements by curl, makes the faults by
    Docker's commands, and removes the servers. A scenario that needs more is refused with the
    reason.

    Exit status of reproduce.sh: 1 it reproduced, 0 it did not, 2 it could not say.
    """
    reproduction = reproduction_of(scenario_of(scenario), ImageChoice.of(ImageOptions(**images)))
    if to.exists() and any(to.iterdir()):
        raise UsageError(f"--to {to}: is not empty; expected a new directory")
    reproduction.write(to)
    if as_json:
        print_json({"directory": str(to), "files": list(reproduction.files())})
    else:
        console = Terminal(highlight=False)
        console.print(f"exported: {to}/reproduce.sh; run it to see {scenario}", soft_wrap=True)
    return EXIT_VALID

"""`harness reproduce`: play a simulated INVALID run on real servers. `harness export`: write a
scenario as a reproduction that needs no harness."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
import rich_click as click

from checkers.phrasing import number as counted
from compose.releases import ImageChoice, ImageOptions
from harness.cli.parameter_types import WORD, image_options, json_option, number, store_option
from harness.cli.result import print_kept_cluster
from harness.cli.terminal import Terminal, print_json
from harness.core.errors import EXIT_VALID, UsageError
from harness.core.op import Json
from harness.core.ranges import unknown_name
from harness.core.topology import Role
from harness.export.collection import collection
from harness.export.errors import NotExportableError
from harness.export.integration_test import integration_test
from harness.export.reproduction import ExportedScenario, reproduction_of, write_files
from harness.export.stored_run import scenario_of_run
from harness.report.run_files import facts_in
from harness.report.text import plain_report
from harness.run.run_request import Invocation
from harness.run.stop import Stop
from harness.search.candidates import request_of
from harness.search.reproduction import RunReproduction, Tries
from harness.spec.workload_options import scenario_of
from harness.store.store import Store
from workloads.scenarios.catalogue import SCENARIOS

MODELLED: Final = "18.16"
"""Version that the simulator models."""


class PlayedTry(msgspec.Struct, frozen=True):
    """A try on real servers, as `reproduce --json` prints it."""

    result: str
    why: str | None
    run: str | None


class ReproductionAnswer(msgspec.Struct, frozen=True):
    """What `reproduce --json` prints."""

    run: Path
    kind: str
    constraints: Sequence[str]
    given_up: Sequence[str]
    hits: int
    tries: Sequence[PlayedTry]
    script: Path


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
    print_kept_cluster(console, played.kept)
    reproduction.write(played.script, played.lines)
    console.print(f"{played.sentence}; script: {reproduction.path}", soft_wrap=True)
    if as_json:
        answer = ReproductionAnswer(
            run=reproduction.red.directory.path,
            kind=str(reproduction.kind),
            constraints=[str(one) for one in reproduction.translation.constraints],
            given_up=played.given_up,
            hits=played.counts.hits,
            tries=[PlayedTry(one.result.value.upper(), one.why, one.run) for one in played.tries],
            script=reproduction.path,
        )
        print_json(answer)
    return played.exit_status


ALL: Final = "all"
SCRIPT: Final = "script"
TEST: Final = "integration-test"
FORMS: Final[Mapping[str, Callable[[ExportedScenario, str], Mapping[str, str]]]] = {
    SCRIPT: lambda exported, _: exported.files(),
    "issue": lambda exported, seen: {**exported.files(), "issue.md": exported.issue(seen)},
    TEST: lambda exported, _: integration_test(exported),
}
"""What makes the files of each form, of a scenario and the witness of its run as text."""
_MAIN: Final = ("reproduce.sh", "issue.md", "test.py")
"""Names of the files that a user is told of."""


@click.command("export")
@click.argument("what", type=WORD, metavar="SCENARIO|RUN|all")
@click.option(
    "--to",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Directory that is written; it must be empty or not exist.",
)
@click.option(
    "--as",
    "form",
    type=click.Choice([*FORMS]),
    default=SCRIPT,
    help="script: the reproduction; issue: also issue.md, the text of a bug report; "
    "integration-test: a test for ClickHouse's tests/integration instead. Default: script.",
)
@image_options
@store_option
@json_option
def export(what: str, to: Path, form: str, store: str, as_json: bool, **images: str | None) -> int:
    """Write a scenario or a stored run as a reproduction that needs Docker and nothing of the
    harness.

    `all` writes every scenario that can be exported, each into a directory of its name; as scripts
    they share a directory for their functions and configuration.

    The directory gets compose.yml with public images, the servers' configuration, statements.sql,
    and reproduce.sh, which starts the servers, sends the statements by curl, makes the faults by
    Docker's commands, and removes the servers. What needs more is refused with the reason.

    Exit status of reproduce.sh: 1 it reproduced, 0 it did not, 2 it could not say.
    An integration test fails if it reproduces.
    """
    if to.exists() and any(to.iterdir()):
        raise UsageError(f"--to {to}: is not empty; expected a new directory")
    if what == ALL:
        return _export_all(to, form, ImageOptions(**images), as_json)
    exported, timeline = _to_export(what, Store(Path(store)), ImageOptions(**images))
    files = FORMS[form](exported, timeline)
    write_files(to, files)
    if as_json:
        print_json({"directory": str(to), "files": [*files]})
    else:
        main = [f"{to}/{name}" for name in files if Path(name).name in _MAIN]
        text = f"{what}: exported to {', '.join(main)}"
        Terminal(highlight=False).print(text, soft_wrap=True)
    return EXIT_VALID


def _export_all(to: Path, form: str, images: ImageOptions, as_json: bool) -> int:
    """Write every scenario that can be exported, and say which cannot."""
    choice = ImageChoice.of(images)
    refused: dict[str, Json] = {}
    written: list[ExportedScenario] = []
    files: dict[str, str] = {}
    for name, scenario in SCENARIOS.items():
        try:
            exported = reproduction_of(scenario, choice)
            own = FORMS[form](exported, "")
        except UsageError as error:
            refused[name] = str(error).removeprefix(f"scenario {name}: ")
            continue
        written.append(exported)
        files |= {path if form == TEST else f"{name}/{path}": text for path, text in own.items()}
    write_files(to, collection(written) if form == SCRIPT else files)
    if as_json:
        print_json(
            {
                "directory": str(to),
                "scenarios": [one.scenario.name for one in written],
                "refused": refused,
            }
        )
        return EXIT_VALID
    console = Terminal(highlight=False)
    for name, why in refused.items():
        console.print(f"{name}: {why}", soft_wrap=True)
    console.print(f"{counted(len(written), 'scenario')} exported to {to}", soft_wrap=True)
    return EXIT_VALID


def _to_export(what: str, store: Store, images: ImageOptions) -> tuple[ExportedScenario, str]:
    """Return the exported scenario that a word names, and the witness of its run as text, "" if it
    names no run. Raises UsageError."""
    if what in SCENARIOS:
        return reproduction_of(scenario_of(what), ImageChoice.of(images)), ""
    try:
        directory = store.find(what)
    except UsageError as error:
        known = unknown_name(what, SCENARIOS, "harness scenario")
        raise UsageError(f"scenario {known}; and no run: {error}") from None
    info = directory.info()
    if not any(images.images.values()):
        met = {role: info.engines.only(role) for role in (Role.CLICKHOUSE, Role.ZOOKEEPER)}
        images = ImageOptions(**{role.value: one.version for role, one in met.items() if one})
    try:
        scenario = scenario_of_run(directory)
    except NotExportableError as error:
        raise NotExportableError(f"run {what}: cannot be exported: {error}") from None
    exported = reproduction_of(scenario, ImageChoice.of(images))
    return exported, plain_report(facts_in(directory))

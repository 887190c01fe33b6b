"""The command `harness`.

Exit status: 0 VALID, 1 INVALID, 2 UNKNOWN, 254 bad arguments, 255 crash.
"""

import json
import logging
import os
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any, Final, NoReturn

import rich_click as click

from harness.cli.default_options import PREFIX, profile_defaults
from harness.cli.streams import lost_output, protect
from harness.core.errors import EXIT_CRASH, EXIT_USAGE, HarnessError
from harness.core.plugins import name_modules
from harness.core.printable import printable
from harness.core.ranges import shorten_words, unknown_name

PANELS: Final[Mapping[str, Mapping[str, tuple[str, str, str]]]] = {
    "Test a cluster": {
        "run": (
            "harness.cli.run:run",
            "Run operations and faults against a cluster, and decide whether it kept its word.",
            "harness run --nemesis partition --time-limit 1m",
        ),
        "scenario": (
            "harness.cli.scenario:scenario",
            "Run a script that reproduces one known anomaly; without a NAME list them all.",
            "harness scenario stale-read --clickhouse 25.8 --count 5",
        ),
        "torture": (
            "harness.cli.torture:torture",
            "Run a matrix of workloads, nemeses and settings one run at a time, and judge each.",
            "harness torture nightly.toml --hours 8",
        ),
        "audit": (
            "harness.cli.audit:audit",
            "Judge the inserts that servers logged: is every acknowledged one still there?",
            "harness audit --servers my-cluster.toml --table db.events --since 2026-11-25T12:00",
        ),
        "compare": (
            "harness.cli.compare:compare",
            "Play a scenario, or repeat a stored run, on several server versions.",
            "harness compare stale-read --versions 24.8,25.8",
        ),
        "bisect": (
            "harness.cli.compare:bisect",
            "Find the server version in which a bug was introduced or fixed.",
            "harness bisect stale-read --versions 24.8,25.5,25.8",
        ),
    },
    "Look at what was found": {
        "report": (
            "harness.cli.report:report",
            "Show a stored run: a directory, a path within the store, or latest.",
            "harness report latest --open",
        ),
        "serve": (
            "harness.cli.serve:serve",
            "Serve the stored runs as web pages: a list, a heat map, reports and live runs.",
            "harness serve --port 8080",
        ),
        "check": (
            "harness.cli.check:check",
            "Judge a stored run again: a directory, a path within the store, or latest (the "
            "default).",
            "harness check store",
        ),
        "query": (
            "harness.cli.query:query",
            "Ask a store by Spark SQL: how many runs of a cell are INVALID, which anomalies, what "
            "took long.",
            "harness query store cells",
        ),
        "conform": (
            "harness.cli.conform:conform",
            "Check that the model allows what a real run did in ZooKeeper.",
            "harness conform latest",
        ),
        "shrink": (
            "harness.cli.shrink:shrink",
            "Make a stored INVALID run small: remove calls, faults, time, servers and options as "
            "long as the same anomaly remains.",
            "harness shrink latest",
        ),
        "reproduce": (
            "harness.cli.reproduce:reproduce",
            "Translate a simulated INVALID run into a script for real servers, and play it there.",
            "harness reproduce latest --tries 10",
        ),
        "export": (
            "harness.cli.reproduce:export",
            "Write a scenario or a stored run as a reproduction that needs Docker and nothing of "
            "the harness.",
            "harness export stale-read --to stale-read",
        ),
    },
    "Search simulated servers and models": {
        "hunt": (
            "harness.cli.hunt:hunt",
            "Search for anomalies on simulated servers, steered by what earlier runs have covered.",
            "harness hunt --hours 1 --nemesis partition,kill",
        ),
        "explore": (
            "harness.cli.explore:explore",
            "Explore every interleaving of a small model, breadth first.",
            "harness explore quorum --protocol 25.8",
        ),
    },
    "Names and this machine": {
        "list": (
            "harness.cli.list:list_",
            "List what has a name: workloads, nemeses, checkers, server versions and more.",
            "harness list nemeses",
        ),
        "new": (
            "harness.cli.new:new",
            "Write a workload of your own, and its test, to start from.",
            "harness new workload row-count",
        ),
        "doctor": (
            "harness.cli.machine:doctor",
            "Check whether this machine meets every requirement, and say how to meet the others.",
            "harness doctor",
        ),
        "build": (
            "harness.cli.machine:build",
            "Build or pull the container images of clusters; runs do so when they need them.",
            "harness build --clickhouse 18.16,25.8",
        ),
        "prune": (
            "harness.cli.prune:prune",
            "Show how large a store is and what of it is older than it is kept; delete that with "
            "--delete.",
            "harness prune --delete",
        ),
        "pack": (
            "harness.cli.prune:pack",
            "Write the nights and verdicts of a store to FILE, or restore them from it.",
            "harness pack nights.tar.gz --restore",
        ),
        "clean": (
            "harness.cli.machine:clean",
            "Remove the containers, networks and volumes of runs whose process has died.",
            "harness clean",
        ),
    },
}
"""Module and function of each command, the first sentence of its help and an example, by the panel
of the help that shows it. A command loads only what it needs, and listing them loads none."""
COMMANDS: Final = {name: entry for panel in PANELS.values() for name, entry in panel.items()}

click.rich_click.TEXT_MARKUP = "markdown"


class Commands(click.RichGroup):
    """Group of the commands, each imported when it is used."""

    _listing = False

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Return the command of that name; None if it is unknown."""
        if cmd_name not in COMMANDS:
            return None
        place, help_text, example = COMMANDS[cmd_name]
        if self._listing:
            return click.RichCommand(name=cmd_name, help=help_text)
        module, _, function = place.partition(":")
        command = getattr(import_module(module), function)
        assert isinstance(command, click.Command), f"{place} is not a command"
        command.epilog = f"Example: `{example}`"
        for param in command.params:  # click would take the name of Python's argument
            flag = next((one[2:] for one in param.opts if one.startswith("--")), "")
            if flag.replace("-", "_") != param.name and flag:
                param.envvar = f"{PREFIX}_{cmd_name}_{flag}".upper().replace("-", "_")
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Return the command that the arguments name. Fails for an unknown name."""
        if args[0] not in COMMANDS and not ctx.resilient_parsing:
            ctx.fail(f"command {unknown_name(args[0], COMMANDS)}")
        set_by = [value for name, value in os.environ.items() if name.startswith(f"{PREFIX}_")]
        name_modules([*args, *set_by])
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and not ctx.resilient_parsing:
            defaults = profile_defaults(command, args[0], COMMANDS)
            ctx.default_map = {**(ctx.default_map or {}), args[0]: defaults}
        return name, command, rest

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write every command with the first sentence of its help."""
        self._listing = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self._listing = False


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": PREFIX},
)
@click.version_option(package_name="clickhouse-harness")
def app() -> None:
    """Break a real ClickHouse cluster on purpose, and decide whether it kept its word.

    Defaults of options come from harness.toml in the working directory, with a table for each
    command (`[run]`), and from the environment (`HARNESS_RUN_TIME_LIMIT=60`).
    """


for _title, _commands in PANELS.items():
    app.add_panel(click.RichCommandPanel(_title, commands=list(_commands)))


def main() -> NoReturn:
    """Run the command line and exit. Errors that the user can fix show no traceback."""
    protect()
    _refuse_os_exit()
    logging.getLogger("clickhouse_driver").setLevel(logging.CRITICAL)
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    try:
        status = app.main(standalone_mode=False, prog_name="harness")
    except click.UsageError as error:
        text = shorten_words(error.format_message(), sys.argv)
        if not _print_json_error(text, EXIT_USAGE):
            click.UsageError(printable(text), error.ctx).show()
        sys.exit(EXIT_USAGE)
    except HarnessError as error:
        text = shorten_words(str(error), sys.argv)
        if not _print_json_error(text, error.exit_status):
            click.echo(printable(f"harness: {text}"), err=True)
        sys.exit(error.exit_status)
    except (KeyboardInterrupt, click.Abort) as error:
        # click makes an Abort of every KeyboardInterrupt.
        why = str(error.__context__ if isinstance(error, click.Abort) else error)
        click.echo(f"harness: interrupted{why and f': {why}'}", err=True)
        sys.exit(EXIT_CRASH)
    except BaseException as error:  # Python would end with 1 or, after sys.exit(0), with 0
        if not _print_json_error(f"{type(error).__name__}: {error}", EXIT_CRASH):
            click.echo(printable(traceback.format_exc()), err=True, nl=False)
        sys.exit(EXIT_CRASH)
    lost = lost_output()
    if lost is not None:
        click.echo(f"harness: {lost}", err=True)
    if isinstance(status, int):
        sys.exit(status)
    sys.exit(EXIT_CRASH if lost else 0)  # printing was all that the command had to do


def _refuse_os_exit() -> None:
    """Replace `os._exit` in this process by a function that crashes the command: its status must
    not look like a verdict, whatever a plug-in does. Processes forked from this one may use it."""
    end, command = os._exit, os.getpid()

    def crash(status: int) -> NoReturn:
        if os.getpid() != command:
            end(status)
        with suppress(BaseException):
            click.echo(f"harness: the command was ended by os._exit({status})", err=True)
            traceback.print_stack()
            sys.stderr.flush()
        end(EXIT_CRASH)

    os._exit = crash


def _print_json_error(message: str, status: int) -> bool:
    """Print the error as JSON if --json was given; return whether it was."""
    if "--json" not in sys.argv:
        return False
    click.echo(json.dumps({"error": message, "exit_status": status}))
    return True


if __name__ == "__main__":
    main()

"""The command `harness`. Exit: 0 valid, 1 invalid, 2 unknown, 254 bad arguments, 255 crash."""

import json
import logging
import sys
import traceback
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final, NoReturn

import rich_click as click

from harness.cli.streams import lost_output, protect
from harness.core.errors import EXIT_CRASH, EXIT_USAGE, HarnessError

COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "run": (
        "harness.cli.run:run",
        "Run operations and faults against a cluster, and decide whether it kept its word.",
    ),
    "scenario": (
        "harness.cli.scenario:scenario",
        "Play a script that brings one known anomaly about; without a NAME list them all.",
    ),
    "compare": (
        "harness.cli.compare:compare",
        "Play a scenario, or repeat a stored run, on several server versions.",
    ),
    "bisect": (
        "harness.cli.bisect_versions:bisect",
        "Find the server version in which a bug was introduced or fixed.",
    ),
    "check": (
        "harness.cli.check:check",
        "Judge a stored run again: a directory, a path within the store, or latest (the default).",
    ),
    "torture": (
        "harness.cli.torture:torture",
        "Run a matrix of workloads, nemeses and settings, one run after the other, and judge them.",
    ),
    "explore": (
        "harness.cli.explore:explore",
        "Look at every interleaving of a small model, breadth first.",
    ),
    "report": (
        "harness.cli.report:report",
        "Show a stored run: a directory, a path within the store, or latest.",
    ),
    "serve": (
        "harness.cli.serve:serve",
        "Show the stored runs as pages: a list, a heat map, reports, and runs that go on.",
    ),
    "conform": (
        "harness.cli.conform:conform",
        "Check that a real run's ZooKeeper trace is a behaviour that the model allows.",
    ),
    "list": ("harness.cli.list:list_", "Name the workloads, nemeses, checkers and clusters."),
    "doctor": (
        "harness.cli.doctor:doctor",
        "Say of every requirement whether it is met, and how to get it.",
    ),
    "build": (
        "harness.cli.build:build",
        "Build or pull the images that clusters are made from; a run does so too.",
    ),
    "clean": (
        "harness.cli.clean:clean",
        "Remove containers, networks and volumes of runs whose process is gone.",
    ),
}
"""By name, module and function, and its first sentence: a command loads only what it needs, and
the list of them loads none."""

click.rich_click.TEXT_MARKUP = "markdown"


class Commands(click.RichGroup):
    """The commands, each imported when it is asked for."""

    _listing = False

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """In the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """None where there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        place, says = COMMANDS[cmd_name]
        if self._listing:
            return click.RichCommand(name=cmd_name, help=says)
        module, _, function = place.partition(":")
        command = getattr(import_module(module), function)
        assert isinstance(command, click.Command), f"{place} is no command"
        return command

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Every command with its first sentence."""
        self._listing = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self._listing = False


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="clickhouse-harness")
def app() -> None:
    """Break a real ClickHouse cluster on purpose, and decide whether it kept its word."""


def main() -> NoReturn:
    """The entry point; never shows a traceback for what a person can mend."""
    protect()
    logging.getLogger("clickhouse_driver").setLevel(logging.CRITICAL)
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    try:
        status = app.main(standalone_mode=False, prog_name="harness")
    except click.UsageError as error:
        if not _told_as_json(error.format_message(), EXIT_USAGE):
            click.UsageError(_printable(error.format_message()), error.ctx).show()
        sys.exit(EXIT_USAGE)
    except HarnessError as error:
        if not _told_as_json(str(error), error.exit_status):
            click.echo(_printable(f"harness: {error}"), err=True)
        sys.exit(error.exit_status)
    except (KeyboardInterrupt, click.Abort) as error:
        # click makes an Abort of every KeyboardInterrupt.
        why = str(error.__context__ if isinstance(error, click.Abort) else error)
        click.echo(f"harness: interrupted{why and f': {why}'}", err=True)
        sys.exit(EXIT_CRASH)
    except Exception as error:
        if not _told_as_json(f"{type(error).__name__}: {error}", EXIT_CRASH):
            click.echo(_printable(traceback.format_exc()), err=True, nl=False)
        sys.exit(EXIT_CRASH)
    lost = lost_output()
    if lost is not None:
        click.echo(f"harness: {lost}", err=True)
    if isinstance(status, int):
        sys.exit(status)
    sys.exit(EXIT_CRASH if lost else 0)  # it had nothing to do but to print


def _printable(text: str) -> str:
    from harness.cli.terminal import printable  # slow to load

    return printable(text)


def _told_as_json(message: str, status: int) -> bool:
    """With --json an error is JSON too."""
    if "--json" not in sys.argv:
        return False
    click.echo(json.dumps({"error": message, "exit_status": status}))
    return True


if __name__ == "__main__":
    main()

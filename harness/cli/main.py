"""The command `harness`. Exit: 0 valid, 1 invalid, 2 unknown, 254 bad arguments, 255 crash."""

import json
import logging
import sys
import traceback
from collections.abc import Mapping
from importlib import import_module
from typing import NoReturn

import rich_click as click

from harness.core.errors import EXIT_CRASH, EXIT_USAGE, HarnessError

COMMANDS: Mapping[str, str] = {
    "run": "harness.cli.run:run",
    "scenario": "harness.cli.scenario:scenario",
    "check": "harness.cli.check:check",
    "torture": "harness.cli.torture:torture",
    "explore": "harness.cli.explore:explore",
    "report": "harness.cli.report:report",
    "serve": "harness.cli.serve:serve",
    "conform": "harness.cli.conform:conform",
    "list": "harness.cli.list:list_",
    "doctor": "harness.cli.doctor:doctor",
    "build": "harness.cli.build:build",
    "clean": "harness.cli.clean:clean",
}
"""By name, module and function; a command loads only what it needs."""

click.rich_click.TEXT_MARKUP = "markdown"


class Commands(click.RichGroup):
    """The commands, each imported when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """In the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """None where there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        module, _, function = COMMANDS[cmd_name].partition(":")
        command = getattr(import_module(module), function)
        assert isinstance(command, click.Command), f"{COMMANDS[cmd_name]} is no command"
        return command


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="clickhouse-harness")
def app() -> None:
    """Break a real ClickHouse cluster on purpose, and decide whether it kept its word."""


def main() -> NoReturn:
    """The entry point; never shows a traceback for what a person can mend."""
    logging.getLogger("clickhouse_driver").setLevel(logging.CRITICAL)
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    try:
        status = app.main(standalone_mode=False, prog_name="harness")
    except click.UsageError as error:
        if not _told_as_json(error.format_message(), EXIT_USAGE):
            error.show()
        sys.exit(EXIT_USAGE)
    except HarnessError as error:
        if not _told_as_json(str(error), error.exit_status):
            click.echo(f"harness: {error}", err=True)
        sys.exit(error.exit_status)
    except (KeyboardInterrupt, click.Abort):
        click.echo("harness: interrupted", err=True)
        sys.exit(EXIT_CRASH)
    except Exception as error:
        if not _told_as_json(f"{type(error).__name__}: {error}", EXIT_CRASH):
            traceback.print_exc()
        sys.exit(EXIT_CRASH)
    sys.exit(status if isinstance(status, int) else 0)


def _told_as_json(message: str, status: int) -> bool:
    """With --json an error is JSON too."""
    if "--json" not in sys.argv:
        return False
    click.echo(json.dumps({"error": message, "exit_status": status}))
    return True


if __name__ == "__main__":
    main()

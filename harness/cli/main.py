"""The command `harness`. Exit: 0 valid, 1 invalid, 2 unknown, 254 bad arguments, 255 crash."""

import json
import logging
import sys
import traceback
from typing import NoReturn

import rich_click as click

from harness.cli.build import build
from harness.cli.check import check
from harness.cli.clean import clean
from harness.cli.doctor import doctor

# DOC
from harness.cli.list import list_
from harness.cli.run import run
from harness.core.errors import EXIT_CRASH, EXIT_USAGE, HarnessError

click.rich_click.TEXT_MARKUP = "markdown"


@click.group(
    commands={c.name or "": c for c in (run, check, list_, doctor, build, clean)},
    context_settings={"help_option_names": ["-h", "--help"]},
)
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

"""`harness new`: files to start a workload of one's own from."""

import keyword
import sys
from contextlib import suppress
from importlib.machinery import PathFinder
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Final

import rich_click as click

from harness.cli.parameter_types import Name
from harness.core.errors import UsageError
from harness.core.plugins import trusted_path
from harness.core.ranges import quoted

NAME_MAX: Final = 100
"""Maximum length of a name, of which files are made."""
_FILES: Final = {"workload.py.txt": "{}.py", "test_workload.py.txt": "test_{}.py"}
"""Names of the files that are written, by template."""


@click.command("new")
@click.argument("kind", type=Name(["workload"]))
@click.argument("name")
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    help="Directory of the files. Default: the working directory.",
)
def new(kind: str, name: str, directory: Path) -> None:
    """Write a workload of your own, and its test, to start from.

    `harness new workload row-count` writes row_count.py and test_row_count.py. The workload is
    complete: it runs as it is, on real and on simulated servers.
    """
    assert kind == "workload", "click refuses other kinds"
    module = name.replace("-", "_")
    if not module.isidentifier() or keyword.iskeyword(module) or not module.isascii():
        raise UsageError(f"{quoted(name)}: expected letters, digits and hyphens, such as row-count")
    if len(module) > NAME_MAX:
        raise UsageError(f"{quoted(name)}: expected at most {NAME_MAX} letters")
    if module in sys.stdlib_module_names or _is_installed(module):
        raise UsageError(f"{name!r}: Python has a module {module} already; expected another name")
    targets = {template: directory / file.format(module) for template, file in _FILES.items()}
    for path in targets.values():
        if path.exists():
            raise UsageError(f"{path}: exists already; expected another name or --directory")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for template, path in targets.items():
            text = (files("harness.cli") / "templates" / template).read_text("utf-8")
            path.write_text(Template(text).substitute(name=name, module=module), "utf-8")
    except OSError as error:
        raise UsageError(f"{directory}: cannot be written: {error.strerror}") from error
    for path in targets.values():
        click.echo(f"wrote {path}")
    click.echo(
        f"run it from {directory.resolve()}: "
        f"harness run --workload {module}:workload --nemesis partition --cluster sim"
    )


def _is_installed(module: str) -> bool:
    """Return whether Python finds a module of this name outside of the working directory."""
    with suppress(ImportError, ValueError):
        return PathFinder.find_spec(module, trusted_path()) is not None
    return False

"""The options that a user gave a run: for its reproducing command, and for a script's file."""

import shlex
from dataclasses import fields
from typing import Any, Final

import rich_click as click
from click.core import ParameterSource

from compose.releases import ImageChoice, ImageOptions
from harness.cli.options import NOT_OF_A_RUN, ScriptFile

NOT_REPRODUCED: Final = frozenset(
    (NOT_OF_A_RUN - {"script"}) | {field.name for field in fields(ImageOptions)}
)
"""Options that do not change what a run does, or that the reproducing command always states."""


def repro_command(context: click.Context, choice: ImageChoice | None) -> str:
    """Return the command that reproduces a run, without its seed: the given options, except those
    that do not change the run. It always states the servers, since their default versions change
    between releases of the harness; `choice` is None if they are simulated."""
    words = ["harness", "run"]
    for param in context.command.params:
        name = param.name or ""
        if name in NOT_REPRODUCED or name == "seed" or not _given(context, name):
            continue
        value = context.params[name]
        if param.multiple:
            words += [word for one in value for word in (param.opts[0], one)]
            continue
        words += [param.opts[0], _as_text(value)]
    return shlex.join([*words, *(choice.arguments if choice else ())])


def _given(context: click.Context, name: str) -> bool:
    """Return whether an option is on the command line, in the environment or in the profile. The
    options of a script are not, as its file has them."""
    source = context.get_parameter_source(name)
    if source is ParameterSource.DEFAULT_MAP:
        return name not in _script_options(context)
    return source is not ParameterSource.DEFAULT


def _script_options(context: click.Context) -> frozenset[str]:
    """Return the names that click gives the options of the script's file."""
    file = context.params.get("script")
    given = file.run.options if isinstance(file, ScriptFile) else {}
    flags = {f"--{name}" for name in given}
    return frozenset(p.name or "" for p in context.command.params if flags.intersection(p.opts))


def given_options(context: click.Context) -> dict[str, str | tuple[str, ...]]:
    """Return the options of a run that are no defaults, as a script's file has them."""
    found: dict[str, str | tuple[str, ...]] = {}
    for param in context.command.params:
        name = param.name or ""
        default = context.get_parameter_source(name) is ParameterSource.DEFAULT
        if name in NOT_OF_A_RUN or default or context.params[name] is None:
            continue
        value = context.params[name]
        found[param.opts[-1].removeprefix("--")] = (
            tuple(value) if param.multiple else _as_text(value)
        )
    return found


def _as_text(value: Any) -> str:
    """Return the value of an option as it is on a command line."""
    if isinstance(value, tuple):
        return ",".join(value)
    return f"{value:g}" if isinstance(value, float) else str(value)

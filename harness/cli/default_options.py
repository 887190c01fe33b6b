"""Defaults of options: a file, harness.toml, with a table for each command, and the environment.

    store = "/var/lib/harness/store"   # for every command that has a store

    [run]
    nemesis = "partition"
    time-limit = 60

The command line wins over the environment (HARNESS_RUN_TIME_LIMIT=60), which wins over the file.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import rich_click as click

from harness.cli.parameter_types import Number
from harness.core.errors import UsageError
from harness.core.ranges import shortened, unknown_name

if TYPE_CHECKING:
    from harness.spec.toml_file import TomlFile

FILE: Final = "harness.toml"
VARIABLE: Final = "HARNESS_PROFILE"
"""Environment variable with the path of another file; "" for none."""
PREFIX: Final = "HARNESS"
"""Beginning of the variables that set an option: HARNESS_COMMAND_OPTION."""
BYTES_MAX: Final = 1 << 20
SHARED: Final = "store"
"""The key outside tables, for every command that has the option."""


def profile_defaults(command: click.Command, name: str, names: Collection[str]) -> dict[str, Any]:
    """Return the defaults that the profile has for a command, by the names that click gives its
    options. `names` are those of all commands. Raises UsageError, with file and line."""
    path = Path(os.environ.get(VARIABLE, FILE) or os.devnull)
    if not path.is_file():
        if os.environ.get(VARIABLE):
            raise UsageError(f"{VARIABLE}={path}: is not a file; expected a file of TOML")
        return {}
    from harness.spec.toml_file import read_toml  # slow to load, and most users have no profile

    file = read_toml("profile", path, BYTES_MAX)
    _check_tables(file, names)
    options = {
        flag.removeprefix("--"): param
        for param in command.params
        for flag in param.opts
        if flag.startswith("--")
    }
    found: dict[str, Any] = {}
    if SHARED in file.values and SHARED in options:
        found[SHARED] = _default(file, "", SHARED, file.values[SHARED], options[SHARED])
    own: Mapping[str, Any] = file.values.get(name, {})
    for key, value in own.items():
        if key not in options:
            file.refuse(name, key, unknown_name(key, options, f"harness {name} --help"))
        found[options[key].name or ""] = _default(file, name, key, value, options[key])
    return found


def _check_tables(file: "TomlFile", names: Collection[str]) -> None:
    for key, value in file.values.items():
        if key != SHARED and key not in names:
            file.refuse("", key, unknown_name(key, [*names, SHARED]))
        if (key == SHARED) == isinstance(value, dict):
            what = "text" if key == SHARED else f"a table, [{key}], of options"
            file.refuse("", key, f"expected {what}")


def _default(file: "TomlFile", table: str, key: str, value: Any, param: click.Parameter) -> Any:
    """Return a value as click takes it from a default map."""
    if isinstance(param, click.Option) and param.is_flag:
        if not isinstance(value, bool):
            file.refuse(table, key, f"{value}: expected true or false")
        return value
    values = _converted(file, table, key, value, param)
    return list(values) if param.multiple else ",".join(map(str, values))


def _converted(
    file: "TomlFile", table: str, key: str, value: Any, param: click.Parameter
) -> Sequence[str | int | float]:
    """Return the values that a key gives an option, one or several. Raises UsageError for what
    the option does not accept."""
    several = param.multiple or getattr(param.type, "several", False)
    values = value if several and isinstance(value, list) else [value]
    wanted: Any = str
    if isinstance(param.type, Number):
        wanted = int | float | str if param.type.range.second else int | float
    for one in values:
        if isinstance(one, bool) or not isinstance(one, wanted):
            what = "text" if wanted is str else "a number"
            file.refuse(table, key, f"{shortened(one)}: expected {what}")
        try:
            param.type.convert(one, param, None)
        except click.UsageError as error:
            file.refuse(table, key, error.message)
    return values

"""The options of a run by name, and a run as a mapping of them.

A mapping has the long names of options: {"nemesis": "partition", "time-limit": 60.0}. Scripts,
matrices, profiles, hunts and run.json have one; values are text, numbers, or lists.
"""

import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, get_type_hints

import msgspec

from harness.core.errors import UsageError
from harness.core.op import Json
from harness.core.ranges import Range, shortened, unknown_name
from harness.core.seed import Seed
from harness.spec.image_options import IMAGE_OPTIONS
from harness.spec.option import Option
from harness.spec.option_types import Repeated, SeedNumber, as_text
from harness.spec.run_spec import RunSpec

OptionValues: TypeAlias = Mapping[str, Any]
"""Values of options by their long names."""


@dataclass(frozen=True, slots=True)
class RunOption:
    """Option of `harness run` that is a field of `RunSpec`."""

    name: str
    """Long name: "time-limit"."""
    field: str
    option: Option

    @property
    def flags(self) -> tuple[str, ...]:
        """Return the flags: "-o" and "--option"."""
        short = (self.option.short,) if self.option.short else ()
        return (*short, f"--{self.name}")

    @property
    def parameter(self) -> str:
        """Return the name as Python spells it, which variables of the environment have, too."""
        return self.name.replace("-", "_")

    @property
    def default(self) -> Any:
        """Return the value of a run for which it is not given; None for the seed."""
        return _DEFAULTS.get(self.field)

    @property
    def plain_default(self) -> Json:
        """Return the default as run.json has it."""
        return _plain(self.default)

    def parse(self, given: object) -> Any:
        """Return a value from text or from TOML. Raises ValueError."""
        number = isinstance(self.option.type, Range | SeedNumber)
        if isinstance(given, bool) or (isinstance(given, int | float) and not number):
            raise ValueError(f"{shortened(given)}: expected {'a number' if number else 'text'}")
        return self.option.type.parse(given)

    def arguments(self, value: Any) -> list[str]:
        """Return the words of a command line for a value."""
        values = value if isinstance(self.option.type, Repeated) else (as_text(value),)
        return [word for text in values for word in (self.flags[0], text)]


def _options() -> Mapping[str, RunOption]:
    found = {}
    for field, hint in get_type_hints(RunSpec, include_extras=True).items():
        for option in getattr(hint, "__metadata__", ()):
            name = option.flag.removeprefix("--") or field.replace("_", "-")
            found[name] = RunOption(name, field, option)
    return found


OPTIONS: Final = _options()
"""Options by their long names, in the order of the help."""
_DEFAULTS: Final = {
    field.name: field.default
    for field in msgspec.structs.fields(RunSpec)
    if field.default is not msgspec.NODEFAULT
}


def with_options(spec: RunSpec, values: OptionValues) -> RunSpec:
    """Return the run with other values of these options. Raises UsageError."""
    changes = {}
    for name, value in values.items():
        if name not in OPTIONS:
            raise UsageError(f"option {unknown_name(name, OPTIONS, 'harness run --help')}")
        try:
            changes[OPTIONS[name].field] = OPTIONS[name].parse(value)
        except ValueError as error:
            raise UsageError(f"--{name}: {error}") from error
    return msgspec.structs.replace(spec, **changes)


def option_values(spec: RunSpec, *, beyond: RunSpec | None = None) -> dict[str, Json]:
    """Return the values of a run's options, in the form of JSON; with `beyond` those that differ
    from another run's. What was not given is left out."""
    found: dict[str, Json] = {}
    for name, entry in OPTIONS.items():
        value = getattr(spec, entry.field)
        if value in (None, "") or (beyond is not None and value == getattr(beyond, entry.field)):
            continue
        found[name] = _plain(value)
    return found


def _plain(value: Any) -> Json:
    if isinstance(value, Seed):
        return str(value)
    return [str(word) for word in value] if isinstance(value, tuple) else value


def option_texts(spec: RunSpec, *, beyond: RunSpec) -> dict[str, str | tuple[str, ...]]:
    """Return the options that differ from another run's, as a script's file has them."""
    return {
        name: value if isinstance(OPTIONS[name].option.type, Repeated) else as_text(value)
        for name in option_values(spec, beyond=beyond)
        for value in [getattr(spec, OPTIONS[name].field)]
    }


def command_of(spec: RunSpec, *, beyond: RunSpec, stated: Collection[str] = ()) -> str:
    """Return the command that makes a run: its options that differ from another run's, or are among
    `stated`, then the versions of its servers, whose defaults change between releases of the
    harness, and its seed."""
    given = option_values(spec)
    named = {*option_values(spec, beyond=beyond), *stated}
    images = [name for name in given if OPTIONS[name].field in IMAGE_OPTIONS]
    others = [name for name in given if name in named and name not in (*images, "seed")]
    words = ["harness", "run"]
    for name in (*others, *images, "seed"):
        words += OPTIONS[name].arguments(getattr(spec, OPTIONS[name].field))
    return shlex.join(words)


def workload_flags(spec: RunSpec) -> dict[str, Any]:
    """Return the values that flags give options of the workload, by flag."""
    return {
        name: value
        for name, entry in OPTIONS.items()
        if entry.option.workload_option and (value := getattr(spec, entry.field)) is not None
    }

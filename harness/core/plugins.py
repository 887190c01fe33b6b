"""Finds what users bring along: objects named MODULE:NAME, and installed entry points.

A module is looked for among what Python can import, and then in the working directory. Processes
that this one starts, such as Spark's workers, find it in the same places.
"""

import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from hashlib import blake2b
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from inspect import getdoc
from typing import Any, Final

from harness.core.errors import UsageError
from harness.core.ranges import did_you_mean, shortened

WORKLOADS: Final = "harness.workloads"
NEMESES: Final = "harness.nemeses"
CHECKERS: Final = "harness.checkers"
"""Groups of entry points."""
NO_TEXT: Final = "no description: its docstring is empty"


def is_reference(name: str) -> bool:
    """Return whether a name has the form MODULE:NAME."""
    return ":" in name


@cache
def installed(group: str) -> Mapping[str, EntryPoint]:
    """Return the entry points of a group, by name."""
    return {point.name: point for point in entry_points(group=group)}


def reference(group: str, name: str) -> str | None:
    """Return the MODULE:NAME that a name stands for; None if it is no plug-in's."""
    if is_reference(name):
        return name
    point = installed(group).get(name)
    return None if point is None else point.value


def load(group: str, name: str) -> Callable[..., Any]:
    """Return the plug-in of a name. Raises UsageError if it cannot be imported, or called."""
    found = reference(group, name)
    if found is None:
        raise UsageError(f"{shortened(name)!r}: no installed package offers it as a {group}")
    said = shortened(name) if name == found else f"{name} ({found})"
    module_name, _, attribute = found.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), *attribute.split("."))):
        raise UsageError(f"{said}: expected MODULE:NAME, such as my_tests:RowCount")
    _search_working_directory()
    made: Any = _imported(module_name, said)
    for part in attribute.split("."):
        if not hasattr(made, part):
            names = [name for name in vars(made) if not name.startswith("_")]
            raise UsageError(
                f"{said}: the module {module_name} has no {part}; {did_you_mean(part, names)}"
                "expected a class or function of it"
            )
        made = getattr(made, part)
    if not callable(made):
        raise UsageError(f"{said}: is a {type(made).__name__}, expected a class or function")
    plugin: Callable[..., Any] = made
    return plugin


def described(plugin: Callable[..., Any]) -> str:
    """Return the first line of a plug-in's documentation."""
    return (getdoc(plugin) or NO_TEXT).split("\n", 1)[0]


def descriptions(group: str) -> Mapping[str, str]:
    """Return a description of each installed plug-in of a group; of one that cannot be imported,
    the reason."""
    texts: dict[str, str] = {}
    for name, point in installed(group).items():
        package = "" if point.dist is None else f" (from {point.dist.name})"
        try:
            texts[name] = described(load(group, name)) + package
        except UsageError as error:
            texts[name] = f"unusable: {error}"
    return texts


def source_digest(group: str, name: str) -> bytes:
    """Return a digest of the module that defines a plug-in, so that verdicts are old when it
    changes; empty if it is no plug-in's name or cannot be found."""
    found = reference(group, name)
    if found is None:
        return b""
    _search_working_directory()
    try:
        spec = find_spec(found.partition(":")[0])
        if spec is None or spec.origin is None:
            return b""
        with open(spec.origin, "rb") as file:
            return blake2b(file.read(), digest_size=16).digest()
    except (ImportError, ValueError, OSError):
        return b""


def require_members(plugin: str, made: object, members: Sequence[str], what: str) -> None:
    """Raise UsageError if an object that a plug-in made lacks members of its protocol."""
    lacking = [member for member in members if not hasattr(made, member)]
    if lacking:
        raise UsageError(
            f"{plugin}: made a {type(made).__name__} without {', '.join(lacking)}; expected {what}"
        )


def _search_working_directory() -> None:
    """Let this process and those that it starts import modules of the working directory. It comes
    last, so that no file there replaces a module of another package."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)
    inherited = os.environ.get("PYTHONPATH", "")
    if here not in inherited.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (inherited, here)))


def _imported(module: str, said: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        wanted = error.name is not None and f"{module}.".startswith(f"{error.name}.")
        if wanted:
            raise UsageError(
                f"{said}: there is no module {error.name}; expected one that is installed, on "
                f"PYTHONPATH, or in the working directory {os.getcwd()}"
            ) from None
        raise _unimportable(module, said, error) from error
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # a module may raise anything, and call sys.exit
        raise _unimportable(module, said, error) from error


def _unimportable(module: str, said: str, error: BaseException) -> UsageError:
    frames = traceback.extract_tb(error.__traceback__)
    at = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return UsageError(
        f"{said}: the module {module} cannot be imported: {type(error).__name__}{at}: {error}"
    )

"""Finds what users bring along: objects named MODULE:NAME, and installed entry points.

A module comes from what is installed or from PYTHONPATH; from the working directory only if the
command line names it (`name_modules`). Names also come from run.json, and a store that somebody was
sent must not bring code along: `cd THEIR_STORE; harness check .` executes none of its files.
"""

import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from hashlib import blake2b
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from inspect import getdoc
from typing import Any, Final, TypeVar

from harness.core.errors import PLUGIN_ERRORS, UsageError
from harness.core.ranges import did_you_mean, quoted, shortened

T = TypeVar("T")

WORKLOADS: Final = "harness.workloads"
NEMESES: Final = "harness.nemeses"
CHECKERS: Final = "harness.checkers"
"""Groups of entry points."""
NO_TEXT: Final = "no description: its docstring is empty"
NAMED: Final = "HARNESS_NAMED_MODULES"
"""Environment variable that hands the modules of a command line to the processes that the command
starts, such as Spark's workers: MODULE,MODULE=DIRECTORY."""
_REFERENCE: Final = re.compile(r"([^\W\d][\w.]*):[^\W\d][\w.]*")


def is_reference(name: str) -> bool:
    """Return whether a name has the form MODULE:NAME."""
    return ":" in name


def name_modules(words: Iterable[str]) -> None:
    """Let the modules of every MODULE:NAME in these words of a command line come from the working
    directory. It is searched last, so that no file there replaces a module of another package."""
    parts = (part for word in words for part in re.split("[,=]", word))
    found = {match[1] for part in parts if (match := _REFERENCE.fullmatch(part.strip()))}
    if found:
        os.environ[NAMED] = f"{','.join(sorted(found | _named()[0]))}={os.getcwd()}"


def _named() -> tuple[frozenset[str], str]:
    """Return the modules that the command line names, and the directory that it was given in."""
    names, _, directory = os.environ.get(NAMED, "").partition("=")
    return frozenset(filter(None, names.split(","))), directory


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
        raise UsageError(f"{quoted(name)}: no installed package offers it as a {group}")
    said = shortened(name) if name == found else f"{name} ({found})"
    made = _object(found, said, partial(_is_trusted, group, name))
    if not callable(made):
        raise UsageError(f"{said}: is a {type(made).__name__}, expected a class or function")
    home = made.func if isinstance(made, partial) else made  # glob:os.system is os.system
    _refuse_of_python(str(getattr(home, "__module__", "")), said)
    plugin: Callable[..., Any] = made
    return plugin


def load_value(name: str, kind: type[T]) -> T:
    """Return the value of a MODULE:NAME. Raises UsageError if it cannot be imported, or is no
    `kind`."""
    said = shortened(name)
    made = _object(name, said, _is_named)
    if not isinstance(made, kind):
        raise UsageError(f"{said}: is a {type(made).__name__}, expected a {kind.__name__}")
    return made


def _object(found: str, said: str, is_trusted: Callable[[str], bool]) -> Any:
    """Return the object of a MODULE:NAME. Raises UsageError if it cannot be imported."""
    module_name, _, attribute = found.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), *attribute.split("."))):
        raise UsageError(f"{said}: expected MODULE:NAME, such as my_tests:RowCount")
    _refuse_of_python(module_name, said)
    made: Any = _imported(module_name, said, trusted=is_trusted(module_name))
    for part in attribute.split("."):
        if not hasattr(made, part):
            names = [name for name in vars(made) if not name.startswith("_")]
            raise UsageError(
                f"{said}: the module {shortened(module_name)} has no {shortened(part)}; "
                f"{did_you_mean(part, names)}expected a name that it defines"
            )
        made = getattr(made, part)
    return made


def _refuse_of_python(module: str, said: str) -> None:
    """Refuse a module of Python itself, such as os, which has functions that must not be called."""
    if module.partition(".")[0] in sys.stdlib_module_names:
        raise UsageError(
            f"{said}: is of Python's own module {module}; expected a module with a plug-in"
        )


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
    module = found.partition(":")[0]
    try:
        spec = _find(module, trusted=_is_trusted(group, name, module))
        with open(spec.origin or os.devnull, "rb") as file:
            return blake2b(file.read(), digest_size=16).digest()
    except PLUGIN_ERRORS:  # to find a module imports the packages that it is in
        return b""


def require_members(plugin: str, made: object, members: Sequence[str], what: str) -> None:
    """Raise UsageError if an object that a plug-in made lacks members of its protocol."""
    lacking = [member for member in members if not hasattr(made, member)]
    if lacking:
        raise UsageError(
            f"{plugin}: made a {type(made).__name__} without {', '.join(lacking)}; expected {what}"
        )


def _is_named(module: str) -> bool:
    """Return whether the command line names a module, which may then be in the working
    directory."""
    named, directory = _named()
    if module in named and directory not in sys.path:
        sys.path.append(directory)
    return module in named


def _is_trusted(group: str, name: str, module: str) -> bool:
    """Return whether the module of a plug-in may be in the working directory: the command line
    names it, or a package that is installed elsewhere does, such as an editable one."""
    point = None if is_reference(name) else installed(group)[name]
    dist = None if point is None else point.dist
    return _is_named(module) or (dist is not None and not _is_untrusted(str(dist.locate_file(""))))


def _is_untrusted(directory: str) -> bool:
    """Return whether a directory of sys.path is the working directory, of this process or of the
    command that started it, and PYTHONPATH does not have it. `python -m` puts it there too. An
    empty entry of PYTHONPATH means the working directory to Python, but is mostly a slip."""
    working = {os.path.realpath(one) for one in (os.getcwd(), _named()[1]) if one}
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return os.path.realpath(directory) in working - {os.path.realpath(one) for one in given if one}


def trusted_path() -> list[str]:
    """Return the directories of sys.path from which another process may import anything."""
    return [place for place in sys.path if place and not _is_untrusted(place)]


def _find(module: str, *, trusted: bool) -> ModuleSpec:
    """Return where a module is. Imports the packages that it is in. Unless it is trusted, raises
    _UntrustedError if it, or one of these, is in the working directory. Raises ModuleNotFoundError,
    and what these packages raise."""
    package = module.rpartition(".")[0]
    if package:
        _find(package, trusted=trusted)
    spec = find_spec(module)
    if not trusted:
        here = PathFinder.find_spec(module, [os.getcwd()]) if spec is None else None
        if here or (spec and any(_is_untrusted(_entry_of(place)) for place in _places(spec))):
            raise _UntrustedError(module)
    if spec is None:
        raise ModuleNotFoundError(name=module)
    return spec


class _UntrustedError(Exception):
    """Module that only the working directory has, and that the command line does not name."""


def _places(spec: ModuleSpec) -> list[str]:
    """Return the file of a module, and the directories of a package."""
    return [*([spec.origin] if spec.has_location and spec.origin else []),
            *(spec.submodule_search_locations or ())]  # fmt: skip


def _entry_of(place: str) -> str:
    """Return the entry of sys.path through which Python finds a file or directory: the deepest one
    above it. One that is above none of them is found by what is installed."""
    above = (os.path.abspath(entry) for entry in sys.path)
    within = [one for one in above if os.path.abspath(place).startswith(os.path.join(one, ""))]
    return max(within, key=len, default="/")


def _imported(module: str, said: str, *, trusted: bool) -> Any:
    try:
        _find(module, trusted=trusted)
        return import_module(module)
    except _UntrustedError as error:
        raise UsageError(
            f"{said}: the module {error} is in the working directory {os.getcwd()}, and the "
            f"command line does not name it; expected one that is installed or on PYTHONPATH; if "
            f"you trust that file, put PYTHONPATH=. before the command"
        ) from None
    except ModuleNotFoundError as error:
        wanted = error.name is not None and f"{module}.".startswith(f"{error.name}.")
        if wanted:
            raise UsageError(
                f"{said}: there is no module {shortened(error.name)}; expected one that is "
                f"installed, on PYTHONPATH, or, if the command line names it, in the working "
                f"directory {os.getcwd()}"
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

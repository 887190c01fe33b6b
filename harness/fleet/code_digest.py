"""Digest of the code that a verdict depends on.

It covers a module and, transitively, the modules of the project that it imports: their syntax trees
without comments, docstrings and positions, and the bytes of extension modules. So a changed
comment, or a change of a checker that a run does not have, leaves the digest as it was.
"""

import ast
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import cache_from_source, find_spec
from pathlib import Path
from typing import Any, Final

from harness.core.bounded_json import load

ALWAYS: Final = (
    "harness.fleet.task",
    "harness.store.parquet",
    "harness.store.journal",
    "harness.store.history_files",
)
"""Modules that judge every run, or read its history."""
_JUDGING: Final = ("checkers", "harness.core", "harness.native", "workloads", "pyporcupine")
"""What a workload may import that matters for its verdicts. Its clients and generators do not: the
history has what they did."""
_EXPLAINING: Final = "checkers.triage"
"""Explains an INVALID run by known defects, which changes no verdict."""
_SUFFIXES: Final = (".py", *EXTENSION_SUFFIXES)
_OWN: Final = ("harness", "checkers", "workloads", "nemesis", "compose", "pyporcupine")


def judge_digest(modules: Iterable[str]) -> str:
    """Return the digest of the code of these modules, which are those of the checkers of a run and
    of its workload, and of what judges every run."""
    return _digest_of(tuple(sorted(set(modules))))


@cache
def _digest_of(modules: tuple[str, ...]) -> str:
    said = blake2b(digest_size=16)
    for name in sorted({*closure(ALWAYS), *closure(modules)}):
        said.update(f"{name} {_files().digest(name)}\n".encode())
    _files().save()
    return said.hexdigest()


def closure(modules: Iterable[str]) -> frozenset[str]:
    """Return these modules and what they import of the project. From a workload on, only what
    judges counts."""
    return frozenset().union(*(_closure(name) for name in modules))


@cache
def _closure(module: str) -> frozenset[str]:
    within = _JUDGING if module.startswith("workloads") else _OWN
    found, left = set[str](), [module]
    while left:
        name = left.pop()
        if name in found or _is_in(name, _EXPLAINING) or not any(_is_in(name, w) for w in within):
            continue
        found.add(name)
        left += _files().imports(name)
    return frozenset(found)


def _is_in(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


@cache
def _files() -> "_SourceFiles":
    return _SourceFiles()


class _SourceFiles:
    """Digests and imports of the project's modules, kept beside Python's own cache of bytecode, so
    that files that are as they were are not parsed again."""

    def __init__(self) -> None:
        self._kept = Path(cache_from_source(__file__)).with_name("code_digest.json")
        self._known: dict[str, list[Any]] = {}
        self._fresh = False
        with suppress(OSError, ValueError):  # it is only a cache
            found = load(self._kept)
            self._known = found if isinstance(found, dict) else {}

    def digest(self, module: str) -> str:
        """Return the digest of a module; "" if it is not of Python and no file."""
        return str(self._entry(module)[2])

    def imports(self, module: str) -> list[str]:
        """Return what a module imports. A name may be one of a module or of a part of one."""
        return [name for name in self._entry(module)[3] if _origin(name) is not None]

    def _entry(self, module: str) -> list[Any]:
        origin = _origin(module)
        if origin is None:
            return [0, 0, "", []]
        seen = origin.stat()
        entry = self._known.get(str(origin))
        if entry is None or entry[:2] != [seen.st_size, seen.st_mtime_ns]:
            entry = [seen.st_size, seen.st_mtime_ns, *_parsed(module, origin)]
            self._known[str(origin)] = entry
            self._fresh = True
        return entry

    def save(self) -> None:
        """Keep what was parsed."""
        if not self._fresh:
            return
        self._fresh = False
        partial = self._kept.with_suffix(f".{os.getpid()}.partial")
        with suppress(OSError):  # an installation may be read-only
            partial.parent.mkdir(parents=True, exist_ok=True)
            partial.write_text(json.dumps(self._known))
            partial.replace(self._kept)


@cache
def _origin(module: str) -> Path | None:
    """Return the file of a module of the project; None for anything else. Imports nothing but the
    package at the top."""
    top, *below = module.split(".")
    spec = find_spec(top) if top in _OWN else None
    if spec is None or spec.origin is None:
        return None
    place = os.path.join(os.path.dirname(spec.origin), *below)  # strings: these are thousands
    if "__init__.py" in _listed(place):
        return Path(place, "__init__.py")
    parent, last = os.path.split(place)
    named = (last + suffix for suffix in _SUFFIXES)
    return next((Path(parent, name) for name in named if name in _listed(parent)), None)


@cache
def _listed(directory: str) -> frozenset[str]:
    """Return the names in a directory; none if it is no directory."""
    try:
        return frozenset(os.listdir(directory))
    except OSError:
        return frozenset()


def _parsed(module: str, origin: Path) -> tuple[str, list[str]]:
    raw = origin.read_bytes()
    if origin.suffix != ".py":
        return blake2b(raw, digest_size=16).hexdigest(), []
    tree = ast.parse(raw)
    package = module if origin.name == "__init__.py" else module.rpartition(".")[0]
    names = sorted({name for node in ast.walk(tree) for name in _imported(node, package)})
    for node in ast.walk(tree):
        _strip(node)
    return blake2b(ast.dump(tree).encode(), digest_size=16).hexdigest(), names


def _imported(node: ast.AST, package: str) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        above = package.rsplit(".", node.level - 1)[0] if node.level else ""
        base = ".".join(filter(None, (above, node.module)))
        yield base
        yield from (f"{base}.{alias.name}" for alias in node.names)


def _strip(node: ast.AST) -> None:
    """Remove texts that stand alone: docstrings, also those of attributes."""
    body = getattr(node, "body", None)
    if isinstance(body, list):
        node.body = [one for one in body if not _is_text(one)]  # type: ignore[attr-defined]


def _is_text(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )

"""A matrix of a torture: workloads x nemeses x settings, from TOML, settled cell by cell."""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from itertools import product
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from harness.cli.run import Asked, run
from harness.core.errors import UsageError
from harness.core.seed import Seed
from harness.run.stop import Stop
from harness.run.torture import Cell

KEYS: Final = frozenset({"workloads", "nemeses", "settings", "options", "seed"})
NOT_OF_A_CELL: Final = frozenset(
    {"workload", "nemesis", "seed", "count", "store", "json", "keep-cluster", "reuse"}
)
CLUSTER: Final = (
    "cluster", "shards", "replicas", "keepers", "keeper_route", "clickhouse_image",
    "zookeeper_image",
)  # fmt: skip
"""Options of a run that its cluster is made by."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """What a file says: every name in it is known, every option settled."""

    name: str
    digest: str
    seed: int | None
    cells: tuple[tuple[str, tuple[str, ...]], ...]
    """Name, and the words of `harness run`."""

    def settled(self, store: str, console: Console, stop: Stop) -> list[Cell]:
        """Ready to run. Raises UsageError, naming the cell."""
        return [_settled(name, words, store, console, stop) for name, words in self.cells]


def read_matrix(path: Path) -> Matrix:
    """The file. Raises UsageError that shows what is wrong."""
    try:
        raw = path.read_bytes()
        said = tomllib.loads(raw.decode())
    except OSError as error:
        raise UsageError(f"matrix {path}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"matrix {path}: is not TOML: {error}") from error
    for key in sorted(set(said) - KEYS):
        raise UsageError(f"matrix {path}: {key!r}: expected some of {', '.join(sorted(KEYS))}")
    workloads, nemeses = _names(path, said, "workloads"), _names(path, said, "nemeses")
    shared = _table(path, "options", said.get("options", {}))
    settings = said.get("settings", {"": {}})
    if not isinstance(settings, dict) or not settings:
        raise UsageError(f"matrix {path}: settings: expected tables such as [settings.plain]")
    cells = []
    for workload, (label, own), nemesis in product(workloads, settings.items(), nemeses):
        words = {**shared, **_table(path, f"settings.{label}", own)}
        name = f"{workload}{f' ({label})' if label else ''} + {nemesis}"
        flags = [word for flag, value in words.items() for word in _words(flag, value)]
        cells.append((name, ("--workload", workload, "--nemesis", nemesis, *flags)))
    seed = said.get("seed")
    if seed is not None and not (isinstance(seed, int) and 0 <= seed < 1 << 64):
        raise UsageError(f"matrix {path}: seed {seed!r}: expected a number below 2**64")
    return Matrix(path.stem, blake2b(raw, digest_size=8).hexdigest(), seed, tuple(cells))


def _names(path: Path, said: Mapping[str, Any], key: str) -> list[str]:
    names = said.get(key)
    if not isinstance(names, list) or not names or not all(isinstance(n, str) for n in names):
        raise UsageError(f"matrix {path}: {key} {names!r}: expected a list of names")
    if len(set(names)) != len(names):
        raise UsageError(f"matrix {path}: {key} {names!r}: a name is there twice")
    return names


def _table(path: Path, key: str, given: Any) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise UsageError(f"matrix {path}: {key} {given!r}: expected a table of options of a run")
    for flag in sorted(set(given) & NOT_OF_A_CELL):
        raise UsageError(f"matrix {path}: {key}.{flag}: is not an option of a cell")
    return given


def _words(flag: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [f"--{flag}"] if value else []
    if isinstance(value, list):
        return [word for one in value for word in (f"--{flag}", str(one))]
    return [f"--{flag}", str(value)]


def _settled(name: str, words: tuple[str, ...], store: str, console: Console, stop: Stop) -> Cell:
    try:
        context = run.make_context("run", [*words, "--store", store])
        asked = Asked(context, {k: v for k, v in context.params.items() if k != "as_json"})
    except UsageError as error:
        raise UsageError(f"cell {name}: {error}") from error
    plan: Callable[[Seed], Any] = asked.plan
    cluster = " ".join(f"{option}={context.params.get(option)}" for option in CLUSTER)
    return Cell(name, cluster, asked.campaign(console, stop, lambda _: None), plan)

"""The matrix of `harness torture`: versions × workloads × nemeses × settings, read from TOML.

Every error names the file, the table or cell, and the line.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from itertools import product
from pathlib import Path
from typing import Any, Final

import rich_click as click
from rich.console import Console

from compose.releases import clickhouse_release
from harness.cli.catalogue import workload_entry
from harness.cli.display import live_display
from harness.cli.run import RunRequest, run
from harness.cli.toml_file import TomlFile, read_toml
from harness.cli.workload import options_of
from harness.core.errors import MissingMechanismError, UsageError
from harness.core.ranges import RANGES, shortened, unknown_name
from harness.core.seed import Seed
from harness.run.retention import RULES, Retention
from harness.run.stop import Stop
from harness.run.torture import TortureCell
from nemesis.catalogue import nemesis_names

KEYS: Final = ("workloads", "nemeses", "clickhouse", "settings", "options", "seed", "retention")
VERSION_OPTIONS: Final = ("clickhouse", "clickhouse-image")
"""Options that are not allowed beside the key clickhouse."""
NOT_IN_CELL: Final = frozenset(
    {"workload", "nemesis", "seed", "count", "jobs", "store", "json", "keep-cluster", "reuse"}
    | {"open"}
)
"""Options of `harness run` that the matrix or the night decides."""
CLUSTER: Final = (
    "cluster", "shards", "replicas", "keepers", "keeper_route", "clickhouse", "zookeeper",
    "clickhouse_image",
    "zookeeper_image", "keeper_image", "upgrade_to", "parts",
    "s3_endpoint",
)  # fmt: skip
"""Options that decide which cluster a run needs; cells with equal ones share it."""
BYTES_MAX: Final = 1 << 20
"""Maximum size of a matrix file."""
CELLS_MAX: Final = 10_000

_OPTIONS: Final[Mapping[str, click.Parameter]] = {
    option.removeprefix("--"): param
    for param in run.params
    for option in param.opts
    if option.startswith("--") and option.removeprefix("--") not in NOT_IN_CELL
}
"""Options of a cell by their names in a matrix file."""


@dataclass(frozen=True, slots=True)
class TortureMatrix:
    """Contents of a matrix file, with validated names and options."""

    name: str
    digest: str
    seed: int | None
    cells: tuple[tuple[str, tuple[str, ...]], ...]
    """Name and `harness run` arguments of each cell."""
    path: Path
    versions: tuple[str, ...] = ()
    """Versions that are a dimension of the matrix; (): the options choose the servers."""
    retention: Retention = field(default_factory=Retention)
    """What `harness prune` keeps, and for how long."""

    def settled(
        self, store: str, console: Console, stop: Stop
    ) -> tuple[list[TortureCell], dict[str, str]]:
        """Return the cells that are ready to run; and by name those of a version that lacks
        mechanisms which they need, with the names of these. Raises UsageError, naming the file and
        the cell, for every other cell that cannot be run."""
        ready: list[TortureCell] = []
        missing: dict[str, str] = {}
        for name, words in self.cells:
            try:
                ready.append(self._settled(name, words, store, console, stop))
            except MissingMechanismError as error:
                missing[name] = error.missing
        if not ready:
            name, needed = next(iter(missing.items()))
            raise UsageError(
                f"matrix {self.path}: no cell can be run on its version: {name} needs {needed}"
            )
        return ready, missing

    def _settled(
        self, name: str, words: tuple[str, ...], store: str, console: Console, stop: Stop
    ) -> TortureCell:
        try:
            context = run.make_context("run", [*words, "--store", store])
            request = RunRequest(context)
        except (UsageError, click.UsageError) as error:
            if isinstance(error, MissingMechanismError) and self.versions:
                raise
            why = error.format_message() if isinstance(error, click.UsageError) else str(error)
            raise UsageError(f"matrix {self.path}: cell {name}: {why}") from error
        plan: Callable[[Seed], Any] = request.plan
        said = (f"{option}={context.params[option]}" for option in CLUSTER)
        cluster = " ".join((*said, f"store={request.topology.has_store}"))
        return TortureCell(
            name,
            cluster,
            request.campaign(partial(live_display, console=console), stop, lambda _: None),
            plan,
        )


def read_matrix(path: Path) -> TortureMatrix:
    """Read a matrix file. Raises UsageError that says what is wrong, and where."""
    file = read_toml("matrix", path, BYTES_MAX)
    values = file.values
    for key in values:
        if key not in KEYS:
            file.refuse("", key, unknown_name(key, KEYS))
    seed = values.get("seed")
    whole = isinstance(seed, int) and not isinstance(seed, bool)
    if seed is not None and not (whole and 0 <= seed < 1 << 64):
        file.refuse("", "seed", f"{shortened(seed)}: expected a number below 2**64")
    workloads, nemeses = _names(file, "workloads"), _names(file, "nemeses")
    shared = _words(file, "options", values.get("options", {}))
    settings = values.get("settings", {"": {}})
    if not isinstance(settings, dict) or not settings:
        file.refuse("", "settings", "expected tables such as [settings.plain]")
    for nemesis in nemeses:
        for one in nemesis.split(","):
            if one.strip() not in nemesis_names():
                unknown = unknown_name(one.strip(), nemesis_names(), "harness list nemeses")
                file.refuse("", "nemeses", unknown)
    own = {label: _words(file, f"settings.{label}", table) for label, table in settings.items()}
    versions = _versions(file)
    if len(workloads) * len(nemeses) * len(own) * max(1, len(versions)) > CELLS_MAX:
        raise UsageError(f"matrix {path}: more than {CELLS_MAX:,} cells")
    for label in own:
        _check_workload_options(file, workloads, ("options", f"settings.{label}"))
    cells = []
    # The cells of a version are adjacent, so that they share its clusters.
    for version, workload, label, nemesis in product(versions or [""], workloads, own, nemeses):
        where = f" on {version}" if version else ""
        name = f"{workload}{f' ({label})' if label else ''}{where} + {nemesis}"
        flags = [word for words in {**shared, **own[label]}.values() for word in words]
        flags += ["--clickhouse", version] if version else []
        cells.append((name, ("--workload", workload, "--nemesis", nemesis, *flags)))
    digest = blake2b(file.text.encode(), digest_size=8).hexdigest()
    kept = _retention(file)
    return TortureMatrix(path.stem, digest, seed, tuple(cells), path, tuple(versions), kept)


def _names(file: TomlFile, key: str) -> list[str]:
    names = file.values.get(key)
    if not isinstance(names, list) or not names or not all(isinstance(n, str) for n in names):
        file.refuse("", key, f"{shortened(names)}: expected a list of names")
    if len(set(names)) != len(names):
        file.refuse("", key, f"{shortened(names)}: a name is repeated")
    if key == "workloads":
        for name in names:
            try:
                workload_entry(name)
            except UsageError as error:
                file.refuse("", key, str(error))
    return names


def _check_workload_options(file: TomlFile, workloads: list[str], tables: tuple[str, ...]) -> None:
    """Refuse an option of workloads, NAME=VALUE, that one of them does not have."""
    for table in tables:
        above, _, label = table.rpartition(".")
        given = file.values.get(above, {}).get(label, {}) if above else file.values.get(table, {})
        words = given.get("option", []) if isinstance(given, dict) else []
        for workload in workloads:
            try:
                options_of(workload, {}, [words] if isinstance(words, str) else words)
            except UsageError as error:
                file.refuse(table, "option", str(error))


def _versions(file: TomlFile) -> list[str]:
    """Return the versions that are a dimension of the matrix; none without the key."""
    if "clickhouse" not in file.values:
        return []
    names = _names(file, "clickhouse")
    known: dict[str, str] = {}
    for name in names:
        try:
            version = clickhouse_release(name, "version").version
        except UsageError as error:
            file.refuse("", "clickhouse", str(error))
        other = known.setdefault(version, name)
        if other != name:
            file.refuse("", "clickhouse", f"{other} and {name} are the same version")
    settings = file.values.get("settings", {})
    tables = {"options": file.values.get("options", {})}
    tables |= {f"settings.{label}": table for label, table in settings.items()}
    for table, options in tables.items():
        for key in VERSION_OPTIONS:
            if key in options:
                file.refuse(table, key, "the list clickhouse of the matrix decides the versions")
    return names


def _retention(file: TomlFile) -> Retention:
    given = file.values.get("retention", {})
    if not isinstance(given, dict):
        file.refuse("", "retention", f"{shortened(given)}: expected a table of days")
    days: dict[str, float | str] = {}
    for rule, value in given.items():
        if rule not in RULES:
            file.refuse("retention", rule, unknown_name(rule, RULES))
        try:
            days[rule] = RANGES["kept_days"].parse(value)
        except ValueError as error:
            file.refuse("retention", rule, str(error))
    return Retention().changed(days)


def _choices(option: str) -> tuple[str, ...]:
    (kind,) = [param.type for param in run.params if param.name == option]
    assert isinstance(kind, click.Choice), f"--{option} is a choice"
    return tuple(kind.choices)


def _words(file: TomlFile, table: str, given: Any) -> dict[str, list[str]]:
    """Return the command-line arguments for each key of a table of options."""
    if not isinstance(given, dict):
        above, _, key = table.rpartition(".")
        file.refuse(above, key, f"{shortened(given)}: expected a table of options of a run")
    return {key: _option(file, table, key, value) for key, value in given.items()}


def _option(file: TomlFile, table: str, key: str, value: Any) -> list[str]:
    if key in NOT_IN_CELL:
        file.refuse(table, key, "is not an option of a cell: it belongs to the night")
    if key not in _OPTIONS:
        file.refuse(table, key, unknown_name(key, _OPTIONS, "harness run --help"))
    param, flag = _OPTIONS[key], f"--{key}"
    values = file.converted(table, key, value, param)
    if param.multiple:
        return [word for one in values for word in (flag, str(one))]
    return [flag, ",".join(map(str, values))]

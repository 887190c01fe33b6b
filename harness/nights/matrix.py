"""The matrix of `harness torture`, read from TOML: versions × workloads × nemeses × settings, and
versions × scenarios; the same of each of its groups.

Every error names the file, the table or cell, and the line.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from itertools import product
from pathlib import Path
from typing import Any, Final

from checkers.triage.defects import DEFECTS
from compose.releases import ImageChoice, ImageOptions, clickhouse_release
from harness.core.errors import MissingMechanismError, UsageError
from harness.core.plugins import NEMESES, load, name_modules, reference
from harness.core.ranges import RANGES, shortened, unknown_name
from harness.nights.retention import RULES, Retention
from harness.nights.torture import TortureCell
from harness.run.monitor import Show
from harness.run.run_request import INVOCATION_OPTIONS, Invocation, RunRequest
from harness.run.scenario_runs import campaign_of, scenario_spec
from harness.run.stop import Stop
from harness.spec.catalogue import CatalogueEntry, workload_entry
from harness.spec.option import Chooser
from harness.spec.run_options import OPTIONS, OptionValues, option_values, with_options
from harness.spec.run_spec import RunSpec
from harness.spec.toml_file import TomlFile, read_toml
from harness.spec.workload_options import named_options, scenario_of
from harness.store.store import Store
from nemesis.catalogue import nemesis_names
from workloads.scenarios.catalogue import SCENARIOS

GROUP_KEYS: Final = (
    *("workloads", "nemeses", "scenarios", "clickhouse", "settings", "options", "accept"),
)
"""Keys of a group of cells; the top of the file is one, too."""
KEYS: Final = (*GROUP_KEYS, "groups", "seed", "retention")
BYTES_MAX: Final = 1 << 20
"""Maximum size of a matrix file."""
CELLS_MAX: Final = 10_000
ALL: Final = "all"
"""Value of `scenarios` that stands for every one."""


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """Cell of a matrix that is not checked against its servers yet."""

    name: str
    options: OptionValues
    """Options of its runs."""
    scenario: str = ""
    """Scenario that it plays; "" for runs of a workload."""
    accepted: frozenset[str] = frozenset()
    """Known defects that its runs may show."""

    def settled(self, store: str, shown: Show, stop: Stop) -> TortureCell:
        """Return the cell ready to run. Raises UsageError for what cannot be run."""
        given = with_options(RunSpec(), self.options)
        if self.scenario:
            images, root = given.images, Store(Path(store))
            return _scenario_cell(self.name, self.scenario, images, root, shown, stop)
        request = RunRequest(given, Invocation(store=store))
        campaign = request.campaign(shown, stop)
        cluster = {
            name: value
            for name, value in option_values(given).items()
            if OPTIONS[name].option.of_cluster
        }
        own = f"{cluster} store={request.topology.has_store} {request.server_settings}"
        return TortureCell(self.name, own, campaign, request.spec, request.dialect)


@dataclass(frozen=True, slots=True)
class TortureMatrix:
    """Contents of a matrix file, with validated names and options."""

    name: str
    digest: str
    seed: int | None
    cells: tuple[MatrixCell, ...]
    path: Path
    versions: frozenset[str] = frozenset()
    """Names of the cells whose version is a dimension of the matrix."""
    retention: Retention = field(default_factory=Retention)
    """What `harness prune` keeps, and for how long."""

    def settled(
        self, store: str, shown: Show, stop: Stop
    ) -> tuple[list[TortureCell], dict[str, str]]:
        """Return the cells that are ready to run; and by name those of a version that lacks
        mechanisms which they need, with the names of these. Raises UsageError, naming the file and
        the cell, for every other cell that cannot be run."""
        ready: list[TortureCell] = []
        missing: dict[str, str] = {}
        for cell in self.cells:
            try:
                ready.append(cell.settled(store, shown, stop))
            except UsageError as error:
                if isinstance(error, MissingMechanismError) and cell.name in self.versions:
                    missing[cell.name] = error.missing
                    continue
                raise UsageError(f"matrix {self.path}: cell {cell.name}: {error}") from error
        if not ready:
            name, needed = next(iter(missing.items()))
            raise UsageError(
                f"matrix {self.path}: no cell can be run on its version: {name} needs {needed}"
            )
        return ready, missing


def _scenario_cell(
    cell: str, name: str, images: ImageOptions, store: Store, shown: Show, stop: Stop
) -> TortureCell:
    """Return a scenario, on the servers that these options choose, as a cell of a matrix."""
    one, choice = scenario_of(name), ImageChoice.of(images)
    campaign = campaign_of([one], store, choice, shown, stop)
    servers = f"{one.shards}x{one.replicas}+{one.keepers}"
    kind = f"scenario {choice.arguments} {servers} {one.store} {one.settings}"
    spec = partial(scenario_spec, one, choice=choice)
    return TortureCell(cell, kind, campaign, spec, choice.dialect)


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
    groups = values.get("groups", {})
    if not isinstance(groups, dict):
        file.refuse("", "groups", "expected tables such as [groups.disks]")
    tables = [f"groups.{label}" for label in groups]
    own = not groups or any(key in values for key in ("workloads", "nemeses", "scenarios"))
    top = _Group(file, "", cells=own)
    groups_ = [
        _Group(file, table, versions=top.versions, accepted=top.accepted) for table in tables
    ]
    every = [top, *groups_]
    if sum(group.size for group in every) > CELLS_MAX:
        raise UsageError(f"matrix {path}: more than {CELLS_MAX:,} cells")
    cells = tuple(cell for group in every for cell in group.cells())
    _check_names(file, every)
    versions = frozenset(c.name for group in every if group.versions for c in group.cells())
    digest = blake2b(file.text.encode(), digest_size=8).hexdigest()
    return TortureMatrix(path.stem, digest, seed, cells, path, versions, _retention(file))


class _Group:
    """A product of versions, workloads, nemeses and settings, and one of versions and scenarios."""

    def __init__(
        self,
        file: TomlFile,
        table: str,
        *,
        versions: Sequence[str] = (),
        accepted: frozenset[str] = frozenset(),
        cells: bool = True,
    ) -> None:
        """Read the top of the file, or a table of it, which has these versions unless it has its
        own, and accepts these defects besides its own; without `cells` only what groups inherit.
        Raises UsageError."""
        self.table = table
        self._file = file
        self._inherited = list(versions)
        self._values = _table(file, table)
        for key in self._values if table else ():
            if key not in GROUP_KEYS:
                file.refuse(table, key, unknown_name(key, GROUP_KEYS))
        self.scenarios = self._scenarios()
        given = "workloads" in self._values or "nemeses" in self._values
        runs = cells and (given or not self.scenarios)
        self.workloads = self._workloads() if runs else []
        self.nemeses = self._nemeses() if runs else []
        settings = self._values.get("settings", {"": {}})
        if not isinstance(settings, dict) or not settings:
            file.refuse(table, "settings", "expected tables such as [settings.plain]")
        tables = {label: self._tables(label) for label in settings}
        self.options = {label: self._merged(names) for label, names in tables.items()}
        for names in tables.values():
            _check_workload_options(file, self.workloads, names)
        every = dict.fromkeys(name for names in tables.values() for name in names)
        self.versions = self._versions(tuple(every))
        self.accepted = accepted | self._accepted()

    def _tables(self, label: str) -> list[str]:
        """Return the tables of options that hold for cells of these settings, the weakest first."""
        shared = ["options"] if self.table else []
        return [*shared, self._at("options"), *([self._at(f"settings.{label}")] if label else [])]

    def _merged(self, tables: Sequence[str]) -> dict[str, Any]:
        """Return the options in these tables; a later table's stand for earlier ones."""
        return {
            key: _option(self._file, table, key, value)
            for table in tables
            for key, value in _table(self._file, table).items()
        }

    @property
    def size(self) -> int:
        """Return the number of cells."""
        runs = len(self.workloads) * len(self.nemeses) * len(self.options)
        return (runs + len(self.scenarios)) * max(1, len(self.versions))

    def cells(self) -> list[MatrixCell]:
        """Return the cells. Those of a version are adjacent, so that they share its clusters."""
        found = []
        for version in self.versions or [""]:
            where = f" on {version}" if version else ""
            server = {"clickhouse": version} if version else {}
            for workload, label, nemesis in product(self.workloads, self.options, self.nemeses):
                name = f"{workload}{f' ({label})' if label else ''}{where} + {nemesis}"
                named = {"workload": workload, "nemesis": nemesis}
                options = {**self.options[label], **named, **server}
                found.append(MatrixCell(name, options, accepted=self.accepted))
            found += [
                MatrixCell(f"scenario {name}{where}", server, name, self.accepted)
                for name in self.scenarios
            ]
        return found

    def _at(self, table: str) -> str:
        return f"{self.table}.{table}" if self.table else table

    def _names(self, key: str, known: Callable[[str], object]) -> list[str]:
        """Return a list of names, each of which `known` accepts, or it raises UsageError."""
        names = self._values.get(key)
        if not isinstance(names, list) or not names or not all(isinstance(n, str) for n in names):
            self._file.refuse(self.table, key, f"{shortened(names)}: expected a list of names")
        if len(set(names)) != len(names):
            self._file.refuse(self.table, key, f"{shortened(names)}: a name is repeated")
        for name in names:
            try:
                known(name)
            except UsageError as error:
                self._file.refuse(self.table, key, str(error))
        return names

    def _workloads(self) -> list[str]:
        return self._names("workloads", _named_workload)

    def _nemeses(self) -> list[str]:
        return self._names("nemeses", _known_nemeses)

    def _scenarios(self) -> list[str]:
        if "scenarios" not in self._values:
            return []
        if self._values["scenarios"] == ALL:
            return list(SCENARIOS)
        return self._names("scenarios", scenario_of)

    def _accepted(self) -> frozenset[str]:
        if "accept" not in self._values:
            return frozenset()

        def known(name: str) -> None:
            if name not in DEFECTS:
                raise UsageError(unknown_name(name, DEFECTS, "harness list defects"))

        return frozenset(self._names("accept", known))

    def _versions(self, tables: Sequence[str]) -> list[str]:
        """Return the versions that are a dimension of the group; none without the key."""
        if "clickhouse" not in self._values:
            return self._inherited
        known: dict[str, str] = {}

        def accept(name: str) -> None:
            version = clickhouse_release(name, "version").version
            other = known.setdefault(version, name)
            if other != name:
                raise UsageError(f"{other} and {name} are the same version")

        names = self._names("clickhouse", accept)
        for table in tables:
            for key in _table(self._file, table):
                if key.startswith("clickhouse"):
                    why = "the list clickhouse of the matrix decides the versions"
                    self._file.refuse(table, key, why)
        return names


def _check_names(file: TomlFile, groups: Sequence[_Group]) -> None:
    """Refuse a cell whose name another one has."""
    seen: set[str] = set()
    for group in groups:
        for cell in group.cells():
            if cell.name in seen:
                above, _, label = group.table.rpartition(".")
                why = f"has the cell {cell.name}, and so has a group before it"
                file.refuse(above, label or "workloads", why)
            seen.add(cell.name)


def _table(file: TomlFile, name: str) -> Mapping[str, Any]:
    """Return a table of the file, by its path; {} if there is none. Raises UsageError for what is
    no table."""
    found, above = file.values, ""
    for key in name.split(".") if name else ():
        within: Any = found.get(key, {})
        if not isinstance(within, dict):
            file.refuse(above, key, f"{shortened(within)}: expected a table")
        found, above = within, f"{above}.{key}" if above else key
    return found


def _named_workload(name: str) -> CatalogueEntry:
    """Return the entry of a workload, which the command names by naming its matrix."""
    name_modules([name])
    return workload_entry(name)


def _known_nemeses(names: str) -> None:
    """Check the names of nemeses, among them plug-ins, which the command names by naming its
    matrix. Raises UsageError."""
    name_modules([names])
    for one in map(str.strip, names.split(",")):
        if reference(NEMESES, one):
            load(NEMESES, one)
        elif one not in nemesis_names():
            raise UsageError(unknown_name(one, nemesis_names(), "harness list nemeses"))


def _check_workload_options(file: TomlFile, workloads: list[str], tables: Sequence[str]) -> None:
    """Refuse an option of workloads, NAME=VALUE, that one of them does not have."""
    for table in tables:
        words = _table(file, table).get("option", [])
        for workload in workloads:
            try:
                named_options(workload, [words] if isinstance(words, str) else words)
            except UsageError as error:
                file.refuse(table, "option", str(error))


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


def _option(file: TomlFile, table: str, key: str, value: Any) -> Any:
    """Return the value of an option of a cell."""
    known = [
        name for name, entry in OPTIONS.items() if Chooser.MATRIX not in entry.option.chosen_by
    ]
    if key not in known and key in {*OPTIONS, *INVOCATION_OPTIONS}:
        file.refuse(table, key, "is not an option of a cell: it belongs to the night")
    if key not in known:
        file.refuse(table, key, unknown_name(key, known, "harness run --help"))
    try:
        return OPTIONS[key].parse(value)
    except ValueError as error:
        file.refuse(table, key, str(error))

"""The request of `harness run`: its options, validated, and the campaign that it asks for."""

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import structs

from compose.releases import ImageChoice
from compose.settings import Fsync, PartFormat, Settings, Storage
from harness.clusters.sim_cluster import SimCluster
from harness.clusters.store_http import authorities_file
from harness.core.bucket import REGION, Bucket
from harness.core.capabilities import CanDegradeLinks, CanSetClocks, CanUpgrade
from harness.core.dialect import Dialect, Mechanism
from harness.core.errors import UsageError
from harness.core.protocols import ANY_NODE, Cluster, Nemesis
from harness.core.ranges import did_you_mean, quoted
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.core.verdict import Status
from harness.report.run_files import draw
from harness.run.campaign import Campaign, ClusterSource
from harness.run.monitor import Show, show_nothing
from harness.run.scripted import ScriptedRun, read_script
from harness.run.stop import Stop
from harness.sim.bugs import bugs
from harness.sim.simulation import protocol_with, simulated_dialect
from harness.spec.catalogue import WORKLOADS, workload_entry
from harness.spec.fault_options import fault_options
from harness.spec.option import On
from harness.spec.option_types import as_text
from harness.spec.run_options import OPTIONS, command_of, option_values, with_options
from harness.spec.run_spec import RunSpec
from harness.spec.workload_options import options_of, workload_of
from harness.store.store import Store
from nemesis.catalogue import parse_nemesis
from nemesis.composed import Composed, check_kind, check_mechanisms, needs_disks
from nemesis.options import FaultOptions
from workloads.options import WorkloadOptions
from workloads.quorum_set import SIMULATED_READINGS, QuorumSetOptions

if TYPE_CHECKING:
    # Slow to import, and of no use to simulated servers.
    from harness.clusters.docker_cluster import DockerCluster
    from harness.clusters.external import ExternalCluster
    from harness.run.server_file import ServerFile

REPORTED: Mapping[str, frozenset[Status | None]] = {
    "all": frozenset((*Status, None)),
    "invalid": frozenset({Status.INVALID}),
    "none": frozenset(),
}
"""Statuses of the runs that are reported, by the value of --report; None: a run that crashed."""

LACKS = {
    On.CONTAINERS: "has no containers",
    On.STARTED: "does not start servers",
    On.SIMULATED: "does not simulate servers",
}
"""What a cluster lacks that an option is of no use for, by the clusters that it is of use for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """Options of `harness run` that do not change what a run does."""

    count: int = 1
    jobs: int = 1
    keep_cluster: bool = False
    stop_at_departure: bool = False
    reuse: str | None = None
    store: str = "store"
    report: str = "all"
    as_json: bool = False
    open_: bool = False


INVOCATION_OPTIONS: Final = tuple(
    field.name.removeprefix("as_").strip("_").replace("_", "-") for field in fields(Invocation)
)
"""Their long names."""


@dataclass(frozen=True)
class RunRequest:
    """Validated options. Making it raises UsageError for whatever can be refused before a run."""

    given: RunSpec
    """The run that the options describe."""
    invocation: Invocation = field(default_factory=Invocation)
    script: ScriptedRun | None = None
    """Calls and faults to make; None: those of the file that the options name, if they do."""
    stated: frozenset[str] = frozenset()
    """Options that the command which repeats the run states even if they are as by default, because
    a profile may say otherwise."""

    def __post_init__(self) -> None:
        if self.script is None and self.given.script is not None:
            object.__setattr__(self, "script", read_script(Path(self.given.script)))
        given, topology = self.given, self.topology
        if not self._timed:
            some_of("--nodes", given.nodes, topology.replicas)
        self.workload_options.validate(topology)
        self._check_cluster()
        faults = self._faults
        check_kind(faults, *self._kind())
        self._check_script(faults)
        self._check_fault_flags(faults)
        if self._own and needs_disks(faults) and given.storage not in (None, Storage.FAULTY):
            why = f"needs --storage faulty, and --storage {given.storage} was given"
            raise UsageError(f"nemesis {faults.name}: {why}")
        for name in self._changed if self.invocation.reuse else ():
            if OPTIONS[name].option.fixed:
                raise UsageError(f"{self._said(name)}: --reuse takes a cluster as it is")
        if self.dialect is not None:
            self._accept(self.dialect)

    @property
    def _own(self) -> bool:
        """Return whether the run starts containers of its own."""
        return not (self.simulated or self.external or self.invocation.reuse)

    @property
    def _timed(self) -> bool:
        """Return whether a script makes the clients' calls."""
        return self.script is not None and not self.script.faults_alone

    @property
    def _changed(self) -> tuple[str, ...]:
        """Return the long names of the options that are not as by default."""
        return tuple(option_values(self.given, beyond=RunSpec(seed=self.given.seed)))

    def _said(self, name: str) -> str:
        """Return an option as it is on a command line."""
        return f"--{name} {as_text(getattr(self.given, OPTIONS[name].field))}"

    def _check_script(self, faults: Nemesis) -> None:
        """Raise UsageError for a script with nodes or faults that the options do not provide."""
        for by, call in self.script.made if self.script else ():
            node, f = call.node, call.f
            if by >= 0 and node not in self.topology.replicas:
                known = " ".join(self.topology.replicas)
                raise UsageError(f"--script: a call on {quoted(node)}: expected one of {known}")
            if by < 0 and f not in faults.fs:
                raise UsageError(
                    f"--script: the fault {quoted(f)} is none of --nemesis {faults.name}; expected "
                    f"some of {' '.join(sorted(faults.fs)) or 'none'}"
                )

    def _check_fault_flags(self, faults: Nemesis) -> None:
        """Raise UsageError for options of a nemesis that the run does not have."""
        upgrades = "upgrades nothing; expected --nemesis upgrade"
        degrades = "degrades no links; expected --nemesis delay, loss or the like"
        for name, need, why in (
            ("upgrade-to", CanUpgrade, upgrades),
            ("upgrade-end", CanUpgrade, upgrades),
            ("link-amounts", CanDegradeLinks, degrades),
        ):
            if name in self._changed and need not in faults.needs:
                raise UsageError(f"{self._said(name)}: the nemesis {faults.name} {why}")

    def _kind(self) -> tuple[type[Cluster], str]:
        """Return the cluster's class, and its name on the command line."""
        if self.simulated:
            return SimCluster, "sim"
        if self.external:
            return type(self.external), "external"
        from harness.clusters.docker_cluster import DockerCluster

        return DockerCluster, "docker"

    @property
    def _on(self) -> On:
        """Return the kind of cluster."""
        if self.simulated:
            return On.SIMULATED
        return On.EXTERNAL if self.external else On.CONTAINERS

    def _check_cluster(self) -> None:
        """Raise UsageError for options that only another kind of cluster supports."""
        given, invocation, on = self.given, self.invocation, self._on
        bugs(given.bug)
        for name in self._changed:
            able = OPTIONS[name].option.on
            if on not in able:
                lacks = LACKS.get(able, "does not have it")
                raise UsageError(f"{self._said(name)}: --cluster {given.cluster} {lacks}")
        kept = {"--keep-cluster": invocation.keep_cluster, "--reuse": bool(invocation.reuse)}
        for flag in [flag for flag, is_given in kept.items() if is_given]:
            if on is not On.CONTAINERS:
                raise UsageError(f"{flag}: --cluster {given.cluster} has no containers")
        if invocation.stop_at_departure and not any(kept.values()):
            raise UsageError("--stop-at-departure: expected with --keep-cluster or --reuse")
        self._check_workload()
        if self.simulated and not workload_entry(given.workload).simulated:
            simulated = " ".join(name for name, entry in WORKLOADS.items() if entry.simulated)
            raise UsageError(
                f"--workload {given.workload}: needs real servers; expected with "
                f"--cluster sim one of {simulated}"
            )
        if invocation.jobs > 1 and not self.simulated:
            raise UsageError(
                f"--jobs {invocation.jobs}: expected 1, or --cluster sim; real servers share one "
                "cluster"
            )
        chosen = self.workload_options
        if chosen.unsimulated and self.simulated:
            raise UsageError(f"{chosen.unsimulated}: needs real servers; expected --cluster docker")
        reading = chosen.read if isinstance(chosen, QuorumSetOptions) else None
        if reading in SIMULATED_READINGS and not self.simulated:
            raise UsageError(
                f"--read {reading}: only simulated servers have it; expected sequential, sync, "
                "plain or synced, or --cluster sim"
            )

    def _check_workload(self) -> None:
        """Raise UsageError, which names what is missing, for a workload that servers of somebody
        else cannot run."""
        if not self.external:
            return
        chosen, kind = self.workload_options, type(self.external)
        lacking = [need.__name__ for need in chosen.capabilities if not kind.has(need)]
        if lacking:
            raise UsageError(
                f"workload {self.given.workload}: cluster external lacks {', '.join(lacking)}; "
                "expected --cluster docker"
            )
        undefined = self.external.lacking(chosen.clusters) if chosen.clusters else ()
        if undefined:
            raise UsageError(
                f"workload {self.given.workload}: {', '.join(undefined)}; expected it in the "
                "configuration of every replica, or --cluster docker"
            )

    @cached_property
    def servers(self) -> "ServerFile | None":
        """Return the file of servers that somebody else runs; None without one. Raises
        UsageError."""
        if self.given.servers is None:
            return None
        from harness.run.server_file import read_servers  # few runs need it

        return read_servers(Path(self.given.servers))

    @cached_property
    def external(self) -> "ExternalCluster | None":
        """Return the servers that somebody else runs; None with another kind of cluster. Raises
        UsageError."""
        given = self.given
        if given.cluster == "external" and self.servers is None:
            raise UsageError("--cluster external: expected with --servers FILE")
        if given.servers is not None and given.cluster != "external":
            raise UsageError(f"--servers {given.servers}: expected with --cluster external")
        return self.servers.cluster() if self.servers else None

    @cached_property
    def no_engine(self) -> str | None:
        """Return why --cluster auto simulates the servers; None if it does not."""
        if self.given.cluster != "auto":
            return None
        from harness.clusters.engine import why_no_engine

        return why_no_engine()

    @property
    def simulated(self) -> bool:
        """Return whether the servers are simulated."""
        return self.given.cluster == "sim" or self.no_engine is not None

    @property
    def store(self) -> Store:
        """Return the store of the runs."""
        return Store(Path(self.invocation.store))

    @cached_property
    def reused(self) -> "DockerCluster | None":
        """Return the kept cluster to run on; None without --reuse."""
        name = self.invocation.reuse
        if not name:
            return None
        from harness.run.bring_up import kept_cluster

        return kept_cluster(self.store, name)

    @property
    def _wanted(self) -> ImageChoice:
        """Return the servers that the options choose."""
        choice = ImageChoice.of(self.given.images, self.given.upgrade_to)
        own_store = workload_entry(self.given.workload).store and not self.given.s3_endpoint
        return replace(choice, store=own_store)

    @property
    def dialect(self) -> Dialect | None:
        """Return the dialect of the servers; None if the user's image decides it."""
        if self.simulated:
            return simulated_dialect(self.protocol)
        if self.external:
            return self.external.engines.dialect
        return self.reused.engines.dialect if self.reused else self._wanted.dialect

    @cached_property
    def image_choice(self) -> ImageChoice | None:
        """Return the servers, also those of a reused cluster; None if they are simulated, or
        somebody else runs them."""
        if self.simulated or self.external:
            return None
        if not self.reused:
            return self._wanted
        from harness.run.bring_up import met_choice

        return replace(met_choice(self.reused), upgrade_to=self.given.upgrade_to)

    def _accept(self, dialect: Dialect) -> None:
        """Raise UsageError if the workload or the nemesis needs a mechanism that servers of this
        dialect lack."""
        dialect.require(f"workload {self.given.workload}", self.workload_options.needs)
        check_mechanisms(self._faults, dialect)
        if self.given.fsync in (Fsync.INSERTS, Fsync.ALL):
            dialect.require(f"--fsync {self.given.fsync}", [Mechanism.DURABLE_PARTS])

    @cached_property
    def _faults(self) -> Composed:
        """Return the nemesis, to see what it needs."""
        given = self.given
        return parse_nemesis(given.nemesis, self.topology, given.seed, self.fault_options)

    @property
    def fault_options(self) -> FaultOptions:
        """Return the options of the nemesis."""
        return fault_options(self.given, self.servers.faults if self.servers else None)

    @property
    def server_settings(self) -> Settings:
        """Return the settings with which servers of the run's own are started."""
        given = self.given
        storage = Storage.FAULTY if needs_disks(self._faults) else Storage.MEMORY
        return Settings(
            parts=PartFormat(given.parts or PartFormat.NEW),
            storage=Storage(given.storage or storage),
            fsync=Fsync(given.fsync or Fsync.DEFAULT),
            reconfig="reconfig" in given.nemesis,
            wrong_clocks=CanSetClocks in self._faults.needs,
        )

    @property
    def bucket(self) -> Bucket | None:
        """Return the bucket of the user's object store; None without one. Raises UsageError."""
        given = self.given
        if not given.s3_endpoint:
            return None
        if not workload_entry(given.workload).store:
            able = " ".join(name for name, entry in WORKLOADS.items() if entry.store)
            raise UsageError(
                f"--s3-endpoint {given.s3_endpoint}: workload {given.workload} stores no objects; "
                f"expected --workload {able}"
            )
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or REGION
        bucket = Bucket.of(given.s3_endpoint, region)
        if not bucket.secure:
            return bucket
        return replace(bucket, authorities=authorities_file(os.environ))

    @cached_property
    def topology(self) -> Topology:
        """Return the topology of the cluster."""
        if self.reused:
            return self.reused.topology
        given = self.given
        if self.external:
            return self.external.topology
        return Topology.of(
            shards=given.shards,
            replicas=given.replicas,
            keepers=given.keepers,
            route=given.keeper_route,
            store=workload_entry(given.workload).store,
            bucket=self.bucket,
            **({} if self.simulated else self._wanted.versions),
        )

    @cached_property
    def workload_options(self) -> WorkloadOptions:
        """Return the workload's options, from flags and from NAME=VALUE."""
        return options_of(self.given)

    @property
    def protocol(self) -> str:
        """Return the protocol of simulated servers: by default one that reads and workload need."""
        chosen = self.workload_options
        linearizable = isinstance(chosen, QuorumSetOptions) and chosen.read == "linearizable"
        return self.given.protocol or ("repaired" if linearizable else protocol_with(chosen.needs))

    @cached_property
    def _first(self) -> RunSpec:
        """Return the first run, in which everything is decided that can be before it begins."""
        spec = structs.replace(
            self._named,
            promise=self.given.promise or self.workload_options.promise.value,
            workload_options=asdict(self.workload_options),
        )
        if self._own and needs_disks(self._faults):
            spec = structs.replace(spec, storage=Storage.FAULTY.value)
        if self.script is not None and self._timed:
            spec = structs.replace(spec, concurrency=self.script.clients, nodes=(ANY_NODE,))
        return spec

    @cached_property
    def _named(self) -> RunSpec:
        """Return the options as given, with the kind of cluster and the servers that they mean."""
        images = self.image_choice.options if self.image_choice else {}
        return structs.replace(self.given, cluster=self._kind()[1], **images)

    def spec(self, seed: Seed, changed: Mapping[str, str] | None = None) -> RunSpec:
        """Return the run of a seed, with other values of some options."""
        in_file = self.script.options if self.script and self.given.script else {}
        beyond = with_options(RunSpec(), in_file)
        named, first = (with_options(one, changed or {}) for one in (self._named, self._first))
        named = structs.replace(named, seed=seed)
        command = command_of(named, beyond=beyond, stated=self.stated)
        return structs.replace(first, seed=seed, command=command)

    def specs(self) -> list[RunSpec]:
        """Return the runs, each with the next seed."""
        return [self.spec(self.given.seed.after(i)) for i in range(self.invocation.count)]

    def campaign(
        self,
        shown: Show | None,
        stop: Stop,
    ) -> Campaign:
        """Return the campaign of the runs; `shown` shows a run in progress, None for no display."""
        name = self.reused.name if self.reused else f"harness-{Seed.fresh().value:08x}"
        files, script = self.store.cluster(name), self.script
        played = script.generator if script is not None else None
        alone = script is not None and script.faults_alone
        return Campaign(
            store=self.store,
            clusters=ClusterSource(make=self.simulated_cluster, per_run=True)
            if self.simulated
            else ClusterSource(
                make=partial(self._make_cluster, name, files),
                files=None if self.external else files,
                leave=bool(self.reused or self.external or self.invocation.keep_cluster),
            ),
            workload=workload_of,
            commands=self.servers.faults if self.servers else {},
            shown=shown or show_nothing,
            draw=draw,
            reported=REPORTED[self.invocation.report],
            stop=stop,
            freeze=self.invocation.stop_at_departure,
            script=lambda _: None if alone else played,
            timed_faults=lambda _: played if alone else None,
        )

    def simulated_cluster(self, spec: RunSpec, _: Callable[[str], None]) -> SimCluster:
        """Return the simulated cluster of a run."""
        return SimCluster(
            self.topology,
            spec.server_seed or spec.seed.child("cluster"),
            bugs=bugs(spec.bug),
            protocol=self.protocol,
            fsync=self.server_settings.fsync,
        )

    def _make_cluster(
        self, name: str, files: Path, _: RunSpec, note: Callable[[str], None]
    ) -> Cluster:
        if self.external:
            note("waiting for the servers")
            return self.external
        from harness.run.bring_up import attached, fresh_cluster

        if self.reused:
            return attached(self.reused, note, choice=self.image_choice, accept=self._accept)
        return fresh_cluster(
            self.topology,
            files,
            note,
            name=name,
            keep=self.invocation.keep_cluster,
            choice=self._wanted,
            accept=self._accept,
            settings=self.server_settings,
        )


def some_of(what: str, given: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    """Return the given words. Raises UsageError for an unknown one."""
    for word in given:
        if word not in known:
            meant = did_you_mean(word, known)
            raise UsageError(f"{what} {quoted(word)}: {meant}expected some of {','.join(known)}")
    return given

"""The request of `harness run`: its command line, validated, and the plans and the campaign that it
asks for."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click
from click.core import ParameterSource

from checkers.headline import headline
from compose.releases import ImageChoice, upgrade_targets
from compose.settings import Fsync, Settings, Storage
from harness.cli.catalogue import WORKLOADS, workload_entry
from harness.cli.display import no_display
from harness.cli.given_options import repro_command
from harness.cli.options import some_of
from harness.cli.result import REPORTED, RunReport, result
from harness.cli.run_options import RunOptions
from harness.cli.workload import FLAGS, options_of, workload_of
from harness.clusters.sim_cluster import SimCluster
from harness.core.capabilities import CanDegradeLinks, CanSetClocks, CanUpgrade
from harness.core.dialect import Dialect, Mechanism
from harness.core.errors import UsageError
from harness.core.link_quality import LinkAmounts
from harness.core.protocols import ANY_NODE, Cluster, Generator, Nemesis
from harness.core.ranges import quoted
from harness.core.seed import Seed
from harness.core.topology import LinkClass, Topology
from harness.run.campaign import Campaign, ClusterSource, FinishedRun
from harness.run.monitor import Monitor
from harness.run.plan import WORKLOAD_OPTIONS, Plan
from harness.run.stop import Stop
from harness.run.store import Store
from harness.sim.bugs import DEFAULT, bugs
from harness.sim.simulation import simulated_dialect
from harness.web.run_files import draw
from nemesis.catalogue import parse_nemesis
from nemesis.composed import Composed, check_kind, check_mechanisms, needs_disks
from nemesis.options import ENDS, FaultOptions
from workloads.options import WorkloadOptions
from workloads.quorum_set import SIMULATED_READINGS, QuorumSetOptions
from workloads.zero_copy import ZeroCopyOptions

if TYPE_CHECKING:
    # Slow to import, and of no use to simulated servers.
    from harness.clusters.docker_cluster import DockerCluster
    from harness.clusters.external import ExternalCluster

NOT_IN_PLAN = frozenset(
    {
        *(
            "seed",
            "server_seed",
            "store",
            "count",
            "jobs",
            "workload",
            "nemesis",
            "promise",
            "option",
            "report",
        ),
        *("as_json", "open_", "script", "servers"),
        *FLAGS,
    }
)
"""Options that a plan does not store, or stores in a field of its own."""


@dataclass(frozen=True)
class RunRequest:
    """Validated command line. Making it raises UsageError for whatever can be refused before a
    run."""

    context: click.Context

    def __post_init__(self) -> None:
        topology, option = self.topology, self.options
        some_of("--nodes", option.nodes, topology.replicas)
        self.workload_options.validate(topology)
        self._check_cluster()
        faults = self._faults
        check_kind(faults, *self._kind())
        self._check_script(faults)
        self._check_fault_flags(faults)
        own = not (self.simulated or self.external or option.reuse)
        if own and needs_disks(faults) and option.storage is None:
            vars(self)["options"] = replace(option, storage=Storage.FAULTY.value)
        elif own and needs_disks(faults) and option.storage != Storage.FAULTY:
            why = f"needs --storage faulty, and --storage {option.storage} was given"
            raise UsageError(f"nemesis {faults.name}: {why}")
        for flag, value in option.fixed.items() if option.reuse else ():
            raise UsageError(f"{flag} {value}: --reuse takes a cluster as it is")
        if self.dialect is not None:
            self._accept(self.dialect)

    @cached_property
    def options(self) -> RunOptions:
        """Return the typed options."""
        return RunOptions.of(self.context)

    def _check_script(self, faults: Nemesis) -> None:
        """Raise UsageError for a script with nodes or faults that the options do not provide."""
        if self.options.script is None:
            return
        for by, call in self.options.script.run.made:
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
        option = self.options
        upgrades = "upgrades nothing; expected --nemesis upgrade"
        degrades = "degrades no links; expected --nemesis delay, loss or the like"
        for flag, value, need, why in (
            ("--upgrade-to", ",".join(option.upgrade_to), CanUpgrade, upgrades),
            ("--upgrade-end", option.upgrade_end, CanUpgrade, upgrades),
            ("--link-amounts", ",".join(option.link_amounts), CanDegradeLinks, degrades),
        ):
            if value and need not in faults.needs:
                raise UsageError(f"{flag} {value}: the nemesis {faults.name} {why}")

    def _kind(self) -> tuple[type, str]:
        """Return the cluster's class, and its name on the command line."""
        if self.simulated:
            return SimCluster, "sim"
        if self.external:
            return type(self.external), "external"
        from harness.clusters.docker_cluster import DockerCluster

        return DockerCluster, "docker"

    def _check_cluster(self) -> None:
        """Raise UsageError for options that only the other kind of cluster supports."""
        option, simulated = self.options, self.simulated
        bugs(option.bug)
        for flag in option.docker_only if simulated or self.external else ():
            raise UsageError(f"{flag}: --cluster {option.cluster} has no containers")
        for flag in option.own_servers_only if self.external else ():
            raise UsageError(f"{flag}: --cluster external does not start servers")
        for name in ("replicas", "keepers", "shards", "keeper_route") if self.external else ():
            if self.context.get_parameter_source(name) is not ParameterSource.DEFAULT:
                flag = f"--{name.replace('_', '-')} {self.context.params[name]}"
                raise UsageError(f"{flag}: --servers says which servers there are")
        if option.stop_at_departure and not (option.keep_cluster or option.reuse):
            raise UsageError("--stop-at-departure: expected with --keep-cluster or --reuse")
        self._check_workload()
        if simulated and not workload_entry(option.workload).simulated:
            able = " ".join(name for name, entry in WORKLOADS.items() if entry.simulated)
            raise UsageError(
                f"--workload {option.workload}: needs real servers; expected with "
                f"--cluster sim one of {able}"
            )
        if option.jobs > 1 and not simulated:
            raise UsageError(
                f"--jobs {option.jobs}: expected 1, or --cluster sim; real servers share one "
                "cluster"
            )
        if option.server_seed is not None and not simulated:
            raise UsageError(
                f"--server-seed {option.server_seed}: expected with --cluster sim; nothing decides "
                "what real servers do"
            )
        if option.bug and not simulated:
            raise UsageError(f"--bug {','.join(option.bug)}: only --cluster sim has bugs to plant")
        if option.protocol and not simulated:
            raise UsageError(f"--protocol {option.protocol}: only --cluster sim has a choice of it")
        chosen = self.workload_options
        partial_options = QuorumSetOptions | ZeroCopyOptions
        unsimulated = chosen.unsimulated if isinstance(chosen, partial_options) else ""
        if unsimulated and simulated:
            raise UsageError(f"{unsimulated}: needs real servers; expected --cluster docker")
        reading = chosen.read if isinstance(chosen, QuorumSetOptions) else None
        if reading in SIMULATED_READINGS and not simulated:
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
        lacking = [need.__name__ for need in chosen.capabilities if not issubclass(kind, need)]
        if lacking:
            raise UsageError(
                f"workload {self.options.workload}: cluster external lacks {', '.join(lacking)}; "
                "expected --cluster docker"
            )
        undefined = self.external.lacking(chosen.clusters) if chosen.clusters else ()
        if undefined:
            raise UsageError(
                f"workload {self.options.workload}: {', '.join(undefined)}; expected it in the "
                "configuration of every replica, or --cluster docker"
            )

    @cached_property
    def external(self) -> "ExternalCluster | None":
        """Return the servers that somebody else runs; None with another kind of cluster. Raises
        UsageError."""
        option = self.options
        if option.servers is not None and option.cluster == "external":
            return option.servers.cluster()
        if option.cluster == "external":
            raise UsageError("--cluster external: expected with --servers FILE")
        if option.servers is not None:
            raise UsageError(f"--servers {option.servers}: expected with --cluster external")
        return None

    @cached_property
    def no_engine(self) -> str | None:
        """Return why --cluster auto simulates the servers; None if it does not."""
        if self.options.cluster != "auto":
            return None
        from harness.clusters.engine import why_no_engine

        return why_no_engine()

    @property
    def simulated(self) -> bool:
        """Return whether the servers are simulated."""
        return self.options.cluster == "sim" or self.no_engine is not None

    @property
    def store(self) -> Store:
        """Return the store of the runs."""
        return Store(Path(self.options.store))

    @cached_property
    def seed(self) -> Seed:
        """Return the seed of the first run."""
        return self.options.seed or Seed.fresh()

    @cached_property
    def reused(self) -> "DockerCluster | None":
        """Return the kept cluster to run on; None without --reuse."""
        name = self.options.reuse
        if not name:
            return None
        from harness.cli.bring_up import kept_cluster

        return kept_cluster(self.store, name)

    @property
    def _wanted(self) -> ImageChoice:
        """Return the servers that the options choose."""
        choice = ImageChoice.of(self.options, self.options.upgrade_to)
        own_store = workload_entry(self.options.workload).store and not self.options.s3_endpoint
        return replace(choice, store=own_store)

    @property
    def dialect(self) -> Dialect | None:
        """Return the dialect of the servers; None if the user's image decides it."""
        if self.simulated:
            return simulated_dialect(self.protocol)
        if self.external:
            return self.external.engines.dialect
        return self.reused.engines.dialect if self.reused else self._wanted.dialect

    @property
    def image_choice(self) -> ImageChoice | None:
        """Return the servers, also those of a reused cluster; None if they are simulated, or
        somebody else runs them."""
        if self.simulated or self.external:
            return None
        if not self.reused:
            return self._wanted
        from harness.cli.bring_up import met_choice

        return replace(met_choice(self.reused), upgrade_to=self.options.upgrade_to)

    def _accept(self, dialect: Dialect) -> None:
        """Raise UsageError if the workload or the nemesis needs a mechanism that servers of this
        dialect lack."""
        name = self.options.workload
        dialect.require(f"workload {name}", self.workload_options.needs)
        check_mechanisms(self._faults, dialect)
        if self.options.fsync in (Fsync.INSERTS, Fsync.ALL):
            dialect.require(f"--fsync {self.options.fsync}", [Mechanism.DURABLE_PARTS])

    @cached_property
    def _faults(self) -> Composed:
        """Return the nemesis, to see what it needs."""
        return parse_nemesis(self.options.nemesis, self.topology, self.seed, self.fault_options)

    @property
    def server_settings(self) -> Settings:
        """Return the settings with which servers of the run's own are started."""
        clocks = CanSetClocks in self._faults.needs
        return replace(self.options.server_settings, wrong_clocks=clocks)

    @cached_property
    def topology(self) -> Topology:
        """Return the topology of the cluster."""
        if self.reused:
            return self.reused.topology
        option = self.options
        if self.external:
            return self.external.topology
        return Topology.of(
            shards=option.shards,
            replicas=option.replicas,
            keepers=option.keepers,
            route=option.keeper_route,
            store=workload_entry(option.workload).store,
            bucket=option.bucket,
            **({} if self.simulated else self._wanted.versions),
        )

    @cached_property
    def workload_options(self) -> WorkloadOptions:
        """Return the workload's options, from flags and from NAME=VALUE."""
        option = self.options
        return options_of(option.workload, option.workload_flags, option.option)

    @property
    def fault_options(self) -> FaultOptions:
        """Return the options of the nemesis."""
        return FaultOptions(
            interval_s=self.options.interval,
            duration_s=self.options.duration,
            link_classes=tuple(LinkClass(name) for name in self.options.links),
            link_amounts=LinkAmounts.parse(self.options.link_amounts),
            upgrade_to={
                role: next(iter(by_name))
                for role, by_name in upgrade_targets(self.options.upgrade_to).items()
            },
            upgrade_end=self.options.upgrade_end or ENDS[0],
            commands=self.options.servers.faults if self.options.servers else {},
        )

    def plans(self) -> list[Plan]:
        """Return the plans of the runs, each with the next seed."""
        return [self.plan(self.seed.after(i)) for i in range(self.options.count)]

    def campaign(
        self,
        shown: Callable[[Monitor], AbstractContextManager[None]] | None,
        stop: Stop,
        finished: Callable[[FinishedRun], None],
    ) -> Campaign:
        """Return the campaign of the runs; `shown` shows a run in progress, None for no display."""
        name = self.reused.name if self.reused else f"harness-{Seed.fresh().value:08x}"
        files = self.store.cluster(name)
        return Campaign(
            store=self.store,
            clusters=ClusterSource(make=self.simulated_cluster, per_run=True)
            if self.simulated
            else ClusterSource(
                make=partial(self._make_cluster, name, files),
                files=None if self.external else files,
                leave=bool(self.reused or self.external or self.options.keep_cluster),
            ),
            workload=workload_of,
            faults=self.fault_options,
            shown=shown or no_display,
            finished=finished,
            draw=draw,
            reported=REPORTED[self.options.report],
            stop=stop,
            freeze=self.options.stop_at_departure,
            script=lambda _: self.script,
            timed_faults=lambda _: self.timed_faults,
        )

    @property
    def script(self) -> Generator | None:
        """Return the calls and faults of the script; None without one, and if it has faults
        alone."""
        file = self.options.script
        return None if file is None or file.run.faults_alone else file.run.generator

    @property
    def timed_faults(self) -> Generator | None:
        """Return the faults of a script that has faults alone; None without one."""
        file = self.options.script
        return file.run.generator if file is not None and file.run.faults_alone else None

    def isolated(self) -> Callable[[int], RunReport]:
        """Return the function that makes the run of a number; a job process calls it."""
        reports: list[RunReport] = []
        campaign = self.campaign(None, Stop(), lambda run: reports.append(self.report(run)))

        def one(number: int) -> RunReport:
            campaign.run([self.plan(self.seed.after(number))])
            return reports.pop()

        return one

    def report(self, run: FinishedRun) -> RunReport:
        """Return what is printed about a run, without the history, which is too large to pickle."""
        outcome, path = run.outcome, run.directory.path
        status, said = outcome.judgement.status, headline(outcome.judgement)
        if self.options.as_json:
            troubles = list(outcome.troubles)
            report = {"run": str(path), "troubles": troubles, **outcome.judgement.json()}
            return RunReport(path, status, report, None, headline=said)
        if status not in REPORTED[self.options.report]:
            return RunReport(path, status, None, None, outcome.troubles, said)
        panel = result(
            outcome.judgement,
            outcome.history,
            title=str(path),
            workload=run.plan.workload,
            repro_command=run.plan.repro_command,
            troubles=outcome.troubles,
        )
        return RunReport(path, status, None, panel, headline=said)

    def simulated_cluster(self, plan: Plan, _: Callable[[str], None]) -> SimCluster:
        """Return the simulated cluster of a run."""
        return SimCluster(
            self.topology,
            self.options.server_seed or plan.seed.child("cluster"),
            bugs=bugs(self.options.bug),
            protocol=self.protocol,
            fsync=self.options.server_settings.fsync,
        )

    @property
    def protocol(self) -> str:
        """Return the protocol of simulated servers: by default the one that their reads need."""
        chosen = self.workload_options
        linearizable = isinstance(chosen, QuorumSetOptions) and chosen.read == "linearizable"
        return self.options.protocol or ("repaired" if linearizable else DEFAULT)

    def plan(self, seed: Seed) -> Plan:
        """Return the plan of one run."""
        return replace(self._first, seed=seed, repro_command=f"{self._repro_command} --seed {seed}")

    @cached_property
    def _repro_command(self) -> str:
        return repro_command(self.context, self.image_choice)

    @cached_property
    def _first(self) -> Plan:
        option = self.options
        kept = option.stored(without=NOT_IN_PLAN)
        chosen, script = self.workload_options, option.script
        if script is not None:
            kept["script"] = str(script)
        if option.servers is not None:
            kept["servers"] = str(option.servers)
        if option.server_seed is not None:
            kept["server_seed"] = str(option.server_seed)
        timed = script is not None and not script.run.faults_alone
        return Plan(
            workload=option.workload,
            nemesis=option.nemesis,
            seed=self.seed,
            repro_command="",
            promise=option.promise or chosen.promise.value,
            time_limit_s=option.time_limit,
            extend=option.extend,
            rate=option.rate,
            concurrency=script.run.clients if script and timed else option.concurrency,
            nodes=(ANY_NODE,) if timed else option.nodes,
            quiesce_s=option.quiesce,
            check_s=option.check_time,
            options={**kept, WORKLOAD_OPTIONS: asdict(chosen)},
        )

    def _make_cluster(
        self, name: str, files: Path, _: Plan, note: Callable[[str], None]
    ) -> Cluster:
        if self.external:
            note("waiting for the servers")
            return self.external
        from harness.cli.bring_up import attached, fresh_cluster

        if self.reused:
            return attached(self.reused, note, choice=self.image_choice, accept=self._accept)
        option = self.options
        return fresh_cluster(
            self.topology,
            files,
            note,
            name=name,
            keep=option.keep_cluster,
            choice=self._wanted,
            accept=self._accept,
            settings=self.server_settings,
        )

"""`harness run`: one run, or several on one cluster."""

import gc
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click
from rich.console import Console, RenderableType

from compose.releases import ImageChoice, upgrade_targets
from compose.settings import Parts, Settings
from harness.cli.catalogue import WORKLOADS
from harness.cli.display import shown, unseen
from harness.cli.options import IMAGE_NAMES, again, run_options, some_of
from harness.cli.result import print_result, result
from harness.cli.terminal import Terminal
from harness.cli.workload import FLAGS, KEPT, options_of, workload_of
from harness.clusters.sim_cluster import SimCluster
from harness.core.dialect import Dialect
from harness.core.errors import EXIT_CRASH, HarnessError, UsageError
from harness.core.op import Json
from harness.core.protocols import CanUpgrade, Cluster, Nemesis
from harness.core.seed import Seed
from harness.core.topology import LinkClass, Topology
from harness.core.verdict import Status, worst
from harness.run.campaign import Campaign, Finished
from harness.run.plan import Plan
from harness.run.stop import Stop
from harness.run.store import RunDirectory, Store
from harness.sim.bugs import bugs
from harness.sim.dialect import DIALECT as SIMULATED
from harness.web.drawing import draw
from nemesis.catalogue import parse_nemesis
from nemesis.composed import check_capabilities, check_kind, check_mechanisms, interposed
from nemesis.options import ENDS, FaultOptions
from workloads.quorum_set import SIMULATED_READINGS, QuorumSetOptions

if TYPE_CHECKING:
    # Slow to load, and of no use to simulated servers: loaded where it is needed.
    from harness.clusters.docker_cluster import DockerCluster

"""Options that choose the servers."""
NOT_OF_A_PLAN = frozenset(
    {"seed", "store", "count", "jobs", "workload", "nemesis", "promise", "option", "report"}
)
"""Options that a plan has no need of, or has by itself."""


@dataclass(frozen=True)
class Asked:
    """What the command line says, settled: everything that can be refused is refused here."""

    context: click.Context
    options: dict[str, Any]
    as_json: bool = False

    def __post_init__(self) -> None:
        topology = self.topology
        some_of("--nodes", self.options["nodes"], topology.replicas)
        self.workload_options.settle(topology)
        self._settle_cluster()
        faults = parse_nemesis(self.options["nemesis"], topology, self.seed, self.fault_options)
        check_kind(faults, *self._kind())
        self._settle_upgrade(faults)
        if self.options["reuse"]:
            for name in ("parts", *IMAGE_NAMES):
                if self.options[name]:
                    raise UsageError(
                        f"{_flag(name)} {self.options[name]}: --reuse takes a cluster as it is"
                    )
        if self.dialect is not None:
            self._accept(self.dialect)

    def _settle_upgrade(self, faults: Nemesis) -> None:
        """Raises UsageError for options of an upgrade where there is none."""
        given = {
            "--upgrade-to": ",".join(self.options["upgrade_to"]),
            "--upgrade-end": self.options["upgrade_end"] or "",
        }
        for flag, value in given.items():
            if value and CanUpgrade not in faults.needs:
                raise UsageError(
                    f"{flag} {value}: the nemesis {faults.name} upgrades nothing; expected "
                    "--nemesis upgrade"
                )

    def _kind(self) -> tuple[type, str]:
        """Of the cluster: its class, and what it is called."""
        if self.simulated:
            return SimCluster, "sim"
        from harness.clusters.docker_cluster import DockerCluster

        return DockerCluster, "docker"

    def _settle_cluster(self) -> None:
        """Raises UsageError for what only the other kind of cluster has."""
        option, simulated = self.options, self.simulated
        bugs(option["bug"])
        for name in ("reuse", "keep_cluster", "parts", *IMAGE_NAMES):
            if simulated and option[name]:
                raise UsageError(f"{_flag(name)}: --cluster sim has no containers")
        if simulated and not WORKLOADS[option["workload"]].simulated:
            able = " ".join(name for name, entry in WORKLOADS.items() if entry.simulated)
            raise UsageError(
                f"--workload {option['workload']}: needs real servers; expected with simulated "
                f"ones one of {able}"
            )
        if option["jobs"] > 1 and not simulated:
            raise UsageError(
                f"--jobs {option['jobs']}: expected 1, or --cluster sim; real servers share one "
                "cluster"
            )
        if option["bug"] and not simulated:
            raise UsageError(
                f"--bug {','.join(option['bug'])}: only --cluster sim has bugs to plant"
            )
        if option["protocol"] and not simulated:
            raise UsageError(
                f"--protocol {option['protocol']}: only --cluster sim has a choice of it"
            )
        chosen = self.workload_options
        unsimulated = chosen.unsimulated if isinstance(chosen, QuorumSetOptions) else ""
        if unsimulated and simulated:
            raise UsageError(f"{unsimulated}: needs real servers; expected --cluster docker")
        reading = chosen.read if isinstance(chosen, QuorumSetOptions) else None
        if reading in SIMULATED_READINGS and not simulated:
            raise UsageError(
                f"--read {reading}: only simulated servers have it; expected sequential, sync, "
                "plain or synced, or --cluster sim"
            )

    @cached_property
    def no_engine(self) -> str | None:
        """With --cluster auto: why the servers are simulated; None: they are not."""
        if self.options["cluster"] != "auto":
            return None
        from harness.clusters.engine import silence

        return silence()

    @property
    def simulated(self) -> bool:
        """Whether the servers are."""
        return self.options["cluster"] == "sim" or self.no_engine is not None

    @property
    def store(self) -> Store:
        """Where runs are kept."""
        return Store(Path(self.options["store"]))

    @cached_property
    def seed(self) -> Seed:
        """Of the first run."""
        return self.options["seed"] or Seed.fresh()

    @cached_property
    def reused(self) -> "DockerCluster | None":
        """The kept cluster that is asked for."""
        name = self.options["reuse"]
        if not name:
            return None
        from harness.cli.bring_up import kept_cluster

        return kept_cluster(self.store, name)

    @property
    def dialect(self) -> Dialect | None:
        """What the servers will understand; None: the user's image decides."""
        if self.simulated:
            return SIMULATED
        return self.reused.engines.dialect if self.reused else ImageChoice.of(self.options).dialect

    @property
    def image_choice(self) -> ImageChoice | None:
        """The servers that are met, also those of a cluster that is reused; None: simulated."""
        if self.simulated:
            return None
        if not self.reused:
            return ImageChoice.of(self.options)
        from harness.cli.bring_up import met_choice

        return replace(met_choice(self.reused), upgrade_to=self.options["upgrade_to"])

    def _accept(self, dialect: Dialect) -> None:
        """Raises UsageError where the workload or the nemesis needs a mechanism that servers of
        this dialect do not have."""
        name = self.options["workload"]
        dialect.require(f"workload {name}", WORKLOADS[name].needs(self.workload_options))
        nemesis = self.options["nemesis"]
        faults = parse_nemesis(nemesis, self.topology, self.seed, self.fault_options)
        check_mechanisms(faults, dialect)

    @cached_property
    def topology(self) -> Topology:
        """Of the cluster that is to be made or reused."""
        if self.reused:
            return self.reused.topology
        option = self.options
        return Topology.of(
            shards=option["shards"],
            replicas=option["replicas"],
            keepers=option["keepers"],
            route=option["keeper_route"],
            **({} if self.simulated else ImageChoice.of(option).versions),
        )

    @cached_property
    def workload_options(self) -> Any:
        """Of the workload: flags that were given, and words NAME=VALUE."""
        option = self.options
        flags = {name: option[name] for name in FLAGS if option[name] is not None}
        return options_of(option["workload"], flags, option["option"])

    @property
    def fault_options(self) -> FaultOptions:
        """Of the nemesis."""
        return FaultOptions(
            interval_s=self.options["interval"],
            duration_s=self.options["duration"],
            link_classes=tuple(LinkClass(name) for name in self.options["links"]),
            upgrade_to={
                role: next(iter(by_name))
                for role, by_name in upgrade_targets(self.options["upgrade_to"]).items()
            },
            upgrade_end=self.options["upgrade_end"] or ENDS[0],
        )

    def plans(self) -> list[Plan]:
        """One a run, each with the next seed."""
        return [self.plan(self.seed.after(i)) for i in range(self.options["count"])]

    def campaign(
        self, console: Console | None, stop: Stop, finished: Callable[[Finished], None]
    ) -> Campaign:
        """Everything that the runs share. Without a console nothing is shown of them."""
        name = self.reused.name if self.reused else f"harness-{Seed.fresh().value:08x}"
        files = self.store.cluster(name)
        return Campaign(
            store=self.store,
            make_cluster=partial(self._make_cluster, name, files),
            files=None if self.simulated else files,
            workload=workload_of,
            nemesis=self._nemesis,
            leave=bool(self.reused or self.options["keep_cluster"]),
            shown=partial(shown, console=console) if console else unseen,
            finished=finished,
            draw=draw,
            reported=REPORTED[self.options["report"]],
            stop=stop,
            own_cluster=self._simulated_cluster if self.simulated else None,
        )

    def alone(self) -> Callable[[int], "Told"]:
        """Makes the run of a number, in a process of its own."""
        ended: list[Told] = []
        campaign = self.campaign(None, Stop(), lambda run: ended.append(self.told(run)))

        def one(number: int) -> Told:
            campaign.run([self.plan(self.seed.after(number))])
            return ended.pop()

        return one

    def told(self, run: Finished) -> "Told":
        """Without its history, which may be long and would go from process to process."""
        outcome, path = run.outcome, run.directory.path
        status = outcome.judgement.status
        if self.as_json:
            troubles = list(outcome.troubles)
            report = {"run": str(path), "troubles": troubles, **outcome.judgement.json()}
            return Told(path, status, report, None)
        if not REPORTED[self.options["report"]](status):
            return Told(path, status, None, None, outcome.troubles)
        panel = result(
            outcome.judgement,
            outcome.history,
            title=str(path),
            workload=run.plan.workload,
            again=run.plan.again,
            troubles=outcome.troubles,
        )
        return Told(path, status, None, panel)

    def _simulated_cluster(self, plan: Plan) -> Cluster:
        return SimCluster(
            self.topology,
            plan.seed.child("cluster"),
            bugs=bugs(self.options["bug"]),
            protocol=self.protocol,
        )

    @property
    def protocol(self) -> str:
        """Of simulated servers: what linearizable reads need, unless another is asked for."""
        linearizable = getattr(self.workload_options, "read", None) == "linearizable"
        return self.options["protocol"] or ("repaired" if linearizable else "server")

    def plan(self, seed: Seed) -> Plan:
        """Of one run."""
        return replace(self._first, seed=seed, again=f"{self._again} --seed {seed}")

    @cached_property
    def _again(self) -> str:
        return again(self.context, self.image_choice)

    @cached_property
    def _first(self) -> Plan:
        option = self.options
        kept = {
            name: value
            for name, value in option.items()
            if name not in NOT_OF_A_PLAN and name not in FLAGS
        }
        entry, chosen = WORKLOADS[option["workload"]], self.workload_options
        return Plan(
            workload=option["workload"],
            nemesis=option["nemesis"],
            seed=self.seed,
            again="",
            promise=option["promise"] or entry.promise(chosen).value,
            time_limit_s=option["time_limit"],
            extend=option["extend"],
            rate=option["rate"],
            concurrency=option["concurrency"],
            nodes=option["nodes"],
            quiesce_s=option["quiesce"],
            check_s=option["check_time"],
            options={**kept, KEPT: asdict(chosen)},
        )

    def _nemesis(self, plan: Plan, cluster: Cluster) -> Nemesis:
        nemesis = parse_nemesis(plan.nemesis, cluster.topology, plan.seed, self.fault_options)
        check_capabilities(nemesis, cluster)
        interposed(nemesis, cluster)
        return nemesis

    def _make_cluster(self, name: str, files: Path, note: Callable[[str], None]) -> Cluster:
        from harness.cli.bring_up import attached, fresh_cluster

        if self.reused:
            return attached(self.reused, note, choice=self.image_choice, accept=self._accept)
        option = self.options
        return fresh_cluster(
            self.topology,
            files,
            note,
            name=name,
            keep=option["keep_cluster"],
            choice=ImageChoice.of(option),
            accept=self._accept,
            settings=Settings(parts=Parts(option["parts"] or Parts.NEW)),
        )


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


@dataclass(frozen=True, slots=True)
class Told:
    """What is told of a run that came to an end."""

    path: Path
    status: Status
    report: dict[str, Json] | None
    """With --json."""
    panel: RenderableType | None
    """None: no page was asked for, and a line will do."""
    troubles: tuple[str, ...] = ()
    """What the line has to say as well."""


REPORTED: Mapping[str, Callable[[Status | None], bool]] = {
    "all": lambda _: True,
    "invalid": lambda status: status is Status.INVALID,
    "none": lambda _: False,
}
"""By --report, the runs that have their page drawn, by their status."""


@click.command("run")
@run_options
@click.pass_context
def run(context: click.RichContext, /, as_json: bool, **options: Any) -> int:
    """Run operations and faults against a cluster, and decide whether it kept its word.

    Brings the cluster up, runs the workload under the nemesis, heals, waits until the cluster is
    at rest, reads everything once more on every replica, and judges the history.
    """
    asked = Asked(context, options, as_json)
    console = Terminal(stderr=as_json)
    if asked.no_engine is not None:
        console.print(f"simulated servers: {asked.no_engine}", style="yellow", highlight=False)
    statuses: list[Status] = []
    reports: list[dict[str, Json]] = []

    def finished(run: Told) -> None:
        statuses.append(run.status)
        if run.report is not None:
            reports.append(run.report)
            return
        if run.panel is None:
            print(f"{run.status.value} {run.path}", file=console.file, flush=True)
            for trouble in run.troubles:
                console.print(f"! {trouble}", style="yellow", markup=False, soft_wrap=True)
        else:
            print_result(console, run.panel)
            report = RunDirectory(run.path).report
            if report.exists():  # else the panel says why it was not drawn
                console.print(f"report: {report}", soft_wrap=True, highlight=False)

    asked.store.prepare()
    gc.freeze()  # what is loaded stays: no collection looks through it again
    stop = Stop()
    with stop.obeying_signals():
        campaign = asked.campaign(console, stop, lambda run: finished(asked.told(run)))
        try:
            if options["jobs"] > 1:
                from harness.cli.jobs import side_by_side  # slow to load

                for one in side_by_side(asked.alone(), options["count"], options["jobs"], stop):
                    finished(one)
            else:
                campaign.run(asked.plans())
        except HarnessError as error:
            if not (as_json and reports):
                raise
            reports[-1]["error"] = str(error)
    if as_json:
        click.echo(json.dumps(reports[0] if options["count"] == 1 else reports))
        if "error" in reports[-1]:
            return EXIT_CRASH
    elif len(statuses) > 1:
        tally = ", ".join(f"{statuses.count(s)} {s.value}" for s in Status if s in statuses)
        console.print(f"{len(statuses)} runs: {tally}")
    if campaign.leave and campaign.files is not None:
        console.print(
            f"the cluster goes on: harness run --reuse {campaign.files.name}; "
            "harness clean --all ends it"
        )
    return worst(statuses).exit_status

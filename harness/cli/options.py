"""The options of `harness run`, and the command line that reproduces a run."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import rich_click as click

from checkers.ladder import Level
from compose.settings import Fsync, PartFormat, Storage
from harness.cli.catalogue import CLUSTERS, WORKLOADS, workload_entry
from harness.cli.image_options import IMAGE_OPTIONS
from harness.cli.parameter_types import (
    WORD,
    Name,
    json_option,
    number,
    open_option,
    store_option,
)
from harness.core.errors import UsageError
from harness.core.link_quality import DEFAULTS
from harness.core.ranges import did_you_mean, is_plain_number, quoted, shortened, unknown_name
from harness.core.seed import Seed
from harness.core.topology import LinkClass
from harness.run.scripted import BYTES_MAX, ScriptedRun, read_script
from harness.sim.bugs import BUGS, PROTOCOLS
from nemesis.options import ENDS

NOT_OF_A_RUN: Final = frozenset(
    {"as_json", "count", "jobs", "keep_cluster", "open_", "report", "reuse", "script"}
    | {"stop_at_departure", "store"}
)
"""Options that do not change what a run does, and that a script's file may not have."""


class SeedType(click.ParamType[Any]):
    """Seed, in decimal, or in hexadecimal with the prefix 0x."""

    name = "seed"

    def convert(self, value: Any, param: Any, ctx: Any) -> Seed:
        """Return the seed. Fail unless it is an integer of 64 bits."""
        if isinstance(value, Seed):
            return value
        try:
            number = int(value if is_plain_number(value) else "", 0)
        except ValueError:
            self.fail(f"{quoted(value)}: expected a number, such as 7 or 0x5eed", param, ctx)
        if not 0 <= number < 1 << 64:
            self.fail(f"{shortened(value)}: expected at least 0 and less than 2**64", param, ctx)
        return Seed(number)


class ListType(click.ParamType[Any]):
    """List of words separated by commas."""

    name = "list"
    several = True

    def __init__(self, *allowed: str, listed_by: str = "") -> None:
        self.allowed, self.listed_by = allowed, listed_by

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, ...]:
        """Return the words. Fail for a word that is not allowed."""
        words = value if isinstance(value, tuple) else tuple(w for w in value.split(",") if w)
        if not words and not isinstance(value, tuple):
            self.fail(f"{quoted(value)}: expected words separated by commas", param, ctx)
        for word in words:
            if words.count(word) > 1:
                self.fail(f"{quoted(word)} is named twice; once is enough", param, ctx)
            if self.allowed and word not in self.allowed:
                self.fail(unknown_name(word, self.allowed, self.listed_by), param, ctx)
        return words


@dataclass(frozen=True, slots=True)
class ScriptFile:
    """Scripted run and the file that it was read from."""

    path: Path
    run: ScriptedRun

    def __str__(self) -> str:
        return str(self.path)


class ScriptType(click.ParamType[Any]):
    """File with a scripted run."""

    name = "file"

    def convert(self, value: Any, param: Any, ctx: Any) -> ScriptFile:
        """Return the scripted run. Fail for a file that is not one."""
        if isinstance(value, ScriptFile):
            return value
        try:
            return ScriptFile(Path(value), read_script(Path(value)))
        except UsageError as error:
            self.fail(str(error), param, ctx)


class ServersType(click.ParamType[Any]):
    """File that describes a cluster which somebody else runs."""

    name = "file"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the contents of the file. Fail for one that is wrong."""
        from harness.cli.server_file import ServerFile, read_servers  # few runs need it

        if isinstance(value, ServerFile):
            return value
        try:
            return read_servers(Path(value))
        except UsageError as error:
            self.fail(str(error), param, ctx)


def _as_defaults(ctx: click.Context, _: Any, file: ScriptFile | None) -> ScriptFile | None:
    """Make the options of a script's file the defaults of the command line, in place of those of
    the profile that change what a run does."""
    if file is None:
        return None
    names = {
        flag.removeprefix("--"): param.name or ""
        for param in ctx.command.params
        for flag in param.opts
        if param.name not in NOT_OF_A_RUN
    }
    for name in file.run.options:
        if name not in names:
            from harness.cli.toml_file import read_toml  # it is needed for errors alone

            read_toml("script", file.path, BYTES_MAX).refuse(
                "options", name, unknown_name(name, names, "harness run --help")
            )
    own = {names[name]: value for name, value in file.run.options.items()}
    kept = {n: v for n, v in (ctx.default_map or {}).items() if n in NOT_OF_A_RUN}
    ctx.default_map = {**kept, **own}
    return file


class WorkloadName(Name):
    """Name of a workload, also of a plug-in, which is imported at once."""

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        """Fail for an unknown name and for a plug-in that cannot be used."""
        try:
            workload_entry(str(value))
        except UsageError as error:
            self.fail(str(error), param, ctx)
        return str(value)


GROUPS: dict[str, tuple[Any, ...]] = {
    "What to run": (
        click.option(
            "--workload",
            type=WorkloadName(WORKLOADS, "harness list workloads"),
            metavar="NAME",
            default="quorum-set",
            help="Workload; see `harness list workloads`, or MODULE:CLASS for one of your own. "
            "Default: quorum-set.",
        ),
        click.option(
            "--nemesis",
            default="none",
            help="Faults to inject, separated by commas; see `harness list nemeses`, or "
            "MODULE:CLASS for those of your own. Default: none.",
        ),
        click.option(
            "--cluster",
            type=Name(list(CLUSTERS)),
            default="docker",
            help="docker: real servers in containers; sim: simulated servers; auto: docker if an "
            "engine answers, else sim; external: the servers of --servers. Default: docker.",
        ),
        click.option(
            "--script",
            type=ScriptType(),
            is_eager=True,
            callback=_as_defaults,
            metavar="FILE",
            help="Make the calls and faults of this file, as `harness shrink` writes it, each at "
            "its time, in place of the workload's and the nemesis' own; of a file with faults "
            "alone, as `harness hunt` writes it, in place of the nemesis' own. Options of the file "
            "are defaults.",
        ),
        click.option(
            "--seed",
            type=SeedType(),
            help="Seed of every random choice of the harness. Default: a fresh one.",
        ),
        click.option(
            "--server-seed",
            type=SeedType(),
            help="With --cluster sim: seed of the servers' own choices, such as delays. Default: "
            "it follows from --seed.",
        ),
        click.option(
            "--count",
            type=number("count"),
            default=1,
            help="Number of runs on one cluster, each with the next seed (2**64 - 1 is followed by "
            "0). Default: 1.",
        ),
        click.option(
            "--jobs",
            type=number("jobs"),
            default=1,
            help="With --cluster sim: number of parallel runs, each in a process. Default: 1.",
        ),
    ),
    "How long and how much": (
        click.option(
            "--time-limit",
            type=number("time_limit"),
            default=30.0,
            help="Seconds of operations and faults. Default: 30.",
        ),
        click.option(
            "--extend",
            type=number("extend"),
            default=4,
            help="Extend a run with too few acknowledged operations for a verdict to up to this "
            "many times its time limit; 1: never. Not with --cluster sim. Default: 4.",
        ),
        click.option(
            "--rate",
            type=number("rate"),
            help="Operations per second. Default: as many as the servers answer.",
        ),
        click.option(
            "--concurrency",
            type=number("concurrency"),
            default=6,
            help="Number of operations in flight. Default: 6.",
        ),
        click.option(
            "--quiesce",
            type=number("quiesce"),
            default=60.0,
            help="Seconds in which the healed cluster must become quiescent. Default: 60.",
        ),
        click.option(
            "--check-time",
            type=number("check_time"),
            default=120.0,
            help="Time budget of the checkers in seconds, times the millions of operations of a "
            "longer history; what they have not decided by then is UNKNOWN. Default: 120.",
        ),
    ),
    "Workload": (
        click.option(
            "-o",
            "--option",
            "option",
            multiple=True,
            metavar="NAME=VALUE",
            help="Set an option of the workload; may be repeated. `harness list WORKLOAD` shows "
            "them with their defaults. The flags below are shorthands for some of them.",
        ),
        click.option(
            "--insert",
            help="quorum; parallel: quorum inserts that do not wait for each other; plain: "
            "acknowledged by one replica; async: acknowledged when the server has flushed its "
            "batch; async-no-wait: acknowledged before. Several, separated by commas, or mixed "
            "(all of them): drawn anew for each insert.",
        ),
        click.option(
            "--read",
            help="sequential: with select_sequential_consistency; sync: the same, after a sync on "
            "the replica's ZooKeeper server; plain: what the replica has; synced: the same, after "
            "SYSTEM SYNC REPLICA. With --cluster sim also server, thesis, linearizable: "
            "interpretations of sequential.",
        ),
        click.option(
            "--quorum",
            type=number("quorum"),
            help="Number of replicas that must have an insert before it is acknowledged; auto: a "
            "majority.",
        ),
        click.option(
            "--quorum-timeout",
            type=number("quorum_timeout_ms"),
            help="Milliseconds after which a quorum insert ends with an unknown outcome.",
        ),
        click.option(
            "--writers",
            type=number("writers"),
            help="Maximum number of replicas that insert at the same time; all are read from.",
        ),
        click.option("--keys", type=number("keys"), help="Number of keys in use at the same time."),
        click.option(
            "--ops-per-key",
            type=number("ops_per_key"),
            help="Number of operations on a key before a fresh key replaces it.",
        ),
        click.option(
            "--op-timeout",
            type=number("timeout_s"),
            help="Seconds after which a client gives up on an operation.",
        ),
        click.option(
            "--nodes",
            type=ListType(),
            default=(),
            help="Replicas that clients talk to, such as ch1,ch3. Default: all.",
        ),
        click.option(
            "--promise",
            type=Name([level.value for level in Level]),
            help="Consistency level that decides the verdict. Default: what the workload's options "
            "promise: linearizable for quorum inserts and sequential reads, eventual for plain "
            "ones.",
        ),
    ),
    "Faults": (
        click.option(
            "--interval",
            type=number("interval"),
            default=3.0,
            help="Seconds between faults. Default: 3.",
        ),
        click.option(
            "--duration",
            type=number("duration"),
            default=3.0,
            help="Seconds that a fault lasts. Default: 3.",
        ),
        click.option(
            "--links",
            type=ListType(*LinkClass),
            default=tuple(LinkClass),
            metavar="LIST",
            help="Classes of links that partitions may cut and faults of links may degrade. "
            f"Default: {','.join(LinkClass)}.",
        ),
        click.option(
            "--link-amounts",
            type=ListType(),
            default=(),
            metavar="NAME=AMOUNT,...",
            help="Amounts of faults of links: delay and jitter in ms, rate in kbit/s, the others "
            "as shares of the packets. Default: "
            f"{','.join(f'{fault}={amount:g}' for fault, amount in DEFAULTS.items())}.",
        ),
        click.option(
            "--upgrade-to",
            type=ListType(),
            default=(),
            metavar="VERSION",
            help="With the nemesis upgrade: version to which the servers are upgraded one by one, "
            "such as 25.8 (ClickHouse), 3.9 (ZooKeeper) or 25.8,3.9.",
        ),
        click.option(
            "--upgrade-end",
            type=Name(ENDS),
            help="With the nemesis upgrade: version at the end; old: downgrade the servers again, "
            "one by one. Default: new.",
        ),
    ),
    "Cluster": (
        click.option(
            "--replicas",
            type=number("replicas"),
            default=3,
            help="Number of ClickHouse servers per shard. Default: 3.",
        ),
        click.option(
            "--keepers",
            type=number("keepers"),
            default=3,
            help="Number of ZooKeeper servers. Default: 3.",
        ),
        click.option(
            "--shards", type=number("shards"), default=1, help="Number of shards. Default: 1."
        ),
        click.option(
            "--keeper-route",
            default="own",
            help="ZooKeeper servers that each replica connects to: own, all, or a list such as "
            "ch1=zk1,ch2=zk1+zk2. Default: own.",
        ),
        click.option(
            "--servers",
            type=ServersType(),
            metavar="FILE",
            help="With --cluster external: addresses of servers that somebody else runs, and the "
            "commands that make faults there, see docs/external-clusters.md.",
        ),
        *IMAGE_OPTIONS,
        click.option(
            "--s3-endpoint",
            type=WORD,
            metavar="URL",
            help="With --workload zero-copy: bucket of an object store of your own, as in "
            "http://HOST:PORT/BUCKET/PREFIX. Containers must reach it at that address. The "
            "environment has its keys (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY), region "
            "(AWS_REGION) and, for https, certificate authorities (AWS_CA_BUNDLE). Default: a "
            "store in the cluster.",
        ),
        click.option(
            "--parts",
            type=Name([parts.value for parts in PartFormat]),
            help="Format of the parts that ClickHouse servers write: new, the default of their "
            "version; old, one that the oldest version of the cluster reads. Default: new.",
        ),
        click.option(
            "--storage",
            type=Name([storage.value for storage in Storage]),
            help="Storage of the servers' data: memory; volume, on the engine's disk; faulty, a "
            "disk that faults can make fail and lose power, see docs/storage.md. Default: memory; "
            "faulty for a nemesis with faults of disks.",
        ),
        click.option(
            "--fsync",
            type=Name([fsync.value for fsync in Fsync]),
            help="What servers make durable before they acknowledge it: default, what they do by "
            "default (ZooKeeper its log, ClickHouse no part); inserts, also inserted parts; all, "
            "also merged, mutated and fetched ones; never, not even ZooKeeper its log. "
            "Default: default.",
        ),
        click.option(
            "--protocol",
            type=Name(list(PROTOCOLS)),
            help="With --cluster sim: replication protocol; 18.16, 25.8: that of the version with "
            "its defects; repaired, repaired-25.8: the same without them. Default: 18.16, with "
            "--read linearizable repaired.",
        ),
        click.option(
            "--bug",
            type=ListType(*BUGS, listed_by="harness list bugs"),
            default=(),
            help="With --cluster sim: bugs to plant, separated by commas; see `harness list bugs`.",
        ),
        click.option("--keep-cluster", is_flag=True, help="Leave the cluster running."),
        click.option(
            "--stop-at-departure",
            is_flag=True,
            help="With --keep-cluster: pause every server when ZooKeeper has a step that the model "
            "of the protocol does not allow, and end the run there.",
        ),
        click.option("--reuse", type=WORD, metavar="NAME", help="Run on a kept cluster."),
    ),
    "Output": (
        store_option,
        click.option(
            "--report",
            type=Name(["all", "invalid", "none"]),
            default="all",
            help="Runs for which to draw the page and write history.parquet; `harness report` and "
            "`harness check STORE` do so for the others. Default: all.",
        ),
        open_option,
        json_option,
    ),
}


def run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add all options of `harness run`. Help shows each group in a panel of its own."""
    for title, options in reversed(GROUPS.items()):
        for option in reversed(options):
            command = option(command)
        # click collects the parameters of a command here, the last one first.
        added = vars(command)["__click_params__"][-len(options) :]
        names = [param.opts[0] for param in reversed(added)]
        command = click.option_panel(title, options=names)(command)
    return command


def some_of(what: str, given: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    """Return the given words. Raises UsageError for an unknown one."""
    for word in given:
        if word not in known:
            meant = did_you_mean(word, known)
            raise UsageError(f"{what} {quoted(word)}: {meant}expected some of {','.join(known)}")
    return given

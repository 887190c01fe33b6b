"""The options of `harness run`, and the command line that would say the same again."""

import shlex
from collections.abc import Callable
from typing import Any

import rich_click as click
from click.core import ParameterSource

from checkers.ladder import Level
from compose.releases import ImageChoice
from compose.settings import Parts
from harness.cli.catalogue import CLUSTERS, WORKLOADS
from harness.cli.image_options import IMAGE_OPTIONS
from harness.cli.parameter_types import WORD, number, store_option
from harness.core.errors import UsageError
from harness.core.ranges import shortened
from harness.core.seed import Seed
from harness.core.topology import LinkClass
from harness.sim.bugs import BUGS, PROTOCOLS
from nemesis.options import ENDS

IMAGE_NAMES = ("clickhouse", "zookeeper", "clickhouse_image", "zookeeper_image")
"""Options that choose the servers."""
NOT_REPEATED = frozenset(
    {"as_json", "count", "jobs", "keep_cluster", "report", "reuse", "store", *IMAGE_NAMES}
)
"""Options that change nothing of what a run does, or are always stated."""


class SeedType(click.ParamType[Any]):
    """A seed: decimal, or hexadecimal after 0x."""

    name = "seed"

    def convert(self, value: Any, param: Any, ctx: Any) -> Seed:
        """Fails for what is no number of 64 bits."""
        if isinstance(value, Seed):
            return value
        try:
            number = int(value, 0)
        except ValueError:
            said = repr(shortened(value))
            self.fail(f"{said}: expected a number, such as 7 or 0x5eed", param, ctx)
        if not 0 <= number < 1 << 64:
            self.fail(f"{shortened(value)}: expected at least 0 and less than 2**64", param, ctx)
        return Seed(number)


class ListType(click.ParamType[Any]):
    """Words with commas between them."""

    name = "list"

    def __init__(self, *allowed: str) -> None:
        self.allowed = allowed

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, ...]:
        """Fails for a word that is not allowed."""
        words = value if isinstance(value, tuple) else tuple(w for w in value.split(",") if w)
        if not words and not isinstance(value, tuple):
            self.fail(f"{value!r}: expected words with commas between them", param, ctx)
        for word in words:
            if self.allowed and word not in self.allowed:
                self.fail(f"{word!r}: expected some of {','.join(self.allowed)}", param, ctx)
        return words


GROUPS: dict[str, tuple[Any, ...]] = {
    "What to run": (
        click.option("--workload", type=click.Choice(list(WORKLOADS)), default="quorum-set"),
        click.option(
            "--nemesis",
            default="none",
            help="Faults, with commas between them; see `harness list`.",
        ),
        click.option("--cluster", type=click.Choice(list(CLUSTERS)), default="docker"),
        click.option(
            "--seed",
            type=SeedType(),
            help="Decides every choice of the harness. Default: a fresh one.",
        ),
        click.option(
            "--count",
            type=number("count"),
            default=1,
            help="Number of runs on one cluster, each with the next seed; 0 follows 2**64 - 1.",
        ),
        click.option(
            "--jobs",
            type=number("jobs"),
            default=1,
            help="With --cluster sim: number of runs at a time, each in a process of its own.",
        ),
    ),
    "How long and how much": (
        click.option(
            "--time-limit",
            type=number("time_limit"),
            default=30.0,
            help="Seconds of operations and faults.",
        ),
        click.option(
            "--extend",
            type=number("extend"),
            default=4,
            help="Go on past the time limit, up to this many times its length, while fewer "
            "operations were acknowledged than a verdict needs. 1: never. Simulated servers never "
            "do.",
        ),
        click.option(
            "--rate",
            type=number("rate"),
            help="Operations a second. Default: as many as are answered.",
        ),
        click.option(
            "--concurrency", type=number("concurrency"), default=6, help="Operations at a time."
        ),
        click.option(
            "--quiesce",
            type=number("quiesce"),
            default=60.0,
            help="Seconds in which the healed cluster must come to rest.",
        ),
        click.option(
            "--check-time",
            type=number("check_time"),
            default=120.0,
            help="Seconds for the checkers; past them UNKNOWN.",
        ),
    ),
    "Workload": (
        click.option(
            "-o",
            "--option",
            "option",
            multiple=True,
            metavar="NAME=VALUE",
            help="An option of the workload; `harness list` shows them with their defaults. "
            "Those below are short for some of them.",
        ),
        click.option(
            "--insert",
            help="quorum; parallel: quorum inserts that do not wait for each other; plain: "
            "acknowledged by one replica; async: by a server that gathers inserts; async-no-wait: "
            "before it wrote them; several with commas between them; or mixed: each insert draws "
            "one of all.",
        ),
        click.option(
            "--read",
            help="sequential; sync: after a sync on the replica's ZooKeeper server; plain: "
            "whatever the replica has; or synced: the same after SYSTEM SYNC REPLICA. With "
            "--cluster sim also server, thesis, linearizable: what sequential might mean.",
        ),
        click.option(
            "--quorum",
            type=number("quorum"),
            help="Replicas that must have an insert before it is acknowledged; auto: a majority.",
        ),
        click.option(
            "--quorum-timeout",
            type=number("quorum_timeout_ms"),
            help="Milliseconds until a quorum insert ends as unknown.",
        ),
        click.option(
            "--writers",
            type=number("writers"),
            help="Replicas that insert at a time, at most; all are read from.",
        ),
        click.option("--keys", type=number("keys"), help="Keys in use at a time."),
        click.option(
            "--ops-per-key",
            type=number("ops_per_key"),
            help="Operations on a key before a fresh one takes its place.",
        ),
        click.option(
            "--op-timeout", type=number("timeout_s"), help="Seconds until a client gives up."
        ),
        click.option(
            "--nodes",
            type=ListType(),
            default=(),
            help="Replicas that clients talk to, such as ch1,ch3. Default: all.",
        ),
        click.option(
            "--promise",
            type=click.Choice([level.value for level in Level]),
            help="The level of consistency that decides the verdict. Default: what the workload's "
            "options promise; linearizable for quorum inserts read sequentially, eventual for "
            "plain ones.",
        ),
    ),
    "Faults": (
        click.option(
            "--interval", type=number("interval"), default=3.0, help="Seconds between faults."
        ),
        click.option(
            "--duration", type=number("duration"), default=3.0, help="Seconds that a fault lasts."
        ),
        click.option(
            "--links",
            type=ListType(*LinkClass),
            default=tuple(LinkClass),
            help="Link classes that partitions may cut.",
        ),
        click.option(
            "--upgrade-to",
            type=ListType(),
            default=(),
            metavar="VERSION",
            help="With the nemesis upgrade: version that the servers get one by one, such as 25.8 "
            "for those of ClickHouse, 3.9 for those of ZooKeeper, or 25.8,3.9.",
        ),
        click.option(
            "--upgrade-end",
            type=click.Choice(ENDS),
            help="Version that the servers end on: new, or old, which they go back to one by one. "
            "Default: new.",
        ),
    ),
    "Cluster": (
        click.option(
            "--replicas", type=number("replicas"), default=3, help="ClickHouse servers a shard."
        ),
        click.option("--keepers", type=number("keepers"), default=3, help="ZooKeeper servers."),
        click.option("--shards", type=number("shards"), default=1),
        click.option(
            "--keeper-route",
            default="own",
            help="Through which ZooKeeper servers replicas read: own, all, ch1=zk1,ch2=zk1+zk2.",
        ),
        *IMAGE_OPTIONS,
        click.option(
            "--parts",
            type=click.Choice([parts.value for parts in Parts]),
            help="Parts that ClickHouse servers write: new, as their version does by default; old, "
            "such that the oldest version of the cluster reads them. Default: new.",
        ),
        click.option(
            "--protocol",
            type=click.Choice(list(PROTOCOLS)),
            help="With --cluster sim: server, as 18.16.1 with its defects, or repaired, which is "
            "the default with --read linearizable.",
        ),
        click.option(
            "--bug",
            type=ListType(*BUGS),
            default=(),
            help="With --cluster sim: bugs to plant, with commas between them; see `harness list`.",
        ),
        click.option("--keep-cluster", is_flag=True, help="Leave it running afterwards."),
        click.option("--reuse", type=WORD, metavar="NAME", help="Run on a cluster that was kept."),
    ),
    "Output": (
        store_option,
        click.option(
            "--report",
            type=click.Choice(["all", "invalid", "none"]),
            default="all",
            help="Whose page is drawn and history.parquet written; `harness report` draws, and "
            "`harness check STORE` writes, the others later.",
        ),
        click.option("--json", "as_json", is_flag=True, help="Results as JSON on standard output."),
    ),
}


def run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds all of them, in groups."""
    for options in reversed(GROUPS.values()):
        for option in reversed(options):
            command = option(command)
    return command


def again(context: click.Context, choice: ImageChoice | None) -> str:
    """The command that runs it again, with `--seed` after it: what was said, less what changes
    nothing. It always names the servers, since the defaults change between releases of the
    harness; without a choice they are simulated."""
    words = ["harness", "run"]
    for param in context.command.params:
        name = param.name or ""
        told = context.get_parameter_source(name) is not ParameterSource.DEFAULT
        if name in NOT_REPEATED or name == "seed" or not told:
            continue
        value = context.params[name]
        if param.multiple:
            words += [word for one in value for word in (param.opts[0], one)]
            continue
        text = (
            ",".join(value)
            if isinstance(value, tuple)
            else f"{value:g}"
            if isinstance(value, float)
            else str(value)
        )
        words += [param.opts[0], text]
    return shlex.join([*words, *(choice.words if choice else ())])


def some_of(what: str, given: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    """The given words; raises UsageError for one that is not known."""
    for word in given:
        if word not in known:
            raise UsageError(f"{what} {word!r}: expected some of {','.join(known)}")
    return given

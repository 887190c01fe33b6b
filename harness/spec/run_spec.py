"""What a run is: every option that decides what it does, as one value.

A new option is a field here. The command line, its help, the environment, profiles, scripts,
matrices, hunts, run.json, the command that repeats a run and the pages take it from here.
"""

from collections.abc import Mapping
from typing import Annotated

import msgspec

from checkers.every_run import REPORTED
from checkers.ladder import Level
from compose.releases import ImageOptions
from compose.settings import Fsync, PartFormat, Storage
from harness.core.link_quality import DEFAULTS
from harness.core.op import Json
from harness.core.ranges import RANGES
from harness.core.seed import Seed
from harness.core.topology import LinkClass
from harness.sim.bugs import BUGS, PROTOCOLS
from harness.spec.image_options import IMAGE_OPTIONS
from harness.spec.option import CLUSTERS, Chooser, On, Option, Panel, fault_timing
from harness.spec.option_types import Choice, Repeated, SeedNumber, Text, WordList, WorkloadName
from nemesis.options import CUTS, ENDS


class RunSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that decides what a run does, but for what its servers do by themselves."""

    workload: Annotated[
        str,
        Option(
            type=WorkloadName(),
            panel=Panel.RUN,
            help="Workload; see `harness list workloads`, or MODULE:CLASS for one of your own. "
            "Default: quorum-set.",
            common=True,
            chosen_by=Chooser.MATRIX | Chooser.SHRINK,
            setting=False,
        ),
    ] = "quorum-set"
    nemesis: Annotated[
        str,
        Option(
            type=Text(),
            panel=Panel.RUN,
            help="Faults to inject, separated by commas; see `harness list nemeses`, or "
            "MODULE:CLASS for those of your own. Default: none.",
            common=True,
            chosen_by=Chooser.MATRIX | Chooser.TRANSLATION,
            setting=False,
        ),
    ] = "none"
    cluster: Annotated[
        str,
        Option(
            type=Choice.of(CLUSTERS),
            panel=Panel.RUN,
            help="docker: real servers in containers; sim: simulated servers; auto: docker if an "
            "engine answers, else sim; external: the servers of --servers. Default: docker.",
            common=True,
            chosen_by=Chooser.HUNT | Chooser.SHRINK | Chooser.TRANSLATION,
            of_cluster=True,
            setting=False,
        ),
    ] = "docker"
    script: Annotated[
        str | None,
        Option(
            type=Text("FILE"),
            panel=Panel.RUN,
            help="Make the calls and faults of this file, as `harness shrink` writes it, each at "
            "its time, in place of the workload's and the nemesis' own; of a file with faults "
            "alone, as `harness hunt` writes it, in place of the nemesis' own. Options of the file "
            "are defaults.",
            chosen_by=Chooser.HUNT | Chooser.SHRINK | Chooser.TRANSLATION | Chooser.SCRIPT,
            setting=False,
        ),
    ] = None
    seed: Annotated[
        Seed,
        Option(
            type=SeedNumber(),
            panel=Panel.RUN,
            help="Seed of every random choice of the harness. Default: a fresh one.",
            common=True,
            chosen_by=Chooser.MATRIX | Chooser.SHRINK | Chooser.TRANSLATION,
            setting=False,
        ),
    ] = msgspec.field(default_factory=Seed.fresh)
    server_seed: Annotated[
        Seed | None,
        Option(
            type=SeedNumber(),
            panel=Panel.RUN,
            help="With --cluster sim: seed of the servers' own choices, such as delays. Default: "
            "it follows from --seed.",
            on=On.SIMULATED,
            chosen_by=Chooser.HUNT,
            setting=False,
        ),
    ] = None
    time_limit_s: Annotated[
        float,
        Option(
            type=RANGES["time_limit"],
            panel=Panel.AMOUNT,
            help="Time of operations and faults: seconds, or with a unit, as in 90s, 10m, 1h. "
            "Default: 30.",
            flag="--time-limit",
            common=True,
            chosen_by=Chooser.SHRINK | Chooser.TRANSLATION,
            setting=False,
        ),
    ] = 30.0
    extend: Annotated[
        int,
        Option(
            type=RANGES["extend"],
            panel=Panel.AMOUNT,
            help="Extend a run with too few acknowledged operations for a verdict to up to this "
            "many times its time limit; 1: never. Virtual time is never extended. Default: 4.",
            chosen_by=Chooser.HUNT | Chooser.SCRIPT,
            setting=False,
        ),
    ] = 4
    rate: Annotated[
        float | None,
        Option(
            type=RANGES["rate"],
            panel=Panel.AMOUNT,
            help="Operations per second, over all clients. Default: as many as the servers answer.",
            common=True,
            chosen_by=Chooser.SCRIPT,
            setting=False,
        ),
    ] = None
    concurrency: Annotated[
        int,
        Option(
            type=RANGES["concurrency"],
            panel=Panel.AMOUNT,
            help="Number of operations in flight; client i talks to replica i modulo their number. "
            "Default: 6.",
            chosen_by=Chooser.SCRIPT,
            setting=False,
        ),
    ] = 6
    quiesce_s: Annotated[
        float,
        Option(
            type=RANGES["quiesce"],
            panel=Panel.AMOUNT,
            help="Seconds in which the healed cluster must become quiescent. Default: 60.",
            flag="--quiesce",
            setting=False,
        ),
    ] = 60.0
    check_s: Annotated[
        float,
        Option(
            type=RANGES["check_time"],
            panel=Panel.AMOUNT,
            help="Time budget of the checkers in seconds, times the millions of operations of a "
            "longer history; what they have not decided by then is UNKNOWN. Default: 120.",
            flag="--check-time",
            setting=False,
        ),
    ] = 120.0
    option: Annotated[
        tuple[str, ...],
        Option(
            type=Repeated("NAME=VALUE"),
            panel=Panel.WORKLOAD,
            help="Set an option of the workload; may be repeated. `harness list WORKLOAD` shows "
            "them with their defaults. The flags below are shorthands for some of them.",
            short="-o",
        ),
    ] = ()
    insert: Annotated[
        str | None,
        Option(
            type=Text(),
            panel=Panel.WORKLOAD,
            help="quorum; parallel: quorum inserts that do not wait for each other; plain: "
            "acknowledged by one replica; async: acknowledged when the server has flushed its "
            "batch; async-no-wait: acknowledged before. Several, separated by commas, or mixed "
            "(all of them): drawn anew for each insert.",
            workload_option="insert",
        ),
    ] = None
    read: Annotated[
        str | None,
        Option(
            type=Text(),
            panel=Panel.WORKLOAD,
            help="sequential: with select_sequential_consistency; sync: the same, after a sync on "
            "the replica's ZooKeeper server; plain: what the replica has; synced: the same, after "
            "SYSTEM SYNC REPLICA. With --cluster sim also server, thesis, linearizable: "
            "interpretations of sequential.",
            workload_option="read",
        ),
    ] = None
    quorum: Annotated[
        int | str | None,
        Option(
            type=RANGES["quorum"],
            panel=Panel.WORKLOAD,
            help="Number of replicas that must have an insert before it is acknowledged; auto: a "
            "majority.",
            workload_option="quorum",
        ),
    ] = None
    quorum_timeout_ms: Annotated[
        int | None,
        Option(
            type=RANGES["quorum_timeout_ms"],
            panel=Panel.WORKLOAD,
            help="Milliseconds after which a quorum insert ends with an unknown outcome.",
            flag="--quorum-timeout",
            setting=False,
            workload_option="quorum_timeout_ms",
        ),
    ] = None
    writers: Annotated[
        int | None,
        Option(
            type=RANGES["writers"],
            panel=Panel.WORKLOAD,
            help="Maximum number of replicas that insert at the same time; all are read from.",
            workload_option="writers",
        ),
    ] = None
    keys: Annotated[
        int | None,
        Option(
            type=RANGES["keys"],
            panel=Panel.WORKLOAD,
            help="Number of keys in use at the same time.",
            workload_option="keys",
        ),
    ] = None
    ops_per_key: Annotated[
        int | None,
        Option(
            type=RANGES["ops_per_key"],
            panel=Panel.WORKLOAD,
            help="Number of operations on a key before a fresh key replaces it.",
            workload_option="ops_per_key",
        ),
    ] = None
    op_timeout_s: Annotated[
        float | None,
        Option(
            type=RANGES["timeout_s"],
            panel=Panel.WORKLOAD,
            help="Seconds after which a client gives up on an operation.",
            flag="--op-timeout",
            setting=False,
            workload_option="timeout_s",
        ),
    ] = None
    nodes: Annotated[
        tuple[str, ...],
        Option(
            type=WordList(),
            panel=Panel.WORKLOAD,
            help="Replicas that clients talk to, such as ch1,ch3. Default: all.",
            chosen_by=Chooser.SCRIPT,
        ),
    ] = ()
    promise: Annotated[
        str,
        Option(
            type=Choice.of([level.value for level in Level]),
            panel=Panel.WORKLOAD,
            help="Consistency level that decides the verdict. Default: what the workload's options "
            "promise: linearizable for quorum inserts and sequential reads, eventual for plain "
            "ones.",
            setting=False,
        ),
    ] = ""
    fail_on: Annotated[
        tuple[str, ...],
        Option(
            type=WordList(REPORTED),
            panel=Panel.WORKLOAD,
            help=f"Checkers that decide, too, and else only report: {', '.join(REPORTED)}.",
            on=On.CONTAINERS,
            setting=False,
        ),
    ] = ()
    interval_s: Annotated[
        float, fault_timing("interval", "Seconds between faults; see --jitter. Default: 3.")
    ] = 3.0
    duration_s: Annotated[
        float, fault_timing("duration", "Seconds that a fault lasts; see --jitter. Default: 3.")
    ] = 3.0
    jitter: Annotated[
        float,
        fault_timing(
            "jitter",
            "Share by which each interval and each duration of a fault is longer or shorter at "
            "most, as the seed draws it; 0: exact times. Default: 0.5.",
        ),
    ] = 0.5
    links: Annotated[
        tuple[str, ...],
        Option(
            type=WordList(tuple(LinkClass)),
            panel=Panel.FAULTS,
            help="Classes of links that partitions may cut and faults of links may degrade. "
            f"Default: {','.join(LinkClass)}.",
        ),
    ] = tuple(LinkClass)
    cut: Annotated[
        str,
        Option(
            type=Choice.of(CUTS),
            panel=Panel.FAULTS,
            help="How a partition cuts a link: drop loses every packet; reject resets TCP "
            "connections as well, and so do faults of messages that cut them. Default: drop.",
            on=On.CONTAINERS,
        ),
    ] = CUTS[0]
    link_amounts: Annotated[
        tuple[str, ...],
        Option(
            type=WordList(metavar="NAME=AMOUNT,..."),
            panel=Panel.FAULTS,
            help="Amounts of faults of links: delay and jitter in ms, rate in kbit/s, the others "
            "as shares of the packets. Default: "
            f"{','.join(f'{fault}={amount:g}' for fault, amount in DEFAULTS.items())}.",
        ),
    ] = ()
    upgrade_to: Annotated[
        tuple[str, ...],
        Option(
            type=WordList(metavar="VERSION"),
            panel=Panel.FAULTS,
            help="With the nemesis upgrade: version to which the servers are upgraded one by one, "
            "such as 25.8 (ClickHouse), 3.9 (ZooKeeper) or 25.8,3.9.",
            on=On.CONTAINERS,
            of_cluster=True,
        ),
    ] = ()
    upgrade_end: Annotated[
        str | None,
        Option(
            type=Choice.of(ENDS),
            panel=Panel.FAULTS,
            help="With the nemesis upgrade: version at the end; old: downgrade the servers again, "
            "one by one. Default: new.",
            on=On.CONTAINERS,
        ),
    ] = None
    replicas: Annotated[
        int,
        Option(
            type=RANGES["replicas"],
            panel=Panel.CLUSTER,
            help="Number of ClickHouse servers per shard. Default: 3.",
            on=On.STARTED,
            chosen_by=Chooser.SHRINK,
            of_cluster=True,
        ),
    ] = 3
    keepers: Annotated[
        int,
        Option(
            type=RANGES["keepers"],
            panel=Panel.CLUSTER,
            help="Number of ZooKeeper servers. Default: 3.",
            on=On.STARTED,
            chosen_by=Chooser.SHRINK,
            of_cluster=True,
        ),
    ] = 3
    shards: Annotated[
        int,
        Option(
            type=RANGES["shards"],
            panel=Panel.CLUSTER,
            help="Number of shards. Default: 1.",
            on=On.STARTED,
            chosen_by=Chooser.SHRINK,
            of_cluster=True,
        ),
    ] = 1
    keeper_route: Annotated[
        str,
        Option(
            type=Text(),
            panel=Panel.CLUSTER,
            help="ZooKeeper servers that each replica connects to: own, all, or a list such as "
            "ch1=zk1,ch2=zk1+zk2. Default: own.",
            on=On.STARTED,
            of_cluster=True,
        ),
    ] = "own"
    servers: Annotated[
        str | None,
        Option(
            type=Text("FILE"),
            panel=Panel.CLUSTER,
            help="With --cluster external: addresses of servers that somebody else runs, and the "
            "commands that make faults there, see docs/external-clusters.md.",
            on=On.EXTERNAL,
            of_cluster=True,
        ),
    ] = None
    clickhouse: Annotated[str | None, IMAGE_OPTIONS["clickhouse"]] = None
    zookeeper: Annotated[str | None, IMAGE_OPTIONS["zookeeper"]] = None
    clickhouse_image: Annotated[str | None, IMAGE_OPTIONS["clickhouse_image"]] = None
    zookeeper_image: Annotated[str | None, IMAGE_OPTIONS["zookeeper_image"]] = None
    keeper_image: Annotated[str | None, IMAGE_OPTIONS["keeper_image"]] = None
    s3_endpoint: Annotated[
        str | None,
        Option(
            type=Text("URL"),
            panel=Panel.CLUSTER,
            help="With --workload zero-copy: bucket of an object store of your own that containers "
            "reach, as in http://HOST:PORT/BUCKET/PREFIX. The environment has AWS_ACCESS_KEY_ID, "
            "AWS_SECRET_ACCESS_KEY, AWS_REGION and, for https, AWS_CA_BUNDLE. Default: a store in "
            "the cluster.",
            on=On.CONTAINERS,
            of_cluster=True,
            fixed=True,
        ),
    ] = None
    parts: Annotated[
        str | None,
        Option(
            type=Choice.of([parts.value for parts in PartFormat]),
            panel=Panel.CLUSTER,
            help="Format of the parts that ClickHouse servers write: new, the default of their "
            "version; old, one that the oldest version of the cluster reads. Default: new.",
            on=On.CONTAINERS,
            of_cluster=True,
            fixed=True,
        ),
    ] = None
    storage: Annotated[
        str | None,
        Option(
            type=Choice.of([storage.value for storage in Storage]),
            panel=Panel.CLUSTER,
            help="Storage of the servers' data: memory; volume, on the engine's disk; faulty, a "
            "disk that faults can make fail and lose power, see docs/storage.md. Default: memory; "
            "faulty for a nemesis with faults of disks.",
            on=On.CONTAINERS,
            of_cluster=True,
            fixed=True,
        ),
    ] = None
    fsync: Annotated[
        str | None,
        Option(
            type=Choice.of([fsync.value for fsync in Fsync]),
            panel=Panel.CLUSTER,
            help="What servers make durable before they acknowledge it: default, what they do by "
            "default (ZooKeeper its log, ClickHouse no part); inserts, also inserted parts; all, "
            "also merged, mutated and fetched ones; never, not even a log. Default: default.",
            on=On.STARTED,
            of_cluster=True,
            fixed=True,
        ),
    ] = None
    protocol: Annotated[
        str | None,
        Option(
            type=Choice.of(PROTOCOLS),
            panel=Panel.CLUSTER,
            help="With --cluster sim: replication protocol; 18.16, 25.8: that of the version with "
            "its defects; repaired, repaired-25.8: the same without them. Default: 18.16, 25.8 "
            "where the workload needs it, repaired with --read linearizable.",
            on=On.SIMULATED,
        ),
    ] = None
    bug: Annotated[
        tuple[str, ...],
        Option(
            type=WordList(tuple(BUGS), listed_by="harness list bugs"),
            panel=Panel.CLUSTER,
            help="With --cluster sim: bugs to plant, separated by commas; see `harness list bugs`.",
            on=On.SIMULATED,
        ),
    ] = ()
    workload_options: Mapping[str, Json] = msgspec.field(default_factory=dict)
    """Values of all options of the workload, by name; the options above say what was given."""
    command: str = ""
    """Command that repeats the run."""

    @property
    def images(self) -> ImageOptions:
        """Return the options that choose the servers."""
        return ImageOptions(**{name: getattr(self, name) for name in IMAGE_OPTIONS})

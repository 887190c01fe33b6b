"""Typed values of the options of `harness run`."""

import os
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import rich_click as click

from compose.releases import ImageOptions
from compose.settings import Fsync, PartFormat, Settings, Storage
from harness.cli.catalogue import WORKLOADS, workload_entry
from harness.clusters.store_http import authorities_file
from harness.core.bucket import REGION, Bucket
from harness.core.errors import UsageError
from harness.core.op import Json
from harness.core.seed import Seed

if TYPE_CHECKING:
    from harness.cli.options import ScriptFile
    from harness.cli.server_file import ServerFile


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions(ImageOptions):
    """Values of the options of one command line; `harness.cli.options` says what each option means.
    A field has the name that click gives the option."""

    workload: str
    nemesis: str
    cluster: str
    script: "ScriptFile | None"
    seed: Seed | None
    server_seed: Seed | None
    count: int
    jobs: int
    time_limit: float
    extend: int
    rate: float | None
    concurrency: int
    quiesce: float
    check_time: float
    option: tuple[str, ...]
    insert: str | None
    read: str | None
    quorum: int | str | None
    quorum_timeout: int | None
    writers: int | None
    keys: int | None
    ops_per_key: int | None
    op_timeout: float | None
    nodes: tuple[str, ...]
    promise: str | None
    interval: float
    duration: float
    links: tuple[str, ...]
    link_amounts: tuple[str, ...]
    upgrade_to: tuple[str, ...]
    upgrade_end: str | None
    replicas: int
    keepers: int
    shards: int
    keeper_route: str
    servers: "ServerFile | None"
    s3_endpoint: str | None
    parts: str | None
    storage: str | None
    fsync: str | None
    protocol: str | None
    bug: tuple[str, ...]
    keep_cluster: bool
    stop_at_departure: bool
    reuse: str | None
    store: str
    report: str
    as_json: bool
    open_: bool

    @staticmethod
    def of(context: click.Context) -> "RunOptions":
        """Return the options of a parsed command line."""
        return RunOptions(**context.params)

    @property
    def workload_flags(self) -> dict[str, Any]:
        """Return the flags that were given and stand for an option of the workload, by name."""
        flags = {
            "insert": self.insert,
            "read": self.read,
            "quorum": self.quorum,
            "quorum_timeout": self.quorum_timeout,
            "writers": self.writers,
            "keys": self.keys,
            "ops_per_key": self.ops_per_key,
            "op_timeout": self.op_timeout,
        }
        return {name: value for name, value in flags.items() if value is not None}

    @property
    def docker_only(self) -> dict[str, Any]:
        """Return the given options that only a cluster of containers has, by flag."""
        own = {
            "--reuse": self.reuse,
            "--keep-cluster": self.keep_cluster,
            "--stop-at-departure": self.stop_at_departure,
            "--s3-endpoint": self.s3_endpoint,
            "--parts": self.parts,
            "--storage": self.storage,
        }
        return {flag: value for flag, value in {**own, **self.images}.items() if value}

    @property
    def own_servers_only(self) -> dict[str, Any]:
        """Return the given options that only a cluster whose servers the run starts has, by
        flag."""
        return {"--fsync": self.fsync} if self.fsync else {}

    @property
    def fixed(self) -> dict[str, Any]:
        """Return the given options that a kept cluster has already, by flag."""
        names = ("parts", "storage", "fsync", "s3_endpoint")
        own = {f"--{name.replace('_', '-')}": getattr(self, name) for name in names}
        return {flag: value for flag, value in {**own, **self.images}.items() if value}

    @property
    def server_settings(self) -> Settings:
        """Return the settings of the servers."""
        return Settings(
            parts=PartFormat(self.parts or PartFormat.NEW),
            storage=Storage(self.storage or Storage.MEMORY),
            fsync=Fsync(self.fsync or Fsync.DEFAULT),
            reconfig="reconfig" in self.nemesis,
        )

    @property
    def bucket(self) -> Bucket | None:
        """Return the bucket of the user's object store; None without one. Raises UsageError."""
        if not self.s3_endpoint:
            return None
        if not workload_entry(self.workload).store:
            able = " ".join(name for name, entry in WORKLOADS.items() if entry.store)
            raise UsageError(
                f"--s3-endpoint {self.s3_endpoint}: workload {self.workload} stores no objects; "
                f"expected --workload {able}"
            )
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or REGION
        bucket = Bucket.of(self.s3_endpoint, region)
        if not bucket.secure:
            return bucket
        return replace(bucket, authorities=authorities_file(os.environ))

    def stored(self, without: frozenset[str]) -> dict[str, Json]:
        """Return all options except those in `without`, by name, as a plan stores them."""
        names = [field.name for field in fields(self) if field.name not in without]
        return {name: getattr(self, name) for name in names}

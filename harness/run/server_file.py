"""The file of `--servers`: a cluster that somebody else runs, and the commands that make faults
there, read from TOML."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from harness.clusters.external import ExternalCluster
from harness.core.protocols import Endpoint
from harness.core.ranges import NODES_MAX, SECONDS, shortened, unknown_name
from harness.core.topology import Node, Role, Topology
from harness.spec.toml_file import TomlFile, read_toml
from nemesis.catalogue import nemesis_names
from nemesis.options import ROLES, TARGETS, FaultCommands

BYTES_MAX: Final = 1 << 20
"""Maximum size of the file."""
KEYS: Final = ("clickhouse", "zookeeper", "faults")
REPLICA_KEYS: Final = ("address", "shard", "user", "password-in", "secure")
KEEPER_KEYS: Final = ("address",)
FAULT_KEYS: Final = ("begin", "end", "seen", "gone", "role", "targets", "timeout")
NATIVE_PORT: Final = 9000
CLIENT_PORT: Final = 2181
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_ADDRESS: Final = re.compile(r"(?P<host>[^\s:\[\]]+|\[[0-9A-Fa-f:.]+\])(:(?P<port>\d{1,5}))?")
_DRAWN: Final = tuple(target for target in TARGETS if target != "leader")
"""Targets that are drawn from the seed."""


@dataclass(frozen=True, slots=True)
class ServerFile:
    """Contents of a file of servers, validated."""

    path: Path
    topology: Topology
    endpoints: Mapping[str, Endpoint]
    faults: Mapping[str, FaultCommands]

    def __str__(self) -> str:
        return str(self.path)

    def cluster(self) -> ExternalCluster:
        """Return the cluster. Raises ClusterError if a server does not say its version."""
        return ExternalCluster(self.path.stem, self.topology, self.endpoints)


def read_servers(path: Path) -> ServerFile:
    """Read a file of servers. Raises UsageError that says what is wrong, and where."""
    file = read_toml("servers", path, BYTES_MAX)
    for key in file.values:
        if key not in KEYS:
            file.refuse("", key, unknown_name(key, KEYS))
    replicas = _tables(file, "clickhouse", REPLICA_KEYS)
    keepers = _tables(file, "zookeeper", KEEPER_KEYS)
    for key, own in (("clickhouse", replicas), ("zookeeper", keepers)):
        if not own:
            file.refuse("", key, f"no servers; expected tables such as [{key}.one]")
    names = [*replicas, *keepers]
    for name in names:
        if not _NAME.fullmatch(name) or names.count(name) > 1:
            why = "expected letters, digits, '_', '-' and '.', and no name twice"
            file.refuse("clickhouse" if name in replicas else "zookeeper", name, why)
    if len(names) > NODES_MAX:
        file.refuse("", "clickhouse", f"{len(names)} servers; expected at most {NODES_MAX}")
    endpoints = {
        **{name: _replica(file, name, own) for name, own in replicas.items()},
        **{
            name: Endpoint(*_address(file, f"zookeeper.{name}", own, CLIENT_PORT))
            for name, own in keepers.items()
        },
    }
    faults = {name: _fault(file, name, own) for name, own in _faults(file).items()}
    return ServerFile(path, _topology(file, replicas, keepers), endpoints, faults)


def _topology(
    file: TomlFile, replicas: Mapping[str, Mapping[str, Any]], keepers: Mapping[str, Any]
) -> Topology:
    shards: dict[int, list[str]] = {}
    for name, own in replicas.items():
        shard = own.get("shard", 1)
        if isinstance(shard, bool) or not isinstance(shard, int) or shard < 1:
            file.refuse(f"clickhouse.{name}", "shard", f"{shortened(shard)}: expected 1, 2, …")
        shards.setdefault(shard, []).append(name)
    if sorted(shards) != list(range(1, len(shards) + 1)):
        file.refuse("", "clickhouse", f"shards {sorted(shards)}: expected 1 to {len(shards)}")
    zk = tuple(keepers)
    nodes = [
        Node(name, Role.CLICKHOUSE, shard, number, zk)
        for shard in sorted(shards)
        for number, name in enumerate(shards[shard], 1)
    ]
    nodes += [Node(name, Role.ZOOKEEPER, 1, number) for number, name in enumerate(zk, 1)]
    return Topology(tuple(nodes))


def _tables(file: TomlFile, key: str, keys: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
    """Return the tables [key.NAME], whose keys are known."""
    tables = file.values.get(key, {})
    if not isinstance(tables, dict):
        file.refuse("", key, f"{shortened(tables)}: expected tables such as [{key}.one]")
    for name, own in tables.items():
        if not isinstance(own, dict):
            file.refuse(key, name, f"{shortened(own)}: expected a table")
        for one in own:
            if one not in keys:
                file.refuse(f"{key}.{name}", one, unknown_name(one, keys))
    return tables


def _replica(file: TomlFile, name: str, own: Mapping[str, Any]) -> Endpoint:
    table = f"clickhouse.{name}"
    host, port = _address(file, table, own, NATIVE_PORT)
    user, variable = own.get("user", "default"), own.get("password-in")
    secure = own.get("secure", False)
    if not isinstance(user, str) or not user:
        file.refuse(table, "user", f"{shortened(user)}: expected the name of a user")
    if not isinstance(secure, bool):
        file.refuse(table, "secure", f"{shortened(secure)}: expected true or false")
    if variable is None:
        return Endpoint(host, port, user, "", secure)
    if not isinstance(variable, str) or variable not in os.environ:
        why = "expected the name of an environment variable that is set"
        file.refuse(table, "password-in", f"{shortened(variable)}: {why}")
    return Endpoint(host, port, user, os.environ[variable], secure)


def _address(file: TomlFile, table: str, own: Mapping[str, Any], port: int) -> tuple[str, int]:
    given = own.get("address")
    found = _ADDRESS.fullmatch(given) if isinstance(given, str) else None
    chosen = int(found["port"] or port) if found else 0
    if found is None or not 0 < chosen < 1 << 16:
        why = f"{shortened(given)}: expected HOST or HOST:PORT, such as 10.0.0.1:{port}"
        file.refuse(table, "address", why)
    return found["host"].strip("[]"), chosen


def _faults(file: TomlFile) -> Mapping[str, Mapping[str, Any]]:
    tables = _tables(file, "faults", FAULT_KEYS)
    for name in tables:
        if name in nemesis_names() or not _NAME.fullmatch(name):
            why = (
                "expected letters, digits, '_', '-' and '.', and no name of `harness list nemeses`"
            )
            file.refuse("faults", name, why)
    return tables


def _fault(file: TomlFile, name: str, own: Mapping[str, Any]) -> FaultCommands:
    table = f"faults.{name}"

    def refuse(key: str, why: str) -> NoReturn:
        file.refuse(table, key, f"{shortened(own.get(key))}: {why}")

    def command(key: str) -> tuple[str, ...]:
        words = own.get(key)
        if not isinstance(words, list) or not words or not all(map(_is_word, words)):
            refuse(key, 'expected a command as a list of words, such as ["ssh", "{node}", "…"]')
        return tuple(words)

    role, drawn = own.get("role"), own.get("targets", ["one"])
    if role is not None and role not in ROLES:
        refuse("role", f"expected one of {', '.join(ROLES)}")
    if not isinstance(drawn, list) or not drawn or any(one not in _DRAWN for one in drawn):
        refuse("targets", f"expected a list of some of {', '.join(_DRAWN)}")
    try:
        timeout_s = SECONDS.parse(own.get("timeout", 30))
    except ValueError as error:
        file.refuse(table, "timeout", str(error))
    return FaultCommands(
        name=name,
        begin=command("begin"),
        end=command("end"),
        seen=command("seen") if "seen" in own else (),
        gone=command("gone") if "gone" in own else (),
        role=role,
        targets=tuple(drawn),
        timeout_s=float(timeout_s),
    )


def _is_word(given: object) -> bool:
    """Return whether it can be a word of a command, which has no zero byte."""
    return isinstance(given, str) and "\0" not in given

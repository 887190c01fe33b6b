"""Contract with a ClickHouse engine: whatever the project's code requires of it, collected from
that code."""

import ast
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest

from checkers.ladder import Level
from compose.plan import Image, Images, plan_cluster
from compose.releases import NEWEST_ENGINE
from compose.render import config_files
from compose.settings import PartFormat, Settings
from harness.clients.clickhouse import ServerSetting
from harness.clients.object_store import ObjectStore
from harness.clusters.driver import Driver
from harness.core.dialect import Version, dialect_of
from harness.core.engines import Engine
from harness.core.outcomes import READ_OUTCOMES
from harness.core.protocols import Endpoint, Workload
from harness.core.runtime import WallTime
from harness.core.seed import Seed
from harness.core.topology import Role, Topology
from harness.spec.catalogue import WORKLOADS
from nemesis.failpoint import VARIANTS
from workloads.scenarios.catalogue import SCENARIOS

ENGINE = Engine(role=Role.CLICKHOUSE, version=NEWEST_ENGINE.version, build=NEWEST_ENGINE.build)
KEEPER = Engine(role=Role.ZOOKEEPER, version="3.8.0")
TOPOLOGY = Topology.of(replicas=3, keepers=3)
_NUMBERS = ("count", "seconds")
"""Expressions in statements whose values are numbers."""
_NO_TABLES = ("zk-register", "zookeeper", "config-reload", "serial")
"""Workloads whose sessions create nothing in ClickHouse."""
_ROOMS = ("harness", "workloads", "nemesis")
_STATEMENT = re.compile(
    r"SELECT |(CREATE|DROP) (DATABASE|TABLE) |(ALTER|OPTIMIZE|RENAME) TABLE |KILL QUERY "
    r"|INSERT INTO |SYSTEM [A-Z]+ [A-Z]"
)
_NOT_SERVER_SETTINGS = frozenset(
    {
        "backups",
        "logger",
        "listen_host",
        "tcp_port",
        "http_port",
        "interserver_http_port",
        "interserver_http_host",
        "macros",
        "remote_servers",
        "zookeeper",
        "merge_tree",
        "distributed_ddl",
        "keeper_map_path_prefix",
        "allow_experimental_transactions",
        "transaction_log",
        "users_config",
        "default_profile",
        "format_schema_path",
        "user_files_path",
        "path",
        "tmp_path",
        "timezone",
    }
)
"""PartFormat of the configuration that system.server_settings does not list on any version."""


def questions() -> dict[str, Any]:
    """Return everything to ask the engine, in the format of tests/engine_child.py."""
    config, users = (
        ET.fromstring(config_files(_plan(), TOPOLOGY.nodes[0])[name])  # our own
        for name in ("config.xml", "users.xml")
    )
    profile, defaults = users.find("profiles/default"), config.find("merge_tree")
    assert profile is not None
    assert defaults is not None
    dialect = dialect_of(Version.of(ENGINE.version))
    created = list(dict.fromkeys(_created()))
    tables = {row.tag for row in defaults} | set(dialect.cleanup)
    return {
        "settings": sorted({row.tag for row in profile} | set(get_args(ServerSetting))),
        "merge_tree_settings": sorted(tables | set(dialect.parts_read_by(Version(18, 16)))),
        "server_settings": sorted({row.tag for row in config} - _NOT_SERVER_SETTINGS),
        "errors": sorted({(row.code, row.name) for row in READ_OUTCOMES if row.code > 0}),
        "failpoints": {name: variant.points for name, variant in VARIANTS.items()},
        "defaults": {
            "replicated_deduplication_window": dialect.deduplication_blocks,
            "replicated_deduplication_window_seconds": dialect.deduplication_s,
        },
        "created": [one for one in created if not _needs_cluster(one)],
        "statements": [*filter(_needs_cluster, created), *dict.fromkeys(_written())],
    }


def _plan() -> Any:
    images = Images(
        "pod",
        {Role.CLICKHOUSE: {"": Image("ch", ENGINE)}, Role.ZOOKEEPER: {"": Image("zk", KEEPER)}},
    )
    return plan_cluster(
        TOPOLOGY, Settings(parts=PartFormat.OLD), images, name="contract", labels={}
    )


def _created() -> Iterator[tuple[str, str]]:
    """Yield the statements that each workload's session sends before its first call."""
    for number, (name, entry) in enumerate(WORKLOADS.items()):
        if name not in _NO_TABLES:
            made = entry.make(entry.options(), Seed(1), Level.EVENTUAL, False)
            yield from ((f"workload {name}", sql) for sql in _said(made, f"n{number}"))
    for number, scenario in enumerate(SCENARIOS.values()):
        if scenario.workload.name not in _NO_TABLES:
            said = _said(scenario.workload, f"s{number}")
            yield from ((f"scenario {scenario.name}", sql) for sql in said)


def _needs_cluster(created: tuple[str, str]) -> bool:
    """Return whether the object can be created only on a server that is part of a cluster."""
    return any(
        text in created[1]
        for text in (
            "ENGINE = Distributed(",
            "ENGINE = KeeperMap(",
            "storage_policy = ",
        )
    )


def _said(workload: Workload, token: str) -> Sequence[str]:
    """Return the CREATE statements of a session whose servers answer nothing. Tables and databases
    that need no coordination service replace replicated ones, which have the same settings."""
    said: list[str] = []

    def ask(
        _: Driver, sql: str, settings: Mapping[str, Any], rows: Any, query_id: str = ""
    ) -> Sequence[Sequence[Any]]:
        del settings, rows, query_id
        said.append(sql)
        return [["0"]]

    shards = 2 if workload.name == "distributed" else 1
    cluster: Any = SimpleNamespace(
        topology=Topology.of(replicas=3, keepers=3, shards=shards, store=True),
        endpoint=lambda node: Endpoint(node, 5000),
        name="contract",
        engines=SimpleNamespace(dialect=ENGINE.dialect, on=lambda _: ENGINE.dialect),
        readings=(),
        runtime=WallTime(),
        query_channel=lambda node, timeout_s: Driver(Endpoint(node, 9000), timeout_s),
        store_channel=lambda timeout_s: None,  # nothing is asked of it
        zookeeper=lambda _: SimpleNamespace(ask=lambda *_: None, close=lambda: None),
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Driver, "ask", ask)
        patched.setattr(ObjectStore, "sizes", lambda _: {})
        patched.setattr(ObjectStore, "logged", lambda _: frozenset())
        workload.session(cluster, token)
    alone = (re.sub(r" ENGINE = Replicated\([^)]*\)", "", sql) for sql in said)
    plain = (re.sub(r"ReplicatedMergeTree(\([^)]*\))?", "MergeTree", sql) for sql in alone)
    return [sql for sql in plain if sql.startswith("CREATE")]


def _written() -> Iterator[tuple[str, str]]:
    """Yield every statement literal of the code, with a name in place of each expression."""
    for room in _ROOMS:
        for path in sorted(Path(room).rglob("*.py")):
            if {"sim", "fleet"} & {*path.parts}:  # statements of simulated servers, and of Spark
                continue
            tree = ast.parse(path.read_text())
            prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
            prose |= {
                id(v) for n in ast.walk(tree) if isinstance(n, ast.JoinedStr) for v in n.values
            }
            for node in ast.walk(tree):
                if not isinstance(node, ast.expr) or id(node) in prose:
                    continue
                text = _text(node)
                if text and _STATEMENT.match(text) and not _is_recorded(room, text):
                    yield f"{path}:{node.lineno}", text


def _is_recorded(room: str, text: str) -> bool:
    """Return whether a session has already sent the complete statement."""
    return room == "workloads" and text.startswith("CREATE")


def _text(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        template = node.value
        return re.sub(r"\{(\w*)\}", lambda m: _filled(template[: m.start()], m[1]), template)
    if not isinstance(node, ast.JoinedStr):
        return None
    text = ""
    for part in node.values:
        if isinstance(part, ast.Constant):
            text += str(part.value)
        else:
            assert isinstance(part, ast.FormattedValue)
            text += _filled(text, ast.unparse(part.value))
    return f"{text}1" if text.endswith("= ") else text


def _filled(before: str, source: str) -> str:
    """Return a placeholder for an expression."""
    if "schema.columns" in source:
        return "x UInt8"
    if "condition_on(" in source:
        return "database = 'x'"
    return "1" if before.endswith("PARTITION ") or source in _NUMBERS else "x"

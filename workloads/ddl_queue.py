"""Statements of the workload `ddl`, the queues through which they reach the hosts, and what the
hosts then have."""

import re
from collections.abc import Callable, Mapping
from typing import Protocol

from checkers.ddl.active import HostsOfTask
from checkers.ddl.macros import CreatedTable
from checkers.ddl.missing_local import SelectEnd, SelectEnds
from harness.clients.clickhouse import ClickHouse, DatabaseError

EACH, SHARDS, SOME = "harness_each", "harness", "harness_some"
"""Clusters of the same servers: each host is a shard, or shards have replicas, or the last host is
left out."""
QUEUE = "/clickhouse/task_queue/ddl"
STATEMENTS: Mapping[str, str] = {
    "create": "CREATE TABLE {db}.made_{n}{each} (x UInt8) ENGINE = TinyLog",
    "drop": "DROP TABLE {db}.doomed_{n}{each}",
    "rename": "RENAME TABLE {db}.old_{n} TO {db}.new_{n}{each}",
    "alter": "ALTER TABLE {db}.wide{each} ADD COLUMN c_{n} UInt8",
    "alter-replicated": "ALTER TABLE {db}.shared{shards} ADD COLUMN r_{n} UInt8",
    "create-replicated": (
        "CREATE TABLE {db}.rep_{n}{each} (x UInt64) ENGINE = "
        "ReplicatedMergeTree('/harness/{db}/{{shard}}/rep_{n}', '{{replica}}') "
        "PARTITION BY tuple() ORDER BY x"
    ),
    "create-some": "CREATE TABLE {db}.some_{n}{some} (x UInt8) ENGINE = TinyLog",
    "create-slow": "CREATE TABLE {db}.slow_{n}{each} ENGINE = TinyLog AS SELECT sleep(3) AS x",
    "create-distributed": (
        "CREATE TABLE {db}.dist_{n}{each} (x UInt8) ENGINE = Distributed(harness, {db}, none_{n})"
    ),
    "drop-distributed": "DROP TABLE {db}.over_{n}{each}",
}
"""Statement of each kind; `each`, `shards` and `some` are ON CLUSTER unless the database
replicates."""
OBJECTS = {
    "create": "made_",
    "drop": "doomed_",
    "rename": "old_",
    "alter": "c_",
    "alter-replicated": "r_",
    "create-replicated": "rep_",
    "create-some": "some_",
    "create-slow": "slow_",
    "create-distributed": "dist_",
    "drop-distributed": "over_",
}
CREATED = frozenset(
    {"create", "create-replicated", "create-some", "create-slow", "create-distributed"}
)
"""Statements whose effect is a table."""
OVER = 5
"""Number of Distributed tables that are dropped, each over a local table of its own."""
SYNC_S = 10
"""Seconds in which a replica at rest must execute what the log has."""
NEWEST = 4
"""Number of tasks that a look at active hosts reads."""


def effects_of(connection: ClickHouse, database: str) -> list[str]:
    """Return the statements whose effect a host has, such as "alter:7"."""
    tables = connection.rows(
        f"SELECT name FROM system.tables WHERE database = '{database}'", (str,)
    )
    columns = connection.rows(
        f"SELECT name FROM system.columns WHERE database = '{database}' AND "
        "table IN ('wide', 'shared')",
        (str,),
    )
    names = {name for (name,) in tables}
    made = [
        f"{f}:{n}" for f, prefix in OBJECTS.items() if f in CREATED for n in _numbers(names, prefix)
    ]
    renamed = [f"rename:{n}" for n in _numbers(names, "new_")]
    fields = {name for (name,) in columns}
    altered = [
        f"{f}:{n}" for f in ("alter", "alter-replicated") for n in _numbers(fields, OBJECTS[f])
    ]
    before = _numbers(names, "doomed_")
    last = max((*before, *_numbers(names, "old_"), *_numbers(names, "new_")), default=-1)
    dropped = [f"drop:{n}" for n in range(last + 1) if n not in before]
    over, under = _numbers(names, "over_"), _numbers(names, "under_")
    dropped += [f"drop-distributed:{n}" for n in range(OVER) if n not in over]
    # No statement drops the local tables below the Distributed ones.
    dropped += [f"drop-local:{n}" for n in range(OVER) if n not in under]
    return sorted((*made, *renamed, *altered, *dropped))


def replicated_tables(connection: ClickHouse, database: str) -> dict[str, CreatedTable]:
    """Return the path, the replica and the rows of each replicated table that a statement created,
    once the replica has executed what the log had."""
    found = connection.rows(
        "SELECT table, zookeeper_path, replica_name FROM system.replicas "
        f"WHERE database = '{database}' AND table LIKE 'rep_%' ORDER BY table",
        (str, str, str),
    )
    out: dict[str, CreatedTable] = {}
    for table, path, replica in found:
        connection.command(f"SYSTEM SYNC REPLICA {database}.{table}", {"receive_timeout": SYNC_S})
        rows = connection.numbers(f"SELECT x FROM {database}.{table} ORDER BY x")
        out[table] = CreatedTable(path, replica, [*rows])
    return out


def distributed_tables(connection: ClickHouse, database: str) -> list[str]:
    """Return the numbers of the Distributed tables that statements created."""
    found = connection.rows(
        f"SELECT name FROM system.tables WHERE database = '{database}' AND name LIKE 'dist_%'",
        (str,),
    )
    return [str(n) for n in _numbers({name for (name,) in found}, "dist_")]


def use_distributed(connection: ClickHouse, database: str) -> SelectEnds:
    """Select from each Distributed table that a statement created."""
    out: SelectEnds = {}
    for number in distributed_tables(connection, database):
        code, text = 0, ""
        try:
            connection.numbers(f"SELECT count() FROM {database}.dist_{number}")
        except DatabaseError as error:
            if error.code <= 0:
                raise
            code, text = error.code, error.text
        out[f"dist_{number}"] = SelectEnd(f"none_{number}", code, text)
    return out


class DdlQueue(Protocol):
    """Queue of statements for the hosts."""

    words: Mapping[str, str]
    """Clauses that queue a statement, by their name in `STATEMENTS`."""

    def tasks(self, connection: ClickHouse) -> dict[str, dict[str, str]]:
        """Return, by statement, what each host that finished it wrote. Raises DatabaseError."""
        ...

    def hosts(self, connection: ClickHouse) -> dict[str, list[str]]:
        """Return, by statement, the hosts that must execute it; nothing where every host must.
        Raises DatabaseError."""
        ...

    def active(self, connection: ClickHouse) -> dict[str, HostsOfTask]:
        """Return the hosts of each statement that some host was executing. Raises
        DatabaseError."""
        ...


class ClusterQueue:
    """Queue of statements ON CLUSTER; ours are those that name our database."""

    words: Mapping[str, str] = {
        "each": f" ON CLUSTER {EACH}",
        "shards": f" ON CLUSTER {SHARDS}",
        "some": f" ON CLUSTER {SOME}",
    }

    def __init__(self, database: str) -> None:
        self._database = database

    def tasks(self, connection: ClickHouse) -> dict[str, dict[str, str]]:
        """Return all tasks of our database."""
        return {
            _statement(text): _finished(connection, f"{QUEUE}/{name}", _host)
            for name, text in self._queued(connection)
        }

    def hosts(self, connection: ClickHouse) -> dict[str, list[str]]:
        """Return the list of hosts in each task."""
        return {_statement(text): _hosts(text) for _, text in self._queued(connection)}

    def active(self, connection: ClickHouse) -> dict[str, HostsOfTask]:
        """Return the hosts of each of the newest tasks that some host is executing."""
        out: dict[str, HostsOfTask] = {}
        for name, text in self._queued(connection)[-NEWEST:]:
            path = f"{QUEUE}/{name}"
            # In this order: a host that had finished the task is not executing it afterwards.
            finished = _finished(connection, path, _host)
            nodes = connection.rows(
                f"SELECT name FROM system.zookeeper WHERE path = '{path}/active'", (str,)
            )
            active = [_host(node) for (node,) in nodes]
            if active:
                out[_statement(text)] = HostsOfTask([*finished], active, _hosts(text))
        return out

    def _queued(self, connection: ClickHouse) -> list[tuple[str, str]]:
        """Return name and text of our tasks, ascending."""
        queued = connection.rows(
            f"SELECT name, value FROM system.zookeeper WHERE path = '{QUEUE}' AND "
            f"value LIKE '%{self._database}%'",
            (str, str),
        )
        return sorted(queued)


class DatabaseQueue:
    """Log of a database of the engine Replicated."""

    words: Mapping[str, str] = {"each": "", "shards": "", "some": ""}

    def __init__(self, path: str) -> None:
        self._log = f"{path}/log"

    def tasks(self, connection: ClickHouse) -> dict[str, dict[str, str]]:
        """Return the clients' statements that were committed: no host executes or finishes an entry
        whose initiator failed (DatabaseReplicatedWorker.cpp)."""
        queued = connection.rows(
            f"SELECT name, value FROM system.zookeeper WHERE path = '{self._log}'", (str, str)
        )
        tasks: dict[str, dict[str, str]] = {}
        for name, text in queued:
            statement, path = _statement(text), f"{self._log}/{name}"
            if statement == text:  # a statement of the set-up
                continue
            nodes = connection.rows(
                f"SELECT name FROM system.zookeeper WHERE path = '{path}'", (str,)
            )
            if ("committed",) in nodes:
                tasks[statement] = _finished(connection, path, _replica)
        return tasks

    def hosts(self, connection: ClickHouse) -> dict[str, list[str]]:  # noqa: ARG002
        """Return nothing: every replica of the database executes every entry."""
        return {}

    def active(self, connection: ClickHouse) -> dict[str, HostsOfTask]:  # noqa: ARG002
        """Return nothing."""
        return {}


def _hosts(text: str) -> list[str]:
    """Return the hosts that the text of a task lists, such as "hosts: ['ch1:9000','ch2:9000']"."""
    line = next((one for one in text.split("\n") if one.startswith("hosts: ")), "")
    return [_host(address) for address in re.findall(r"'([^']*)'", line)]


def _finished(connection: ClickHouse, task: str, name: Callable[[str], str]) -> dict[str, str]:
    """Return what each host that finished the task wrote."""
    done = connection.rows(
        f"SELECT name, value FROM system.zookeeper WHERE path = '{task}/finished'", (str, str)
    )
    return {name(host): _status(value) for host, value in done}


def _replica(host: str) -> str:
    """Return the replica of a host such as "s1|ch1", which is shard and replica."""
    return host.partition("|")[2]


def _statement(text: str) -> str:
    """Return the name of a task's statement, such as "alter:7"; the text itself if it has none."""
    for f, prefix in OBJECTS.items():
        found = re.search(rf"\b{prefix}(\d+)\b", text)
        if found and STATEMENTS[f].split()[0] in text:
            return f"{f}:{found[1]}"
    return text


def _host(address: str) -> str:
    """Return the host of an escaped address with a port, such as "ch1%2D..:9000"."""
    return address.partition(":")[0].partition("%3A")[0]


def _status(text: str) -> str:
    """Return the status that a host wrote: "0" for no error, otherwise the code and the message."""
    lines = text.split("\n", 1)
    return lines[0] if lines[0] == "0" else " ".join(text.split())


def _numbers(names: set[str], prefix: str) -> list[int]:
    found = (name.removeprefix(prefix) for name in names if name.startswith(prefix))
    return sorted(int(rest) for rest in found if rest.isdigit())

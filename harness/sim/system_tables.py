"""What a simulated server says of itself: the few questions that the harness asks."""

import re
from typing import TYPE_CHECKING, Any

from harness.sim.errors import ServerError
from harness.sim.table.parts import Part

if TYPE_CHECKING:
    from harness.sim.server import Server
    from harness.sim.table.replica import Table

Row = tuple[Any, ...]

_EQUALS = re.compile(r"(\w+) = '([^']*)'")


def system_rows(server: "Server", name: str, what: str, where: str) -> list[Row]:
    """Rows of system.replicas, parts, mutations, zookeeper, replication_queue. Raises ServerError
    62."""
    wanted = dict(_EQUALS.findall(where))
    if name == "zookeeper":
        return _zookeeper(server, what, wanted.get("path", "/"))
    tables = [
        table
        for table in server.tables.values()
        if wanted.get("database") in (None, table.name.partition(".")[0])
        and wanted.get("table") in (None, table.name.partition(".")[2])
    ]
    if name == "replicas":
        return _rows(what, [_replica(table) for table in tables])
    if name == "parts":
        parts = [part for table in tables for part in table.active]
        within = wanted.get("partition")
        return _rows(what, [_part(p) for p in parts if within in (None, p.info.partition)])
    if name == "mutations":
        return _rows(what, [{"mutation_id": known} for t in tables for known in t.mutations])
    if name == "replication_queue":
        return _rows(what, [entry for table in tables for entry in _queued(table)])
    raise ServerError(60, f"Table system.{name} is not simulated")


def _replica(table: "Table") -> dict[str, Any]:
    zk = table.zk
    expired = zk is None or not zk.alive
    active = total = 0
    log_end = table.queue.pointer
    if zk is not None and not expired:
        replicas = zk.children(f"{table.path}/replicas")
        readings = [("exists", f"{table.path}/replicas/{name}/is_active") for name in replicas]
        *alive, logged = zk.read(*readings, ("children", f"{table.path}/log"))
        total, active = len(replicas), sum(version is not None for version in alive)
        log_end = int(logged[-1].removeprefix("log-")) if logged else 0
    return {
        "database": table.name.partition(".")[0],
        "table": table.name.partition(".")[2],
        "is_leader": int(table.leader),
        "is_readonly": int(table.readonly),
        "is_session_expired": int(expired),
        "queue_size": len(table.queue.entries),
        "parts_to_check": len(table.to_check) + len(table.missing),
        "log_pointer": table.queue.pointer,
        "log_max_index": log_end,
        "active_replicas": active,
        "total_replicas": total,
    }


def _part(part: Part) -> dict[str, Any]:
    return {
        "name": part.name,
        "partition": part.info.partition,
        "rows": len(part.rows),
        "level": part.info.level,
        "active": 1,
    }


def undone(server: "Server", database: str) -> list[Row]:
    """The mutations that have parts which they have not changed yet, and how many."""
    counts = [
        (
            name,
            sum(
                part.info.partition == mutation.partition and part.info.version < mutation.number
                for part in table.active
            ),
        )
        for table in server.tables.values()
        if table.name.partition(".")[0] == database
        for name, mutation in table.mutations.items()
    ]
    return [(name, parts) for name, parts in counts if parts]


def _queued(table: "Table") -> list[dict[str, Any]]:
    return [
        {
            "new_part_name": attempts.entry.new.name,
            "type": attempts.entry.kind,
            "num_tries": attempts.tries,
            "num_postponed": 0,
            "is_currently_executing": int(attempts.executing),
            "last_exception": attempts.failure,
            "postpone_reason": "",
        }
        for attempts in table.queue.entries.values()
    ]


def _zookeeper(server: "Server", what: str, path: str) -> list[Row]:
    zk = server.session
    if zk is None or not zk.alive:
        raise ServerError(999, "Session expired")
    values = zk.read(("values", path))[0] or {}
    names = sorted(values)
    if what == "max(name)":
        return [(names[-1] if names else "",)]
    return _rows(what, [{"name": name, "value": str(values[name])} for name in names])


def _rows(what: str, found: list[dict[str, Any]]) -> list[Row]:
    columns = [column.strip() for column in what.split(",")]
    if "(" in what:
        return [tuple(_total(column, found) for column in columns)]
    return [tuple(_value(row, column) for column in columns) for row in found]


def _value(row: dict[str, Any], column: str) -> Any:
    if column not in row:
        raise ServerError(47, f"Unknown identifier: {column} is not simulated")
    return row[column]


def _total(column: str, found: list[dict[str, Any]]) -> Any:
    name, _, inside = column.rstrip(")").partition("(")
    if name == "count":
        return len(found)
    if name == "sum":
        return sum(_value(row, inside) for row in found)
    if name == "countIf":
        key, _, value = inside.partition(" = ")
        return sum(str(_value(row, key)) == value.strip("'") for row in found)
    raise ServerError(62, f"Syntax error: {column} is not simulated")

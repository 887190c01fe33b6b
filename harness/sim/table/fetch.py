"""Fetching a part from another replica, and what follows for the quorum.

Source: executeFetch, findReplicaHavingCoveringPart, fetchPart, updateQuorum of 18.16.1.
"""

from typing import TYPE_CHECKING, Final

from harness.sim.errors import ServerError
from harness.sim.keeper.session import KeeperSession
from harness.sim.keeper.tree import (
    BAD_VERSION,
    NO_NODE,
    NODE_EXISTS,
    Absent,
    Check,
    Create,
    KeeperError,
    Operation,
    Put,
    Remove,
)
from harness.sim.table.entries import Entry, Quorum
from harness.sim.table.parts import Info, Part, Rows, info_of
from harness.sim.world import MS, SECOND, Future, TimedOutError

if TYPE_CHECKING:
    from harness.sim.table.replica import Table

FETCH_NS: Final = 3 * MS
"""A small part, read, sent and written; median."""
FETCH_TIMEOUT_NS: Final = 5 * SECOND
NO_REPLICA_HAS_PART: Final = 234


def fetch(table: "Table", zk: KeeperSession, entry: Entry) -> bool:
    """Gets the part, or one that covers it, from a random active replica that has one. Where
    none has, a quorum insert that is pending is marked as failed, and another part looked for."""
    if table.fetches_stopped:
        raise ServerError(236, "Fetching of parts was cancelled")
    holder, found = _holder(table, zk, entry.new)
    if holder is None:
        if entry.quorum and _failed(table, zk, entry):
            return True
        if _merge_follows(table, entry.new):
            return False
        table.missing.add(entry.new)
        raise ServerError(NO_REPLICA_HAS_PART, f"No active replica has part {entry.new.name}")
    rows = _download(table, holder, found)
    part = Part(found, rows, table.world.now_ns)
    if "fetch-torn" in table.bugs and len(rows) > 1:
        table.store(Part(found, rows[: len(rows) // 2], table.world.now_ns))
        table.activate(table.parts[found.name])
        table.world.sleep(100 * MS)
        table.forget(found)
    table.store(part)
    commit(table, zk, part)
    if entry.quorum:
        update_quorum(table, zk, found)
    return True


def _holder(table: "Table", zk: KeeperSession, wanted: Info) -> tuple[str | None, Info]:
    best: tuple[str | None, Info] = (None, wanted)
    for replica in table.world.shuffled(zk.children(f"{table.path}/replicas")):
        if replica == table.me:
            continue
        other = f"{table.path}/replicas/{replica}"
        active, has, names = zk.read(
            ("exists", f"{other}/is_active"),
            ("exists", f"{other}/parts/{wanted.name}"),
            ("listed", f"{other}/parts"),
        )
        if active is None:
            continue
        # Usually it is there by its own name and not yet merged.
        covering = [wanted] if has is not None else []
        if names is not None and (has is None or wanted.level or len(names[1]) < 50):
            infos = (info_of(name) for name in names[1])
            covering += [info for info in infos if info.contains(wanted)]
        for info in covering:
            if best[0] is None or (info != best[1] and info.contains(best[1])):
                best = (replica, info)
    return best


def _download(table: "Table", holder: str, info: Info) -> Rows:
    source = table.peer(holder)
    future = Future()
    network, world = table.server.network, table.world
    network.send(
        table.server.node,
        source.node,
        source.process,
        source.serve_part,
        table.name,
        info,
        future,
        table.server,
        table.server.disk.fetch_ns,
    )
    if not source.process.alive:
        raise ServerError(210, f"Connection refused by {holder}")
    try:
        rows: Rows | None = world.wait(future, FETCH_TIMEOUT_NS)
    except TimedOutError:
        raise ServerError(209, f"Timeout of a fetch of {info.name} from {holder}") from None
    if rows is None:
        raise ServerError(232, f"No part {info.name} in table on {holder}")
    return rows


def commit(table: "Table", zk: KeeperSession, part: Part) -> None:
    """Checks the part's checksums with a replica that has it, announces it, and makes it
    visible. Raises ServerError 40 when another has other data under this name, and KeeperError."""
    try:
        while not _announced(table, zk, part):
            pass
    except (KeeperError, ServerError):
        table.forget(part.info)
        raise
    table.activate(part)


def _announced(table: "Table", zk: KeeperSession, part: Part) -> bool:
    """False: another replica announced it meanwhile, so the checksums are to be checked again."""
    absent: list[Absent] = []
    for replica in table.world.shuffled(zk.children(f"{table.path}/replicas")):
        found = zk.get(f"{table.path}/replicas/{replica}/parts/{part.name}")
        if found is not None:
            if found[0] != part.rows and "merge-order" not in table.bugs:
                raise ServerError(40, f"Checksums of part {part.name} differ from {replica}'s")
            absent.clear()
            break
        if replica != table.me:
            absent.append(Absent(f"{table.path}/replicas/{replica}/parts/{part.name}"))
    try:
        zk.multi((*absent, Create(f"{table.own}/parts/{part.name}", part.rows)))
    except KeeperError as error:
        if error.code != NODE_EXISTS:
            raise
        return error.at >= len(absent)
    return True


def update_quorum(table: "Table", zk: KeeperSession, part: Info) -> None:
    """Adds this replica to the pending quorum; whoever completes it ends it.

    /quorum/status is made anew at version 0 for each insert, so its version alone does not say
    whose quorum it is. A quorum that is over has changed last_part, or its part has failed.
    """
    status_path, last_path = f"{table.path}/quorum/status", f"{table.path}/quorum/last_part"
    while True:
        found, last = zk.read(("get", status_path), ("get", last_path))
        if found is None or found[0].part != part:
            return
        status: Quorum = found[0]
        replicas = tuple(dict.fromkeys((*status.replicas, table.me)))
        operations: list[Operation] = [
            Check(last_path, last[1]),
            Absent(f"{table.path}/quorum/failed_parts/{part.name}"),
        ]
        if "quorum-aba" in table.bugs:
            last, operations = zk.get(last_path), []
        if len(replicas) >= status.needed or "quorum-uncounted" in table.bugs:
            before = last[0].get(part.partition, part)
            now = part if "last-part-late" in table.bugs else max(part, before)
            if "last-part-back" in table.bugs:
                now = min(part, before)
            added = {**last[0], part.partition: now}
            operations += [Remove(status_path, found[1]), Put(last_path, added, last[1])]
        else:
            operations.append(Put(status_path, status._replace(replicas=replicas), found[1]))
        try:
            zk.multi(operations)
        except KeeperError as error:
            if error.code in (BAD_VERSION, NODE_EXISTS):
                continue
            if error.code != NO_NODE:
                raise
        return


def _failed(table: "Table", zk: KeeperSession, entry: Entry) -> bool:
    """Marks the quorum of a part that nobody active has as failed: all at once, if no replica
    has become active meanwhile."""
    checks: list[Operation] = []
    for replica in zk.children(f"{table.path}/replicas"):
        host = zk.get(f"{table.path}/replicas/{replica}/host")
        checks.append(Check(f"{table.path}/replicas/{replica}/host", host[1] if host else None))
    if _holder(table, zk, entry.new)[0] is not None:
        return False
    status = zk.get(f"{table.path}/quorum/status")
    if status is None or status[0].part != entry.new:
        return False
    operations = [
        *checks,
        Remove(f"{table.path}/quorum/status", status[1]),
        Create(f"{table.path}/quorum/failed_parts/{entry.new.name}"),
    ]
    block = f"{table.path}/blocks/{entry.block_id}"
    if entry.block_id and zk.exists(block):
        operations.append(Remove(block))
    try:
        zk.multi(operations)
    except KeeperError as error:
        if error.code in (BAD_VERSION, NO_NODE, NODE_EXISTS):
            return False
        raise
    table.queue.virtual.remove(entry.new)
    return True


def _merge_follows(table: "Table", part: Info) -> bool:
    """Whether the queue makes another of the part, which will be fetched instead."""
    return any(part in other.entry.parts for other in table.queue.entries.values())

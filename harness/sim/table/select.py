"""A select, in the five readings: which parts does it read?

plain         what this replica has.
server        select_sequential_consistency as 18.16.1 does it (StorageReplicatedMergeTree::read).
sync          the same after a ZooKeeper `sync`.
thesis        after a `sync`: every committed part must be here; those of pending and of failed
              quorums are left out.
linearizable  after a write of nothing: the parts that ZooKeeper says are here, at one moment.
"""

from typing import TYPE_CHECKING, Any, Final

from harness.sim.errors import ServerError
from harness.sim.keeper.session import KeeperSession
from harness.sim.table.entries import GET
from harness.sim.table.parts import Cover, Info, Part, info_of

if TYPE_CHECKING:
    from harness.sim.table.replica import Table

READINGS: Final = ("plain", "server", "sync", "thesis", "linearizable")


def visible(table: "Table", reading: str) -> list[Part]:
    """The parts that a select reads, in no order that means anything. Raises ServerError, 289
    where this replica lacks what others have."""
    if reading == "plain":
        return list(table.active)
    zk = table.connected()
    if reading == "linearizable":
        return _linearizable(table, zk)
    if reading == "thesis":
        return _thesis(table, zk)
    if reading == "sync":
        zk.sync()
    return _server(table, zk)


def _server(table: "Table", zk: KeeperSession) -> list[Part]:
    largest = {p: max(i.max for i in table.active.infos(p)) for p in table.active.partitions}
    status = zk.get(f"{table.path}/quorum/status")
    if status is not None:
        largest[status[0].part.partition] = status[0].part.max - 1
    last = zk.get(f"{table.path}/quorum/last_part")
    for partition, info in (last[0] or {}).items() if last else ():
        if table.active.containing(info) is None:
            raise _lacks(info)
        largest[partition] = info.max
    return [part for part in table.active if part.info.max <= largest.get(part.info.partition, -1)]


def _lacks(info: Info) -> ServerError:
    return ServerError(
        289,
        f"Replica doesn't have part {info.name} which was successfully written to quorum of "
        "other replicas.",
    )


def _thesis(table: "Table", zk: KeeperSession) -> list[Part]:
    """Local parts first: what is pending or failed among them is known by the reads that follow.

    The model of the thesis has no insert of unknown outcome, so that every local part is in the
    log. Here one may be local that never will be: see docs/simulated-cluster.md.
    """
    here = list(table.active)
    covers: Cover[Part] = Cover()
    for part in here:
        covers.add(part.info, part)
    zk.sync()
    state = _state(table, zk)
    _check_committed(state, covers)
    return [
        part for part in here if part.info != state["pending"] and part.name not in state["failed"]
    ]


def _linearizable(table: "Table", zk: KeeperSession) -> list[Part]:
    """Everything is decided by one moment of ZooKeeper, at or after the barrier: the committed
    parts are those of the log less the pending and the failed; each must be among the parts that
    ZooKeeper lists for this replica, and those are what is read."""
    zk.barrier()
    state = _state(table, zk)
    listed = table.listed(state["made"], state["parts"])
    _check_committed(state, listed)
    out = []
    pending, failed, parts = state["pending"], state["failed"], table.parts
    for info, name in listed.pairs():
        if info == pending or name in failed:
            continue
        part = parts.get(name)
        if part is None:
            raise ServerError(289, f"Part {name} is not on the disk any more.")
        out.append(part)
    return out


def _state(table: "Table", zk: KeeperSession) -> dict[str, Any]:
    status, failed, lost, parts, pointer, log, queue = zk.read(
        ("get", f"{table.path}/quorum/status"),
        ("children", f"{table.path}/quorum/failed_parts"),
        ("get", f"{table.own}/is_lost"),
        ("listed", f"{table.own}/parts"),
        ("get", f"{table.own}/log_pointer"),
        ("values", f"{table.path}/log"),
        ("values", f"{table.own}/queue"),
    )
    if lost is None or lost[0] != "0" or parts is None or pointer is None:
        raise ServerError(289, "Replica is lost, or being cloned.")
    return {
        "pending": status[0].part if status else None,
        "failed": frozenset(failed or ()),
        "made": parts[0],
        "parts": parts[1],
        "pointer": pointer[0],
        "log": log or {},
        "queue": queue or {},
    }


def _check_committed(state: dict[str, Any], here: Cover[Any]) -> None:
    """Raises ServerError 289 for a committed part that is not here. Those that the replica may
    lack are in the log from its pointer on, and in its queue; what it had before is here."""
    first = f"log-{state['pointer']:010d}"
    entries = [entry for name, entry in state["log"].items() if name >= first]
    for entry in (*entries, *state["queue"].values()):
        if entry.kind != GET or here.containing(entry.new) is not None:
            continue
        if entry.new != state["pending"] and entry.new.name not in state["failed"]:
            raise _lacks(entry.new)


def parts_listed(names: dict[str, None]) -> Cover[str]:
    """Of ZooKeeper's list of a replica's parts, the names that no other covers."""
    cover: Cover[str] = Cover()
    infos = [(info_of(name), name) for name in names]
    for info, name in sorted(infos, key=lambda i: (-i[0].level, -i[0].mutation, i)):
        cover.add(info, name)
    return cover

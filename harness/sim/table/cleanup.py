"""Old parts, and on the leader old log entries, old blocks, and replicas that were left behind.

Source: ReplicatedMergeTreeCleanupThread of 18.16.1.
"""

from typing import TYPE_CHECKING

from harness.sim.errors import ServerError
from harness.sim.keeper.session import KeeperSession
from harness.sim.keeper.tree import Check, KeeperError, Operation, Put, Remove
from harness.sim.world import SECOND

if TYPE_CHECKING:
    from harness.sim.table.replica import Table


def clean(table: "Table", zk: KeeperSession) -> None:
    """The task, as long as the session lives."""
    while table.uses(zk):
        table.world.sleep(table.world.around(table.settings.cleanup_delay_period * SECOND))
        if not table.uses(zk):
            return
        try:
            _old_parts(table, zk)
            if table.leader:
                clear_log(table, zk)
                _old_blocks(table, zk)
        except (KeeperError, ServerError):
            continue


def _old_parts(table: "Table", zk: KeeperSession) -> None:
    before = table.world.now_ns - table.settings.old_parts_lifetime * SECOND
    for part in [p for p in table.parts.values() if p.old_ns and p.old_ns < before]:
        zk.remove(f"{table.own}/parts/{part.name}")
        table.forget(part.info)


def clear_log(table: "Table", zk: KeeperSession) -> None:
    """Removes the entries that every replica has copied, except those that are left behind and
    are not active: these are marked as lost."""
    settings = table.settings
    names = zk.children(f"{table.path}/log")
    if len(names) < settings.min_replicated_logs_to_keep * 1.1:
        return
    keep = max(0, len(names) - settings.max_replicated_logs_to_keep)
    oldest_kept = int(names[keep].removeprefix("log-"))
    needed: list[int] = []
    recovering: list[int] = []
    candidates: dict[str, tuple[int, int]] = {}
    lost: dict[str, int] = {}
    replicas = zk.children(f"{table.path}/replicas")
    for replica in replicas:
        own = f"{table.path}/replicas/{replica}"
        pointer, active, is_lost, host = zk.read(
            ("get", f"{own}/log_pointer"),
            ("exists", f"{own}/is_active"),
            ("get", f"{own}/is_lost"),
            ("get", f"{own}/host"),
        )
        if is_lost[0] == "1":
            lost[replica] = host[1]
            if active is not None:
                recovering.append(pointer[0])
        elif active is not None or pointer[0] >= oldest_kept:
            needed.append(pointer[0])
        else:
            candidates[replica] = (host[1], pointer[0])
    until = min([*needed, *recovering], default=0)
    if "truncate-max" in table.bugs:
        until = max([*needed, *recovering], default=0)
    if recovering and candidates:
        until = min(until, *(pointer for _, pointer in candidates.values()))
    names = names[: len(names) - settings.min_replicated_logs_to_keep]
    removed = [name for name in names if int(name.removeprefix("log-")) < until]
    if not removed:
        return
    if "lost-unmarked" not in table.bugs:
        _mark_lost(table, zk, candidates, len(replicas) - len(lost))
    hosts = {**lost, **{replica: version for replica, (version, _) in candidates.items()}}
    operations: list[Operation] = [Remove(f"{table.path}/log/{name}") for name in removed]
    operations += [Check(f"{table.path}/replicas/{r}/host", v) for r, v in hosts.items()]
    zk.multi(operations)


def _mark_lost(
    table: "Table", zk: KeeperSession, candidates: dict[str, tuple[int, int]], others: int
) -> None:
    if candidates and len(candidates) == others:
        raise ServerError(415, "All replicas are stale: we won't mark any replica as lost")
    for replica, (version, _) in candidates.items():
        own = f"{table.path}/replicas/{replica}"
        # The version changes when the replica becomes active.
        zk.multi((Check(f"{own}/host", version), Put(f"{own}/is_lost", "1")))


def _old_blocks(table: "Table", zk: KeeperSession) -> None:
    """Keeps the latest blocks. (By time in the server; here by the parts' block numbers.)"""
    window = table.settings.replicated_deduplication_window
    if zk.read(("count", f"{table.path}/blocks"))[0] <= window * 1.1:
        return
    blocks = zk.read(("values", f"{table.path}/blocks"))[0]
    ages = sorted((int(part.split("_")[1]), name) for name, part in blocks.items())
    zk.multi([Remove(f"{table.path}/blocks/{name}") for _, name in ages[:-window]])

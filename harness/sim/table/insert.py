"""An insert: a part for each partition, made here and announced in the log.

Source: ReplicatedMergeTreeBlockOutputStream of 18.16.1.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from harness.sim.errors import ServerError
from harness.sim.keeper.session import KeeperSession
from harness.sim.keeper.tree import (
    CONNECTION_LOSS,
    NODE_EXISTS,
    USER_ERRORS,
    Absent,
    Check,
    Create,
    KeeperError,
    Operation,
    Remove,
)
from harness.sim.table.entries import GET, Entry, Quorum
from harness.sim.table.parts import Info, Part, Row, Rows
from harness.sim.world import MS, Future, TimedOutError

if TYPE_CHECKING:
    from harness.sim.table.replica import Table

WRITE_NS: Final = 2 * MS
"""A part of few rows, to the disk."""

Active = tuple[str, int, int]
"""What the pre-check saw of this replica: the value and version of is_active, host's version."""


def insert(
    table: "Table", rows: Sequence[Row], *, quorum: int, timeout_ms: int, deduplicate: bool
) -> None:
    """Raises ServerError; one block of rows may become several parts, one after the other."""
    zk = table.writable()
    quorum = quorum if quorum >= 2 else 0
    active = _precheck(table, zk, quorum) if quorum else None
    blocks: dict[str, list[Row]] = {}
    for row in rows:
        blocks.setdefault(table.schema.partition(row), []).append(row)
    for partition, block in blocks.items():
        ordered = tuple(sorted(block, key=table.schema.order))
        table.world.sleep(table.world.around(WRITE_NS))
        _commit(table, zk, partition, ordered, active, quorum, timeout_ms, deduplicate)


def _precheck(table: "Table", zk: KeeperSession, quorum: int) -> Active:
    live, status, active, host = zk.read(
        ("count", f"{table.path}/leader_election"),
        ("get", f"{table.path}/quorum/status"),
        ("get", f"{table.own}/is_active"),
        ("get", f"{table.own}/host"),
    )
    if (live or 0) < quorum:
        raise ServerError(
            285, f"Number of alive replicas ({live}) is less than requested quorum ({quorum})."
        )
    if status is not None:
        raise ServerError(
            286,
            f"Quorum for previous write has not been satisfied yet. Status: {status[0].part.name}",
        )
    if active is None or host is None:
        raise ServerError(164, "Replica is not active right now")
    return active[0], active[1], host[1]


def _commit(
    table: "Table",
    zk: KeeperSession,
    partition: str,
    rows: Rows,
    active: Active | None,
    quorum: int,
    timeout_ms: int,
    deduplicate: bool,
) -> None:
    block_id = block_id_of(table, partition, rows) if deduplicate else ""
    block_path = f"{table.path}/blocks/{block_id}" if deduplicate else ""
    lock = _allocate(table, zk, partition, block_path)
    if lock is None:
        return
    number, lock_path = lock
    part = Part(Info(partition, number, number), rows, table.world.now_ns)
    operations: list[Operation] = []
    if deduplicate:
        operations.append(Create(block_path, part.name))
    operations += [
        Create(f"{table.own}/parts/{part.name}", part.rows),
        Create(
            f"{table.path}/log/log-",
            Entry(GET, part.info, table.me, (), quorum, block_id),
            sequential=True,
        ),
        Remove(lock_path),
    ]
    if active is not None:
        operations += [
            Create(f"{table.path}/quorum/status", Quorum(part.info, quorum, (table.me,))),
            Check(f"{table.own}/is_active", active[1]),
            Check(f"{table.own}/host", active[2]),
        ]
    table.store(part)
    try:
        zk.multi(operations)
    except KeeperError as error:
        _refused(table, part, error, block_path, lock_path)
        return
    table.activate(part)
    if active is not None and "ack-early" not in table.bugs:
        _await_quorum(table, zk, part, active, timeout_ms)


def block_id_of(table: "Table", partition: str, rows: Rows) -> str:
    """Of the partition and the data, so that the same block has the same on every replica."""
    text = repr(rows) + (table.me if "dedup-per-replica" in table.bugs else "")
    return f"{partition}_{blake2b(text.encode(), digest_size=16).hexdigest()}"


def _allocate(
    table: "Table", zk: KeeperSession, partition: str, block_path: str
) -> tuple[int, str] | None:
    """A fresh block number, and the node that says that its insert goes on, which goes with the
    session; None: the block is a duplicate."""
    numbers = f"{table.path}/block_numbers/{partition}"
    if partition not in table.numbered:
        try:
            zk.multi((Create(numbers),))
        except KeeperError as error:
            if error.code != NODE_EXISTS:
                raise
        table.numbered[partition] = None
    checks = (Absent(block_path),) if block_path else ()
    try:
        *_, lock = zk.multi((*checks, Create(f"{numbers}/block-", "", True, True)))
    except KeeperError as error:
        if error.code == NODE_EXISTS and error.path == block_path:
            return None
        raise
    return int(lock[-10:]), lock


def _refused(
    table: "Table", part: Part, error: KeeperError, block_path: str, lock_path: str
) -> None:
    """The multi did not say yes: the part goes, unless it may have been logged all the same. Then
    18.16.1 shows it; else it is set aside until ZooKeeper has been asked."""
    if error.code == CONNECTION_LOSS:
        if "phantom-part" in table.bugs:
            table.activate(part)
        table.to_check[part.name] = lock_path
        raise ServerError(319, "Unknown status, client must retry. Reason: Connection loss")
    table.forget(part.info)
    if error.code == NODE_EXISTS and error.path == block_path and block_path:
        return
    if error.code == NODE_EXISTS and error.path == f"{table.path}/quorum/status":
        raise ServerError(286, "Another quorum insert has been already started")
    if error.code in USER_ERRORS:
        raise ServerError(
            244, f"Unexpected logical error while adding block {part.info.min}: {error}"
        )
    raise ServerError(
        244, f"Unrecoverable network error while adding block {part.info.min}: {error}"
    )


def _await_quorum(
    table: "Table", zk: KeeperSession, part: Part, active: Active, timeout_ms: int
) -> None:
    try:
        while True:
            event = Future()
            status = zk.get(f"{table.path}/quorum/status", watch=event)
            if status is None or status[0].part != part.info:
                break
            table.world.wait(event, timeout_ms * MS)
        found = zk.get(f"{table.own}/is_active")
        if found is None or found[0] != active[0]:
            raise KeeperError("Replica become inactive while waiting for quorum")
    except TimedOutError:
        raise ServerError(
            319, "Unknown status, client must retry. Reason: Timeout while waiting for quorum"
        ) from None
    except KeeperError as error:
        raise ServerError(319, f"Unknown status, client must retry. Reason: {error}") from None

"""Merges and mutations: the leader chooses them, every replica does them.

Source: ReplicatedMergeTreeMergePredicate, mergeSelectingTask, tryExecuteMerge,
tryExecutePartMutation of 18.16.1. Which neighbours are merged is simpler here.
"""

from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple
from zlib import crc32

from harness.sim.keeper.session import KeeperSession
from harness.sim.keeper.tree import Create, KeeperError
from harness.sim.table.entries import MERGE, MUTATE, Entry
from harness.sim.table.mutation import changed, current_version, desired_version
from harness.sim.table.parts import Cover, Info, Part, Rows
from harness.sim.world import MS

if TYPE_CHECKING:
    from harness.sim.table.replica import Table

MERGE_NS: Final = 10 * MS
"""Of a few small parts, median."""


class Logged(NamedTuple):
    """An entry, and its number in the log."""

    number: int
    entry: Entry


def select(table: "Table", zk: KeeperSession) -> None:
    """The leader's task: looks for parts to merge, else to mutate, as long as it leads."""
    while True:
        if "stale-leader-merges" in table.bugs and table.zk is not None:
            zk = table.zk
        elif not table.leads(zk):
            return
        try:
            with table.choosing:
                found = _choose(table, zk)
        except KeeperError:
            found = False
        if not found:
            table.world.sleep(table.settings.merge_selecting_sleep_ms * MS)


def _choose(table: "Table", zk: KeeperSession) -> bool:
    """Writes one entry into the log, if there is a merge or a mutation to be done."""
    rule = _Rule(table, zk)
    merges = table.settings.max_bytes_to_merge_at_max_space_in_pool > 1
    for partition in table.active.partitions if merges else ():
        run = rule.run(table.active.infos(partition), table.settings.parts_to_merge)
        if run:
            _log(table, zk, _merging(table, run))
            return True
    for info in [part.info for part in table.active]:
        if rule.free(info):
            version = desired_version(table, info)
            if version is not None:
                new = info._replace(mutation=version)
                _log(table, zk, Entry(MUTATE, new, table.me, (info,)))
                return True
    return False


def assign(
    table: "Table", zk: KeeperSession, partition: str | None, *, final: bool
) -> Logged | None:
    """Writes a merge into the log: of all parts of a partition, of a single one only if it is to
    be `final`; without a partition, of the first neighbours that there are. None: of none."""
    rule = _Rule(table, zk)
    if partition is None:
        runs = (rule.run(table.active.infos(one), 2) for one in table.active.partitions)
        run = next(filter(None, runs), [])
    else:
        run = table.active.infos(partition)
        if not rule.joins(run) or (len(run) == 1 and not final):
            return None
    return _log(table, zk, _merging(table, run)) if run else None


def _merging(table: "Table", run: list[Info]) -> Entry:
    new = Info(
        run[0].partition,
        run[0].min,
        run[-1].max,
        max(info.level for info in run) + 1,
        max(info.mutation for info in run),
    )
    return Entry(MERGE, new, table.me, tuple(run))


def _log(table: "Table", zk: KeeperSession, entry: Entry) -> Logged:
    (path,) = zk.multi((Create(f"{table.path}/log/log-", entry, sequential=True),))
    table.pull_now(zk)
    return Logged(int(path[-10:]), entry)


class _Rule:
    """Which neighbours may be merged: no part will ever appear between them."""

    def __init__(self, table: "Table", zk: KeeperSession) -> None:
        self._table = table
        self._before: Cover[Info] = Cover()
        for info in table.queue.virtual:
            self._before.add(info, info)
        last, status = zk.read(
            ("get", f"{table.path}/quorum/last_part"), ("get", f"{table.path}/quorum/status")
        )
        self._held: dict[Info, None] = dict.fromkeys((last[0] if last else {}).values())
        if status is not None:
            self._held[status[0].part] = None
        self._committing: dict[str, list[int]] = {}
        for partition in zk.children(f"{table.path}/block_numbers"):
            blocks = zk.children(f"{table.path}/block_numbers/{partition}")
            self._committing[partition] = [int(name[-10:]) for name in blocks]
        table.pull_now(zk)

    def free(self, info: Info) -> bool:
        """Neither in a quorum's way, nor unknown to the log, nor part of something to come."""
        virtual = self._table.queue.virtual
        return (
            info not in self._held
            and self._before.containing(info) is not None
            and virtual.containing(info) == info
        )

    def run(self, infos: list[Info], least: int) -> list[Info]:
        """The first so many neighbours, or more, up to twice as many; [] if there are none."""
        run: list[Info] = []
        for info in infos:
            if not self.free(info):
                run = run if len(run) >= least else []
                if run:
                    break
                continue
            if run and not self._adjacent(run[-1], info):
                if len(run) >= least:
                    break
                run = []
            run.append(info)
            if len(run) == 2 * least:
                break
        return run if len(run) >= least else []

    def joins(self, infos: list[Info]) -> bool:
        """Whether they may all become one."""
        near = all(self._adjacent(left, right) for left, right in pairwise(infos))
        return near and all(map(self.free, infos))

    def _adjacent(self, left: Info, right: Info) -> bool:
        low, high = left.max + 1, right.min - 1
        if current_version(self._table, left) != current_version(self._table, right):
            return False
        if low > high or "merge-gap" in self._table.bugs:
            return True
        committing = self._committing.get(left.partition, ())
        return not any(low <= number <= high for number in committing) and not (
            self._table.queue.virtual.within(left.partition, low, high)
        )


def merge(table: "Table", zk: KeeperSession, entry: Entry) -> bool:
    """Makes the merged part of local parts; False when some are not here."""
    sources: list[Part] = []
    for info in entry.parts:
        part = table.active.get(info)
        if part is None:
            return False
        sources.append(part)
    table.world.sleep(table.world.around(MERGE_NS))
    if "merge-drops" in table.bugs:
        sources = sources[:-1]
    rows = tuple(row for part in sources for row in part.rows)
    _announce(table, zk, entry, merged_rows(table, rows))
    return True


def merged_rows(table: "Table", rows: Rows) -> Rows:
    """By the table's order, and equal rows as they were: the same on every replica."""
    if "merge-order" in table.bugs:
        return tuple(sorted(rows, key=lambda row: (hash_of(table.me, row), row)))
    return tuple(sorted(rows, key=table.schema.order))


def hash_of(replica: str, row: tuple[object, ...]) -> int:
    """A number of a replica's own for each row."""
    return crc32(f"{replica}{row}".encode())


def mutate(table: "Table", zk: KeeperSession, entry: Entry) -> bool:
    """Makes the mutated part of the local one; False when that is not here."""
    part = table.active.get(entry.parts[0])
    if part is None:
        return False
    table.world.sleep(table.world.around(MERGE_NS))
    _announce(table, zk, entry, changed(table, part, entry.new.mutation))
    return True


def _announce(table: "Table", zk: KeeperSession, entry: Entry, rows: Rows) -> None:
    from harness.sim.table.fetch import commit

    part = Part(entry.new, rows, table.world.now_ns)
    table.store(part)
    commit(table, zk, part)

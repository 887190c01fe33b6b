"""Parts that could not be fetched: has anybody, dead or alive, such a part?

Source: ReplicatedMergeTreePartCheckThread::checkPart and searchForMissingPart of 18.16.1, which
also compares parts that are here with their checksums.
"""

from typing import TYPE_CHECKING, Final

from harness.sim.errors import ServerError
from harness.sim.keeper.session import KeeperSession
from harness.sim.keeper.tree import KeeperError
from harness.sim.table.parts import Info, info_of
from harness.sim.world import SECOND, Future

if TYPE_CHECKING:
    from harness.sim.table.replica import Table

ERROR_SLEEP_NS: Final = 5 * SECOND
"""PART_CHECK_ERROR_SLEEP_MS."""


class Missing:
    """Those of one table of one replica that are yet to be looked for."""

    def __init__(self, table: "Table") -> None:
        self._table = table
        self._parts: dict[Info, None] = {}
        self._more = Future()

    def __len__(self) -> int:
        return len(self._parts)

    def add(self, part: Info) -> None:
        """To be looked for as soon as may be."""
        self._parts[part] = None
        self._more.set()

    def search(self) -> None:
        """The task, for ever."""
        table = self._table
        while not table.dropped:
            if not self._parts:
                self._more = Future()
                table.world.wait(self._more)
            part = next(iter(self._parts))
            try:
                if part.name not in table.parts and table.active.containing(part) is None:
                    self._look(table.writable(), part)
            except (KeeperError, ServerError):
                table.world.sleep(ERROR_SLEEP_NS)
                continue
            del self._parts[part]

    def _look(self, zk: KeeperSession, part: Info) -> None:
        """What ZooKeeper says is here is fetched again. What nobody has, nor the parts at both of
        its ends, of which a merge would make it, is lost for ever: nothing waits for it."""
        table = self._table
        if zk.exists(f"{table.own}/parts/{part.name}"):
            table.queue.fetch_again(zk, part)
            return
        first = last = False
        for replica in zk.children(f"{table.path}/replicas"):
            for other in map(info_of, zk.children(f"{table.path}/replicas/{replica}/parts")):
                if other.contains(part):
                    return
                if part.contains(other):
                    first = first or other.min == part.min
                    last = last or other.max == part.max
            if first and last:
                return
        table.queue.give_up(zk, part)

"""One ClickHouse server: its tables, its session, and the queries that it answers."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from zlib import crc32

from harness.sim.errors import ServerError, keeper_trouble
from harness.sim.keeper.messages import Ensemble
from harness.sim.keeper.server import KeeperServer
from harness.sim.keeper.session import KeeperSession
from harness.sim.keeper.tree import KeeperError
from harness.sim.network import Network
from harness.sim.sql import parsed, rows_of, schema_of, settings_of
from harness.sim.system_tables import system_rows, undone
from harness.sim.table import mutation
from harness.sim.table.fetch import FETCH_NS
from harness.sim.table.insert import insert
from harness.sim.table.optimize import optimize
from harness.sim.table.parts import Info, Row
from harness.sim.table.replica import Table, TableDisk
from harness.sim.table.schema import Schema
from harness.sim.table.select import READINGS, visible
from harness.sim.table.settings import TableSettings
from harness.sim.world import MS, SECOND, Future, Process, World

READ_NS: Final = 6 * MS
"""Parsing, planning and reading a few rows, median."""
START_NS: Final = 600 * MS
"""From the start of the process to its first query."""
NO_KEEPER_SLEEP_NS: Final = SECOND


class ServerDisk:
    """What a server keeps over its lives."""

    def __init__(self) -> None:
        self.tables: dict[str, TableDisk] = {}
        self.lives = 0
        self.fetch_ns = FETCH_NS
        """Of a small part, read, sent and written; median."""


class Server:
    """One life of it."""

    def __init__(
        self,
        node: str,
        disk: ServerDisk,
        ensemble: Ensemble,
        keepers: Sequence[str],
        lives: Mapping[str, KeeperServer],
        defaults: TableSettings,
        reading: str,
    ) -> None:
        """`defaults` of its tables; `reading`: what a sequentially consistent select means."""
        disk.lives += 1
        self.node = node
        self.disk = disk
        self.world: World = ensemble.world
        self.network: Network = ensemble.network
        self.bugs = ensemble.bugs
        self.process = Process(node)
        self.identity = f"{node}-{disk.lives}"
        self.answers = False
        """Whether it takes queries: it has started."""
        self.tables: dict[str, Table] = {}
        self.peers: dict[str, Server] = {}
        self._ensemble = ensemble
        self._keepers = tuple(keepers)
        self._lives = lives
        self._defaults = defaults
        self._reading = reading
        self._session: KeeperSession | None = None
        self._running: dict[Future, None] = {}
        """Queries without an answer."""

    def begin(self, peers: dict[str, "Server"]) -> None:
        """Starts; `peers` always holds the present life of every server."""
        self.peers = peers
        self.world.spawn(self._start, of=self.process)

    def _start(self) -> None:
        self.world.sleep(self.world.around(START_NS))
        # With tables, 18.16.1 does not start without ZooKeeper.
        while self.disk.tables:
            try:
                zk = self.keeper()
                for disk in self.disk.tables.values():
                    self.tables[disk.name] = Table(self, disk)
                    self.tables[disk.name].attach(zk)
                break
            except KeeperError:
                self.tables.clear()
                self.world.sleep(NO_KEEPER_SLEEP_NS)
        for table in self.tables.values():
            self.world.spawn(table.live, of=self.process)
        self.answers = True

    def keeper(self) -> KeeperSession:
        """The server's session, or a new one through a random server of its list, which all its
        tables share. Raises KeeperError."""
        if self._session is None or not self._session.alive:
            name = self._keepers[self.world.below(len(self._keepers))]
            number = self._ensemble.fresh_session()
            session = KeeperSession(
                self.node, self.process, self._ensemble, self._lives[name], number
            )
            self._session = session
            session.open()
        return self._session

    @property
    def session(self) -> KeeperSession | None:
        """The one that it has, alive or not."""
        return self._session

    def stop(self) -> None:
        """SIGTERM: the session is closed, so that its ephemeral nodes go at once."""
        if self._session is not None:
            self._session.close()
        self.die()

    def die(self) -> None:
        """SIGKILL."""
        if self._session is not None:
            server = self._session.server
            self.network.send(
                self.node, server.name, server.process, server.disconnect, self._session.session
            )
        self.world.kill(self.process)
        for future in list(self._running):
            future.fail(ConnectionResetError("the server ended"))

    # --- replicas among themselves ----------------------------------------------------------

    def serve_part(
        self, name: str, info: Info, future: Future, asker: "Server", fetch_ns: int
    ) -> None:
        """Sends a part's rows; None when it is not here."""
        table = self.tables.get(name)
        part = None if table is None else table.parts.get(info.name)
        self.network.send(
            self.node,
            asker.node,
            asker.process,
            future.set,
            None if part is None else part.rows,
            took_ns=self.world.around(fetch_ns),
        )

    # --- queries ----------------------------------------------------------------------------

    def ask(
        self, future: Future, sql: str, rows: Sequence[Any] | None, settings: Mapping[str, Any]
    ) -> None:
        """Begins a query; the future gets its rows, or ServerError."""
        self._running[future] = None
        self.world.spawn(self._answer, future, sql, rows, settings, of=self.process)

    def _answer(
        self, future: Future, sql: str, rows: Sequence[Any] | None, settings: Mapping[str, Any]
    ) -> None:
        try:
            result = (
                self._query(sql, settings) if rows is None else self._insert(sql, rows, settings)
            )
        except KeeperError as error:
            future.fail(keeper_trouble(error))
        except ServerError as error:
            future.fail(error)
        else:
            future.set(result)
        self._running.pop(future, None)

    def table(self, name: str) -> Table:
        """Raises ServerError 60."""
        if name not in self.tables:
            raise ServerError(60, f"Table {name} doesn't exist.")
        return self.tables[name]

    def _insert(
        self, sql: str, rows: Sequence[Any], settings: Mapping[str, Any]
    ) -> list[tuple[Any, ...]]:
        words = sql.split()
        if len(words) < 4 or words[0].upper() != "INSERT" or words[-1].upper() != "VALUES":
            raise ServerError(62, f"Syntax error: the simulated server does not know: {sql}")
        return self._put(words[2], [tuple(row) for row in rows], settings)

    def _put(
        self, table: str, rows: Sequence[Row], settings: Mapping[str, Any]
    ) -> list[tuple[Any, ...]]:
        insert(
            self.table(table),
            rows,
            quorum=int(settings.get("insert_quorum", 0)),
            timeout_ms=int(settings.get("insert_quorum_timeout", 600_000)),
            deduplicate=bool(int(settings.get("insert_deduplicate", 1))),
        )
        return []

    def _query(self, sql: str, settings: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        kind, words = parsed(sql)
        if kind == "select":
            return self._select(words, settings)
        if kind == "groups":
            return self._groups(words, settings)
        if kind == "insert":
            return self._put(words["table"] or "", rows_of(words), settings)
        if kind == "hashes":
            active = self.table(words["table"] or "").active
            return [(p.name, len(p.rows), crc32(repr(sorted(p.rows)).encode())) for p in active]
        if kind == "mutations to do":
            return [(len(undone(self, words["database"] or "")),)]
        if kind == "mutations undone":
            return undone(self, words["database"] or "")
        if kind == "create table":
            self._create(words)
        elif kind == "drop table":
            self._drop(lambda name: name == words["table"])
        elif kind == "drop database":
            self._drop(lambda name: name.partition(".")[0] == words["database"])
        elif kind == "mutate":
            mutation.order(self.table(words["table"] or ""), words["change"] or "")
        elif kind == "optimize":
            self._optimize(sql, words, settings)
        elif kind == "system":
            for table in self.tables.values():
                if words["table"] in (None, table.name):
                    table.fetches_stopped = (words["verb"] or "").upper() == "STOP"
                    table.queue.wake()
        return []

    def _select(
        self, words: Mapping[str, str | None], settings: Mapping[str, Any]
    ) -> list[tuple[Any, ...]]:
        name, what, where = words["table"] or "", words["what"] or "", words["where"]
        if not name:
            return [(int(what),)]
        if name.startswith("system."):
            return system_rows(self, name.removeprefix("system."), what, where or "")
        table = self.table(name)
        self.world.sleep(self.world.around(READ_NS))
        reading = "plain"
        if int(settings.get("select_sequential_consistency", 0)):
            reading = str(settings.get("sequential_reading", self._reading))
            if reading not in READINGS:
                raise ServerError(36, f"sequential_reading {reading}: unknown")
        parts = visible(table, reading)
        if "_part" in what:
            return [
                (*row, part.name)
                for part in parts
                for row in _selected(table.schema, what.replace(", _part", ""), where, part.rows)
            ]
        return _selected(table.schema, what, where, [row for p in parts for row in p.rows])

    def _groups(
        self, words: Mapping[str, str | None], settings: Mapping[str, Any]
    ) -> list[tuple[Any, ...]]:
        """For each value of a column how many rows have it, and another column of one of them."""
        rows = self._select({**words, "what": f"{words['what']}, {words['any']}"}, settings)
        counts = Counter(value for value, _ in rows)
        some = dict(rows)
        return [(value, counts[value], some[value]) for value in sorted(counts)]

    def _create(self, words: Mapping[str, str | None]) -> None:
        name = words["table"] or ""
        if name in self.tables:
            return
        disk = TableDisk(
            name, words["path"] or "", schema_of(words), settings_of(words, self._defaults)
        )
        table = Table(self, disk)
        table.create(self.keeper())
        self.disk.tables[name] = disk
        self.tables[name] = table
        self.world.spawn(table.live, of=self.process)
        while table.readonly:
            self.world.sleep(5 * MS)

    def _drop(self, wanted: Any) -> None:
        for name in [name for name in self.tables if wanted(name)]:
            self.tables.pop(name).dropped = True
            self.disk.tables.pop(name)

    def _optimize(
        self, sql: str, words: Mapping[str, str | None], settings: Mapping[str, Any]
    ) -> None:
        """A replica that does not lead asks the one that does."""
        table = self.table(words["table"] or "")
        zk = table.writable()
        if table.leader:
            wait = int(settings.get("replication_alter_partitions_sync", 1)) != 0
            final = words["final"] is not None
            optimize(table, words["partition"], final=final, wait=wait)
            return
        election = f"{table.path}/leader_election"
        line = zk.children(election)
        if not line:
            raise ServerError(254, "No active replicas")
        leader = zk.data(f"{election}/{line[0]}")
        if leader == self.node:
            raise ServerError(292, "Leader was suddenly changed or logical error.")
        self._forward(self.peers[leader], sql, settings)

    def _forward(self, peer: "Server", sql: str, settings: Mapping[str, Any]) -> None:
        """Raises what the peer answers, and ServerError 210 when its process ends."""
        answer = Future()
        if not peer.process.alive:
            raise ServerError(210, f"Connection refused by {peer.node}")
        self.network.send(
            self.node, peer.node, peer.process, peer.ask_for, self, answer, sql, settings
        )
        self.world.wait(answer)

    def ask_for(
        self, asker: "Server", answer: Future, sql: str, settings: Mapping[str, Any]
    ) -> None:
        """Begins a query of another server's."""
        future = Future()
        self.ask(future, sql, None, settings)
        self.world.spawn(self._pass_on, asker, answer, future)

    def _pass_on(self, asker: "Server", answer: Future, future: Future) -> None:
        act: Callable[[Any], None] = answer.fail
        try:
            result, act = self.world.wait(future), answer.set
        except ConnectionResetError:
            result = ServerError(210, f"Connection reset by {self.node}")
        except ServerError as error:
            result = error
        self.network.send(self.node, asker.node, asker.process, act, result)


def _selected(
    schema: Schema, what: str, where: str | None, rows: Sequence[tuple[Any, ...]]
) -> list[tuple[Any, ...]]:
    found = schema.matching(where, rows) if where else rows
    columns = [column.strip() for column in what.split(",")]
    if columns == ["count()"]:
        return [(len(found),)]
    places = [schema.at(column) for column in columns]
    if len(places) == 1:
        at = places[0]
        return [(row[at],) for row in found]
    return [tuple(row[at] for at in places) for row in found]

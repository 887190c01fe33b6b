"""The explorer's model `quorum` by protocol once more, in plain Python with sets and tuples."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.sim_naive import put, search

NOTHING = frozenset[int]()


class Server(NamedTuple):
    """A replica. Records count from 1; 0 is none."""

    active: bool = True
    checked: bool = False
    parts: frozenset[int] = NOTHING
    ghosts: frozenset[int] = NOTHING
    joined: frozenset[int] = NOTHING
    doubt: int = 0
    kept: bool = False
    fetching: int = 0
    joining: tuple[int, int] = (0, 0)
    """The quorum whose status it has read, and the number of replicas in it."""
    merged: bool = False
    reading: tuple[Any, ...] | None = None
    """Ended records, last_part, limit, parts taken and merged, of a select in progress."""


class Table(NamedTuple):
    """What all agree on, and the replicas."""

    states: tuple[str, ...]
    servers: tuple[Server, ...]
    last: int = 0
    merge: int = 0
    seen: frozenset[int] = NOTHING
    broken: frozenset[str] = NOTHING
    """Claims that the last step, a select, broke."""

    def are(self, *states: str) -> frozenset[int]:
        return frozenset(i for i, state in enumerate(self.states, 1) if state in states)

    def counted(self, record: int) -> int:
        return sum(record in s.joined for s in self.servers)

    def shown(self, server: Server) -> frozenset[int]:
        temporary = self.are("numbered") | {server.doubt}
        return server.parts - (temporary - {server.doubt} if server.kept else temporary)

    def marked(self, record: int, state: str) -> "Table":
        servers = self.servers
        if state != "pending":
            servers = tuple(s._replace(joined=s.joined - {record}) for s in servers)
        return self._replace(states=put(self.states, record - 1, state), servers=servers)

    def to(self, at: int, **changes: Any) -> "Table":
        return self._replace(servers=put(self.servers, at, self.servers[at]._replace(**changes)))


def quorum_of(
    protocol: tuple[frozenset[str], frozenset[str]],
    replicas: int,
    records: int,
    read: str,
    *,
    quorum: int = 2,
    parallel: bool = False,
) -> tuple[int, int]:
    """Explore the model by a protocol: its mechanisms and its defects."""
    rules = Rules(*protocol, read, quorum, parallel)

    def steps(table: Table) -> Iterator[Table]:
        table = table._replace(broken=NOTHING)
        for at, server in enumerate(table.servers):
            if not server.active:
                yield from rules.back(table, at, server)
                continue
            for does in (rules.inserts, rules.merges, rules.fetches, rules.joins, rules.selects):
                yield from does(table, at, server)

    return search(Table(("unused",) * records, (Server(),) * replicas), steps)


class Rules(NamedTuple):
    """The steps of one replica."""

    mechanisms: frozenset[str]
    defects: frozenset[str]
    read: str
    quorum: int
    parallel: bool

    def back(self, table: Table, at: int, server: Server) -> Iterator[Table]:
        failed = server.parts & table.are("failed")
        kept = "failed-part-kept" in self.defects
        after = table.to(at, checked=True, parts=server.parts - (NOTHING if kept else failed))
        if after != table:
            yield after
        if server.checked and (not failed or kept or "failed-part-missed" in self.defects):
            yield table.to(at, active=True, checked=False)

    def inserts(self, table: Table, at: int, server: Server) -> Iterator[Table]:
        yield self.session_lost(table, at, server)
        if "unused" in table.states:
            free = table.states.index("unused") + 1
            yield table.marked(free, "numbered").to(at, parts=server.parts | {free})
        for record in server.parts & table.are("numbered"):
            if self.parallel or not table.are("pending"):
                after = table.marked(record, "pending")
                after = after.to(at, joined=server.joined | {record})
                if record == server.doubt and server.kept:
                    after = after.to(at, doubt=0, kept=False)
                yield after
            if not server.doubt:
                kept = "phantom-part" in self.defects and "insert-retries" not in self.mechanisms
                yield table.to(at, doubt=record, kept=kept)
        if server.doubt and not server.kept:
            yield from self.unanswered(table, at, server)

    def session_lost(self, table: Table, at: int, server: Server) -> Table:
        parts, after, changes = server.parts, table, dict[str, Any]()
        for record in server.parts & table.are("numbered"):
            after = after.marked(record, "gone")
            if record != server.doubt:
                parts -= {record}
            elif server.kept:
                changes = {"doubt": 0, "kept": False}
        return after.to(
            at, active=False, parts=parts, fetching=0, joining=(0, 0), reading=None, **changes
        )

    def unanswered(self, table: Table, at: int, server: Server) -> Iterator[Table]:
        record = server.doubt
        state = table.states[record - 1]
        committed = state in ("pending", "ended")
        gone = table.marked(record, "gone") if state == "numbered" else table
        gone = gone.to(at, doubt=0, parts=server.parts - {record})
        yield table.to(at, doubt=0) if committed else gone
        if "insert-retries" in self.mechanisms and "phantom-part" in self.defects:
            still = state == "numbered"
            yield table.to(at, kept=True) if still else table.to(at, doubt=0)
        if "lost-retry" in self.defects:
            yield gone.to(at, ghosts=server.ghosts | {record}) if committed else gone

    def merges(self, table: Table, at: int, server: Server) -> Iterator[Table]:
        for high in range(1, len(table.states) + 1):
            below = frozenset(range(1, high + 1))
            sources = table.are("ended") & below
            whole = server.parts & below == sources and server.doubt not in below
            if table.merge == high and whole and not server.merged:
                yield table.to(at, merged=True)
            spared = table.last > high or not table.last or "merged-away" in self.defects
            closed = not table.are("numbered", "pending") & below
            several = len(sources) > 1 and high in sources
            if not table.merge and whole and spared and closed and several:
                yield table._replace(merge=high).to(at, merged=True)

    def fetches(self, table: Table, at: int, server: Server) -> Iterator[Table]:
        for record in server.ghosts:
            yield table.to(at, ghosts=server.ghosts - {record})
        for record in table.are("pending", "ended") - server.ghosts - server.parts:
            if record == server.fetching:
                continue
            others = [s for s in table.servers if s.active]
            if not server.fetching and any(record in table.shown(s) for s in others):
                yield table.to(at, fetching=record)
            listed = any(record in s.parts | s.ghosts | s.joined for s in others)
            if table.states[record - 1] == "pending" and not listed:
                yield table.marked(record, "failed")
        if server.fetching:
            failed = server.fetching in table.are("failed")
            keeps = not failed or "failed-part-fetched" in self.defects
            got = {server.fetching} if keeps else NOTHING
            yield table.to(at, fetching=0, parts=server.parts | got)

    def joins(self, table: Table, at: int, server: Server) -> Iterator[Table]:
        uncounted = "quorum-uncounted" in self.defects
        for record in table.are("pending") - server.ghosts:
            own = record in table.shown(server) - server.joined
            if server.joining[0] == 0 and (own or (uncounted and record in server.parts)):
                yield table.to(at, joining=(record, table.counted(record)))
        record, counted = server.joining
        if not record:
            return
        after = table.to(at, joining=(0, 0))
        completes = counted + 1 >= self.quorum or uncounted
        same = [i for i in table.are("pending") if table.counted(i) == counted]
        aba = "quorum-aba" in self.defects and completes and not self.parallel
        if not aba and record not in same:
            same = []
        if not same:
            yield after
        elif not completes:
            yield after.to(at, joined=server.joined | {record})
        else:
            after = after.marked(same[0] if aba else record, "ended")
            yield after if self.parallel else after._replace(last=self.last(table.last, record))

    def last(self, before: int, now: int) -> int:
        if "last-part-late" in self.defects or not before:
            return now
        return min(before, now) if "last-part-back" in self.defects else max(before, now)

    def selects(self, table: Table, at: int, server: Server) -> Iterator[Table]:
        early = "early-snapshot" in self.defects
        if server.reading is not None:
            answer = self.answer(table, server, *server.reading[2:])
            done = table.to(at, reading=None)
            yield done if answer is None else judged(done, answer, *server.reading[:2])
        if any(s.reading is not None for s in table.servers):
            return
        ended, last = table.are("ended"), table.last
        if early:
            taken = (ended, last, 0, table.shown(server), server.merged)
        elif self.read == "linearizable":
            answer = self.answer(table, server, 0, NOTHING, False)
            if answer is not None:
                yield judged(table, answer, ended, last)
            return
        else:
            limit = self.limit(table, server)
            if limit is None:
                return
            taken = (ended, last, limit, NOTHING, False)
        yield table.to(at, reading=taken)

    def answer(
        self, table: Table, server: Server, limit: int | None, taken: frozenset[int], merged: bool
    ) -> frozenset[int] | None:
        early = "early-snapshot" in self.defects
        shown = table.shown(server)
        if self.read == "linearizable":
            if table.are("ended") - shown:
                return None
            return taken - table.are("pending", "failed") if early else table.are("ended")
        if early:
            limit = self.limit(table, server)
        else:
            taken, merged = shown, server.merged
        if limit is None:
            return None
        hidden = table.merge if merged and table.merge > limit else 0
        return frozenset(i for i in taken if hidden < i <= limit)

    def limit(self, table: Table, server: Server) -> int | None:
        shown = table.shown(server)
        if table.last:
            return table.last if table.last in shown else None
        if table.are("pending") and not self.parallel:
            return min(table.are("pending")) - 1
        return max(shown, default=0)


def judged(table: Table, answer: frozenset[int], ended: frozenset[int], last: int) -> Table:
    """Return the table after a select, with the claims that it breaks."""
    missing = {
        "reads-of-ended": answer - table.are("ended"),
        "reads-are-recent": ended - answer,
        "reads-in-order": table.seen - answer,
        "reads-have-last": frozenset({last} - {0}) - answer,
    }
    broken = frozenset(name for name, records in missing.items() if records)
    return table._replace(seen=table.seen | answer, broken=broken)

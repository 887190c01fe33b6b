"""One ZooKeeper server: elections, broadcast of the log, local reads, watches.

The broadcast is Zab's (Junqueira, Reed, Serafini, "Zab: High-performance broadcast for
primary-backup systems", DSN 2011): a leader of a new epoch is promised a majority, brings its
followers to its own log, and then commits what a majority has on its disk. The election is one
round of votes in place of ZooKeeper's several; its outcome is the same, the server with the
longest log among a majority.
"""

from collections.abc import Callable
from typing import Any, Final

from harness.sim.keeper.clients import Clients
from harness.sim.keeper.messages import (
    FSYNC_NS,
    SESSIONS,
    SYNC_LIMIT,
    TICK_NS,
    Disk,
    Ensemble,
    Listener,
    Request,
    Txn,
    Zxid,
)
from harness.sim.keeper.tree import (
    GONE,
    SESSION_EXPIRED,
    Change,
    Create,
    KeeperError,
    Tree,
)
from harness.sim.world import MS, SECOND, Process

VOTE_NS: Final = 200 * MS
"""Between two votes of a server that looks for a leader (finalizeWait)."""
JOIN_NS: Final = 2 * SECOND
"""Until a candidate, or who joined one, looks again."""
UNSYNCED_NS: Final = SECOND

LOOKING, JOINING, FOLLOWING, LEADING = "looking", "joining", "following", "leading"


class KeeperServer:
    """One life of a server. Its disk outlives it."""

    def __init__(self, name: str, ensemble: Ensemble, disk: Disk, rate: float = 1.0) -> None:
        """`rate`: how fast its clock goes; timers of a slow one, below 1, come late."""
        self.name = name
        self.disk = disk
        self.process = Process(name)
        self.role = LOOKING
        self.epoch = 0
        self.leader: str | None = None
        self.serves = False
        """Whether clients are answered: it leads or follows, and its log is the leader's."""
        self._ensemble = ensemble
        self._world = ensemble.world
        self._peers: dict[str, KeeperServer] = {}
        self._tick_ns = round(TICK_NS / rate)
        self._since_ns = self._world.now_ns
        self._ticked_ns = self._world.now_ns
        """When it last looked at the time."""
        self._votes: dict[str, tuple[int, Zxid, int]] = {}
        """By peer: when, its last zxid, the epoch that it promised."""
        self._heard_ns: dict[str, int] = {}
        """When each peer was last heard of in this role."""
        self._acked: dict[str, int] = {}
        """Leading: how many entries each follower, and itself, has on its disk."""
        self._ready: dict[str, None] = {}
        """Leading: the followers that were told to serve."""
        self._committed = 0
        """How many entries are known to be committed."""
        self._activated_at = 0
        self._planned: Tree | None = None
        """Leading: the tree with everything that is proposed."""
        self._syncs: list[tuple[int, Request]] = []
        """Leading: syncs that wait until so many entries are committed."""
        self._seen: dict[int, int] = {}
        """Leading: when each session was last heard of. Following: those heard of since."""
        self._clients = Clients(name, ensemble, disk, self._forward)

    def skew(self, rate: float) -> None:
        """From now on its clock goes so fast."""
        self._tick_ns = round(TICK_NS / rate)

    def begin(self, peers: dict[str, "KeeperServer"]) -> None:
        """Starts; `peers` always holds the present life of every server, this one included."""
        self._peers = peers
        self._look()
        self._tick()

    # --- messages ---------------------------------------------------------------------------

    def _tell(
        self,
        peer: str,
        act: Callable[..., object],
        *args: Any,
        took_ns: int = 0,
    ) -> None:
        """`act` is a method of the peer's."""
        target = self._peers[peer]
        self._ensemble.network.send(
            self.name, peer, target.process, act, target, *args, took_ns=took_ns
        )

    def _others(self) -> list[str]:
        return [name for name in self._ensemble.names if name != self.name]

    def peer_gone(self, peer: str) -> None:
        """The connection to a peer was reset, for its process ended."""
        self._heard_ns.pop(peer, None)
        self._votes.pop(peer, None)
        self._acked.pop(peer, None)
        self._ready.pop(peer, None)
        if self.leader == peer and self.role in (JOINING, FOLLOWING):
            self._look()

    # --- time -------------------------------------------------------------------------------

    def _tick(self) -> None:
        now = self._world.now_ns
        patience = SYNC_LIMIT * self._tick_ns
        if self.role == LEADING:
            near = [p for p in self._acked if now - self._heard_ns.get(p, 0) <= patience]
            if len({*near, self.name}) < self._ensemble.majority:
                self._look()
            else:
                for peer in self._acked:
                    if peer != self.name:
                        self._tell(peer, KeeperServer.on_ping, self.name, self.epoch)
                self._expire(now)
        elif self.role == FOLLOWING:
            if now - self._heard_ns.get(self.leader or "", 0) > patience:
                self._look()
        elif self.role == JOINING and now - self._since_ns > JOIN_NS:
            self._look()
        self._ticked_ns = now
        self._world.after(self._tick_ns // 2, self._tick, of=self.process)

    def on_ping(self, leader: str, epoch: int) -> None:
        """From the leader; answered with the sessions that were heard of."""
        if self.role == FOLLOWING and leader == self.leader and epoch == self.epoch:
            self._heard_ns[leader] = self._world.now_ns
            seen, self._seen = tuple(self._seen), {}
            self._tell(leader, KeeperServer.on_pong, self.name, epoch, seen)

    def on_pong(self, follower: str, epoch: int, seen: tuple[int, ...]) -> None:
        """From a follower."""
        if self.role == LEADING and epoch == self.epoch:
            self._heard_ns[follower] = self._world.now_ns
            self._seen.update(dict.fromkeys(seen, self._world.now_ns))

    def _expire(self, now: int) -> None:
        """Closes the sessions that were silent for their time."""
        if self._planned is None or not self.serves or "session-immortal" in self._ensemble.bugs:
            return
        # While it is paused a leader cannot end a session.
        stood_ns = max(0, now - self._ticked_ns - self._tick_ns)
        for name in self._planned.children(SESSIONS) if SESSIONS in self._planned.nodes else ():
            session = int(name)
            node = self._planned.nodes[f"{SESSIONS}/{name}"]
            silent_ns = now - self._seen.setdefault(session, now)
            if silent_ns > node.data:
                self._ensemble.record.session_ended(now, silent_ns - stood_ns, node.data)
                self._propose(Request(self.name, session, -1, "close", ()))

    def sessions(self) -> list[tuple[int, int]]:
        """Of a leader's open sessions: how long each is silent, and how long it may be, in ns."""
        tree, now = self.disk.tree, self._world.now_ns
        names = tree.children(SESSIONS) if SESSIONS in tree.nodes else []
        allowed = {int(name): tree.nodes[f"{SESSIONS}/{name}"].data for name in names}
        return [(now - self._seen.get(s, now), most) for s, most in allowed.items()]

    # --- election ---------------------------------------------------------------------------

    def _look(self) -> None:
        self._clients.close_all()
        self.role, self.leader, self.serves = LOOKING, None, False
        self._since_ns = self._world.now_ns
        self._votes.clear()
        self._acked.clear()
        self._ready.clear()
        self._syncs.clear()
        self._planned = None
        self._world.after(0, self._vote, self._since_ns, of=self.process)

    def _vote(self, since_ns: int) -> None:
        if self.role != LOOKING or since_ns != self._since_ns:
            return
        now = self._world.now_ns
        for peer in self._others():
            self._tell(peer, KeeperServer.on_vote, self.name, self.disk.last, self.disk.accepted)
        fresh = {
            peer: (last, accepted)
            for peer, (at, last, accepted) in self._votes.items()
            if now - at <= 2 * VOTE_NS
        }
        mine = (self.disk.last, self.name)
        wins = all(mine > (last, peer) for peer, (last, _) in fresh.items())
        many = len(fresh) + 1 >= len(self._ensemble.names) // 2 + 1
        if wins and many and now - since_ns >= VOTE_NS:
            self._stand(max([self.disk.accepted, *(a for _, a in fresh.values())]) + 1)
            return
        self._world.after(VOTE_NS, self._vote, since_ns, of=self.process)

    def on_vote(self, peer: str, last: Zxid, accepted: int) -> None:
        """From a server that looks for a leader."""
        self._votes[peer] = (self._world.now_ns, last, accepted)
        if self.role == LEADING and self.leader == self.name:
            if accepted > self.epoch:
                self._look()
            else:
                self._tell(peer, KeeperServer.on_lead, self.name, self.epoch, (1 << 62, 0))

    def _stand(self, epoch: int) -> None:
        """Asks for the promise of the others."""
        self.role, self.leader, self.epoch = JOINING, self.name, epoch
        self.disk.accepted = epoch
        self._since_ns = self._world.now_ns
        self._acked = {self.name: len(self.disk.log)}
        self._heard_ns = {}
        self._joined: dict[str, int] = {}
        for peer in self._others():
            self._tell(peer, KeeperServer.on_lead, self.name, epoch, self.disk.last)
        self._lead_if_joined()

    def on_lead(self, candidate: str, epoch: int, last: Zxid) -> None:
        """From a candidate, or from a leader that heard that this server looks for one."""
        if self.role != LOOKING or epoch < self.disk.accepted:
            return
        if (self.disk.last, self.name) > (last, candidate):
            return
        self.role, self.leader, self.epoch = JOINING, candidate, epoch
        self.disk.accepted = epoch
        self._since_ns = self._world.now_ns
        self._tell(
            candidate, KeeperServer.on_join, self.name, epoch, self.disk.applied, took_ns=FSYNC_NS
        )

    def on_join(self, peer: str, epoch: int, applied: int) -> None:
        """From a server that promised to follow."""
        if epoch != self.epoch or self.leader != self.name:
            return
        self._heard_ns[peer] = self._world.now_ns
        if self.role == LEADING:
            self._sync(peer)
        else:
            self._joined[peer] = applied
            self._lead_if_joined()

    def _lead_if_joined(self) -> None:
        if self.role == JOINING and len(self._joined) + 1 >= len(self._ensemble.names) // 2 + 1:
            self.role = LEADING
            self._committed = self.disk.applied
            self._activated_at = len(self.disk.log)
            for peer in self._joined:
                self._sync(peer)
            self._commit_what_is_acked()

    def _sync(self, peer: str) -> None:
        """Gives a follower the whole log; proposals follow on the same wire."""
        self._acked[peer] = 0
        self._ready.pop(peer, None)
        self._tell(peer, KeeperServer.on_sync, self.name, self.epoch, list(self.disk.log))

    def on_sync(self, leader: str, epoch: int, log: list[Txn]) -> None:
        """The leader's log takes the place of this server's own."""
        if self.role == JOINING and leader == self.leader and epoch == self.epoch:
            self.role = FOLLOWING
            self._heard_ns = {leader: self._world.now_ns}
            self._adopt(log)
            self._seen = {}
            self._tell(leader, KeeperServer.on_ack, self.name, epoch, len(log), took_ns=FSYNC_NS)

    def _adopt(self, log: list[Txn]) -> None:
        disk, at = self.disk, self.disk.applied
        if at and (at > len(log) or log[at - 1].zxid != disk.log[at - 1].zxid):
            # Never, unless a planted bug lost what was committed: the tree is made again.
            disk.tree, disk.applied = Tree(), 0
        disk.log = log
        self._committed = disk.applied

    # --- broadcast --------------------------------------------------------------------------

    def on_request(self, request: Request) -> None:
        """From a follower, or from this leader's own clients."""
        if self.role != LEADING or not self.serves:
            return
        if request.kind == "sync":
            if self._committed < len(self.disk.log):
                self._syncs.append((len(self.disk.log), request))
            else:
                self._synced(request)
        else:
            self._propose(request)

    def _propose(self, request: Request) -> None:
        assert self._planned is not None, "a leader that serves has its plans"
        answer: Any
        changes: list[Change] = []
        try:
            changes, answer = self._changes(request, self._planned)
        except KeeperError as error:
            answer = error
        txn = Txn(
            (self.epoch, len(self.disk.log)),
            request.origin,
            request.session,
            request.xid,
            tuple(changes),
            answer,
            self._world.now_ns,
        )
        self.disk.log.append(txn)
        count = len(self.disk.log)
        for peer in self._acked:
            if peer != self.name:
                self._tell(peer, KeeperServer.on_propose, self.name, self.epoch, count, txn)
        self._world.after(
            self._world.around(FSYNC_NS),
            self.on_ack,
            self.name,
            self.epoch,
            count,
            of=self.process,
        )

    def _changes(self, request: Request, tree: Tree) -> tuple[list[Change], Any]:
        path = f"{SESSIONS}/{request.session}"
        if request.kind == "open":
            self._seen[request.session] = self._world.now_ns
            missing = [p for p in ("/zookeeper", SESSIONS) if p not in tree.nodes]
            timeout = request.operations[0]
            assert isinstance(timeout, Create), "a session opens with its node"
            return tree.planned([*(Create(p) for p in missing), timeout], request.session)
        if path not in tree.nodes:
            raise KeeperError(SESSION_EXPIRED)
        if request.kind == "close":
            gone = [*tree.owned.get(request.session, {}), path]
            changes: list[Change] = [(p, GONE, None) for p in gone]
            tree.apply(changes)
            return changes, None
        return tree.planned(request.operations, request.session)

    def on_propose(self, leader: str, epoch: int, count: int, txn: Txn) -> None:
        """From the leader: to the log, and on the disk."""
        if self.role == FOLLOWING and leader == self.leader and epoch == self.epoch:
            assert count == len(self.disk.log) + 1, "the wire keeps order"
            self.disk.log.append(txn)
            took = self._world.around(FSYNC_NS)
            self._tell(leader, KeeperServer.on_ack, self.name, epoch, count, took_ns=took)

    def on_ack(self, peer: str, epoch: int, count: int) -> None:
        """A server has so many entries on its disk."""
        if self.role != LEADING or epoch != self.epoch or peer not in self._acked:
            return
        self._heard_ns[peer] = self._world.now_ns
        self._acked[peer] = max(self._acked[peer], count)
        late = count <= self._committed and self.serves
        if not late or (peer != self.name and peer not in self._ready):
            self._commit_what_is_acked()

    def _commit_what_is_acked(self) -> None:
        counts = sorted(self._acked.values(), reverse=True)
        majority = self._ensemble.majority
        committed = counts[majority - 1] if len(counts) >= majority else 0
        if committed < self._activated_at or committed < self._committed:
            return
        before, self._committed = self._committed, committed
        if not self.serves or committed > before:
            if not self.serves:
                self._apply(committed)
                self._planned = self.disk.tree.copy()
                for txn in self.disk.log[committed:]:
                    self._planned.apply(txn.changes)
                self._seen = {}
                self.serves = True
            for peer in self._ready:
                self._tell(peer, KeeperServer.on_commit, self.epoch, committed)
            self._apply(committed)
            waiting, self._syncs = self._syncs, []
            for count, request in waiting:
                if count <= committed:
                    self._synced(request)
                else:
                    self._syncs.append((count, request))
        for peer, acked in self._acked.items():
            if peer != self.name and peer not in self._ready and acked >= self._activated_at:
                self._ready[peer] = None
                self._tell(peer, KeeperServer.on_commit, self.epoch, committed)

    def on_commit(self, epoch: int, committed: int) -> None:
        """From the leader: so many entries are committed. The first one says: serve."""
        if self.role == FOLLOWING and epoch == self.epoch:
            self.serves = True
            self._committed = committed
            self._apply(committed)

    def _apply(self, committed: int) -> None:
        disk, record = self.disk, self._ensemble.record
        while disk.applied < committed:
            txn = disk.log[disk.applied]
            disk.applied += 1
            disk.tree.zxid = disk.applied
            first = self.role == LEADING and disk.applied > record.seen
            if first:
                record.seen = disk.applied
                record.saw(self._world.now_ns, txn, disk.tree)
            for what, path in disk.tree.apply(txn.changes):
                self._clients.fire(what, path)
            if first:
                record.saw_after(self._world.now_ns, txn, disk.tree)
            if txn.origin == self.name:
                self._clients.answer(txn.session, txn.xid, txn.answer)
            if _closes(txn):
                self._clients.close(txn.session)

    def _synced(self, request: Request) -> None:
        # The commits before it are on the same wire, ahead of it.
        if request.origin == self.name:
            self._clients.answer(request.session, request.xid, None)
        else:
            self._tell(
                request.origin, KeeperServer.on_synced, self.epoch, request.session, request.xid
            )

    def on_synced(self, epoch: int, session: int, xid: int) -> None:
        """From the leader: everything that it had committed has come before this."""
        if self.role == FOLLOWING and epoch == self.epoch:
            self._clients.answer(session, xid, None)

    # --- clients ----------------------------------------------------------------------------

    def connect(self, session: int, timeout_ns: int, listener: Listener) -> None:
        """A client opens a session; it is answered, with xid 0, when that is committed."""
        if not self.serves:
            self._clients.refuse(listener)
            return
        self._clients.opens(session, listener)
        node = Create(f"{SESSIONS}/{session}", timeout_ns)
        self._forward(Request(self.name, session, 0, "open", (node,)))

    def request(self, session: int, xid: int, kind: str, payload: Any) -> None:
        """A client's request: after its earlier ones."""
        if self._clients.request(session, xid, kind, payload):
            self._seen[session] = self._world.now_ns

    def disconnect(self, session: int) -> None:
        """A client is gone; its session lives on until it expires."""
        self._clients.gone(session)

    def _forward(self, request: Request) -> None:
        if self.leader == self.name:
            self.on_request(request)
        elif self.leader is not None:
            self._tell(self.leader, KeeperServer.on_request, request)

    # --- the end of a life ------------------------------------------------------------------

    def die(self) -> None:
        """SIGKILL: peers and clients see their connections reset, where packets pass."""
        network = self._ensemble.network
        for peer in self._others():
            target = self._peers[peer]
            network.send(self.name, peer, target.process, target.peer_gone, self.name)
        self._clients.close_all()
        self._world.kill(self.process)
        if "keeper-unsynced" in self._ensemble.bugs:
            self._forget_unsynced()

    def _forget_unsynced(self) -> None:
        disk, now = self.disk, self._world.now_ns
        while disk.log and now - disk.log[-1].time_ns < UNSYNCED_NS:
            disk.log.pop()
        disk.tree, disk.applied = Tree(), 0


def _closes(txn: Txn) -> bool:
    """Whether it ends its session: its own node goes last."""
    return (
        bool(txn.changes)
        and txn.changes[-1][1] is GONE
        and txn.changes[-1][0] == (f"{SESSIONS}/{txn.session}")
    )

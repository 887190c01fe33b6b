//! One ZooKeeper server: elections, broadcast of the log, local reads, watches.
//!
//! The broadcast is Zab's (Junqueira, Reed, Serafini, "Zab: High-performance broadcast for
//! primary-backup systems", DSN 2011): a leader of a new epoch is promised a majority, brings its
//! followers to its own log, and then commits what a majority has on its disk. The election is one
//! round of votes in place of ZooKeeper's several; its outcome is the same, the server with the
//! longest log among a majority.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::rc::{Rc, Weak};

use rustc_hash::FxHashMap;

use crate::bugs::Bug;
use crate::errors::{KeeperError, SESSION_EXPIRED};
use crate::keeper::clients::{Clients, What};
use crate::keeper::messages::{
    Answer, Answered, Ask, Disk, Ensemble, Listener, Request, Txn, Write, Zxid, FSYNC_NS, SESSIONS,
    SYNC_LIMIT, TICK_NS,
};
use crate::keeper::tree::{parent, Change, Operation, Path, Tree};
use crate::network::Node;
use crate::table::entries::Data;
use crate::table::parts::Ordered;
use crate::world::{Act, Ns, Process, World, MS, SECOND};

/// Between two votes of a server that looks for a leader (finalizeWait).
const VOTE_NS: Ns = 200 * MS;
/// Until a candidate, or who joined one, looks again.
const JOIN_NS: Ns = 2 * SECOND;
const UNSYNCED_NS: Ns = SECOND;
/// Of a leader, who need not be compared.
const LONGEST: Zxid = (1 << 62, 0);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Looking,
    Joining,
    Following,
    Leading,
}

/// Of a peer: when, its last zxid, the epoch that it promised.
type Vote = (Ns, Zxid, u64);

/// One life of a server. Its disk outlives it.
pub struct KeeperServer {
    pub node: Node,
    pub process: Rc<Process>,
    state: RefCell<State>,
}

impl KeeperServer {
    /// `rate`: how fast its clock goes; timers of a slow one, below 1, come late.
    pub fn new(
        node: Node,
        ensemble: &Rc<Ensemble>,
        disk: Rc<RefCell<Disk>>,
        rate: f64,
    ) -> Rc<KeeperServer> {
        let process = Process::new();
        Rc::new_cyclic(|me| KeeperServer {
            node,
            process: process.clone(),
            state: RefCell::new(State::new(me.clone(), node, ensemble, process, disk, rate)),
        })
    }

    /// Starts; the ensemble has it as its node's present life.
    pub fn begin(self: &Rc<Self>) {
        let mut state = self.state.borrow_mut();
        state.look();
        state.tick();
    }

    /// From now on its clock goes so fast.
    pub fn skew(&self, rate: f64) {
        self.state.borrow_mut().tick_ns = ticks(rate);
    }

    /// Whether clients are answered: it leads or follows, and its log is the leader's.
    pub fn serves(&self) -> bool {
        self.state.borrow().serves
    }

    pub fn leads(&self) -> bool {
        self.state.borrow().role == Role::Leading
    }

    pub fn epoch(&self) -> u64 {
        self.state.borrow().epoch
    }

    /// Of a leader's open sessions: how long each is silent, and how long it may be, in ns.
    pub fn sessions(&self) -> Vec<(Ns, Ns)> {
        self.state.borrow().sessions()
    }

    /// A client opens a session; it is answered, with xid 0, when that is committed.
    pub fn connect(&self, session: u64, timeout_ns: Ns, listener: Listener) {
        let mut state = self.state.borrow_mut();
        if !state.serves {
            return state.clients.refuse(&listener);
        }
        state.clients.opens(session, listener);
        state.forward(Request {
            origin: self.node,
            session,
            xid: 0,
            write: Write::Open(timeout_ns),
        });
    }

    /// A client's request: after its earlier ones.
    pub fn request(&self, session: u64, xid: i64, ask: Ask) {
        self.state.borrow_mut().request(session, xid, ask);
    }

    /// A client is gone; its session lives on until it expires.
    pub fn disconnect(&self, session: u64) {
        self.state.borrow_mut().clients.gone(session);
    }

    /// SIGKILL: peers and clients see their connections reset, where packets pass.
    pub fn die(&self) {
        let mut state = self.state.borrow_mut();
        let me = self.node;
        for peer in state.others() {
            state.tell(peer, move |peer| peer.peer_gone(me));
        }
        state.clients.close_all();
        state.world.kill(&self.process);
        if state.ensemble.bugs.has(Bug::KeeperUnsynced) {
            state.forget_unsynced();
        }
    }
}

/// A tick, by a clock that goes so fast.
fn ticks(rate: f64) -> Ns {
    (TICK_NS as f64 / rate).round_ties_even() as Ns
}

/// What a server knows. It calls nobody: whatever leaves it is sent, or comes later.
struct State {
    me: Weak<KeeperServer>,
    node: Node,
    ensemble: Rc<Ensemble>,
    world: Rc<World>,
    process: Rc<Process>,
    disk: Rc<RefCell<Disk>>,
    role: Role,
    epoch: u64,
    leader: Option<Node>,
    serves: bool,
    tick_ns: Ns,
    since_ns: Ns,
    /// When it last looked at the time.
    ticked_ns: Ns,
    /// By peer.
    votes: Vec<Option<Vote>>,
    /// When each peer was last heard of in this role; 0: never.
    heard_ns: Vec<Ns>,
    /// Leading: how many entries each follower, and itself, has on its disk.
    acked: Ordered<Node, usize>,
    /// A candidate's: who promised to follow.
    joined: Vec<Node>,
    /// Leading: the followers that were told to serve.
    ready: Vec<Node>,
    /// How many entries are known to be committed.
    committed: usize,
    activated_at: usize,
    /// Leading: the tree with everything that is proposed.
    planned: Option<Tree>,
    /// Leading: syncs that wait until so many entries are committed.
    syncs: Vec<(usize, Request)>,
    /// Leading: when each session was last heard of. Following: those heard of since.
    seen: FxHashMap<u64, Ns>,
    clients: Clients,
}

impl State {
    fn new(
        me: Weak<KeeperServer>,
        node: Node,
        ensemble: &Rc<Ensemble>,
        process: Rc<Process>,
        disk: Rc<RefCell<Disk>>,
        rate: f64,
    ) -> State {
        let now_ns = ensemble.world.now_ns();
        let nodes = ensemble.names.len();
        State {
            me,
            node,
            ensemble: ensemble.clone(),
            world: ensemble.world.clone(),
            process,
            disk,
            role: Role::Looking,
            epoch: 0,
            leader: None,
            serves: false,
            tick_ns: ticks(rate),
            since_ns: now_ns,
            ticked_ns: now_ns,
            votes: vec![None; nodes],
            heard_ns: vec![0; nodes],
            acked: Ordered::default(),
            joined: Vec::new(),
            ready: Vec::new(),
            committed: 0,
            activated_at: 0,
            planned: None,
            syncs: Vec::new(),
            seen: FxHashMap::default(),
            clients: Clients::new(node, ensemble),
        }
    }

    // --- messages -------------------------------------------------------------------------------

    fn tell(&self, peer: Node, act: impl FnOnce(&mut State) + 'static) {
        self.tell_later(0, peer, act);
    }

    fn tell_later(&self, took_ns: Ns, peer: Node, act: impl FnOnce(&mut State) + 'static) {
        let target = self.ensemble.keeper(peer);
        let process = target.process.clone();
        let act = move || act(&mut target.state.borrow_mut());
        let network = &self.ensemble.network;
        network.send_later(took_ns, self.node, peer, Some(&process), act);
    }

    /// Does something itself.
    fn later(&self, delay_ns: Ns, act: impl FnOnce(&mut State) + 'static) {
        let me = self.me.upgrade().expect("who acts is there");
        let act = Act::call(move || act(&mut me.state.borrow_mut()));
        self.world.after(delay_ns, Some(&self.process), act);
    }

    fn others(&self) -> Vec<Node> {
        let others = self.ensemble.keepers.iter().copied();
        others.filter(|peer| *peer != self.node).collect()
    }

    /// The connection to a peer was reset, for its process ended.
    fn peer_gone(&mut self, peer: Node) {
        self.heard_ns[peer] = 0;
        self.votes[peer] = None;
        self.acked.shift_remove(&peer);
        self.ready.retain(|other| *other != peer);
        if self.leader == Some(peer) && matches!(self.role, Role::Joining | Role::Following) {
            self.look();
        }
    }

    /// Whether it follows this leader in this epoch.
    fn follows(&self, leader: Node, epoch: u64) -> bool {
        self.role == Role::Following && self.leader == Some(leader) && self.epoch == epoch
    }

    // --- time -----------------------------------------------------------------------------------

    fn tick(&mut self) {
        let now_ns = self.world.now_ns();
        let patience_ns = SYNC_LIMIT * self.tick_ns;
        let near = |peer: Node| now_ns - self.heard_ns[peer] <= patience_ns;
        match self.role {
            Role::Leading => {
                let followers = || self.acked.keys().filter(|peer| **peer != self.node);
                if 1 + followers().filter(|peer| near(**peer)).count() < self.ensemble.majority() {
                    self.look();
                } else {
                    let (me, epoch) = (self.node, self.epoch);
                    for peer in followers() {
                        self.tell(*peer, move |peer| peer.on_ping(me, epoch));
                    }
                    self.expire(now_ns);
                }
            }
            Role::Following => {
                if !near(self.leader.expect("who follows has a leader")) {
                    self.look();
                }
            }
            Role::Joining if now_ns - self.since_ns > JOIN_NS => self.look(),
            Role::Joining | Role::Looking => {}
        }
        self.ticked_ns = now_ns;
        self.later(self.tick_ns / 2, State::tick);
    }

    /// From the leader; answered with the sessions that were heard of.
    fn on_ping(&mut self, leader: Node, epoch: u64) {
        if self.follows(leader, epoch) {
            self.heard_ns[leader] = self.world.now_ns();
            let seen: Vec<u64> = self.seen.drain().map(|(session, _)| session).collect();
            let me = self.node;
            self.tell(leader, move |leader| leader.on_pong(me, epoch, &seen));
        }
    }

    /// From a follower.
    fn on_pong(&mut self, follower: Node, epoch: u64, seen: &[u64]) {
        if self.role == Role::Leading && epoch == self.epoch {
            let now_ns = self.world.now_ns();
            self.heard_ns[follower] = now_ns;
            let heard = seen.iter().map(|session| (*session, now_ns));
            self.seen.extend(heard);
        }
    }

    /// Closes the sessions that were silent for their time.
    fn expire(&mut self, now_ns: Ns) {
        if !self.serves || self.ensemble.bugs.has(Bug::SessionImmortal) {
            return;
        }
        let Some(tree) = &self.planned else {
            return;
        };
        // While it is paused a leader cannot end a session.
        let stood_ns = (now_ns - self.ticked_ns - self.tick_ns).max(0);
        for (session, allowed_ns) in open_sessions(tree) {
            let silent_ns = now_ns - *self.seen.entry(session).or_insert(now_ns);
            if silent_ns > allowed_ns {
                let mut record = self.ensemble.record.borrow_mut();
                record.session_ended(now_ns, silent_ns - stood_ns, allowed_ns);
                drop(record);
                self.propose(Request {
                    origin: self.node,
                    session,
                    xid: -1,
                    write: Write::Close,
                });
            }
        }
    }

    fn sessions(&self) -> Vec<(Ns, Ns)> {
        let now_ns = self.world.now_ns();
        let silent = |(session, allowed_ns): (u64, Ns)| {
            let seen_ns = self.seen.get(&session).copied().unwrap_or(now_ns);
            (now_ns - seen_ns, allowed_ns)
        };
        let open = open_sessions(&self.disk.borrow().tree);
        open.into_iter().map(silent).collect()
    }

    // --- election -------------------------------------------------------------------------------

    fn look(&mut self) {
        self.clients.close_all();
        self.role = Role::Looking;
        self.leader = None;
        self.serves = false;
        self.since_ns = self.world.now_ns();
        self.votes.fill(None);
        self.acked.clear();
        self.ready.clear();
        self.syncs.clear();
        self.planned = None;
        let since_ns = self.since_ns;
        self.later(0, move |me| me.vote(since_ns));
    }

    /// Of two servers the one with the longer log is to lead.
    fn before(&self, last: Zxid, peer: Node) -> bool {
        let names = &self.ensemble.names;
        (self.disk.borrow().last(), &names[self.node]) > (last, &names[peer])
    }

    fn vote(&mut self, since_ns: Ns) {
        if self.role != Role::Looking || since_ns != self.since_ns {
            return;
        }
        let now_ns = self.world.now_ns();
        let me = self.node;
        let (last, mut accepted) = {
            let disk = self.disk.borrow();
            (disk.last(), disk.accepted)
        };
        for peer in self.others() {
            self.tell(peer, move |peer| peer.on_vote(me, last, accepted));
        }
        let (mut wins, mut fresh) = (true, 0);
        for (peer, vote) in self.votes.iter().enumerate() {
            let Some((at_ns, last, promised)) = *vote else {
                continue;
            };
            if now_ns - at_ns <= 2 * VOTE_NS {
                fresh += 1;
                wins &= self.before(last, peer);
                accepted = accepted.max(promised);
            }
        }
        if wins && self.are_most(fresh + 1) && now_ns - since_ns >= VOTE_NS {
            self.stand(accepted + 1);
        } else {
            self.later(VOTE_NS, move |me| me.vote(since_ns));
        }
    }

    fn are_most(&self, many: usize) -> bool {
        many > self.ensemble.keepers.len() / 2
    }

    /// From a server that looks for a leader.
    fn on_vote(&mut self, peer: Node, last: Zxid, accepted: u64) {
        self.votes[peer] = Some((self.world.now_ns(), last, accepted));
        if self.role == Role::Leading {
            let (me, epoch) = (self.node, self.epoch);
            if accepted > epoch {
                self.look();
            } else {
                self.tell(peer, move |peer| peer.on_lead(me, epoch, LONGEST));
            }
        }
    }

    /// Whom it is about to follow, itself perhaps.
    fn join(&mut self, leader: Node, epoch: u64) {
        self.role = Role::Joining;
        self.leader = Some(leader);
        self.epoch = epoch;
        self.disk.borrow_mut().accepted = epoch;
        self.since_ns = self.world.now_ns();
    }

    /// Asks for the promise of the others.
    fn stand(&mut self, epoch: u64) {
        let me = self.node;
        self.join(me, epoch);
        let (last, count) = {
            let disk = self.disk.borrow();
            (disk.last(), disk.log.len())
        };
        self.acked = Ordered::from_iter([(me, count)]);
        self.heard_ns.fill(0);
        self.joined.clear();
        for peer in self.others() {
            self.tell(peer, move |peer| peer.on_lead(me, epoch, last));
        }
        self.lead_if_joined();
    }

    /// From a candidate, or from a leader that heard that this server looks for one.
    fn on_lead(&mut self, candidate: Node, epoch: u64, last: Zxid) {
        if self.role != Role::Looking || epoch < self.disk.borrow().accepted {
            return;
        }
        if self.before(last, candidate) {
            return;
        }
        self.join(candidate, epoch);
        let me = self.node;
        self.tell_later(FSYNC_NS, candidate, move |peer| peer.on_join(me, epoch));
    }

    /// From a server that promised to follow.
    fn on_join(&mut self, peer: Node, epoch: u64) {
        if epoch != self.epoch || self.leader != Some(self.node) {
            return;
        }
        self.heard_ns[peer] = self.world.now_ns();
        if self.role == Role::Leading {
            self.sync(peer);
        } else {
            if !self.joined.contains(&peer) {
                self.joined.push(peer);
            }
            self.lead_if_joined();
        }
    }

    fn lead_if_joined(&mut self) {
        if self.role == Role::Joining && self.are_most(self.joined.len() + 1) {
            self.role = Role::Leading;
            let disk = self.disk.borrow();
            self.committed = disk.applied;
            self.activated_at = disk.log.len();
            drop(disk);
            for peer in self.joined.clone() {
                self.sync(peer);
            }
            self.commit_what_is_acked();
        }
    }

    /// Gives a follower the whole log; proposals follow on the same wire.
    fn sync(&mut self, peer: Node) {
        self.acked.insert(peer, 0);
        self.ready.retain(|other| *other != peer);
        let (me, epoch) = (self.node, self.epoch);
        let log = self.disk.borrow().log.clone();
        self.tell(peer, move |peer| peer.on_sync(me, epoch, log));
    }

    /// The leader's log takes the place of this server's own.
    fn on_sync(&mut self, leader: Node, epoch: u64, log: Vec<Rc<Txn>>) {
        if self.role == Role::Joining && self.leader == Some(leader) && epoch == self.epoch {
            self.role = Role::Following;
            self.heard_ns.fill(0);
            self.heard_ns[leader] = self.world.now_ns();
            let (me, count) = (self.node, log.len());
            self.adopt(log);
            self.seen.clear();
            let act = move |leader: &mut State| leader.on_ack(me, epoch, count);
            self.tell_later(FSYNC_NS, leader, act);
        }
    }

    fn adopt(&mut self, log: Vec<Rc<Txn>>) {
        let disk = &mut *self.disk.borrow_mut();
        let at = disk.applied;
        if at > 0 && (at > log.len() || log[at - 1].zxid != disk.log[at - 1].zxid) {
            // Never, unless a planted bug lost what was committed: the tree is made again.
            disk.tree = Tree::default();
            disk.applied = 0;
        }
        disk.log = log;
        self.committed = disk.applied;
    }

    // --- broadcast ------------------------------------------------------------------------------

    /// From a follower, or from this leader's own clients.
    fn on_request(&mut self, request: Request) {
        if self.role != Role::Leading || !self.serves {
            return;
        }
        if !matches!(request.write, Write::Sync) {
            return self.propose(request);
        }
        let count = self.disk.borrow().log.len();
        if self.committed < count {
            self.syncs.push((count, request));
        } else {
            self.synced(&request);
        }
    }

    fn propose(&mut self, request: Request) {
        let (changes, answer) = match self.changes(&request) {
            Ok((changes, answered)) => (changes, Ok(answered)),
            Err(error) => (Vec::new(), Err(error)),
        };
        let mut disk = self.disk.borrow_mut();
        let txn = Rc::new(Txn {
            zxid: (self.epoch, disk.log.len() as u64),
            origin: request.origin,
            session: request.session,
            xid: request.xid,
            changes,
            answer,
            time_ns: self.world.now_ns(),
        });
        disk.log.push(txn.clone());
        let count = disk.log.len();
        drop(disk);
        let (me, epoch) = (self.node, self.epoch);
        for peer in self.acked.keys().filter(|peer| **peer != me) {
            let txn = txn.clone();
            self.tell(*peer, move |peer| peer.on_propose(me, epoch, count, txn));
        }
        let took_ns = self.world.around(FSYNC_NS);
        self.later(took_ns, move |leader| leader.on_ack(me, epoch, count));
    }

    fn changes(&mut self, request: &Request) -> Result<(Vec<Change>, Answered), KeeperError> {
        let session = request.session;
        let tree = self.planned.as_mut();
        let tree = tree.expect("a leader that serves has its plans");
        let path = session_path(session);
        match &request.write {
            Write::Open(timeout_ns) => {
                self.seen.insert(session, self.world.now_ns());
                let missing = ["/zookeeper", SESSIONS].into_iter();
                let mut operations: Vec<Operation> = missing
                    .filter(|path| !tree.has(path))
                    .map(|path| Operation::create(path, Data::default()))
                    .collect();
                operations.push(Operation::create(path, Data::Number(*timeout_ns)));
                planned(tree, &operations, session)
            }
            _ if !tree.has(&path) => Err(KeeperError::new(SESSION_EXPIRED)),
            Write::Multi(operations) => planned(tree, operations, session),
            Write::Close => {
                let gone = tree.owned(session).iter().cloned().chain([path]);
                let changes: Vec<Change> = gone.map(Change::gone).collect();
                for change in &changes {
                    tree.change(change);
                }
                Ok((changes, Answered::Nothing))
            }
            Write::Sync => unreachable!("a sync changes nothing"),
        }
    }

    /// From the leader: to the log, and on the disk.
    fn on_propose(&mut self, leader: Node, epoch: u64, count: usize, txn: Rc<Txn>) {
        if self.follows(leader, epoch) {
            let mut disk = self.disk.borrow_mut();
            assert_eq!(count, disk.log.len() + 1, "the wire keeps order");
            disk.log.push(txn);
            let took_ns = self.world.around(FSYNC_NS);
            let me = self.node;
            let act = move |leader: &mut State| leader.on_ack(me, epoch, count);
            self.tell_later(took_ns, leader, act);
        }
    }

    /// A server has so many entries on its disk.
    fn on_ack(&mut self, peer: Node, epoch: u64, count: usize) {
        if self.role != Role::Leading || epoch != self.epoch {
            return;
        }
        let Some(acked) = self.acked.get_mut(&peer) else {
            return;
        };
        *acked = count.max(*acked);
        self.heard_ns[peer] = self.world.now_ns();
        let late = count <= self.committed && self.serves;
        if !late || (peer != self.node && !self.ready.contains(&peer)) {
            self.commit_what_is_acked();
        }
    }

    fn commit_what_is_acked(&mut self) {
        let mut counts: Vec<usize> = self.acked.values().copied().collect();
        counts.sort_unstable_by_key(|count| Reverse(*count));
        let committed = counts.get(self.ensemble.majority() - 1);
        let committed = committed.copied().unwrap_or(0);
        if committed < self.activated_at || committed < self.committed {
            return;
        }
        let before = std::mem::replace(&mut self.committed, committed);
        let epoch = self.epoch;
        if !self.serves || committed > before {
            if !self.serves {
                self.activate(committed);
            }
            for peer in &self.ready {
                self.tell(*peer, move |peer| peer.on_commit(epoch, committed));
            }
            self.apply(committed);
            for (count, request) in std::mem::take(&mut self.syncs) {
                if count <= committed {
                    self.synced(&request);
                } else {
                    self.syncs.push((count, request));
                }
            }
        }
        for (peer, acked) in &self.acked {
            let waits = *peer != self.node && !self.ready.contains(peer);
            if waits && *acked >= self.activated_at {
                self.ready.push(*peer);
                self.tell(*peer, move |peer| peer.on_commit(epoch, committed));
            }
        }
    }

    /// A leader begins to serve.
    fn activate(&mut self, committed: usize) {
        self.apply(committed);
        let disk = self.disk.borrow();
        let mut planned = disk.tree.clone();
        let changes = disk.log[committed..].iter().flat_map(|txn| &txn.changes);
        for change in changes {
            planned.change(change);
        }
        self.planned = Some(planned);
        self.seen.clear();
        self.serves = true;
    }

    /// From the leader: so many entries are committed. The first one says: serve.
    fn on_commit(&mut self, epoch: u64, committed: usize) {
        if self.role == Role::Following && epoch == self.epoch {
            self.serves = true;
            self.committed = committed;
            self.apply(committed);
        }
    }

    fn apply(&mut self, committed: usize) {
        while let Some(txn) = self.apply_next(committed) {
            if txn.origin == self.node {
                self.answer(txn.session, txn.xid, &txn.answer);
            }
            if closes(&txn) {
                self.clients.close(txn.session);
            }
        }
    }

    /// One entry, unless the tree has so many.
    fn apply_next(&mut self, committed: usize) -> Option<Rc<Txn>> {
        let disk = &mut *self.disk.borrow_mut();
        if disk.applied >= committed {
            return None;
        }
        let txn = disk.log[disk.applied].clone();
        disk.applied += 1;
        disk.tree.zxid = disk.applied as i64;
        let mut record = self.ensemble.record.borrow_mut();
        let first = self.role == Role::Leading && disk.applied > record.seen;
        if first {
            record.seen = disk.applied;
            record.saw(self.world.now_ns(), &txn, &disk.tree);
        }
        for change in &txn.changes {
            let listed = disk.tree.change(change);
            self.clients.fire(What::Data, &change.path);
            if listed {
                self.clients.fire(What::Children, parent(&change.path));
            }
        }
        if first {
            record.saw_after(self.world.now_ns(), &txn, &disk.tree);
        }
        Some(txn)
    }

    fn synced(&mut self, request: &Request) {
        // The commits before it are on the same wire, ahead of it.
        let (session, xid, epoch) = (request.session, request.xid, self.epoch);
        if request.origin == self.node {
            self.answer(session, xid, &Ok(Answered::Nothing));
        } else {
            let act = move |peer: &mut State| peer.on_synced(epoch, session, xid);
            self.tell(request.origin, act);
        }
    }

    /// From the leader: everything that it had committed has come before this.
    fn on_synced(&mut self, epoch: u64, session: u64, xid: i64) {
        if self.role == Role::Following && epoch == self.epoch {
            self.answer(session, xid, &Ok(Answered::Nothing));
        }
    }

    // --- clients --------------------------------------------------------------------------------

    fn request(&mut self, session: u64, xid: i64, ask: Ask) {
        if !self.clients.has(session) {
            return;
        }
        let disk = self.disk.borrow();
        let write = self.clients.request(&disk.tree, session, xid, ask);
        drop(disk);
        if let Some(write) = write {
            self.forward(write);
        }
        self.seen.insert(session, self.world.now_ns());
    }

    /// Of a client's write.
    fn answer(&mut self, session: u64, xid: i64, answer: &Answer) {
        let disk = self.disk.borrow();
        let write = self.clients.answer(&disk.tree, session, xid, answer);
        drop(disk);
        if let Some(write) = write {
            self.forward(write);
        }
    }

    fn forward(&mut self, request: Request) {
        if self.leader == Some(self.node) {
            self.on_request(request);
        } else if let Some(leader) = self.leader {
            self.tell(leader, move |leader| leader.on_request(request));
        }
    }

    // --- the end of a life ----------------------------------------------------------------------

    fn forget_unsynced(&self) {
        let (mut disk, now_ns) = (self.disk.borrow_mut(), self.world.now_ns());
        let unsynced = |txn: &Rc<Txn>| now_ns - txn.time_ns < UNSYNCED_NS;
        while disk.log.last().is_some_and(unsynced) {
            disk.log.pop();
        }
        disk.tree = Tree::default();
        disk.applied = 0;
    }
}

/// What a multi comes to.
fn planned(
    tree: &mut Tree,
    operations: &[Operation],
    session: u64,
) -> Result<(Vec<Change>, Answered), KeeperError> {
    let (changes, done) = tree.planned(operations, session)?;
    Ok((changes, Answered::Done(done.into())))
}

/// Of a session's node.
fn session_path(session: u64) -> Path {
    format!("{SESSIONS}/{session}").into()
}

/// Each, and how long it may be silent; in the order of their names.
fn open_sessions(tree: &Tree) -> Vec<(u64, Ns)> {
    let names = tree.get(SESSIONS).map(|node| &node.children);
    let names = names.into_iter().flat_map(|names| names.iter());
    let open = names.map(|name| {
        let session = name.parse().expect("a session's name is its number");
        (session, tree.nodes[&session_path(session)].data.as_number())
    });
    open.collect()
}

/// Whether it ends its session: its own node goes last.
fn closes(txn: &Txn) -> bool {
    match txn.changes.last() {
        Some(Change { path, data, .. }) if data.is_none() && path.starts_with(SESSIONS) => {
            *path == session_path(txn.session)
        }
        _ => false,
    }
}

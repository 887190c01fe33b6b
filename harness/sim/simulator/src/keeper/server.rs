//! One ZooKeeper server: elections, broadcast of the log, local reads, watches.
//!
//! The broadcast is Zab's (Junqueira, Reed, Serafini, "Zab: High-performance broadcast for
//! primary-backup systems", DSN 2011): a leader of a new epoch is promised a majority, brings its
//! followers to its own log, and then commits what a majority has on its disk. The election is one
//! round of votes in place of ZooKeeper's several; its outcome is the same, the server with the
//! longest log among a majority.

mod acked;
mod broadcast;
mod election;

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use rustc_hash::FxHashMap;

use crate::bugs::Bug;
use crate::digits::Digits;
use crate::keeper::clients::Clients;
use crate::keeper::messages::{
    Answer, Ask, Disk, Ensemble, Listener, Request, Txn, Write, Zxid, SESSIONS, SYNC_LIMIT, TICK_NS,
};
use crate::keeper::paths::Hashed;
use crate::keeper::tree::{child, Path, Tree};
use crate::network::Node;
use crate::world::{Act, Ns, Process, World, SECOND};

use acked::{Ack, Acked};

/// Until a candidate, or who joined one, looks again.
const JOIN_NS: Ns = 2 * SECOND;
const UNSYNCED_NS: Ns = SECOND;
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
        self.state.borrow_mut().sessions()
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
    /// Leading: of each follower, and of itself.
    acked: Acked,
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
    /// Of sessions' nodes.
    session_paths: SessionPaths,
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
            acked: Acked::default(),
            joined: Vec::new(),
            ready: Vec::new(),
            committed: 0,
            activated_at: 0,
            planned: None,
            syncs: Vec::new(),
            seen: FxHashMap::default(),
            session_paths: SessionPaths::default(),
            clients: Clients::new(node, ensemble),
        }
    }

    // --- messages -------------------------------------------------------------------------------

    fn tell(&self, peer: Node, act: impl FnOnce(&mut State) + 'static) {
        self.tell_later(0, peer, act);
    }

    fn tell_later(&self, took_ns: Ns, peer: Node, act: impl FnOnce(&mut State) + 'static) {
        let (network, lives) = (&self.ensemble.network, self.ensemble.lives.borrow());
        let target = lives[peer].as_ref().expect("it has been started");
        let life = target.clone();
        let act = move || act(&mut life.state.borrow_mut());
        network.send_later(took_ns, self.node, peer, Some(&target.process), act);
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
        self.acked.remove(peer);
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
                let followers = || self.acked.peers().filter(|peer| *peer != self.node);
                if 1 + followers().filter(|peer| near(*peer)).count() < self.ensemble.majority() {
                    self.look();
                } else {
                    let (me, epoch) = (self.node, self.epoch);
                    for peer in followers() {
                        self.tell(peer, move |peer| peer.on_ping(me, epoch));
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
        for (session, allowed_ns) in self.session_paths.open(tree) {
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

    fn sessions(&mut self) -> Vec<(Ns, Ns)> {
        let now_ns = self.world.now_ns();
        let silent = |(session, allowed_ns): (u64, Ns)| {
            let seen_ns = self.seen.get(&session).copied().unwrap_or(now_ns);
            (now_ns - seen_ns, allowed_ns)
        };
        let open = self.session_paths.open(&self.disk.borrow().tree);
        open.into_iter().map(silent).collect()
    }

    // --- clients --------------------------------------------------------------------------------

    fn request(&mut self, session: u64, xid: i64, ask: Ask) {
        let disk = self.disk.borrow();
        let served = self.clients.request(&disk.tree, session, xid, ask);
        drop(disk);
        let Some(write) = served else {
            return;
        };
        if let Some(write) = write {
            self.forward(write);
        }
        let now_ns = self.world.now_ns();
        match self.seen.get_mut(&session) {
            Some(seen_ns) => *seen_ns = now_ns,
            None => _ = self.seen.insert(session, now_ns),
        }
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

/// By session.
#[derive(Default)]
struct SessionPaths(Vec<Option<Hashed>>);

impl SessionPaths {
    fn of(&mut self, session: u64) -> &Hashed {
        let at = session as usize;
        if at >= self.0.len() {
            self.0.resize_with(at + 1, || None);
        }
        self.0[at].get_or_insert_with(|| session_path(session).into())
    }

    /// Open sessions, and how long each may be silent; in the order of their names.
    fn open(&mut self, tree: &Tree) -> Vec<(u64, Ns)> {
        let names = tree.get(SESSIONS).map(|node| &node.children);
        let open = names.into_iter().flat_map(|names| names.iter());
        let open = open.map(|name| {
            let session = name.parse().expect("a session's name is its number");
            let node = tree.find(self.of(session).key());
            let node = node.expect("a child is a node");
            (session, node.data.as_number())
        });
        open.collect()
    }
}

/// Of a session's node.
#[cold]
fn session_path(session: u64) -> Path {
    child(SESSIONS, Digits::of(session as i64).as_str())
}

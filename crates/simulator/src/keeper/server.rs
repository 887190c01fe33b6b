//! Simulates one ZooKeeper server: elections, broadcast of the log, local reads, watches.
//!
//! The broadcast is Zab's (Junqueira, Reed, Serafini, "Zab: High-performance broadcast for
//! primary-backup systems", DSN 2011). A majority promises to follow the leader of a new epoch; it
//! brings its followers to its own log, and then commits what a majority has on disk. The election
//! is one round of votes where ZooKeeper has several; the result is the same, the server with the
//! longest log among a majority.

mod acked;
mod broadcast;
mod configuring;
mod election;
mod expiry;
mod gaps;
mod log_disk;

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use rustc_hash::FxHashMap;

use crate::disk::Device;
use crate::keeper::clients::Clients;
use crate::keeper::connection::{Listener, ServerEnd};
use crate::keeper::ensemble::Ensemble;
use crate::keeper::messages::{
    ticks, Answer, Ask, Disk, Request, SessionPaths, Write, Zxid, SYNC_LIMIT,
};
use crate::keeper::tree::Tree;
use crate::network::Node;
use crate::world::{Action, Ns, Process, World, SECOND};

use acked::{Ack, Acked};
use configuring::Configurations;

/// Time after which a candidate, or a server that joined one, starts another election.
const JOIN_NS: Ns = 2 * SECOND;
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Looking,
    Joining,
    Following,
    Leading,
}

/// A peer's vote: when, its last zxid, the epoch that it promised.
type Vote = (Ns, Zxid, u64);

/// The current life of each ZooKeeper server, by node.
#[derive(Clone, Default)]
pub struct KeeperServers(Rc<RefCell<Vec<Option<Rc<KeeperServer>>>>>);

impl KeeperServers {
    /// Return the current life of a server.
    pub fn at(&self, node: Node) -> Rc<KeeperServer> {
        self.find(node).expect("the server has been started")
    }

    /// Return the current life of a server, if it was started.
    pub fn find(&self, node: Node) -> Option<Rc<KeeperServer>> {
        self.0.borrow().get(node).cloned().flatten()
    }

    /// Give a server a new life.
    pub fn replace(&self, life: Rc<KeeperServer>) {
        let (mut lives, node) = (self.0.borrow_mut(), life.node);
        if lives.len() <= node {
            lives.resize(node + 1, None);
        }
        let before = lives[node].replace(life);
        let ended = before.is_none_or(|before| !before.process.alive());
        assert!(ended, "a server has one life at a time");
    }

    /// Drop every life, because servers refer to each other.
    pub fn clear(&self) {
        self.0.take();
    }
}

/// One life of a server. Its disk outlives it.
pub struct KeeperServer {
    pub node: Node,
    pub process: Rc<Process>,
    state: RefCell<State>,
}

impl KeeperServer {
    /// Creates a life. `rate` is the speed of its clock. Below 1, its timers fire late.
    pub fn new(
        node: Node,
        ensemble: &Rc<Ensemble>,
        peers: &KeeperServers,
        disk: Rc<RefCell<Disk>>,
        rate: f64,
    ) -> Rc<KeeperServer> {
        assert!(rate > 0.0, "clocks go forward");
        let process = Process::new();
        Rc::new_cyclic(|me| KeeperServer {
            node,
            process: process.clone(),
            state: RefCell::new(State::new(
                me.clone(),
                node,
                ensemble,
                peers,
                process,
                disk,
                rate,
            )),
        })
    }

    /// Starts the server, which ends at once if it cannot load its log. The ensemble must have it as its node's current life.
    pub fn begin(self: &Rc<Self>) {
        if !self.loads() {
            return self.die();
        }
        let mut state = self.state.borrow_mut();
        state.start_election();
        state.tick();
    }

    /// Sets the speed of the server's clock.
    pub fn skew(&self, rate: f64) {
        assert!(rate > 0.0, "clocks go forward");
        self.state.borrow_mut().tick_ns = ticks(rate);
    }

    /// Whether clients are served: the server leads or follows, and its log is the leader's.
    pub fn serves(&self) -> bool {
        self.state.borrow().serves
    }

    pub fn leads(&self) -> bool {
        self.state.borrow().role == Role::Leading
    }

    pub fn epoch(&self) -> u64 {
        self.state.borrow().epoch
    }

    /// Returns of each open session of a leader the silence and its limit, in ns.
    pub fn sessions(&self) -> Vec<(Ns, Ns)> {
        self.state.borrow_mut().sessions()
    }

    /// Opens a client's session. The answer, with xid 0, is sent when the opening is committed.
    pub fn connect(&self, session: u64, timeout_ns: Ns, listener: Listener) {
        let mut state = self.state.borrow_mut();
        let known = session <= state.ensemble.sessions.get();
        assert!(known, "the ensemble assigned the session's number");
        if !state.serves {
            return state.clients.refuse(&listener);
        }
        state.clients.add(session, listener);
        state.forward(Request {
            origin: self.node,
            session,
            xid: 0,
            write: Write::Open(timeout_ns),
        });
    }

    /// Takes a client's request, which waits for the session's earlier ones.
    pub fn request(&self, session: u64, xid: i64, ask: Ask) {
        self.state.borrow_mut().request(session, xid, ask);
    }

    /// Ends the server as SIGKILL does: peers and clients see their connections reset.
    pub fn die(&self) {
        assert!(self.process.alive(), "a server ends once in a life");
        let mut state = self.state.borrow_mut();
        let me = self.node;
        for peer in state.others() {
            state.tell(peer, move |peer| peer.on_peer_reset(me));
        }
        state.clients.close_all();
        state.world.kill(&self.process);
        state.forget_unwritten();
        if state.ensemble.bugs.unsynced_log {
            state.forget_unsynced(None);
        }
    }
}

impl ServerEnd for KeeperServer {
    fn node(&self) -> Node {
        self.node
    }

    fn process(&self) -> &Rc<Process> {
        &self.process
    }

    fn disconnect(&self, session: u64) {
        self.state.borrow_mut().clients.forget(session);
    }
}

/// The state of a server. It calls no other server: whatever leaves it is sent or scheduled.
struct State {
    me: Weak<KeeperServer>,
    node: Node,
    ensemble: Rc<Ensemble>,
    peers: KeeperServers,
    world: Rc<World>,
    process: Rc<Process>,
    disk: Rc<RefCell<Disk>>,
    device: Rc<Device>,
    role: Role,
    epoch: u64,
    leader: Option<Node>,
    serves: bool,
    tick_ns: Ns,
    since_ns: Ns,
    /// The time of the last tick.
    ticked_ns: Ns,
    /// By peer.
    votes: Vec<Option<Vote>>,
    /// By peer: when it was last heard of in this role; 0 if never.
    heard_ns: Vec<Ns>,
    /// Leading: the acknowledged entries of each follower and of itself.
    acked: Acked,
    /// Leading, with a planted bug: the most entries that each server has acknowledged.
    remembered: Acked,
    /// Candidate: the servers that promised to follow.
    joined: Vec<Node>,
    /// Leading: the followers that were told to serve.
    ready: Vec<Node>,
    /// Number of entries that are known to be committed.
    committed: usize,
    activated_at: usize,
    /// Leading: the tree with every proposed change.
    planned: Option<Tree>,
    /// Leading: syncs with the number of entries whose commit they await.
    syncs: Vec<(usize, Request)>,
    /// Leading: when each session was last heard of. Following: the sessions heard of since the
    /// last ping.
    seen: FxHashMap<u64, Ns>,
    /// Paths of the sessions' nodes.
    session_paths: SessionPaths,
    clients: Clients,
    configurations: Configurations,
}

impl State {
    fn new(
        me: Weak<KeeperServer>,
        node: Node,
        ensemble: &Rc<Ensemble>,
        peers: &KeeperServers,
        process: Rc<Process>,
        disk: Rc<RefCell<Disk>>,
        rate: f64,
    ) -> State {
        let now_ns = ensemble.world.now_ns();
        let nodes = ensemble.names.len();
        let device = disk.borrow().device.clone();
        let configurations = Configurations::of(ensemble, &disk.borrow());
        State {
            me,
            node,
            ensemble: ensemble.clone(),
            peers: peers.clone(),
            world: ensemble.world.clone(),
            process,
            device,
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
            remembered: Acked::default(),
            joined: Vec::new(),
            ready: Vec::new(),
            committed: 0,
            activated_at: 0,
            planned: None,
            syncs: Vec::new(),
            seen: FxHashMap::default(),
            session_paths: SessionPaths::default(),
            clients: Clients::new(node, ensemble),
            configurations,
        }
    }

    // --- messages -------------------------------------------------------------------------------

    fn tell(&self, peer: Node, act: impl FnOnce(&mut State) + 'static) {
        self.tell_later(0, peer, act);
    }

    fn tell_later(&self, took_ns: Ns, peer: Node, act: impl FnOnce(&mut State) + 'static) {
        let (network, lives) = (&self.ensemble.network, self.peers.0.borrow());
        let target = lives[peer].as_ref().expect("the peer was started");
        let life = target.clone();
        let act = move || act(&mut life.state.borrow_mut());
        network.send_later(took_ns, self.node, peer, Some(&target.process), act);
    }

    /// Schedules an action of this server.
    fn schedule(&self, delay_ns: Ns, act: impl FnOnce(&mut State) + 'static) {
        let me = self.me.upgrade().expect("the server exists while it acts");
        let act = Action::call(move || act(&mut me.state.borrow_mut()));
        self.world.after(delay_ns, Some(&self.process), act);
    }

    /// Asserts invariants that hold whatever happens to a server, even with planted bugs.
    fn assert_sound(&self) {
        let disk = self.disk.borrow();
        assert!(disk.applied <= disk.log.len(), "applied entries are logged");
        assert!(
            self.epoch <= disk.accepted,
            "a server is in an epoch that it promised"
        );
        match self.role {
            Role::Leading => assert_eq!(self.leader, Some(self.node), "a leader follows itself"),
            Role::Following => {
                assert_ne!(self.leader, Some(self.node), "a follower follows a peer")
            }
            Role::Joining => assert!(!self.serves, "a joining server does not serve"),
            Role::Looking => {
                assert!(
                    !self.serves && self.leader.is_none(),
                    "a looking server has no leader"
                );
            }
        }
        let plans = self.role == Role::Leading && self.serves;
        assert_eq!(
            self.planned.is_some(),
            plans,
            "a serving leader has a planned tree"
        );
        if matches!(self.role, Role::Leading | Role::Following) {
            assert_eq!(disk.applied, self.committed, "commits are applied");
        }
    }

    fn others(&self) -> Vec<Node> {
        let others = self.ensemble.keepers.iter().copied();
        others.filter(|peer| *peer != self.node).collect()
    }

    /// Reacts to a reset connection: the peer's process ended.
    fn on_peer_reset(&mut self, peer: Node) {
        assert_ne!(peer, self.node, "a server does not outlive itself");
        self.heard_ns[peer] = 0;
        self.votes[peer] = None;
        self.remember(peer);
        self.acked.remove(peer);
        self.ready.retain(|other| *other != peer);
        if self.leader == Some(peer) && matches!(self.role, Role::Joining | Role::Following) {
            self.start_election();
        }
    }

    /// Whether it follows this leader in this epoch.
    fn follows(&self, leader: Node, epoch: u64) -> bool {
        self.role == Role::Following && self.leader == Some(leader) && self.epoch == epoch
    }

    // --- time -----------------------------------------------------------------------------------

    fn tick(&mut self) {
        self.assert_sound();
        let now_ns = self.world.now_ns();
        let patience_ns = SYNC_LIMIT * self.tick_ns;
        let near = |peer: Node| now_ns - self.heard_ns[peer] <= patience_ns;
        match self.role {
            Role::Leading => {
                let followers = || self.acked.peers().filter(|peer| *peer != self.node);
                if !self.keep_leading(followers().filter(|peer| near(*peer))) {
                    self.start_election();
                } else {
                    let (me, epoch) = (self.node, self.epoch);
                    for peer in followers() {
                        self.tell(peer, move |peer| peer.on_ping(me, epoch));
                    }
                    self.expire(now_ns);
                }
            }
            Role::Following => {
                if !near(self.leader.expect("a follower has a leader")) {
                    self.start_election();
                }
            }
            Role::Joining if now_ns - self.since_ns > JOIN_NS => self.start_election(),
            Role::Joining | Role::Looking => {}
        }
        self.ticked_ns = now_ns;
        self.schedule(self.tick_ns / 2, State::tick);
    }

    /// Handles a leader's ping by returning the sessions that were heard of.
    fn on_ping(&mut self, leader: Node, epoch: u64) {
        if self.follows(leader, epoch) {
            self.heard_ns[leader] = self.world.now_ns();
            let seen: Vec<u64> = self.seen.drain().map(|(session, _)| session).collect();
            let me = self.node;
            self.tell(leader, move |leader| leader.on_pong(me, epoch, &seen));
        }
    }

    /// Handles a follower's answer to a ping.
    fn on_pong(&mut self, follower: Node, epoch: u64, seen: &[u64]) {
        if self.role == Role::Leading && epoch == self.epoch {
            assert_ne!(follower, self.node, "a leader does not follow itself");
            let now_ns = self.world.now_ns();
            self.heard_ns[follower] = now_ns;
            let heard = seen.iter().map(|session| (*session, now_ns));
            self.seen.extend(heard);
        }
    }

    // --- clients --------------------------------------------------------------------------------

    fn request(&mut self, session: u64, xid: i64, ask: Ask) {
        let disk = self.disk.borrow();
        let lag = self.ensemble.observed.get().saturating_sub(disk.applied);
        if lag > self.ensemble.read_lag.get() && !matches!(ask, Ask::Ping | Ask::Write(_)) {
            self.ensemble.read_lag.set(lag);
        }
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

    /// Answers a client's write.
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
}

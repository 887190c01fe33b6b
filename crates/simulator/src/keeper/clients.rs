//! Serves a ZooKeeper server's clients: connections, requests in order, local reads, watches.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use crate::errors::SESSION_EXPIRED;
use crate::keeper::connection::{ClientConnection, Listener};
use crate::keeper::ensemble::Ensemble;
use crate::keeper::messages::{Answer, Answered, Ask, Request};
use crate::keeper::paths::{Key, PathMap};
use crate::keeper::reading::{Found, Reading, Readings};
use crate::keeper::tree::{Change, Tree};
use crate::network::Node;

/// The kind of event that a watch waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WatchKind {
    Data,
    Children,
}

/// The server's end of a client's connection.
struct Connection {
    session: u64,
    listener: Listener,
    /// Requests that wait for an earlier write of the same session.
    queue: RefCell<VecDeque<(i64, Ask)>>,
    /// The xid of the write for which all later requests wait.
    busy: Cell<Option<i64>>,
}

/// By path: the sessions that watch it, and their numbers for the watches.
type Watches = PathMap<Vec<(u64, i64)>>;

/// The clients of one server. It returns writes that must be forwarded to the leader.
pub struct Clients {
    node: Node,
    ensemble: Rc<Ensemble>,
    /// In order of connection.
    connections: Vec<Rc<Connection>>,
    /// Cached results of repeated readings.
    cached: Vec<(Rc<Readings>, Rc<[Found]>)>,
    of_data: Watches,
    of_children: Watches,
}

impl Clients {
    pub fn new(node: Node, ensemble: &Rc<Ensemble>) -> Clients {
        Clients {
            node,
            ensemble: ensemble.clone(),
            connections: Vec::new(),
            cached: Vec::new(),
            of_data: Watches::default(),
            of_children: Watches::default(),
        }
    }

    /// Adds a connection whose session is being opened; the opening is its first write.
    pub fn add(&mut self, session: u64, listener: Listener) {
        let other = self.connection(session);
        assert!(other.is_none(), "a session has one connection");
        let connection = Connection {
            session,
            listener,
            queue: RefCell::default(),
            busy: Cell::new(Some(0)),
        };
        self.connections.push(Rc::new(connection));
    }

    /// Takes a request, which waits for the session's earlier ones unless it is a ping. Returns
    /// `None` if there is no such client.
    pub fn request(
        &mut self,
        tree: &Tree,
        session: u64,
        xid: i64,
        ask: Ask,
    ) -> Option<Option<Request>> {
        let connection = self.connection(session)?.clone();
        if connection.busy.get().is_none() || matches!(ask, Ask::Ping) {
            return Some(self.serve(tree, &connection, xid, ask));
        }
        let mut queue = connection.queue.borrow_mut();
        let ascends = queue.back().is_none_or(|(last, _)| *last < xid || xid < 0);
        assert!(ascends, "requests arrive in the order of sending");
        queue.push_back((xid, ask));
        Some(None)
    }

    /// Ends a write, and serves the requests that waited for it.
    pub fn answer(
        &mut self,
        tree: &Tree,
        session: u64,
        xid: i64,
        answer: &Answer,
    ) -> Option<Request> {
        let connection = self.connection(session)?;
        if connection.busy.get() != Some(xid) {
            return None;
        }
        let connection = connection.clone();
        connection.busy.set(None);
        self.reply(&connection, xid, answer.clone());
        if matches!(answer, Err(error) if error.code == SESSION_EXPIRED) {
            self.close(session);
        }
        loop {
            let (xid, ask) = connection.queue.borrow_mut().pop_front()?;
            let write = self.serve(tree, &connection, xid, ask);
            if write.is_some() {
                return write;
            }
        }
    }

    /// Fires the watches that a change of the tree concerns; `listed` says whether the parent's
    /// list of children changed.
    pub fn changed(&mut self, change: &Change, listed: bool) {
        self.cached
            .retain(|(readings, _)| !readings.depend_on(change));
        self.fire(WatchKind::Data, change.key());
        if listed {
            self.fire(WatchKind::Children, change.above());
        }
    }

    /// Fires each watch of a node once.
    fn fire(&mut self, kind: WatchKind, node: Key) {
        let watches = self.watches(kind);
        if watches.is_empty() {
            return;
        }
        let fired = watches.remove(node).unwrap_or_default();
        assert!(watches.get(node).is_none(), "a watch fires once");
        for (session, watch) in fired {
            let Some(connection) = self.connection(session) else {
                continue;
            };
            let ensemble = &self.ensemble;
            if ensemble.bugs.missed_watches && ensemble.world.below(8) == 0 {
                continue;
            }
            self.tell(&connection.listener, move |session| session.fired(watch));
        }
    }

    /// Forgets a connection that the client has closed. Its session lives until it expires.
    pub fn forget(&mut self, session: u64) {
        self.take(session);
    }

    /// Closes a session's connection.
    pub fn close(&mut self, session: u64) {
        if let Some(connection) = self.take(session) {
            self.refuse(&connection.listener);
        }
    }

    /// Closes all connections, because the server no longer serves, or dies.
    pub fn close_all(&mut self) {
        for connection in std::mem::take(&mut self.connections) {
            self.refuse(&connection.listener);
        }
        self.cached.clear();
        self.of_data.clear();
        self.of_children.clear();
    }

    /// Forgets every watch, and keeps the connections. Only a planted bug does so.
    pub fn forget_watches(&mut self) {
        self.of_data.clear();
        self.of_children.clear();
    }

    /// Resets a connection.
    pub fn refuse(&self, listener: &Listener) {
        self.tell(listener, ClientConnection::lose);
    }

    fn connection(&self, session: u64) -> Option<&Rc<Connection>> {
        let mut all = self.connections.iter();
        all.find(|connection| connection.session == session)
    }

    fn take(&mut self, session: u64) -> Option<Rc<Connection>> {
        let mut all = self.connections.iter();
        let at = all.position(|connection| connection.session == session)?;
        let take = self.connections.remove(at);
        let other = self.connection(session);
        assert!(other.is_none(), "a session has one connection");
        Some(take)
    }

    fn read_again(&mut self, tree: &Tree, readings: Rc<Readings>) -> Rc<[Found]> {
        let same = |(other, _): &&(Rc<Readings>, _)| Rc::ptr_eq(other, &readings);
        if let Some((_, found)) = self.cached.iter().find(same) {
            return found.clone();
        }
        let found = readings.found(tree);
        self.cached.push((readings, found.clone()));
        found
    }

    fn reply(&self, connection: &Connection, xid: i64, answer: Answer) {
        let to = &connection.listener;
        // Each of the first two closures fits into an event without an allocation.
        match answer {
            Ok(Answered::Nothing) => {
                self.tell(to, move |session| {
                    session.answered(xid, Ok(Answered::Nothing))
                });
            }
            Ok(Answered::FoundAgain(found)) => self.tell(to, move |session| {
                session.answered(xid, Ok(Answered::FoundAgain(found)))
            }),
            answer => self.tell(to, move |session| session.answered(xid, answer)),
        }
    }

    fn tell(&self, to: &Listener, act: impl FnOnce(&ClientConnection) + 'static) {
        let (network, connection) = (&self.ensemble.network, to.connection.clone());
        network.send(self.node, to.node, Some(&to.process), move || {
            if let Some(connection) = connection.upgrade() {
                act(&connection);
            }
        });
    }

    fn serve(
        &mut self,
        tree: &Tree,
        connection: &Connection,
        xid: i64,
        ask: Ask,
    ) -> Option<Request> {
        if !matches!(ask, Ask::Write(_)) {
            let (now_ns, key) = (self.ensemble.world.now_ns(), (connection.session, xid));
            let applied = tree.zxid as usize;
            self.ensemble.messages.took_effect(now_ns, key, applied);
        }
        match ask {
            Ask::Ping => self.reply(connection, xid, Ok(Answered::Nothing)),
            Ask::Read(reading, watch) => {
                if let Some(watch) = watch {
                    self.watch(tree, &reading, (connection.session, watch));
                }
                let found = reading.found(tree);
                self.reply(connection, xid, Ok(Answered::Found(found)));
            }
            Ask::ReadAll(readings, watch) => {
                if let Some(watch) = watch {
                    for reading in &readings {
                        self.watch(tree, reading, (connection.session, watch));
                    }
                }
                let found = readings.iter().map(|reading| reading.found(tree));
                self.reply(connection, xid, Ok(Answered::FoundAll(found.collect())));
            }
            Ask::ReadAgain(readings) => {
                let found = self.read_again(tree, readings);
                self.reply(connection, xid, Ok(Answered::FoundAgain(found)));
            }
            Ask::Write(write) => {
                assert_eq!(
                    connection.busy.get(),
                    None,
                    "a session has one write in flight"
                );
                connection.busy.set(Some(xid));
                return Some(Request {
                    origin: self.node,
                    session: connection.session,
                    xid,
                    write,
                });
            }
        }
        None
    }

    fn watches(&mut self, kind: WatchKind) -> &mut Watches {
        match kind {
            WatchKind::Data => &mut self.of_data,
            WatchKind::Children => &mut self.of_children,
        }
    }

    /// Sets a watch. On a missing node only Exists can set one.
    fn watch(&mut self, tree: &Tree, reading: &Reading, watch: (u64, i64)) {
        let path = reading.path();
        let kind = match reading {
            Reading::Exists(_) => WatchKind::Data,
            _ if !tree.has(path) => return,
            Reading::Get(_) => WatchKind::Data,
            _ => WatchKind::Children,
        };
        let (watches, node) = (self.watches(kind), Key::of(path));
        match watches.get_mut(node) {
            Some(others) => {
                assert!(!others.contains(&watch), "a watch is set once");
                others.push(watch);
            }
            None => watches.insert(node.hash, path.clone(), vec![watch]),
        }
    }
}

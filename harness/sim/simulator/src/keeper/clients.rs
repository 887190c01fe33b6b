//! A ZooKeeper server's clients: their connections, requests in order, local reads, watches.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use crate::bugs::Bug;
use crate::errors::SESSION_EXPIRED;
use crate::keeper::messages::{Answer, Answered, Ask, Ensemble, Listener, Request};
use crate::keeper::paths::{Key, PathMap};
use crate::keeper::session::{Found, KeeperSession, Reading, Readings};
use crate::keeper::tree::{Change, Tree};
use crate::network::Node;

/// What a watch is told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Data,
    Children,
}

/// The server's end of a client's connection.
struct Connection {
    session: u64,
    listener: Listener,
    /// Requests that wait for an earlier write of the same session.
    queue: RefCell<VecDeque<(i64, Ask)>>,
    /// The xid of the write that all others wait for.
    busy: Cell<Option<i64>>,
}

/// By path: sessions, and the numbers that they gave their watches.
type Watches = PathMap<Vec<(u64, i64)>>;

/// Of one server. A write that is to be passed on to the leader is returned.
pub struct Clients {
    node: Node,
    ensemble: Rc<Ensemble>,
    /// In the order in which they came.
    connections: Vec<Rc<Connection>>,
    /// What was found, and would be now.
    kept: Vec<(Rc<Readings>, Rc<[Found]>)>,
    of_data: Watches,
    of_children: Watches,
}

impl Clients {
    pub fn new(node: Node, ensemble: &Rc<Ensemble>) -> Clients {
        Clients {
            node,
            ensemble: ensemble.clone(),
            connections: Vec::new(),
            kept: Vec::new(),
            of_data: Watches::default(),
            of_children: Watches::default(),
        }
    }

    /// A session is being opened: its first write is.
    pub fn opens(&mut self, session: u64, listener: Listener) {
        let connection = Connection {
            session,
            listener,
            queue: RefCell::default(),
            busy: Cell::new(Some(0)),
        };
        self.connections.push(Rc::new(connection));
    }

    /// After the session's earlier ones, but for a ping. None: there is no such client.
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
        connection.queue.borrow_mut().push_back((xid, ask));
        Some(None)
    }

    /// A write has ended; what waited for it is next.
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

    /// The tree was changed; `listed`: so was the parent's list of children.
    pub fn changed(&mut self, change: &Change, listed: bool) {
        self.kept
            .retain(|(readings, _)| !readings.depend_on(change));
        self.fire(What::Data, change.key());
        if listed {
            self.fire(What::Children, change.above());
        }
    }

    /// Tells who watches this, once.
    fn fire(&mut self, what: What, node: Key) {
        let watches = self.watches(what);
        if watches.is_empty() {
            return;
        }
        for (session, watch) in watches.remove(node).unwrap_or_default() {
            let Some(connection) = self.connection(session) else {
                continue;
            };
            let ensemble = &self.ensemble;
            if ensemble.bugs.has(Bug::WatchMissed) && ensemble.world.below(8) == 0 {
                continue;
            }
            self.tell(&connection.listener, move |session| session.fired(watch));
        }
    }

    /// The client ended the connection; its session lives on until it expires.
    pub fn gone(&mut self, session: u64) {
        self.taken(session);
    }

    /// The server ends the connection.
    pub fn close(&mut self, session: u64) {
        if let Some(connection) = self.taken(session) {
            self.refuse(&connection.listener);
        }
    }

    /// As a server does that no longer serves, or dies.
    pub fn close_all(&mut self) {
        for connection in std::mem::take(&mut self.connections) {
            self.refuse(&connection.listener);
        }
        self.kept.clear();
        self.of_data.clear();
        self.of_children.clear();
    }

    /// Resets a connection.
    pub fn refuse(&self, listener: &Listener) {
        self.tell(listener, KeeperSession::broken);
    }

    fn connection(&self, session: u64) -> Option<&Rc<Connection>> {
        let mut all = self.connections.iter();
        all.find(|connection| connection.session == session)
    }

    fn taken(&mut self, session: u64) -> Option<Rc<Connection>> {
        let mut all = self.connections.iter();
        let at = all.position(|connection| connection.session == session)?;
        Some(self.connections.remove(at))
    }

    fn again(&mut self, tree: &Tree, readings: Rc<Readings>) -> Rc<[Found]> {
        let same = |(other, _): &&(Rc<Readings>, _)| Rc::ptr_eq(other, &readings);
        if let Some((_, found)) = self.kept.iter().find(same) {
            return found.clone();
        }
        let found = readings.found(tree);
        self.kept.push((readings, found.clone()));
        found
    }

    fn reply(&self, connection: &Connection, xid: i64, answer: Answer) {
        let to = &connection.listener;
        // An event has room for the first two of these.
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

    fn tell(&self, to: &Listener, act: impl FnOnce(&KeeperSession) + 'static) {
        let (network, session) = (&self.ensemble.network, to.session.clone());
        network.send(self.node, to.node, Some(&to.process), move || {
            if let Some(session) = session.upgrade() {
                act(&session);
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
                if let (Some(watch), Some(first)) = (watch, readings.first()) {
                    self.watch(tree, first, (connection.session, watch));
                }
                let found = readings.iter().map(|reading| reading.found(tree));
                self.reply(connection, xid, Ok(Answered::FoundAll(found.collect())));
            }
            Ask::ReadAgain(readings) => {
                let found = self.again(tree, readings);
                self.reply(connection, xid, Ok(Answered::FoundAgain(found)));
            }
            Ask::Write(write) => {
                assert_eq!(
                    connection.busy.get(),
                    None,
                    "a session writes one after the other"
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

    fn watches(&mut self, what: What) -> &mut Watches {
        match what {
            What::Data => &mut self.of_data,
            What::Children => &mut self.of_children,
        }
    }

    /// What does not exist is watched only by asking whether it does.
    fn watch(&mut self, tree: &Tree, reading: &Reading, watch: (u64, i64)) {
        let path = reading.path();
        let what = match reading {
            Reading::Exists(_) => What::Data,
            _ if !tree.has(path) => return,
            Reading::Get(_) => What::Data,
            _ => What::Children,
        };
        let (watches, node) = (self.watches(what), Key::of(path));
        match watches.get_mut(node) {
            Some(others) => others.push(watch),
            None => watches.insert(node.hash, path.clone(), vec![watch]),
        }
    }
}

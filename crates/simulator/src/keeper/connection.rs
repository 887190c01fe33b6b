//! Models the client's end of a connection: unanswered requests, and watches.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::{Rc, Weak};
use std::task::{ready, Poll};

use crate::errors::{KeeperError, CONNECTION_LOSS, SESSION_EXPIRED};
use crate::keeper::ensemble::Ensemble;
use crate::keeper::messages::Answer;
use crate::network::Node;
use crate::world::{Ns, Process, Promise};

/// The server's end of a connection, as its client sees it.
pub trait ServerEnd {
    /// Return the index of the server's node in the topology.
    fn node(&self) -> Node;

    /// Return the life of the server with which the connection ends.
    fn process(&self) -> &Rc<Process>;

    /// Forget a client whose connection has ended.
    fn disconnect(&self, session: u64);
}

/// The destination of a server's answers and events for one connection.
#[derive(Clone)]
pub struct Listener {
    pub node: Node,
    pub process: Rc<Process>,
    /// Dropped if the owner of the session has dropped it; nothing is sent then.
    pub connection: Weak<ClientConnection>,
}

/// An unanswered request.
struct Sent {
    xid: i64,
    answer: Promise<Answer>,
    since_ns: Ns,
}

/// The client's end of a session's only connection.
pub struct ClientConnection {
    pub node: Node,
    pub process: Rc<Process>,
    pub session: u64,
    ensemble: Rc<Ensemble>,
    server: Rc<dyn ServerEnd>,
    alive: Cell<bool>,
    /// Oldest first.
    sent: RefCell<VecDeque<Sent>>,
    /// Promises whose answers were taken, for reuse.
    spare: RefCell<Vec<Promise<Answer>>>,
    /// By number, in ascending order.
    watches: RefCell<BTreeMap<i64, Promise<()>>>,
}

impl ClientConnection {
    /// Return the end of a client at `node`, in the life of its process.
    pub fn new(
        node: Node,
        process: &Rc<Process>,
        ensemble: &Rc<Ensemble>,
        server: Rc<dyn ServerEnd>,
        session: u64,
    ) -> Rc<ClientConnection> {
        assert!(session > 0, "session numbers start at 1");
        Rc::new(ClientConnection {
            node,
            process: process.clone(),
            session,
            ensemble: ensemble.clone(),
            server,
            alive: Cell::new(true),
            sent: RefCell::default(),
            spare: RefCell::default(),
            watches: RefCell::default(),
        })
    }

    /// Return whether the session can still be used.
    pub fn alive(&self) -> bool {
        self.alive.get()
    }

    /// Return the time at which the oldest unanswered request was sent.
    pub fn oldest_ns(&self) -> Option<Ns> {
        self.sent.borrow().front().map(|sent| sent.since_ns)
    }

    /// Record a request that is sent now, and return the promise of its answer.
    pub fn note(&self, xid: i64) -> Promise<Answer> {
        let answer = self.spare.borrow_mut().pop().unwrap_or_default();
        assert!(
            !answer.is_done(),
            "a promise is renewed before it is reused"
        );
        let mut sent = self.sent.borrow_mut();
        let ascends = sent.back().is_none_or(|last| last.xid < xid);
        assert!(ascends, "requests are numbered in the order of sending");
        sent.push_back(Sent {
            xid,
            answer: answer.clone(),
            since_ns: self.ensemble.world.now_ns(),
        });
        answer
    }

    /// Record a watch that the request sets, if the session is alive.
    pub fn note_watch(&self, number: i64, watch: &Promise<()>) {
        if self.alive() {
            let other = self.watches.borrow_mut().insert(number, watch.clone());
            assert!(other.is_none(), "watch numbers are unique");
        }
    }

    /// Poll for an answer. `promise` is `None` if the session was lost before the request.
    #[inline(never)]
    pub fn poll(&self, promise: &mut Option<Promise<Answer>>) -> Poll<Answer> {
        let Some(pending) = promise else {
            return Poll::Ready(Err(KeeperError::new(SESSION_EXPIRED)));
        };
        let answer = ready!(self.ensemble.world.poll(pending));
        pending.renew();
        self.spare.borrow_mut().extend(promise.take());
        Poll::Ready(answer)
    }

    fn take_sent(&self, xid: i64) -> Option<Sent> {
        let mut sent = self.sent.borrow_mut();
        if sent.front()?.xid == xid {
            return sent.pop_front();
        }
        let at = sent.iter().position(|sent| sent.xid == xid)?;
        sent.remove(at)
    }

    /// Accept an answer from the server.
    pub fn answered(&self, xid: i64, answer: Answer) {
        let Some(sent) = self.take_sent(xid) else {
            return;
        };
        assert!(self.alive(), "a lost session has no unanswered request");
        let (now_ns, key) = (self.ensemble.world.now_ns(), (self.session, xid));
        self.ensemble.messages.answered(now_ns, key, answer.is_ok());
        if matches!(&answer, Err(error) if error.code == SESSION_EXPIRED) {
            self.lose();
        }
        sent.answer.set(&self.ensemble.world, answer);
    }

    /// Accept the event of a watch from the server.
    pub fn fired(&self, watch: i64) {
        let promise = self.watches.borrow_mut().remove(&watch);
        if let Some(promise) = promise {
            assert!(self.alive(), "a lost session has no watch");
            promise.set(&self.ensemble.world, ());
        }
    }

    /// Lose the session because the host of the ended server sends a reset.
    #[cold]
    pub fn reset(self: &Rc<Self>) {
        assert!(
            !self.server.process().alive(),
            "a living server does not reset connections"
        );
        let (network, me) = (&self.ensemble.network, Rc::downgrade(self));
        let (source, process) = (self.server.node(), Some(&self.process));
        network.send(source, self.node, process, move || {
            if let Some(me) = me.upgrade() {
                me.lose();
            }
        });
    }

    /// Give up the session: every request fails, and every watch fires.
    #[cold]
    pub fn lose(&self) {
        if !self.alive.replace(false) {
            return;
        }
        let (to, session) = (self.server.clone(), self.session);
        let (network, process) = (&self.ensemble.network, to.process().clone());
        network.send(self.node, to.node(), Some(&process), move || {
            to.disconnect(session)
        });
        let world = &self.ensemble.world;
        for sent in self.sent.take() {
            let key = (session, sent.xid);
            self.ensemble.messages.lost(world.now_ns(), key);
            let lost = Err(KeeperError::new(CONNECTION_LOSS));
            sent.answer.set(world, lost);
        }
        for promise in self.watches.take().into_values() {
            promise.set(world, ());
        }
        assert!(
            self.sent.borrow().is_empty(),
            "a lost session sends nothing"
        );
    }
}

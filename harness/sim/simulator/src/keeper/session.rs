//! A replica's connection to ZooKeeper, as the C++ client of 18.16.1 has it.
//!
//! A connection is a session: when it breaks, or when an answer is late, the session is given up
//! and another one is opened. What was sent and not answered may have been done (CONNECTIONLOSS).

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{poll_fn, Future};
use std::rc::{Rc, Weak};
use std::task::{ready, Poll};

use crate::errors::{KeeperError, CONNECTION_LOSS, NO_NODE, SESSION_EXPIRED};
use crate::keeper::messages::{Answer, Answered, Ask, Ensemble, Listener, Write};
use crate::keeper::server::KeeperServer;
use crate::keeper::tree::{Done, Names, Operation, Path};
use crate::network::Node;
use crate::table::entries::Data;
use crate::table::parts::Ordered;
use crate::world::{Act, Ns, Process, Promise, World, MS, SECOND};

pub use crate::keeper::reading::{Found, Reading, Readings, Values};

const SESSION_TIMEOUT_NS: Ns = 5 * SECOND;
const OPERATION_TIMEOUT_NS: Ns = 3 * SECOND;
const CONNECT_TIMEOUT_NS: Ns = SECOND;
const CHECK_NS: Ns = 500 * MS;
/// Of the request that closes a session; no answer to it is waited for.
const CLOSE: i64 = -2;

/// A request without an answer.
struct Sent {
    xid: i64,
    answer: Promise<Answer>,
    since_ns: Ns,
}

/// One session. Every call waits for its answer.
pub struct KeeperSession {
    me: Weak<KeeperSession>,
    node: Node,
    process: Rc<Process>,
    ensemble: Rc<Ensemble>,
    world: Rc<World>,
    server: Rc<KeeperServer>,
    session: u64,
    alive: Cell<bool>,
    xid: Cell<i64>,
    /// Oldest first.
    sent: RefCell<VecDeque<Sent>>,
    /// Of answers that have been taken: the next requests have them.
    spare: RefCell<Vec<Promise<Answer>>>,
    watches: RefCell<Ordered<i64, Promise<()>>>,
    pinged_ns: Cell<Ns>,
}

impl KeeperSession {
    /// Of a client at that node, in the life of its process.
    pub fn new(
        node: Node,
        process: &Rc<Process>,
        ensemble: &Rc<Ensemble>,
        server: &Rc<KeeperServer>,
        session: u64,
    ) -> Rc<KeeperSession> {
        Rc::new_cyclic(|me| KeeperSession {
            me: me.clone(),
            node,
            process: process.clone(),
            ensemble: ensemble.clone(),
            world: ensemble.world.clone(),
            server: server.clone(),
            session,
            alive: Cell::new(true),
            xid: Cell::new(0),
            sent: RefCell::default(),
            spare: RefCell::default(),
            watches: RefCell::default(),
            pinged_ns: Cell::new(ensemble.world.now_ns()),
        })
    }

    /// Fails when no session could be had in time.
    pub async fn open(self: &Rc<Self>) -> Result<(), KeeperError> {
        let promise = self.note(0);
        let listener = Listener {
            node: self.node,
            process: self.process.clone(),
            session: self.me.clone(),
        };
        let session = self.session;
        self.send(move |server| server.connect(session, SESSION_TIMEOUT_NS, listener));
        match self.world.wait_for(&promise, CONNECT_TIMEOUT_NS).await {
            Ok(answer) => answer?,
            Err(_) => {
                self.broken();
                return Err(KeeperError::new(CONNECTION_LOSS));
            }
        };
        self.check_later();
        Ok(())
    }

    pub fn alive(&self) -> bool {
        self.alive.get()
    }

    /// The ZooKeeper server that it was opened at.
    pub fn server(&self) -> &Rc<KeeperServer> {
        &self.server
    }

    pub fn number(&self) -> u64 {
        self.session
    }

    // --- requests -------------------------------------------------------------------------------

    /// Several reads, asked together, answered from what the server has at one moment. `watch` is
    /// set when the first of them changes.
    pub fn read(
        &self,
        readings: Vec<Reading>,
        watch: Option<&Promise<()>>,
    ) -> impl Future<Output = Result<Vec<Found>, KeeperError>> + use<'_> {
        let number = watch.map(|watch| self.watch(watch));
        self.ask(Ask::ReadAll(readings, number), |answered| match answered {
            Answered::FoundAll(found) => found,
            other => panic!("{other:?} answers no readings"),
        })
    }

    /// Readings that are made again and again.
    pub fn read_again(
        &self,
        readings: &Rc<Readings>,
    ) -> impl Future<Output = Result<Rc<[Found]>, KeeperError>> + use<'_> {
        self.ask(
            Ask::ReadAgain(readings.clone()),
            |answered| match answered {
                Answered::FoundAgain(found) => found,
                other => panic!("{other:?} answers no readings"),
            },
        )
    }

    /// One read.
    pub fn read_one(
        &self,
        reading: Reading,
        watch: Option<&Promise<()>>,
    ) -> impl Future<Output = Result<Found, KeeperError>> + use<'_> {
        let number = watch.map(|watch| self.watch(watch));
        self.ask(Ask::Read(reading, number), found)
    }

    /// The number of a watch, which the next request sets, if the session lives.
    fn watch(&self, watch: &Promise<()>) -> i64 {
        let number = self.xid.get() + 1;
        if self.alive() {
            let other = self.watches.borrow_mut().insert(number, watch.clone());
            assert!(other.is_none(), "a watch has a number of its own");
        }
        number
    }

    /// The same, of several whose number is known.
    pub async fn read_all<const N: usize>(
        &self,
        readings: [Reading; N],
        watch: Option<&Promise<()>>,
    ) -> Result<[Found; N], KeeperError> {
        let found = self.read(readings.into(), watch).await?;
        Ok(found
            .try_into()
            .unwrap_or_else(|_| panic!("an answer for each reading")))
    }

    /// Data and version; None: there is no such node.
    pub fn get<P: Into<Path>>(
        &self,
        path: P,
    ) -> impl Future<Output = Result<Option<(Data, i64)>, KeeperError>> + use<'_, P> {
        let ask = Ask::Read(Reading::get(path), None);
        self.ask(ask, |answered| found(answered).get())
    }

    /// The data of a node that must exist.
    pub async fn data(&self, path: impl Into<Path>) -> Result<Data, KeeperError> {
        let path = path.into();
        let found = self.get(path.clone()).await?;
        let missing = || KeeperError::of(NO_NODE, &path);
        found.map(|(data, _)| data).ok_or_else(missing)
    }

    /// Whether there is such a node.
    pub fn exists<P: Into<Path>>(
        &self,
        path: P,
    ) -> impl Future<Output = Result<bool, KeeperError>> + use<'_, P> {
        let ask = Ask::Read(Reading::exists(path), None);
        self.ask(ask, |answered| !found(answered).is_nothing())
    }

    /// Names, ascending; empty where there is no such node.
    pub fn children<P: Into<Path>>(
        &self,
        path: P,
    ) -> impl Future<Output = Result<Names, KeeperError>> + use<'_, P> {
        let ask = Ask::Read(Reading::children(path), None);
        self.ask(ask, |answered| {
            found(answered).children().unwrap_or_default()
        })
    }

    /// All or nothing, in the order of all writes. An error has the operation's place.
    pub fn multi(
        &self,
        operations: Vec<Operation>,
    ) -> impl Future<Output = Result<Rc<[Done]>, KeeperError>> + '_ {
        let ask = Ask::Write(Write::Multi(operations));
        self.ask(ask, |answered| match answered {
            Answered::Done(done) => done,
            Answered::Nothing => Rc::default(),
            other => panic!("{other:?} answers no multi"),
        })
    }

    /// A multi of one create; the path of what was made.
    pub async fn create(&self, node: Operation) -> Result<Path, KeeperError> {
        let done = self.multi(vec![node]).await?;
        Ok(done.last().expect("one answer").path().clone())
    }

    /// Replaces a node's data.
    pub async fn put(&self, path: impl Into<Path>, data: Data) -> Result<(), KeeperError> {
        self.multi(vec![Operation::put(path, data)]).await?;
        Ok(())
    }

    /// False when there is no such node.
    pub async fn remove(&self, path: impl Into<Path>) -> Result<bool, KeeperError> {
        match self.multi(vec![Operation::remove(path)]).await {
            Ok(_) => Ok(true),
            Err(error) if error.code == NO_NODE => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Reads after this see what the leader had committed when the call reached it. What the
    /// leader knows, that is: one that was deposed and has not noticed answers all the same.
    pub fn sync(&self) -> impl Future<Output = Result<(), KeeperError>> + '_ {
        self.ask(Ask::Write(Write::Sync), |_| ())
    }

    /// Reads after this see every write that was acknowledged before the call: a write of nothing,
    /// which takes a majority as every write does.
    pub fn barrier(&self) -> impl Future<Output = Result<(), KeeperError>> + '_ {
        self.ask(Ask::Write(Write::Multi(Vec::new())), |_| ())
    }

    /// Ends the session, and its ephemeral nodes with it; does not wait.
    pub fn close(&self) {
        if self.alive() {
            self.request(CLOSE, Ask::Write(Write::Close));
            self.lose();
        }
    }

    // --- the wire -------------------------------------------------------------------------------

    /// Asks at once; the future is what is read of the answer.
    fn ask<T>(
        &self,
        ask: Ask,
        read: fn(Answered) -> T,
    ) -> impl Future<Output = Result<T, KeeperError>> + use<'_, T> {
        let mut promise = self.alive().then(|| self.note_request(ask));
        poll_fn(move |_| {
            let answer = ready!(self.poll(&mut promise));
            Poll::Ready(answer.map(read))
        })
    }

    /// Of what was asked; None: the session is over.
    #[inline(never)]
    fn poll(&self, promise: &mut Option<Promise<Answer>>) -> Poll<Answer> {
        let Some(asked) = promise else {
            return Poll::Ready(Err(KeeperError::new(SESSION_EXPIRED)));
        };
        let answer = ready!(self.world.poll(asked));
        asked.renew();
        self.spare.borrow_mut().extend(promise.take());
        Poll::Ready(answer)
    }

    /// Sends one that is to be answered.
    fn note_request(&self, ask: Ask) -> Promise<Answer> {
        let xid = self.xid.get() + 1;
        self.xid.set(xid);
        let promise = self.note(xid);
        self.request(xid, ask);
        promise
    }

    fn note(&self, xid: i64) -> Promise<Answer> {
        let answer = self.spare.borrow_mut().pop().unwrap_or_default();
        let last = self.sent.borrow().back().map(|sent| sent.xid);
        assert!(
            last.is_none_or(|last| last < xid),
            "requests are numbered as they are sent"
        );
        self.sent.borrow_mut().push_back(Sent {
            xid,
            answer: answer.clone(),
            since_ns: self.world.now_ns(),
        });
        answer
    }

    fn request(&self, xid: i64, ask: Ask) {
        let session = self.session;
        // An event has room for the first two of these.
        match ask {
            Ask::Write(Write::Multi(nothing)) if nothing.is_empty() => self.send(move |server| {
                server.request(session, xid, Ask::Write(Write::Multi(Vec::new())))
            }),
            Ask::ReadAgain(readings) => {
                self.send(move |server| server.request(session, xid, Ask::ReadAgain(readings)));
            }
            ask => self.send(move |server| server.request(session, xid, ask)),
        }
    }

    fn send(&self, act: impl FnOnce(&KeeperServer) + 'static) {
        if !self.server.process.alive() {
            return self.be_refused();
        }
        let (network, to) = (&self.ensemble.network, self.server.clone());
        let process = Some(&self.server.process);
        network.send(self.node, self.server.node, process, move || act(&to));
    }

    /// Where no server is, a connection is reset.
    #[cold]
    fn be_refused(&self) {
        let (network, me) = (&self.ensemble.network, self.me.clone());
        network.send(
            self.server.node,
            self.node,
            Some(&self.process),
            move || {
                if let Some(me) = me.upgrade() {
                    me.broken();
                }
            },
        );
    }

    fn taken(&self, xid: i64) -> Option<Sent> {
        let mut sent = self.sent.borrow_mut();
        if sent.front()?.xid == xid {
            return sent.pop_front();
        }
        let at = sent.iter().position(|sent| sent.xid == xid)?;
        sent.remove(at)
    }

    /// From the server.
    pub fn answered(&self, xid: i64, answer: Answer) {
        let Some(sent) = self.taken(xid) else {
            return;
        };
        if matches!(&answer, Err(error) if error.code == SESSION_EXPIRED) {
            self.lose();
        }
        sent.answer.set(&self.world, answer);
    }

    /// A watch's event, from the server.
    pub fn fired(&self, watch: i64) {
        let promise = self.watches.borrow_mut().shift_remove(&watch);
        if let Some(promise) = promise {
            promise.set(&self.world, ());
        }
    }

    /// The connection is gone, and the session with it.
    pub fn broken(&self) {
        self.lose();
    }

    fn check_later(self: &Rc<Self>) {
        let me = self.clone();
        let act = Act::call(move || me.check());
        self.world.after(CHECK_NS, Some(&self.process), act);
    }

    /// Late answers end the session; silence is broken by a ping.
    fn check(self: &Rc<Self>) {
        if !self.alive() {
            return;
        }
        let now_ns = self.world.now_ns();
        let oldest = self.sent.borrow().front().map(|sent| sent.since_ns);
        if oldest.is_some_and(|since_ns| now_ns - since_ns > OPERATION_TIMEOUT_NS) {
            return self.lose();
        }
        if now_ns - self.pinged_ns.get() >= SESSION_TIMEOUT_NS / 3 {
            self.pinged_ns.set(now_ns);
            self.note_request(Ask::Ping);
        }
        self.check_later();
    }

    #[cold]
    fn lose(&self) {
        if !self.alive.replace(false) {
            return;
        }
        let (to, session) = (self.server.clone(), self.session);
        let (network, process) = (&self.ensemble.network, to.process.clone());
        network.send(self.node, to.node, Some(&process), move || {
            to.disconnect(session)
        });
        for sent in self.sent.take() {
            sent.answer
                .set(&self.world, Err(KeeperError::new(CONNECTION_LOSS)));
        }
        for promise in self.watches.take().into_values() {
            promise.set(&self.world, ());
        }
    }
}

/// Of one read.
fn found(answered: Answered) -> Found {
    match answered {
        Answered::Found(found) => found,
        other => panic!("{other:?} answers no reading"),
    }
}

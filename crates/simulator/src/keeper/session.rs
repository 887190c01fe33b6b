//! Models a replica's connection to ZooKeeper as the C++ client of 18.16.1 implements it.
//!
//! A connection is a session: when it breaks, or when an answer is late, the client gives the
//! session up and opens another one. Unanswered requests may have been executed (CONNECTIONLOSS).

use std::cell::Cell;
use std::future::{poll_fn, Future};
use std::rc::Rc;
use std::task::{ready, Poll};

use crate::errors::{KeeperError, CONNECTION_LOSS, NODE_EXISTS, NO_NODE};
use crate::keeper::configuration::MemberRole;
use crate::keeper::connection::{ClientConnection, Listener};
use crate::keeper::ensemble::Ensemble;
use crate::keeper::messages::{Answer, Answered, Ask, Write};
use crate::keeper::server::KeeperServer;
use crate::keeper::tree::{Data, Done, Names, Operation, Path};
use crate::network::Node;
use crate::world::{Action, Ns, Process, Promise, Resource, World, MS, SECOND};

pub use crate::keeper::reading::{Found, Reading, Readings, Values};

const SESSION_TIMEOUT_NS: Ns = 5 * SECOND;
const OPERATION_TIMEOUT_NS: Ns = 3 * SECOND;
const CONNECT_TIMEOUT_NS: Ns = SECOND;
const CHECK_NS: Ns = 500 * MS;
/// The xid of the request that closes a session; nothing waits for its answer.
const CLOSE: i64 = -2;

/// A session. Every call waits for its answer.
pub struct KeeperSession {
    connection: Rc<ClientConnection>,
    ensemble: Rc<Ensemble>,
    world: Rc<World>,
    server: Rc<KeeperServer>,
    xid: Cell<i64>,
    pinged_ns: Cell<Ns>,
}

impl KeeperSession {
    /// Return a session of a client at `node`, in the life of its process. It is not open yet.
    pub fn new(
        node: Node,
        process: &Rc<Process>,
        ensemble: &Rc<Ensemble>,
        server: &Rc<KeeperServer>,
        session: u64,
    ) -> Rc<KeeperSession> {
        let end = server.clone();
        Rc::new(KeeperSession {
            connection: ClientConnection::new(node, process, ensemble, end, session),
            ensemble: ensemble.clone(),
            world: ensemble.world.clone(),
            server: server.clone(),
            xid: Cell::new(0),
            pinged_ns: Cell::new(ensemble.world.now_ns()),
        })
    }

    /// Open the session; fail with CONNECTIONLOSS if no server accepts it in time.
    pub async fn open(self: &Rc<Self>) -> Result<(), KeeperError> {
        assert_eq!(self.xid.get(), 0, "a session is opened before it is used");
        let connection = &self.connection;
        let promise = connection.note(0);
        let listener = Listener {
            node: connection.node,
            process: connection.process.clone(),
            connection: Rc::downgrade(connection),
        };
        let session = connection.session;
        let world = self.world.clone();
        self.send(move |server| {
            // Without a descriptor the server does not accept the connection.
            if !world.lacks(server.node, Resource::Files) {
                server.connect(session, SESSION_TIMEOUT_NS, listener);
            }
        });
        match self.world.wait_for(&promise, CONNECT_TIMEOUT_NS).await {
            Ok(answer) => answer?,
            Err(_) => {
                connection.lose();
                return Err(KeeperError::new(CONNECTION_LOSS));
            }
        };
        self.check_later();
        Ok(())
    }

    /// Return whether requests are still sent.
    pub fn alive(&self) -> bool {
        self.connection.alive()
    }

    /// Return the ZooKeeper server through which the session was opened.
    pub fn server(&self) -> &Rc<KeeperServer> {
        &self.server
    }

    /// Return the session's number.
    pub fn number(&self) -> u64 {
        self.connection.session
    }

    // --- requests -------------------------------------------------------------------------------

    /// Send several reads at once and return what they find at one moment of the server. `watch`
    /// fires when one of the nodes changes.
    pub fn read(
        &self,
        readings: Vec<Reading>,
        watch: Option<&Promise<()>>,
    ) -> impl Future<Output = Result<Vec<Found>, KeeperError>> + use<'_> {
        let number = watch.map(|watch| self.watch(watch));
        self.ask(Ask::ReadAll(readings, number), |answered| match answered {
            Answered::FoundAll(found) => found,
            other => panic!("{other:?} is not the answer to readings"),
        })
    }

    /// Return the results of repeated readings.
    pub fn read_again(
        &self,
        readings: &Rc<Readings>,
    ) -> impl Future<Output = Result<Rc<[Found]>, KeeperError>> + use<'_> {
        self.ask(
            Ask::ReadAgain(readings.clone()),
            |answered| match answered {
                Answered::FoundAgain(found) => found,
                other => panic!("{other:?} is not the answer to readings"),
            },
        )
    }

    /// Return the result of one reading.
    pub fn read_one(
        &self,
        reading: Reading,
        watch: Option<&Promise<()>>,
    ) -> impl Future<Output = Result<Found, KeeperError>> + use<'_> {
        let number = watch.map(|watch| self.watch(watch));
        self.ask(Ask::Read(reading, number), found)
    }

    /// Return the number of a watch that the next request sets.
    fn watch(&self, watch: &Promise<()>) -> i64 {
        let number = self.xid.get() + 1;
        self.connection.note_watch(number, watch);
        number
    }

    /// Return the results of a fixed number of readings at one moment.
    pub async fn read_all<const N: usize>(
        &self,
        readings: [Reading; N],
        watch: Option<&Promise<()>>,
    ) -> Result<[Found; N], KeeperError> {
        let found = self.read(readings.into(), watch).await?;
        Ok(found
            .try_into()
            .unwrap_or_else(|_| panic!("every reading has an answer")))
    }

    /// Return a node's data and version; `None` if it does not exist.
    pub fn get<P: Into<Path>>(
        &self,
        path: P,
    ) -> impl Future<Output = Result<Option<(Data, i64)>, KeeperError>> + use<'_, P> {
        let ask = Ask::Read(Reading::get(path), None);
        self.ask(ask, |answered| found(answered).get())
    }

    /// Return the data of a node that must exist.
    pub async fn data(&self, path: impl Into<Path>) -> Result<Data, KeeperError> {
        let path = path.into();
        let found = self.get(path.clone()).await?;
        let missing = || KeeperError::of(NO_NODE, &path);
        found.map(|(data, _)| data).ok_or_else(missing)
    }

    /// Return whether a node exists.
    pub fn exists<P: Into<Path>>(
        &self,
        path: P,
    ) -> impl Future<Output = Result<bool, KeeperError>> + use<'_, P> {
        let ask = Ask::Read(Reading::exists(path), None);
        self.ask(ask, |answered| !found(answered).is_nothing())
    }

    /// Return the children's names, ascending; none if the node does not exist.
    pub fn children<P: Into<Path>>(
        &self,
        path: P,
    ) -> impl Future<Output = Result<Names, KeeperError>> + use<'_, P> {
        let ask = Ask::Read(Reading::children(path), None);
        self.ask(ask, |answered| {
            found(answered).children().unwrap_or_default()
        })
    }

    /// Execute all operations or none, in the order of all writes. An error names the operation
    /// that was refused.
    pub fn multi(
        &self,
        operations: Vec<Operation>,
    ) -> impl Future<Output = Result<Rc<[Done]>, KeeperError>> + '_ {
        let ask = Ask::Write(Write::Multi(operations));
        self.ask(ask, |answered| match answered {
            Answered::Done(done) => done,
            Answered::Nothing => Rc::default(),
            other => panic!("{other:?} is not the answer to a multi"),
        })
    }

    /// Create one node and return its path.
    pub async fn create(&self, node: Operation) -> Result<Path, KeeperError> {
        let done = self.multi(vec![node]).await?;
        Ok(done
            .last()
            .expect("the operation has an answer")
            .path()
            .clone())
    }

    /// Create a node unless it exists.
    pub async fn ensure(&self, path: &str, data: Data) -> Result<(), KeeperError> {
        match self.create(Operation::create(path, data)).await {
            Err(error) if error.code != NODE_EXISTS => Err(error),
            _ => Ok(()),
        }
    }

    /// Replace a node's data.
    pub async fn put(&self, path: impl Into<Path>, data: Data) -> Result<(), KeeperError> {
        self.multi(vec![Operation::put(path, data)]).await?;
        Ok(())
    }

    /// Remove a node and return whether it existed.
    pub async fn remove(&self, path: impl Into<Path>) -> Result<bool, KeeperError> {
        match self.multi(vec![Operation::remove(path)]).await {
            Ok(_) => Ok(true),
            Err(error) if error.code == NO_NODE => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Wait until later reads see what the leader had committed when the call reached it. A deposed
    /// leader that has not noticed yet answers as well.
    pub fn sync(&self) -> impl Future<Output = Result<(), KeeperError>> + '_ {
        self.ask(Ask::Write(Write::Sync), |_| ())
    }

    /// Give a server a role in the ensemble, or remove it from the ensemble.
    pub fn reconfig(
        &self,
        node: Node,
        role: Option<MemberRole>,
    ) -> impl Future<Output = Result<(), KeeperError>> + '_ {
        self.ask(Ask::Write(Write::Reconfig(node, role)), |_| ())
    }

    /// Wait until later reads see every write that was acknowledged before the call: commit an
    /// empty write, which needs a majority like any other.
    pub fn barrier(&self) -> impl Future<Output = Result<(), KeeperError>> + '_ {
        self.ask(Ask::Write(Write::Multi(Vec::new())), |_| ())
    }

    /// Close the session, which removes its ephemeral nodes, without waiting.
    pub fn close(&self) {
        if self.alive() {
            self.request(CLOSE, Ask::Write(Write::Close));
            self.connection.lose();
        }
    }

    // --- the wire -------------------------------------------------------------------------------

    /// Send a request at once; the future returns its answer.
    fn ask<T>(
        &self,
        ask: Ask,
        read: fn(Answered) -> T,
    ) -> impl Future<Output = Result<T, KeeperError>> + use<'_, T> {
        let mut promise = self.alive().then(|| self.note_request(ask));
        poll_fn(move |_| {
            let answer = ready!(self.connection.poll(&mut promise));
            Poll::Ready(answer.map(read))
        })
    }

    /// Send a request and return the promise of its answer.
    fn note_request(&self, ask: Ask) -> Promise<Answer> {
        let xid = self.xid.get() + 1;
        self.xid.set(xid);
        let promise = self.connection.note(xid);
        let (node, key) = (self.connection.node, (self.number(), xid));
        self.ensemble
            .messages
            .sent(self.world.now_ns(), node, key, &ask);
        self.request(xid, ask);
        promise
    }

    fn request(&self, xid: i64, ask: Ask) {
        assert!(self.alive(), "a lost session sends no request");
        let session = self.number();
        // Each of the first two closures fits into an event without an allocation.
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
            return self.connection.reset();
        }
        let (network, to) = (&self.ensemble.network, self.server.clone());
        let (source, process) = (self.connection.node, Some(&self.server.process));
        network.send(source, self.server.node, process, move || act(&to));
    }

    fn check_later(self: &Rc<Self>) {
        let me = self.clone();
        let act = Action::call(move || me.check());
        let process = Some(&self.connection.process);
        let check_ns = self.connection.process.timer_ns(CHECK_NS);
        self.world.after(check_ns, process, act);
    }

    /// Give the session up if an answer is late; ping the server after a silence.
    fn check(self: &Rc<Self>) {
        if !self.alive() {
            return;
        }
        let now_ns = self.world.now_ns();
        let process = &self.connection.process;
        let oldest_ns = self.connection.oldest_ns();
        let waits_ns = oldest_ns.map(|since_ns| process.shown_ns(now_ns - since_ns));
        if waits_ns.is_some_and(|ns| ns > OPERATION_TIMEOUT_NS) {
            return self.connection.lose();
        }
        let silent_ns = process.shown_ns(now_ns - self.pinged_ns.get());
        assert!(silent_ns >= 0, "the last ping was sent in the past");
        if silent_ns >= SESSION_TIMEOUT_NS / 3 {
            self.pinged_ns.set(now_ns);
            self.note_request(Ask::Ping);
        }
        self.check_later();
    }
}

/// Return the result of one reading.
fn found(answered: Answered) -> Found {
    match answered {
        Answered::Found(found) => found,
        other => panic!("{other:?} is not the answer to a reading"),
    }
}

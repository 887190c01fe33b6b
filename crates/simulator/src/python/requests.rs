//! Requests to the servers: the sessions that they use, and their answers until Python takes them.

use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::block::Block;
use crate::errors::{KeeperError, ServerError};
use crate::keeper::session::{Found, KeeperSession};
use crate::keeper::tree::Done;
use crate::network::Node;
use crate::simulation::Simulation;

/// The result of a session's request.
pub enum SessionResult {
    Opened(u64),
    Found(Vec<Found>),
    Done(Rc<[Done]>),
    Synced,
}

/// The result of an asynchronous request.
pub enum Answer {
    OfServer(Result<Rc<Block>, ServerError>),
    OfKeeper(Result<SessionResult, KeeperError>),
}

/// The requests of a simulation's caller, by number.
#[derive(Default)]
pub struct Requests {
    answers: Rc<RefCell<FxHashMap<u64, Answer>>>,
    sessions: Rc<RefCell<FxHashMap<u64, Rc<KeeperSession>>>>,
}

impl Requests {
    /// Starts a request. Its answer makes the caller's event `number` due.
    pub fn begin(
        &self,
        simulation: &Simulation,
        number: u64,
        work: impl Future<Output = Answer> + 'static,
    ) {
        let (world, answers) = (simulation.world.clone(), self.answers.clone());
        simulation.world.begin(async move {
            let answer = work.await;
            answers.borrow_mut().insert(number, answer);
            world.report_due(number, true);
        });
    }

    /// Opens a session through one of these servers. The answer is its number.
    pub fn open(&self, simulation: &Rc<Simulation>, number: u64, keepers: Vec<Node>) {
        let (cluster, sessions) = (simulation.clone(), self.sessions.clone());
        self.begin(simulation, number, async move {
            let opened = cluster.session(&keepers).await;
            Answer::OfKeeper(opened.map(|session| {
                let own = session.number();
                sessions.borrow_mut().insert(own, session);
                SessionResult::Opened(own)
            }))
        });
    }

    pub fn session(&self, session: u64) -> Rc<KeeperSession> {
        let sessions = self.sessions.borrow();
        sessions.get(&session).expect("the session is open").clone()
    }

    /// Closes a session without waiting.
    pub fn close(&self, session: u64) {
        self.session(session).close();
        self.sessions.borrow_mut().remove(&session);
    }

    /// Returns all open sessions, which are none afterwards.
    pub fn take_sessions(&self) -> impl Iterator<Item = Rc<KeeperSession>> {
        self.sessions.take().into_values()
    }

    /// Returns the answer to a request, once, after its event.
    pub fn take(&self, number: u64) -> Answer {
        let answer = self.answers.borrow_mut().remove(&number);
        answer.expect("an answer is taken once, after its event")
    }
}

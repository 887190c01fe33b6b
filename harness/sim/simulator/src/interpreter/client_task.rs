//! Sends clients' statements to the servers, by one task for each worker that sleeps between calls.

use std::cell::Cell;
use std::rc::Rc;

use crate::block::Block;
use crate::errors::ServerError;
use crate::network::Node;
use crate::server::Settings;
use crate::simulation::Simulation;
use crate::sql::Query;
use crate::table::parts::Row;
use crate::world::{Ns, Task};

pub type Answer = Result<Rc<Block>, ServerError>;

/// A statement and the server to which it is sent.
pub struct Request {
    pub node: Node,
    pub query: Rc<Query>,
    pub rows: Option<Vec<Row>>,
    pub settings: Rc<Settings>,
    pub timeout_ns: Ns,
}

pub struct ClientTask {
    task: Rc<Task>,
    mailbox: Rc<Mailbox>,
}

#[derive(Default)]
struct Mailbox {
    request: Cell<Option<Request>>,
    answer: Cell<Option<Answer>>,
}

impl ClientTask {
    /// Creates a task that makes the event `number` due whenever an answer arrives.
    pub fn new(simulation: &Rc<Simulation>, number: u64) -> ClientTask {
        let (simulation, mailbox) = (simulation.clone(), Rc::<Mailbox>::default());
        let (world, own) = (simulation.world.clone(), mailbox.clone());
        let task = world.create_task(async move {
            while let Some(request) = own.request.take() {
                let (query, rows) = (request.query, request.rows);
                let answer = simulation
                    .ask(
                        request.node,
                        query,
                        rows,
                        request.settings,
                        request.timeout_ns,
                    )
                    .await;
                own.answer.set(Some(answer));
                simulation.world.report_due(number, true);
                simulation.world.suspend().await;
            }
        });
        ClientTask { task, mailbox }
    }

    /// Sends at once. Not allowed within a task of the world.
    pub fn send(&self, simulation: &Simulation, request: Request) {
        self.mailbox.request.set(Some(request));
        simulation.world.resume_task(&self.task);
    }

    /// Takes the answer that arrived.
    pub fn answer(&self) -> Answer {
        self.mailbox.answer.take().expect("the answer has arrived")
    }
}

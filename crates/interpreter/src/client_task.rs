//! Sends clients' statements to the servers, by one task for each worker that sleeps between calls.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use simulator::block::Block;
use simulator::errors::ServerError;
use simulator::network::Node;
use simulator::server::Settings;
use simulator::simulation::Simulation;
use simulator::sql::Query;
use simulator::table::parts::Row;
use simulator::world::{Ns, Task};

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
    /// When connections were opened after the worker's first ones, by node; `NEVER_NS`: closed.
    opened: RefCell<Vec<(Node, Ns)>>,
    /// When its other connections were opened: 0, or `NEVER_NS` if they were closed.
    others_ns: Cell<Ns>,
}

const NEVER_NS: Ns = Ns::MAX;

impl Mailbox {
    /// Returns when the connection to a node was opened; now, if there is none.
    fn opened_ns(&self, node: Node, now_ns: Ns) -> Ns {
        let mut opened = self.opened.borrow_mut();
        let known = opened.iter_mut().find(|(other, _)| *other == node);
        match known {
            Some((_, opened_ns)) => {
                *opened_ns = now_ns.min(*opened_ns);
                *opened_ns
            }
            None if self.others_ns.get() == 0 => 0,
            None => {
                opened.push((node, now_ns));
                now_ns
            }
        }
    }

    /// Closes the connection to a node.
    #[cold]
    fn close(&self, node: Node) {
        let mut opened = self.opened.borrow_mut();
        opened.retain(|(other, _)| *other != node);
        opened.push((node, NEVER_NS));
    }
}

impl ClientTask {
    /// Creates a task that makes the event `number` due whenever an answer arrives.
    pub fn new(simulation: &Rc<Simulation>, number: u64) -> ClientTask {
        let (simulation, mailbox) = (simulation.clone(), Rc::<Mailbox>::default());
        let (world, own) = (simulation.world.clone(), mailbox.clone());
        let task = world.create_task(async move {
            while let Some(request) = own.request.take() {
                let (query, rows, node) = (request.query, request.rows, request.node);
                let opened_ns = own.opened_ns(node, simulation.world.now_ns());
                let answer = simulation
                    .ask(
                        node,
                        query,
                        rows,
                        request.settings,
                        request.timeout_ns,
                        opened_ns,
                    )
                    .await;
                if matches!(&answer, Err(error) if error.code < 0) {
                    own.close(node); // It is one of the client's own errors.
                }
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

    /// Closes the connections of a process that was retired.
    pub fn disconnect(&self) {
        self.mailbox.opened.borrow_mut().clear();
        self.mailbox.others_ns.set(NEVER_NS);
    }

    /// Takes the answer that arrived.
    pub fn answer(&self) -> Answer {
        self.mailbox.answer.take().expect("the answer has arrived")
    }
}

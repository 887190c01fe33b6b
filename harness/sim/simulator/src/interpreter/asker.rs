//! Who asks the servers: a task for each worker, which rests between its calls.

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

/// What a server is asked.
pub struct Question {
    pub node: Node,
    pub query: Rc<Query>,
    pub rows: Option<Vec<Row>>,
    pub settings: Rc<Settings>,
    pub timeout_ns: Ns,
}

pub struct Asker {
    task: Rc<Task>,
    desk: Rc<Desk>,
}

#[derive(Default)]
struct Desk {
    question: Cell<Option<Question>>,
    answer: Cell<Option<Answer>>,
}

impl Asker {
    /// Hands out `number` when an answer has come.
    pub fn new(simulation: &Rc<Simulation>, number: u64) -> Asker {
        let (simulation, desk) = (simulation.clone(), Rc::<Desk>::default());
        let (world, own) = (simulation.world.clone(), desk.clone());
        let task = world.kept(async move {
            while let Some(asked) = own.question.take() {
                let (query, rows) = (asked.query, asked.rows);
                let answer = simulation
                    .ask(asked.node, query, rows, asked.settings, asked.timeout_ns)
                    .await;
                own.answer.set(Some(answer));
                simulation.world.hand_out(number, true);
                simulation.world.rest().await;
            }
        });
        Asker { task, desk }
    }

    /// Asks at once. Only outside of tasks of the world.
    pub fn ask(&self, simulation: &Simulation, question: Question) {
        self.desk.question.set(Some(question));
        simulation.world.go_on(&self.task);
    }

    /// What has come.
    pub fn answer(&self) -> Answer {
        self.desk.answer.take().expect("it has come")
    }
}

//! Who is free, and who has a call in flight.

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::interpreter::Failure;

/// A worker's place: its number, and after all clients' the nemesis.
pub type Seat = usize;

pub struct Worker {
    pub process: i64,
    pub node: Rc<str>,
    /// Of its node's name among those of all workers.
    pub place: usize,
    /// Its calls name their nodes.
    pub roams: bool,
}

impl Worker {
    pub fn new(process: i64, node: &str, roams: bool) -> Worker {
        Worker {
            process,
            node: node.into(),
            place: 0,
            roams,
        }
    }
}

pub struct Workers {
    /// Clients by number, then the nemesis.
    all: Vec<Worker>,
    /// The one that is free for longest first, the nemesis last.
    free: Vec<Seat>,
    /// In the order of their calls.
    busy: Vec<Seat>,
}

impl Workers {
    /// `clients` by number; `free`: the numbers of all, in the order of becoming so.
    pub fn new(mut clients: Vec<Worker>, free: &[i64]) -> Workers {
        let nemesis = clients.len();
        clients.push(Worker::new(-1, "", false));
        let names: BTreeSet<Rc<str>> = clients.iter().map(|worker| worker.node.clone()).collect();
        for worker in &mut clients {
            worker.place = names.iter().take_while(|name| **name < worker.node).count();
        }
        let seat = |&number: &i64| usize::try_from(number).unwrap_or(nemesis);
        Workers {
            all: clients,
            free: free.iter().map(seat).collect(),
            busy: Vec::new(),
        }
    }

    pub fn seats(&self) -> usize {
        self.all.len()
    }

    pub fn nemesis(&self) -> Seat {
        self.all.len() - 1
    }

    /// The nemesis is -1.
    pub fn number(&self, seat: Seat) -> i64 {
        if seat == self.nemesis() {
            -1
        } else {
            seat as i64
        }
    }

    pub fn seat(&self, number: i64) -> Seat {
        usize::try_from(number).unwrap_or(self.nemesis())
    }

    pub fn of(&self, seat: Seat) -> &Worker {
        &self.all[seat]
    }

    pub fn free(&self) -> &[Seat] {
        &self.free
    }

    pub fn busy(&self) -> &[Seat] {
        &self.busy
    }

    pub fn clients(&self) -> &[Worker] {
        &self.all[..self.nemesis()]
    }

    pub fn free_clients(&self) -> &[Seat] {
        &self.free[..self.free.len() - usize::from(self.nemesis_is_free())]
    }

    pub fn nemesis_is_free(&self) -> bool {
        self.free.last() == Some(&self.nemesis())
    }

    pub fn all_free(&self) -> bool {
        self.busy.is_empty()
    }

    /// Its call begins. An error when it has one already.
    pub fn begin(&mut self, seat: Seat, f: &str) -> Result<(), Failure> {
        let number = self.number(seat);
        let at = self.free.iter().position(|&free| free == seat);
        let at = at.ok_or_else(|| format!("call {f} for worker {number}, which is not free"))?;
        self.free.remove(at);
        self.busy.push(seat);
        Ok(())
    }

    /// Its call has ended; with `retires`, and its process with it.
    pub fn end(&mut self, seat: Seat, retires: bool) {
        let nemesis = self.nemesis();
        let at = self.busy.iter().position(|&busy| busy == seat);
        self.busy.remove(at.expect("its call has begun"));
        self.free.insert(self.free_clients().len(), seat);
        if retires && seat != nemesis {
            self.all[seat].process += nemesis as i64;
        }
    }
}

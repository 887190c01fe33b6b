//! Tracks which workers are free and which have a call in flight.

use std::rc::Rc;

use crate::Failure;

/// The index of a worker: clients by number, then the nemesis.
pub type Slot = usize;

pub struct Worker {
    /// The nemesis is -1.
    pub number: i64,
    pub process: i64,
    pub node: Rc<str>,
    /// Whether its calls name their nodes.
    pub roams: bool,
}

impl Worker {
    pub fn new(number: i64, process: i64, node: &str, roams: bool) -> Worker {
        Worker {
            number,
            process,
            node: node.into(),
            roams,
        }
    }
}

pub struct Workers {
    /// Clients by number, then the nemesis.
    all: Vec<Worker>,
    /// In order of becoming free, the nemesis last.
    free: Vec<Slot>,
    /// In order of their calls.
    busy: Vec<Slot>,
}

impl Workers {
    /// Creates the workers from the clients by number. `free` and `busy` are numbers in the order
    /// of becoming so. The nemesis may be in neither list, if it is not visible.
    pub fn new(mut clients: Vec<Worker>, free: &[i64], busy: &[i64]) -> Workers {
        clients.push(Worker::new(-1, -1, "", false));
        let mut workers = Workers {
            all: clients,
            free: Vec::new(),
            busy: Vec::new(),
        };
        let slots = |numbers: &[i64]| numbers.iter().map(|&n| workers.slot(n)).collect();
        let (mut free, busy): (Vec<Slot>, _) = (slots(free), slots(busy));
        if let Some(at) = free.iter().position(|&slot| slot == workers.nemesis()) {
            let nemesis = free.remove(at);
            free.push(nemesis);
        }
        (workers.free, workers.busy) = (free, busy);
        workers
    }

    pub fn slots(&self) -> usize {
        self.all.len()
    }

    pub fn nemesis(&self) -> Slot {
        self.all.len() - 1
    }

    pub fn find(&self, number: i64) -> Option<Slot> {
        self.all.iter().position(|worker| worker.number == number)
    }

    pub fn slot(&self, number: i64) -> Slot {
        let slot = self.find(number);
        slot.expect("the worker exists")
    }

    pub fn of(&self, slot: Slot) -> &Worker {
        &self.all[slot]
    }

    pub fn free(&self) -> &[Slot] {
        &self.free
    }

    pub fn busy(&self) -> &[Slot] {
        &self.busy
    }

    pub fn free_clients(&self) -> &[Slot] {
        &self.free[..self.free.len() - usize::from(self.nemesis_is_free())]
    }

    pub fn nemesis_is_free(&self) -> bool {
        self.free.last() == Some(&self.nemesis())
    }

    pub fn nemesis_is_busy(&self) -> bool {
        self.busy.contains(&self.nemesis())
    }

    pub fn all_free(&self) -> bool {
        self.busy.is_empty()
    }

    /// Marks a worker as busy; fails if it is already.
    pub fn begin(&mut self, slot: Slot, f: &str) -> Result<(), Failure> {
        let number = self.of(slot).number;
        let at = self.free.iter().position(|&free| free == slot);
        let at = at.ok_or_else(|| format!("call {f} for worker {number}, which is not free"))?;
        self.free.remove(at);
        self.busy.push(slot);
        Ok(())
    }

    /// Marks a worker as free; with `retires`, its process is retired.
    pub fn end(&mut self, slot: Slot, retires: bool) {
        let nemesis = self.nemesis();
        let at = self.busy.iter().position(|&busy| busy == slot);
        self.busy
            .remove(at.expect("the worker has a call in flight"));
        self.free.insert(self.free_clients().len(), slot);
        if retires && slot != nemesis {
            self.all[slot].process += nemesis as i64;
        }
    }
}

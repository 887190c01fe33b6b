//! Makes small random histories of transactions that append to lists.

use pyporcupine::transactions::columns::{Columns, Owned};
use pyporcupine::transactions::history::{History, Outcome};

use crate::random::Rng;

#[derive(Clone, Debug)]
pub enum Op {
    Append(usize, i64),
    Read(usize, Vec<i64>),
}

#[derive(Clone, Debug)]
pub struct Transaction {
    pub process: i64,
    pub call: i64,
    pub ret: i64,
    pub outcome: Outcome,
    pub ops: Vec<Op>,
}

#[derive(Debug)]
pub struct Made {
    pub transactions: Vec<Transaction>,
    /// Whether keys hold lists, and not registers.
    pub lists: bool,
}

pub const KEYS: usize = 2;

/// What each key holds; a register one value or none.
pub type State = [Vec<i64>; KEYS];

impl Made {
    /// Makes a history of up to four transactions. Some of its reads find what a serial execution
    /// would show, others any beginning of a list, and few anything.
    pub fn new(rng: &mut Rng, lists: bool) -> Self {
        let mut transactions = times(rng);
        let mut element = 0;
        for transaction in &mut transactions {
            for _ in 0..1 + rng.below(3) {
                let key = rng.below(KEYS as u64) as usize;
                element += 1;
                transaction.ops.push(match rng.below(5) {
                    0..2 => Op::Append(key, element),
                    _ => Op::Read(key, Vec::new()),
                });
            }
        }
        let mut made = Self {
            transactions,
            lists,
        };
        let mut order: Vec<usize> = (0..made.transactions.len()).collect();
        if rng.below(2) == 0 {
            shuffle(&mut order, rng);
        }
        let wrong = rng.below(3);
        made.execute(&order, rng, wrong);
        made
    }

    /// Fills in what reads find; `wrong` of ten find something else than in the serial execution.
    fn execute(&mut self, order: &[usize], rng: &mut Rng, wrong: u64) {
        let mut all: State = Default::default();
        for &at in order {
            for op in &self.transactions[at].ops {
                if let Op::Append(key, element) = op {
                    let place = match rng.below(10) < wrong {
                        true => rng.below(all[*key].len() as u64 + 1) as usize,
                        false => all[*key].len(),
                    };
                    all[*key].insert(place, *element);
                }
            }
        }
        let mut state: State = Default::default();
        let mut before = vec![state.clone()];
        let has_snapshots = rng.below(2) == 0;
        let lists = self.lists;
        for &at in order {
            let transaction = &mut self.transactions[at];
            let age = match has_snapshots {
                true => rng.below(3).min(before.len() as u64 - 1) as usize,
                false => 0,
            };
            let mut snapshot = before[before.len() - 1 - age].clone();
            let mut own = state.clone();
            for op in &mut transaction.ops {
                match op {
                    Op::Append(key, element) => {
                        write(&mut own[*key], *element, lists);
                        write(&mut snapshot[*key], *element, lists);
                    }
                    Op::Read(key, list) => {
                        *list = found(rng, &snapshot[*key], &all[*key], wrong);
                        if !lists {
                            list.drain(..list.len().saturating_sub(1));
                        }
                    }
                }
            }
            let shows = match transaction.outcome {
                Outcome::Committed => true,
                Outcome::Unknown => rng.below(2) == 0,
                Outcome::Aborted => rng.below(10) < wrong,
            };
            if shows {
                state = own;
                before.push(state.clone());
            }
        }
    }

    /// Copies a history.
    pub fn of(history: &History, lists: bool) -> Self {
        let op = |op: usize| {
            let key = history.keys.of(op);
            match history.is_read[op] {
                true => Op::Read(key, history.contents.read(op).to_vec()),
                false => Op::Append(key, history.contents.value(op)),
            }
        };
        let transaction = |at: usize| Transaction {
            process: history.process[at],
            call: history.call[at],
            ret: history.ret[at],
            outcome: history.outcome[at],
            ops: history.ops(at as u32).map(op).collect(),
        };
        Self {
            transactions: (0..history.len()).map(transaction).collect(),
            lists,
        }
    }

    /// Leaves out one operation, what reads found of it, and transactions that have no other.
    pub fn without(&self, left_out: usize) -> Self {
        let mut transactions = self.transactions.clone();
        let mut place = 0;
        let mut element = None;
        for transaction in &mut transactions {
            transaction.ops.retain(|op| {
                place += 1;
                if place - 1 != left_out {
                    return true;
                }
                if let Op::Append(_, appended) = op {
                    element = Some(*appended);
                }
                false
            });
        }
        for op in transactions.iter_mut().flat_map(|one| &mut one.ops) {
            if let Op::Read(_, list) = op {
                list.retain(|&found| Some(found) != element);
            }
        }
        transactions.retain(|one| !one.ops.is_empty());
        Self {
            transactions,
            lists: self.lists,
        }
    }

    pub fn columns(&self) -> Owned {
        let mut columns = Columns::default();
        for one in &self.transactions {
            columns.push(one.process, one.call, one.ret, one.outcome);
            for op in &one.ops {
                match op {
                    Op::Append(key, element) => columns.write(*key as u32, *element),
                    Op::Read(key, list) => columns.read(*key as u32, list),
                }
            }
        }
        columns.finish()
    }
}

/// Changes what a key holds.
pub fn write(held: &mut Vec<i64>, element: i64, lists: bool) {
    if !lists {
        held.clear();
    }
    held.push(element);
}

fn found(rng: &mut Rng, serial: &[i64], all: &[i64], wrong: u64) -> Vec<i64> {
    if rng.below(10) >= wrong {
        return serial.to_vec();
    }
    let mut list = all[..rng.below(all.len() as u64 + 1) as usize].to_vec();
    if rng.below(8) == 0 && list.len() > 1 {
        let at = rng.below(list.len() as u64) as usize;
        match rng.below(3) {
            0 => drop(list.remove(at)),
            1 => list.push(list[at]),
            _ => list.swap(0, at),
        }
    }
    list
}

/// Makes transactions without operations. A process has one in flight.
fn times(rng: &mut Rng) -> Vec<Transaction> {
    let count = 1 + rng.below(4);
    let mut calls: Vec<i64> = (0..count).map(|_| rng.below(10) as i64).collect();
    calls.sort_unstable();
    let mut made: Vec<Transaction> = Vec::new();
    for call in calls {
        let outcome = match rng.below(10) {
            0..7 => Outcome::Committed,
            7..9 => Outcome::Unknown,
            _ => Outcome::Aborted,
        };
        let is_free = |process: i64| {
            let mut own = made.iter().filter(|one| one.process == process);
            own.all(|one| one.outcome != Outcome::Unknown && one.ret <= call)
        };
        let free: Vec<i64> = (0..8).filter(|&process| is_free(process)).collect();
        made.push(Transaction {
            process: free[rng.below(free.len().min(2) as u64) as usize],
            call,
            ret: call + rng.below(6) as i64,
            outcome,
            ops: Vec::new(),
        });
    }
    made
}

fn shuffle(order: &mut [usize], rng: &mut Rng) {
    for last in (1..order.len()).rev() {
        order.swap(last, rng.below(last as u64 + 1) as usize);
    }
}

//! Makes histories as Jepsen's generator for Elle does, and hands them to both checkers.

use std::fmt;

use adya::history::{Interner, Mop, Op, OpType, ReadValue, Scalar};
use pyporcupine::transactions::columns::{Columns, Owned};
use pyporcupine::transactions::history::Outcome;

enum MicroOp {
    Append(u32, i64),
    Read(u32, Vec<i64>),
}

impl MicroOp {
    fn edn(&self, is_ok: bool) -> String {
        match self {
            Self::Append(key, element) => format!("[:append {key} {element}]"),
            Self::Read(key, _) if !is_ok => format!("[:r {key} nil]"),
            Self::Read(key, list) => {
                let list: Vec<String> = list.iter().map(i64::to_string).collect();
                format!("[:r {key} [{}]]", list.join(" "))
            }
        }
    }
}

struct Transaction {
    process: i64,
    call: i64,
    ret: i64,
    outcome: Outcome,
    ops: Vec<MicroOp>,
}

/// What a history is like.
#[derive(Clone, Copy)]
pub struct Shape {
    pub transactions: usize,
    pub processes: usize,
    pub keys: usize,
    /// Share of the transactions that read what was there before.
    pub stale: f64,
    /// Share of the transactions of which nobody knows the outcome, and of those that failed.
    pub lost: f64,
    pub failed: f64,
}

impl Shape {
    pub fn small(seed: u64) -> Self {
        Self {
            transactions: 4 + seed as usize % 20,
            processes: 4,
            keys: 3,
            stale: [0.0, 0.1, 0.3][seed as usize % 3],
            lost: 0.05,
            failed: 0.05,
        }
    }

    pub fn large(transactions: usize, stale: f64) -> Self {
        Self {
            transactions,
            processes: 20,
            keys: 10,
            stale,
            lost: 0.0,
            failed: 0.0,
        }
    }
}

const APPENDS_MAX: usize = 100;

/// A history that some serial execution made, but for stale reads.
pub struct Made {
    transactions: Vec<Transaction>,
}

/// Steele, Lea & Flood's SplitMix64.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn chance(&mut self, share: f64) -> bool {
        ((self.next() >> 11) as f64) < share * (1u64 << 53) as f64
    }
}

impl Made {
    pub fn new(seed: u64, shape: Shape) -> Self {
        let mut rng = Rng(seed);
        let mut keys: Vec<u32> = (0..shape.keys as u32).collect();
        let mut lists: Vec<Vec<i64>> = vec![Vec::new(); shape.keys];
        // By slot: the process, and when it is free.
        let mut slots: Vec<(i64, i64)> = (0..shape.processes as i64).map(|p| (p, 0)).collect();
        let (mut processes, mut next_key) = (shape.processes as i64, shape.keys as u32);
        let (mut moment, mut element) = (0i64, 0);
        let mut transactions = Vec::with_capacity(shape.transactions);
        for _ in 0..shape.transactions {
            let slot = rng.below(slots.len());
            let (process, free) = slots[slot];
            moment = moment.max(free + 1) + 1 + rng.below(1000) as i64;
            let call = (free + 1).max(moment - 1 - rng.below(20_000) as i64);
            let ret = moment + 1 + rng.below(20_000) as i64;
            let outcome = match rng.chance(shape.lost) {
                true => Outcome::Unknown,
                false if rng.chance(shape.failed) => Outcome::Aborted,
                false => Outcome::Committed,
            };
            slots[slot] = (process, ret);
            if outcome == Outcome::Unknown {
                slots[slot].0 = processes;
                processes += 1;
            }
            let is_stale = rng.chance(shape.stale);
            let happens = match outcome {
                Outcome::Committed => true,
                Outcome::Unknown => rng.chance(0.5),
                Outcome::Aborted => false,
            };
            let mut ops = Vec::new();
            let mut own: Vec<(usize, i64)> = Vec::new();
            for _ in 0..1 + rng.below(4) {
                let place = rng.below(shape.keys);
                if rng.chance(0.5) {
                    let mut list = lists[place].clone();
                    list.truncate(list.len().saturating_sub(if is_stale { 2 } else { 0 }));
                    list.extend(own.iter().filter(|o| o.0 == place).map(|o| o.1));
                    ops.push(MicroOp::Read(keys[place], list));
                } else {
                    element += 1;
                    own.push((place, element));
                    ops.push(MicroOp::Append(keys[place], element));
                }
            }
            for (place, element) in own.into_iter().filter(|_| happens) {
                lists[place].push(element);
            }
            for place in 0..shape.keys {
                if lists[place].len() >= APPENDS_MAX {
                    lists[place].clear();
                    (keys[place], next_key) = (next_key, next_key + 1);
                }
            }
            transactions.push(Transaction {
                process,
                call,
                ret,
                outcome,
                ops,
            });
        }
        Self { transactions }
    }

    pub fn columns(&self) -> Owned {
        let mut columns = Columns::default();
        for one in &self.transactions {
            columns.push(one.process, one.call, one.ret, one.outcome);
            for op in &one.ops {
                match op {
                    MicroOp::Append(key, element) => columns.write(*key, *element),
                    MicroOp::Read(key, list) => columns.read(*key, list),
                }
            }
        }
        columns.finish()
    }

    /// Returns calls and ends as events in the order of their times. What returns when another is
    /// called is concurrent with it.
    fn events(&self) -> Vec<(i64, OpType, usize)> {
        let mut moments: Vec<(i64, bool, usize)> = Vec::new();
        for (at, one) in self.transactions.iter().enumerate() {
            moments.push((one.call, false, at));
            moments.push((one.ret, true, at));
        }
        moments.sort_unstable();
        let kind = |ends: bool, outcome: Outcome| match (ends, outcome) {
            (false, _) => OpType::Invoke,
            (true, Outcome::Committed) => OpType::Ok,
            (true, Outcome::Unknown) => OpType::Info,
            (true, Outcome::Aborted) => OpType::Fail,
        };
        let event = |(time, ends, at): (i64, bool, usize)| {
            (time, kind(ends, self.transactions[at].outcome), at)
        };
        moments.into_iter().map(event).collect()
    }

    /// Returns the events as Jepsen's `history.edn` has them, for other checkers: one a line.
    pub fn edn(&self) -> String {
        let mut text = String::new();
        for (index, (time, kind, at)) in self.events().into_iter().enumerate() {
            let one = &self.transactions[at];
            let (name, is_ok) = match kind {
                OpType::Invoke => ("invoke", false),
                OpType::Ok => ("ok", true),
                OpType::Info => ("info", false),
                OpType::Fail => ("fail", false),
            };
            let ops: Vec<String> = one.ops.iter().map(|op| op.edn(is_ok)).collect();
            text += &format!(
                "{{:index {index}, :time {time}, :type :{name}, :process {}, :f :txn, :value [{}]}}\n",
                one.process,
                ops.join(" ")
            );
        }
        text
    }

    pub fn for_adya(&self) -> adya::History {
        let mut interner = Interner::default();
        let events = self.events();
        let ops = events.iter().zip(0u64..);
        let ops = ops.map(|(&(time, kind, at), index)| {
            let one = &self.transactions[at];
            Op {
                index,
                kind,
                process: Some(one.process),
                value: value(one, kind == OpType::Ok, &mut interner),
                time: Some(time),
            }
        });
        let ops = ops.collect();
        adya::History::from_ops(ops, interner)
    }
}

fn value(one: &Transaction, is_ok: bool, interner: &mut Interner) -> Vec<Mop> {
    let mut id = |number: i64| interner.intern(Scalar::Int(number));
    let mut mop = |op: &MicroOp| match op {
        MicroOp::Append(key, element) => Mop::Append {
            key: id(i64::from(*key)),
            value: id(*element),
        },
        MicroOp::Read(key, list) => Mop::Read {
            key: id(i64::from(*key)),
            value: match is_ok {
                true => ReadValue::List(list.iter().map(|&e| id(e)).collect()),
                false => ReadValue::Nil,
            },
        },
    };
    one.ops.iter().map(&mut mop).collect()
}

impl fmt::Display for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, one) in self.transactions.iter().enumerate() {
            let (process, call, ret) = (one.process, one.call, one.ret);
            write!(
                f,
                "  T{at} process {process} {call}–{ret} {:?}:",
                one.outcome
            )?;
            for op in &one.ops {
                match op {
                    MicroOp::Append(key, element) => write!(f, " append {key} {element}")?,
                    MicroOp::Read(key, list) => write!(f, " r {key} {list:?}")?,
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

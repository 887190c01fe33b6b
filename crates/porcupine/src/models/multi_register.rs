//! Models registers that transactions access: "txn" takes a list of reads and writes that take
//! effect at once.

use rustc_hash::{FxHashMap, FxHashSet};

use super::numbers::Numbers;
use crate::datum::Datum;
use crate::order::NEVER;
use crate::rows::{each, BadRow, Rows};
use crate::search::{Model, Op};
use crate::verdict::{Step as Reason, Verdict, Why};

/// A register and a value, by number.
type Pair = (u32, u32);

/// The preconditions and effects of a transaction, independent of the order of its steps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Txn {
    /// What its reads found before its own writes, sorted.
    needs: Vec<Pair>,
    /// What its last writes leave, sorted.
    sets: Vec<Pair>,
    /// A read contradicts the transaction's own earlier write or its other reads.
    impossible: bool,
}

/// The state is the number of an assignment of values to all registers.
pub struct MultiRegister {
    initial: u32,
    registers: usize,
    txns: Vec<Txn>,
    states: Vec<Box<[u32]>>,
    numbers: FxHashMap<Box<[u32]>, u32>,
}

const EXPECTED: &str =
    "a list of reads and writes, such as [[\"read\", \"x\", 1], [\"write\", \"y\", 2]]";

/// Parses the operations. Reads that never returned say nothing; neither does a read of None (as in
/// Knossos) unless the registers begin with None. O(n) for n reads and writes.
pub fn parse<'a>(
    rows: &'a dyn Rows,
    object: &[u32],
    initial: &Datum<'a>,
) -> Result<(MultiRegister, Vec<Op>), BadRow> {
    let (mut registers, mut values) = (Numbers::default(), Numbers::default());
    let first = values.number(initial.clone());
    let null_says_nothing = *initial != Datum::Null;
    let mut known: FxHashMap<Txn, u32> = FxHashMap::default();
    let mut txns = Vec::new();
    let mut ops = Vec::with_capacity(object.len());
    for at in each(rows, object) {
        let timing = rows.timing(at);
        if rows.f(at) != "txn" {
            return Err(BadRow::f(at, rows.f(at), "\"txn\""));
        }
        let never = timing.ret == NEVER;
        let (value, output) = (rows.value(at), rows.output(at));
        let (field, datum) = match never || output == Datum::Null {
            true => ("value", &value),
            false => ("output", &output),
        };
        let all = steps(datum).ok_or_else(|| BadRow::field(at, field, datum, EXPECTED))?;
        if field == "output" && !steps(&value).is_some_and(|called| completes(&all, &called)) {
            let expected = "the transaction of value, with what its reads found";
            return Err(BadRow::field(at, field, datum, expected));
        }
        let mut txn = Txn::default();
        for (reads, register, value) in all {
            let says_nothing = never || (null_says_nothing && *value == Datum::Null);
            if !reads {
                txn.write(
                    registers.number(register.clone()),
                    values.number(value.clone()),
                );
            } else if !says_nothing {
                txn.read(
                    registers.number(register.clone()),
                    values.number(value.clone()),
                );
            }
        }
        txn.needs.sort_unstable();
        txn.sets.sort_unstable();
        if txn == Txn::default() && never {
            continue;
        }
        let next = txns.len() as u32;
        let action = *known.entry(txn).or_insert_with_key(|txn| {
            txns.push(txn.clone());
            next
        });
        ops.push(Op {
            row: at as u32,
            action,
            call: timing.call,
            ret: timing.ret,
        });
    }
    let model = MultiRegister {
        initial: first,
        registers: registers.len(),
        txns,
        states: Vec::new(),
        numbers: FxHashMap::default(),
    };
    Ok((model, ops))
}

/// Whether the step is a read, its register and its value.
type Step<'d, 'a> = (bool, &'d Datum<'a>, &'d Datum<'a>);

/// Returns the steps; `None` if the value is not a transaction.
fn steps<'d, 'a>(txn: &'d Datum<'a>) -> Option<Vec<Step<'d, 'a>>> {
    let step = |step: &'d Datum<'a>| match step {
        Datum::List(parts) => match &**parts {
            [Datum::Text(f), register @ (Datum::Int(_) | Datum::Text(_)), value] => {
                let scalar = !matches!(value, Datum::Ints(_) | Datum::List(_));
                let reads = *f == "read";
                (scalar && (reads || *f == "write")).then_some((reads, register, value))
            }
            _ => None,
        },
        _ => None,
    };
    match txn {
        Datum::List(all) => all.iter().map(step).collect(),
        Datum::Ints([]) => Some(Vec::new()),
        _ => None,
    }
}

/// Whether the steps are those that were called, except for what reads found.
fn completes(steps: &[Step], called: &[Step]) -> bool {
    let same = |(step, called): (&Step, &Step)| {
        step.0 == called.0 && step.1 == called.1 && (step.0 || step.2 == called.2)
    };
    steps.len() == called.len() && steps.iter().zip(called).all(same)
}

fn value_of(pairs: &[Pair], register: u32) -> Option<u32> {
    let found = pairs.iter().find(|pair| pair.0 == register);
    found.map(|pair| pair.1)
}

impl Txn {
    fn read(&mut self, register: u32, value: u32) {
        let before = value_of(&self.sets, register).or_else(|| value_of(&self.needs, register));
        match before {
            None => self.needs.push((register, value)),
            Some(known) => self.impossible |= known != value,
        }
    }

    fn write(&mut self, register: u32, value: u32) {
        match self.sets.iter_mut().find(|pair| pair.0 == register) {
            Some(pair) => pair.1 = value,
            None => self.sets.push((register, value)),
        }
    }
}

impl MultiRegister {
    /// Returns the verdict on the first transaction that is impossible by itself: it found a value
    /// that nobody wrote, or its reads contradict each other. The search would find it too, but
    /// would then spend long on minimizing the witness, because others read what such a transaction
    /// wrote. O(n).
    pub fn impossible_alone(&self, ops: &[Op]) -> Option<Verdict> {
        let txn = |op: &Op| &self.txns[op.action as usize];
        let written: FxHashSet<&Pair> = ops.iter().flat_map(|op| &txn(op).sets).collect();
        let comes = |pair: &Pair| pair.1 == self.initial || written.contains(pair);
        ops.iter().find_map(|op| {
            let (why, reason) = if txn(op).impossible {
                let reason = "a transaction's reads contradict each other or its own writes";
                (Why::CannotPlace, reason)
            } else if !txn(op).needs.iter().all(comes) {
                (
                    Why::NeverWritten,
                    "a transaction found a value that nothing wrote",
                )
            } else {
                return None;
            };
            let (from, to) = (op.row as usize, op.row as usize);
            let value = None;
            let step = Reason {
                from,
                to,
                why,
                value,
            };
            Some(Verdict::invalid(reason, vec![step]))
        })
    }

    fn number(&mut self, state: Box<[u32]>) -> u64 {
        if let Some(&number) = self.numbers.get(&state) {
            return number.into();
        }
        let number = self.states.len() as u32;
        self.states.push(state.clone());
        self.numbers.insert(state, number);
        number.into()
    }
}

impl Model for MultiRegister {
    fn initial(&mut self) -> u64 {
        self.number(vec![self.initial; self.registers].into())
    }

    fn step(&mut self, state: u64, action: u32) -> Option<u64> {
        let (values, txn) = (&self.states[state as usize], &self.txns[action as usize]);
        let holds = |&(register, value): &Pair| values[register as usize] == value;
        if txn.impossible || !txn.needs.iter().all(holds) {
            return None;
        }
        if txn.sets.iter().all(holds) {
            return Some(state);
        }
        let mut after = values.clone();
        for &(register, value) in &txn.sets {
            after[register as usize] = value;
        }
        Some(self.number(after))
    }

    fn pure(&self, action: u32) -> bool {
        let txn = &self.txns[action as usize];
        txn.sets.iter().all(|pair| txn.needs.contains(pair))
    }

    fn blind(&self, action: u32) -> bool {
        let txn = &self.txns[action as usize];
        txn.needs.is_empty() && !txn.impossible
    }

    /// The action writes every register.
    fn overwrites(&self, action: u32) -> bool {
        self.blind(action) && self.txns[action as usize].sets.len() == self.registers
    }

    fn finite(&self) -> bool {
        true
    }

    fn bytes(&self) -> usize {
        self.states.len() * (8 * self.registers + 80)
    }

    fn renew(&mut self, states: &mut [u64]) {
        let before = std::mem::take(&mut self.states);
        self.numbers.clear();
        for state in states {
            *state = self.number(before[*state as usize].clone());
        }
    }

    /// Keeps the transactions whose reads found initial values or values that a kept transaction
    /// writes.
    fn close(&self, part: &mut Vec<Op>) {
        loop {
            let mut written: FxHashSet<Pair> = FxHashSet::default();
            for op in part.iter() {
                written.extend(&self.txns[op.action as usize].sets);
            }
            let before = part.len();
            part.retain(|op| {
                let txn = &self.txns[op.action as usize];
                let comes = |pair: &Pair| pair.1 == self.initial || written.contains(pair);
                !txn.impossible && txn.needs.iter().all(comes)
            });
            if part.len() == before {
                return;
            }
        }
    }
}

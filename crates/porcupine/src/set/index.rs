//! Numbers values, so that the decision needs arrays instead of hashing.

use rustc_hash::FxHashMap;

use super::History;
use crate::order::NEVER;
use crate::verdict::{Step, Verdict, Why};

/// Stands for a missing index.
pub(super) const NONE: u32 = u32::MAX;

/// The adds of one value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Value {
    /// The add that was called first.
    pub first: u32,
    /// The add that returned first; [`NONE`] if none did.
    pub returned: u32,
}

pub(super) struct Indexed<'a> {
    history: &'a History<'a>,
    numbers: Numbers,
    /// By number of the value.
    pub values: Vec<Value>,
    /// By add: the number of its value.
    pub of_add: Vec<u32>,
    /// Whether some value was added more than once.
    pub repeats: bool,
}

impl<'a> Indexed<'a> {
    /// Numbers the values that are added. O(n).
    pub fn new(history: &'a History) -> Self {
        let mut numbers = Numbers::new(history);
        let mut values: Vec<Value> = Vec::with_capacity(history.adds.len());
        let mut of_add = Vec::with_capacity(history.adds.len());
        for (a, add) in history.adds.iter().enumerate() {
            let number = numbers.number(add.value, values.len());
            of_add.push(number);
            let a = a as u32;
            let returned = if add.at.ret == NEVER { NONE } else { a };
            match values.get_mut(number as usize) {
                None => values.push(Value { first: a, returned }),
                Some(value) => value.merge(history, a, returned),
            }
        }
        Self {
            history,
            numbers,
            repeats: values.len() < history.adds.len(),
            values,
            of_add,
        }
    }

    /// Returns the number of a value if it is added.
    pub fn number(&self, value: i64) -> Option<u32> {
        self.numbers.find(value)
    }

    /// Returns the values that a read returned.
    pub fn seen(&self, r: usize) -> &[i64] {
        &self.history.reads[r].values
    }

    /// Returns the numbers of those values. All must be added.
    pub fn read(&self, r: usize) -> impl Iterator<Item = u32> + '_ {
        let number = |&value: &i64| self.number(value).expect("it is added");
        self.seen(r).iter().map(number)
    }

    pub fn reads(&self) -> usize {
        self.history.reads.len()
    }

    /// Returns the reads in order of size.
    pub fn by_size(&self) -> Vec<usize> {
        let mut by_size: Vec<usize> = (0..self.reads()).collect();
        by_size.sort_by_key(|&r| self.seen(r).len());
        by_size
    }

    /// Returns as `Err` the verdict on a read that is illegal by itself: it returned a value twice,
    /// or one that is not added. O(v).
    pub fn check_reads(&self) -> Result<(), Box<Verdict>> {
        let mut last_read = vec![NONE; self.values.len()];
        for (r, read) in self.history.reads.iter().enumerate() {
            for &value in read.values.iter() {
                let Some(number) = self.number(value) else {
                    return Err(illegal(read.at.row, value, Why::NeverAdded));
                };
                if last_read[number as usize] == r as u32 {
                    return Err(illegal(read.at.row, value, Why::Duplicate));
                }
                last_read[number as usize] = r as u32;
            }
        }
        Ok(())
    }
}

impl Value {
    fn merge(&mut self, history: &History, a: u32, returned: u32) {
        let adds = &history.adds;
        if adds[a as usize].at.call < adds[self.first as usize].at.call {
            self.first = a;
        }
        let later = |b: u32| adds[a as usize].at.ret >= adds[b as usize].at.ret;
        if returned != NONE && (self.returned == NONE || !later(self.returned)) {
            self.returned = returned;
        }
    }
}

fn illegal(row: usize, value: i64, why: Why) -> Box<Verdict> {
    let reason = match why {
        Why::Duplicate => format!("a read returned the value {value} twice"),
        _ => format!("a read returned the value {value}, which was never added"),
    };
    let step = Step {
        from: row,
        to: row,
        why,
        value: Some(value),
    };
    Box::new(Verdict::invalid(reason, vec![step]))
}

/// Maps values to numbers: an array if the values are dense, as those from a counter are, otherwise
/// a hash map.
enum Numbers {
    Dense { least: i64, numbers: Vec<u32> },
    Hashed(FxHashMap<i64, u32>),
}

impl Numbers {
    fn new(history: &History) -> Self {
        let values = || history.adds.iter().map(|a| a.value);
        let (Some(least), Some(most)) = (values().min(), values().max()) else {
            return Numbers::Hashed(FxHashMap::default());
        };
        let span = most.abs_diff(least);
        if span < 8 * history.adds.len() as u64 + 1024 {
            let numbers = vec![NONE; span as usize + 1];
            return Numbers::Dense { least, numbers };
        }
        Numbers::Hashed(FxHashMap::with_capacity_and_hasher(
            history.adds.len(),
            Default::default(),
        ))
    }

    /// Returns the value's number; assigns `next` if it has none yet.
    fn number(&mut self, value: i64, next: usize) -> u32 {
        match self {
            Numbers::Dense { least, numbers } => {
                let slot = &mut numbers[value.abs_diff(*least) as usize];
                if *slot == NONE {
                    *slot = next as u32;
                }
                *slot
            }
            Numbers::Hashed(map) => *map.entry(value).or_insert(next as u32),
        }
    }

    fn find(&self, value: i64) -> Option<u32> {
        match self {
            Numbers::Dense { least, numbers } => {
                if value < *least {
                    return None;
                }
                let at = usize::try_from(value.abs_diff(*least)).ok()?;
                numbers.get(at).copied().filter(|&n| n != NONE)
            }
            Numbers::Hashed(map) => map.get(&value).copied(),
        }
    }
}

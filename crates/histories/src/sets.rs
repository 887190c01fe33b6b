//! Extracts the sets of a history: for each key its inserts and its reads, the reads as bit masks.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::history::{History, Pair, NO_ROW};
use crate::lines::{Kind, Value};
use crate::masks::Mask;
use crate::words::Word;

/// A value and the outcome of its inserts. Several attempts at one value count as one insert.
pub struct Insert {
    pub value: i64,
    /// Its bit.
    pub bit: u32,
    /// Ok if some attempt was acknowledged, Fail if every attempt was refused, otherwise Info.
    pub kind: Kind,
    /// The first attempt that was not refused, or the first attempt if every one was.
    pub invoke: u32,
    /// The first acknowledgement; `NO_ROW` if there is none.
    pub ack: u32,
    pub attempts: u32,
}

/// A read that was answered; reads without an answer say nothing.
pub struct Read {
    pub invoke: u32,
    pub end: u32,
    /// The index of its mask; successive reads of the same values share one.
    pub mask: u32,
    /// Whether some value was returned more than once.
    pub duplicated: bool,
    /// Whether it is a final read.
    pub is_final: bool,
}

/// Everything that was asked of one key.
pub struct Set {
    pub key: Option<i64>,
    /// The value of each bit; values that were read without any attempt to insert them have a bit
    /// too.
    pub values: Vec<i64>,
    /// In order of the first attempt, which is the order of their bits.
    pub inserts: Vec<Insert>,
    /// In order of invocation.
    pub reads: Vec<Read>,
    pub masks: Vec<Mask>,
}

/// The row of an operation whose value has the wrong type for its f.
#[derive(Clone, Copy, Debug)]
pub struct BadValue(pub u32);

/// The interned names of the calls on sets and registers.
pub struct Names {
    pub insert: Option<Word>,
    pub write: Option<Word>,
    pub cas: Option<Word>,
    pub read: Option<Word>,
    pub final_read: Option<Word>,
}

impl Names {
    pub fn of(history: &History) -> Names {
        let find = |name| history.fs.find(name);
        Names {
            insert: find("insert"),
            write: find("write"),
            cas: find("cas"),
            read: find("read"),
            final_read: find("final-read"),
        }
    }

    pub fn is_insert(&self, f: Word) -> bool {
        self.insert == Some(f)
    }

    pub fn is_write(&self, f: Word) -> bool {
        self.write == Some(f)
    }

    pub fn is_cas(&self, f: Word) -> bool {
        self.cas == Some(f)
    }

    pub fn is_read(&self, f: Word) -> bool {
        self.read == Some(f) || self.final_read == Some(f)
    }
}

/// Returns the set of each key that has inserts or reads, the missing key first, then ascending.
/// Other calls are skipped.
pub fn sets(history: &History) -> Result<Vec<Set>, BadValue> {
    let names = Names::of(history);
    let mut by_key: BTreeMap<Option<i64>, (Vec<Pair>, Vec<Pair>)> = BTreeMap::new();
    for pair in &history.pairs {
        let (f, key) = (
            history.f[pair.invoke as usize],
            history.key[pair.invoke as usize],
        );
        if names.is_insert(f) {
            by_key.entry(key).or_default().0.push(*pair);
        } else if names.is_read(f) {
            by_key.entry(key).or_default().1.push(*pair);
        }
    }
    let made = by_key.into_iter().map(|(key, (inserts, reads))| {
        let mut set = Set {
            key,
            values: Vec::new(),
            inserts: Vec::new(),
            reads: Vec::new(),
            masks: Vec::new(),
        };
        let mut bits = set.add_inserts(history, &inserts)?;
        set.add_reads(history, &names, &reads, &mut bits)?;
        Ok(set)
    });
    made.collect()
}

impl Set {
    pub fn mask(&self, read: &Read) -> &Mask {
        &self.masks[read.mask as usize]
    }

    /// The insert of a bit; `None` if nobody tried to insert its value.
    pub fn insert(&self, at: u32) -> Option<&Insert> {
        self.inserts.get(at as usize)
    }

    pub fn finals(&self) -> impl Iterator<Item = &Read> {
        self.reads.iter().filter(|read| read.is_final)
    }

    fn add_inserts(&mut self, history: &History, pairs: &[Pair]) -> Result<BitIndex, BadValue> {
        let mut known: FxHashMap<i64, usize> = FxHashMap::default();
        for pair in pairs {
            let Value::Int(value) = history.value[pair.invoke as usize] else {
                return Err(BadValue(pair.invoke));
            };
            let at = *known.entry(value).or_insert_with(|| {
                self.values.push(value);
                self.inserts.push(Insert {
                    value,
                    bit: self.inserts.len() as u32,
                    kind: Kind::Fail,
                    invoke: pair.invoke,
                    ack: NO_ROW,
                    attempts: 0,
                });
                self.inserts.len() - 1
            });
            self.inserts[at].add_attempt(pair);
        }
        Ok(BitIndex::new(&self.values))
    }

    fn add_reads(
        &mut self,
        history: &History,
        names: &Names,
        pairs: &[Pair],
        bits: &mut BitIndex,
    ) -> Result<(), BadValue> {
        let mut last: &[i64] = &[];
        for pair in pairs.iter().filter(|pair| pair.kind == Kind::Ok) {
            let values = history.ints(pair.end).ok_or(BadValue(pair.end))?;
            if values != last || self.masks.is_empty() {
                let mask = self.mask_of(values, last, bits);
                self.masks.push(mask);
                last = values;
            }
            let mask = self.masks.len() - 1;
            self.reads.push(Read {
                invoke: pair.invoke,
                end: pair.end,
                mask: mask as u32,
                duplicated: values.len() != self.masks[mask].len(),
                is_final: names.final_read == Some(history.f[pair.invoke as usize]),
            });
        }
        Ok(())
    }

    /// Returns the mask of a read. Only the values after `last`, the values of the previous mask,
    /// are looked up.
    fn mask_of(&mut self, values: &[i64], last: &[i64], bits: &mut BitIndex) -> Mask {
        let (mut mask, fresh) = match values.strip_prefix(last) {
            Some(fresh) if !last.is_empty() => {
                (self.masks.last().cloned().unwrap_or_default(), fresh)
            }
            _ => (Mask::default(), values),
        };
        let mut unknown: Vec<i64> = Vec::new();
        for &value in fresh {
            match bits.find(value) {
                Some(at) => mask.set(at),
                None => unknown.push(value),
            }
        }
        unknown.sort_unstable();
        unknown.dedup();
        for value in unknown {
            let at = self.values.len() as u32;
            self.values.push(value);
            bits.rest.insert(value, at);
            mask.set(at);
        }
        mask
    }
}

impl Insert {
    fn add_attempt(&mut self, pair: &Pair) {
        let possible = pair.kind != Kind::Fail;
        if possible && self.kind == Kind::Fail {
            self.invoke = pair.invoke;
            self.kind = Kind::Info;
        }
        if pair.kind == Kind::Ok {
            self.kind = Kind::Ok;
            self.ack = self.ack.min(pair.end);
        }
        self.attempts += 1;
    }
}

/// The bit of each value.
struct BitIndex {
    least: i64,
    /// Indexed by the distance from the least value; `NO_ROW` if there is no bit.
    direct: Vec<u32>,
    rest: FxHashMap<i64, u32>,
}

impl BitIndex {
    /// Uses a direct index if the inserted values lie close together, as they mostly do.
    fn new(values: &[i64]) -> BitIndex {
        let least = values.iter().copied().min().unwrap_or(0);
        let span = values.iter().copied().max().unwrap_or(0).abs_diff(least);
        let mut bits = BitIndex {
            least,
            direct: Vec::new(),
            rest: FxHashMap::default(),
        };
        if span < 16 * values.len() as u64 + 1024 {
            bits.direct = vec![NO_ROW; span as usize + 1];
        }
        for (at, &value) in values.iter().enumerate() {
            match bits.direct.get_mut(value.abs_diff(least) as usize) {
                Some(place) => *place = at as u32,
                None => {
                    bits.rest.insert(value, at as u32);
                }
            }
        }
        bits
    }

    fn find(&self, value: i64) -> Option<u32> {
        if value >= self.least {
            if let Some(&at) = self.direct.get(value.abs_diff(self.least) as usize) {
                if at != NO_ROW {
                    return Some(at);
                }
            }
        }
        self.rest.get(&value).copied()
    }
}

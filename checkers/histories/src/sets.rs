//! What a history says of sets: for each key its inserts and its reads, the reads as masks.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::history::{History, Pair, NO_ROW};
use crate::lines::{Kind, Value};
use crate::masks::Mask;
use crate::words::Word;

/// One value and what became of it. Several attempts at one value count as one insert.
pub struct Insert {
    pub value: i64,
    /// Its bit.
    pub at: u32,
    /// Ok: some attempt was acknowledged; Fail: every attempt was refused; else Info.
    pub kind: Kind,
    /// The first attempt that was not refused; the first of all if every one was.
    pub invoke: u32,
    /// The first acknowledgement; `NO_ROW`: none.
    pub ack: u32,
    pub attempts: u32,
}

/// A read that was answered; the others say nothing.
pub struct Read {
    pub invoke: u32,
    pub end: u32,
    /// Which of the masks: reads in a row that return the same share one.
    pub mask: u32,
    /// Whether some value came more than once.
    pub duplicated: bool,
    /// Whether it was made after the cluster had come to rest.
    pub last: bool,
}

/// Everything that was asked of one key.
pub struct Set {
    pub key: Option<i64>,
    /// By bit; values that were read and that nobody tried to insert have a bit too.
    pub values: Vec<i64>,
    /// In order of the first attempt, which is that of their bits.
    pub inserts: Vec<Insert>,
    /// In order of invocation.
    pub reads: Vec<Read>,
    pub masks: Vec<Mask>,
}

/// An op whose value is not what its f wants.
#[derive(Clone, Copy, Debug)]
pub struct Odd(pub u32);

/// The names by which calls on sets go.
pub struct Names {
    pub insert: Option<Word>,
    pub read: Option<Word>,
    pub final_read: Option<Word>,
}

impl Names {
    pub fn of(history: &History) -> Names {
        let find = |name| history.fs.find(name);
        Names {
            insert: find("insert"),
            read: find("read"),
            final_read: find("final-read"),
        }
    }

    pub fn is_insert(&self, f: Word) -> bool {
        self.insert == Some(f)
    }

    pub fn is_read(&self, f: Word) -> bool {
        self.read == Some(f) || self.final_read == Some(f)
    }
}

/// Every key of inserts or reads, none first, then ascending; other calls are left out.
pub fn sets(history: &History) -> Result<Vec<Set>, Odd> {
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
        let mut places = set.put(history, &inserts)?;
        set.ask(history, &names, &reads, &mut places)?;
        Ok(set)
    });
    made.collect()
}

impl Set {
    pub fn mask(&self, read: &Read) -> &Mask {
        &self.masks[read.mask as usize]
    }

    /// The insert of a bit; None: nobody tried.
    pub fn insert(&self, at: u32) -> Option<&Insert> {
        self.inserts.get(at as usize)
    }

    pub fn finals(&self) -> impl Iterator<Item = &Read> {
        self.reads.iter().filter(|read| read.last)
    }

    fn put(&mut self, history: &History, pairs: &[Pair]) -> Result<Places, Odd> {
        let mut known: FxHashMap<i64, usize> = FxHashMap::default();
        for pair in pairs {
            let Value::Int(value) = history.value[pair.invoke as usize] else {
                return Err(Odd(pair.invoke));
            };
            let at = *known.entry(value).or_insert_with(|| {
                self.values.push(value);
                self.inserts.push(Insert {
                    value,
                    at: self.inserts.len() as u32,
                    kind: Kind::Fail,
                    invoke: pair.invoke,
                    ack: NO_ROW,
                    attempts: 0,
                });
                self.inserts.len() - 1
            });
            self.inserts[at].tried(pair);
        }
        Ok(Places::of(&self.values))
    }

    fn ask(
        &mut self,
        history: &History,
        names: &Names,
        pairs: &[Pair],
        places: &mut Places,
    ) -> Result<(), Odd> {
        let mut last: &[i64] = &[];
        for pair in pairs.iter().filter(|pair| pair.kind == Kind::Ok) {
            let values = history.ints(pair.end).ok_or(Odd(pair.end))?;
            if values != last || self.masks.is_empty() {
                let mask = self.masked(values, last, places);
                self.masks.push(mask);
                last = values;
            }
            let mask = self.masks.len() - 1;
            self.reads.push(Read {
                invoke: pair.invoke,
                end: pair.end,
                mask: mask as u32,
                duplicated: values.len() != self.masks[mask].len(),
                last: names.final_read == Some(history.f[pair.invoke as usize]),
            });
        }
        Ok(())
    }

    /// `last`: the values of the last mask; those that follow them are all that is looked up.
    fn masked(&mut self, values: &[i64], last: &[i64], places: &mut Places) -> Mask {
        let (mut mask, fresh) = match values.strip_prefix(last) {
            Some(fresh) if !last.is_empty() => {
                (self.masks.last().cloned().unwrap_or_default(), fresh)
            }
            _ => (Mask::default(), values),
        };
        let mut unknown: Vec<i64> = Vec::new();
        for &value in fresh {
            match places.find(value) {
                Some(at) => mask.set(at),
                None => unknown.push(value),
            }
        }
        unknown.sort_unstable();
        unknown.dedup();
        for value in unknown {
            let at = self.values.len() as u32;
            self.values.push(value);
            places.rest.insert(value, at);
            mask.set(at);
        }
        mask
    }
}

impl Insert {
    fn tried(&mut self, pair: &Pair) {
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
struct Places {
    least: i64,
    /// Of values from the least on; `NO_ROW`: none.
    direct: Vec<u32>,
    rest: FxHashMap<i64, u32>,
}

impl Places {
    /// Inserted values mostly lie close together.
    fn of(values: &[i64]) -> Places {
        let least = values.iter().copied().min().unwrap_or(0);
        let span = values.iter().copied().max().unwrap_or(0).abs_diff(least);
        let mut places = Places {
            least,
            direct: Vec::new(),
            rest: FxHashMap::default(),
        };
        if span < 16 * values.len() as u64 + 1024 {
            places.direct = vec![NO_ROW; span as usize + 1];
        }
        for (at, &value) in values.iter().enumerate() {
            match places.direct.get_mut(value.abs_diff(least) as usize) {
                Some(place) => *place = at as u32,
                None => {
                    places.rest.insert(value, at as u32);
                }
            }
        }
        places
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

//! Parts of a table: intervals of block numbers, and sets of them in which none covers another.

use std::cell::Cell;
use std::cmp::Ordering;
use std::hash::BuildHasherDefault;
use std::rc::Rc;
use std::str::Bytes;

use indexmap::IndexMap;
use rustc_hash::FxHasher;

use crate::digits::{self, Digits};
use crate::world::Ns;

/// A map in the order in which its keys came.
pub type Ordered<K, V> = IndexMap<K, V, BuildHasherDefault<FxHasher>>;

/// One value of a row.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value {
    Int(i64),
    Text(Rc<str>),
}

impl Value {
    pub fn text(text: &str) -> Value {
        Value::Text(text.into())
    }
}

pub type Row = Rc<[Value]>;
/// Of one part: never changed, so that copies share them.
pub type Rows = Rc<[Row]>;

/// Rows as a word that is the same wherever they are the same: what Python calls their `repr`.
pub fn spelled_rows(rows: &[Row], open: char, close: char) -> String {
    let mut out = String::with_capacity(2 + 16 * rows.len());
    out.push(open);
    for (at, row) in rows.iter().enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        spell_row(&mut out, row);
    }
    if rows.len() == 1 && open == '(' {
        out.push(',');
    }
    out.push(close);
    out
}

/// One row, in the same way.
pub fn spell_row(out: &mut String, row: &[Value]) {
    out.push('(');
    for (at, value) in row.iter().enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        match value {
            Value::Int(number) => out.push_str(Digits::of(*number).as_str()),
            Value::Text(text) => out.extend(["'", text, "'"]),
        }
    }
    out.push_str(if row.len() == 1 { ",)" } else { ")" });
}

/// What a part's name says.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Info {
    pub partition: Rc<str>,
    pub min: i64,
    pub max: i64,
    pub level: i64,
    pub mutation: i64,
}

impl Info {
    /// Of an insert's part.
    pub fn block(partition: &Rc<str>, number: i64) -> Info {
        Info {
            partition: partition.clone(),
            min: number,
            max: number,
            level: 0,
            mutation: 0,
        }
    }

    /// The other way round. Panics at what is no part's name.
    pub fn named(name: &str) -> Info {
        let partition = name.bytes().position(|letter| letter == b'_');
        let (partition, rest) = name.split_at(partition.expect("a partition"));
        let mut rest = rest[1..].bytes();
        Info {
            partition: partition.into(),
            min: number_in(&mut rest),
            max: number_in(&mut rest),
            level: number_in(&mut rest),
            mutation: number_in(&mut rest),
        }
    }

    /// What a name says, if that part would have every row of this one.
    pub fn contained_in(&self, name: &str) -> Option<Info> {
        let rest = name.strip_prefix(&*self.partition)?;
        let mut rest = rest.strip_prefix('_')?.bytes();
        let (min, max) = (number_in(&mut rest), number_in(&mut rest));
        if min > self.min || max < self.max {
            return None;
        }
        let other = Info {
            partition: self.partition.clone(),
            min,
            max,
            level: number_in(&mut rest),
            mutation: number_in(&mut rest),
        };
        other.contains(self).then_some(other)
    }

    /// As ClickHouse spells it.
    pub fn name(&self) -> String {
        let mut out = Vec::with_capacity(self.partition.len() + 24);
        out.extend_from_slice(self.partition.as_bytes());
        let mutation = Some(self.mutation).filter(|mutation| *mutation != 0);
        for number in [self.min, self.max, self.level].into_iter().chain(mutation) {
            out.push(b'_');
            digits::append(&mut out, number);
        }
        String::from_utf8(out).expect("digits are ASCII")
    }

    /// By what parts of a partition are sorted.
    fn place(&self) -> (i64, i64, i64, i64) {
        (self.min, self.max, self.level, self.mutation)
    }

    /// Mutations above it are yet to be applied.
    pub fn version(&self) -> i64 {
        if self.mutation == 0 {
            self.min
        } else {
            self.mutation
        }
    }

    /// Whether every row of the other is in this one, if both are parts of one table.
    pub fn contains(&self, other: &Info) -> bool {
        self.min <= other.min
            && self.max >= other.max
            && self.level >= other.level
            && self.mutation >= other.mutation
            && self.partition == other.partition
    }
}

/// The next number in the rest of a part's name; 0 at its end.
fn number_in(rest: &mut Bytes<'_>) -> i64 {
    let mut number = 0;
    for letter in rest {
        if letter == b'_' {
            break;
        }
        assert!(letter.is_ascii_digit(), "only numbers follow a partition");
        number = number * 10 + i64::from(letter - b'0');
    }
    number
}

/// A part on a disk. Its rows never change, and stand for its checksums.
pub struct Part {
    pub info: Info,
    pub name: Rc<str>,
    pub rows: Rows,
    pub made_ns: Ns,
    /// Since when another part covers it; 0: none does.
    pub old_ns: Cell<Ns>,
}

impl Part {
    pub fn new(info: Info, rows: Rows, made_ns: Ns) -> Rc<Part> {
        let name = info.name().into();
        Part::named(info, name, rows, made_ns)
    }

    /// The same, where the name is known.
    pub fn named(info: Info, name: Rc<str>, rows: Rows, made_ns: Ns) -> Rc<Part> {
        Rc::new(Part {
            info,
            name,
            rows,
            made_ns,
            old_ns: Cell::new(0),
        })
    }
}

/// Things by their Info, no one covered by another: the active set.
#[derive(Clone)]
pub struct Cover<T> {
    /// Of each partition, by block number.
    inside: Ordered<Rc<str>, Vec<Member<T>>>,
    len: usize,
    /// How many were added.
    added: u64,
}

#[derive(Clone)]
struct Member<T> {
    info: Info,
    thing: T,
    /// How many were added before.
    turn: u64,
}

impl<T> Default for Cover<T> {
    fn default() -> Cover<T> {
        Cover {
            inside: Ordered::default(),
            len: 0,
            added: 0,
        }
    }
}

impl<T> Cover<T> {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// In the order in which they came.
    pub fn things(&self) -> impl Iterator<Item = &T> {
        self.pairs().map(|(_, thing)| thing)
    }

    /// Each with its Info.
    pub fn pairs(&self) -> impl Iterator<Item = (&Info, &T)> {
        in_turn(self.inside.values().flatten())
    }

    /// The things of a partition, in the order in which they came.
    pub fn of(&self, partition: &str) -> impl Iterator<Item = &T> {
        in_turn(self.members(partition).iter()).map(|(_, thing)| thing)
    }

    /// Of a partition, by block number.
    pub fn infos(&self, partition: &str) -> impl ExactSizeIterator<Item = &Info> {
        self.members(partition).iter().map(|member| &member.info)
    }

    fn members(&self, partition: &str) -> &[Member<T>] {
        self.inside.get(partition).map_or(&[], Vec::as_slice)
    }

    /// Those with anything in them.
    pub fn partitions(&self) -> impl Iterator<Item = &Rc<str>> {
        let inside = self.inside.iter().filter(|(_, inside)| !inside.is_empty());
        inside.map(|(name, _)| name)
    }

    /// Exactly this one.
    pub fn get(&self, info: &Info) -> Option<&T> {
        let inside = self.members(&info.partition);
        let at = inside.binary_search_by_key(&info.place(), |member| member.info.place());
        at.ok().map(|at| &inside[at].thing)
    }

    /// The one that is or covers it.
    pub fn containing(&self, info: &Info) -> Option<&Info> {
        self.covering(info).map(|(info, _)| info)
    }

    /// The same, and what it is of.
    pub fn covering(&self, info: &Info) -> Option<(&Info, &T)> {
        let inside = self.members(&info.partition);
        let after = inside.partition_point(|other| other.info.place() <= info.place());
        // Equal ends sort by the rest of the name, so the neighbour on the right may be it too.
        let near = inside[after.saturating_sub(1)..]
            .iter()
            .take(1 + usize::from(after > 0));
        let mut near = near.into_iter();
        let found = near.find(|other| other.info.contains(info))?;
        Some((&found.info, &found.thing))
    }

    /// Those that lie between these block numbers, both included.
    pub fn within(&self, partition: &str, low: i64, high: i64) -> bool {
        let mut inside = self.infos(partition);
        inside.any(|info| low <= info.min && info.max <= high)
    }

    /// Adds it, unless it is covered, and takes out what it covers, which is returned.
    pub fn add(&mut self, info: &Info, thing: T) -> Vec<T> {
        if self.containing(info).is_some() {
            return Vec::new();
        }
        let mut covered = Vec::new();
        let inside = match self.inside.get_mut(&info.partition) {
            Some(inside) => inside,
            None => self.inside.entry(info.partition.clone()).or_default(),
        };
        if inside.iter().any(|other| info.contains(&other.info)) {
            for other in std::mem::take(inside) {
                if info.contains(&other.info) {
                    covered.push(other.thing);
                } else {
                    inside.push(other);
                }
            }
        }
        let at = inside.partition_point(|other| other.info.place() <= info.place());
        let member = Member {
            info: info.clone(),
            thing,
            turn: self.added,
        };
        inside.insert(at, member);
        self.added += 1;
        self.len = self.len + 1 - covered.len();
        covered
    }

    /// Of what is not there, nothing happens.
    pub fn remove(&mut self, info: &Info) {
        if let Some(inside) = self.inside.get_mut(&info.partition) {
            let at = inside.binary_search_by_key(&info.place(), |member| member.info.place());
            if let Ok(at) = at {
                inside.remove(at);
                self.len -= 1;
            }
        }
    }

    /// Whether it is so of each.
    pub fn all(&self, so: impl Fn(&T) -> bool) -> bool {
        let mut members = self.inside.values().flatten();
        members.all(|member| so(&member.thing))
    }

    /// Each thing by another.
    pub fn replace(&mut self, by: impl Fn(&Info, &T) -> T) {
        for member in self.inside.values_mut().flatten() {
            member.thing = by(&member.info, &member.thing);
        }
    }

    /// As if they had come in this order.
    pub fn reorder(&mut self, order: impl Fn(&Info, &Info) -> Ordering) {
        let mut members: Vec<_> = self.inside.values_mut().flatten().collect();
        members.sort_unstable_by(|one, other| order(&one.info, &other.info));
        for (turn, member) in (0..).zip(members) {
            member.turn = turn;
        }
    }
}

fn in_turn<'a, T: 'a>(
    members: impl Iterator<Item = &'a Member<T>>,
) -> impl Iterator<Item = (&'a Info, &'a T)> {
    let mut members: Vec<_> = members.collect();
    members.sort_unstable_by_key(|member| member.turn);
    members.into_iter().map(|one| (&one.info, &one.thing))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Seed;

    /// Draws one after the other.
    struct Draws {
        seed: Seed,
        drawn: u64,
    }

    impl Draws {
        fn below(&mut self, bound: usize) -> usize {
            self.drawn += 1;
            self.seed.below(self.drawn, bound as u64) as usize
        }
    }

    /// What the parts of a table have been: inserted, merged with neighbours, mutated.
    fn history(draws: &mut Draws) -> Vec<Info> {
        let names: [Rc<str>; 2] = ["all".into(), "7".into()];
        let mut partitions = [Vec::new(), Vec::new()];
        let mut all = Vec::new();
        for number in 0..60 {
            let at = draws.below(2);
            let parts: &mut Vec<Info> = &mut partitions[at];
            let (which, first) = (draws.below(4), draws.below(parts.len().max(1)));
            let made = if which < 2 || parts.is_empty() {
                parts.push(Info::block(&names[at], number));
                parts.len() - 1
            } else if which == 2 {
                parts[first].mutation = number;
                first
            } else {
                let end = parts.len().min(first + 1 + draws.below(4));
                let run: Vec<Info> = parts.drain(first..end).collect();
                let merged = Info {
                    partition: names[at].clone(),
                    min: run[0].min,
                    max: run[run.len() - 1].max,
                    level: 1 + run.iter().map(|info| info.level).max().unwrap(),
                    mutation: run.iter().map(|info| info.mutation).max().unwrap(),
                };
                parts.insert(first, merged);
                first
            };
            all.push(parts[made].clone());
        }
        all
    }

    /// The same as a cover, without a thought of speed.
    #[derive(Default)]
    struct Naive {
        partitions: Vec<Rc<str>>,
        things: Vec<(Info, usize)>,
    }

    impl Naive {
        fn infos(&self, partition: &str) -> Vec<Info> {
            let infos = self.things.iter().map(|(info, _)| info.clone());
            let mut infos: Vec<Info> = infos.filter(|one| *one.partition == *partition).collect();
            infos.sort();
            infos
        }

        fn containing(&self, info: &Info) -> Option<&Info> {
            let mut infos = self.things.iter().map(|(info, _)| info);
            infos.find(|other| other.contains(info))
        }

        fn within(&self, partition: &str, low: i64, high: i64) -> bool {
            let infos = self.infos(partition);
            infos.iter().any(|info| low <= info.min && info.max <= high)
        }

        fn add(&mut self, info: &Info, thing: usize) -> Vec<usize> {
            if self.containing(info).is_some() {
                return Vec::new();
            }
            if !self.partitions.contains(&info.partition) {
                self.partitions.push(info.partition.clone());
            }
            let covered = self.things.iter().filter(|(other, _)| info.contains(other));
            let mut covered: Vec<(Info, usize)> = covered.cloned().collect();
            covered.sort();
            self.things.retain(|(other, _)| !info.contains(other));
            self.things.push((info.clone(), thing));
            covered.into_iter().map(|(_, thing)| thing).collect()
        }

        fn remove(&mut self, info: &Info) {
            self.things.retain(|(other, _)| other != info);
        }
    }

    #[test]
    fn a_cover_is_what_a_naive_one_is() {
        for seed in 0..200 {
            let mut draws = Draws {
                seed: Seed(seed),
                drawn: 0,
            };
            let infos = history(&mut draws);
            let (mut cover, mut naive) = (Cover::default(), Naive::default());
            for thing in 0..150 {
                let info = &infos[draws.below(infos.len())];
                if draws.below(5) == 0 {
                    cover.remove(info);
                    naive.remove(info);
                } else {
                    assert_eq!(cover.add(info, thing), naive.add(info, thing));
                }
                let pairs = cover.pairs().map(|(info, thing)| (info.clone(), *thing));
                assert_eq!(pairs.collect::<Vec<_>>(), naive.things);
                assert_eq!(cover.len(), naive.things.len());
                let partitions = naive.partitions.iter();
                let partitions = partitions.filter(|one| !naive.infos(one).is_empty());
                assert!(cover.partitions().eq(partitions));
                for partition in &naive.partitions {
                    let infos: Vec<Info> = cover.infos(partition).cloned().collect();
                    assert_eq!(infos, naive.infos(partition));
                    let of_partition = naive.things.iter();
                    let of_partition = of_partition.filter(|(one, _)| one.partition == *partition);
                    assert!(cover.of(partition).eq(of_partition.map(|(_, thing)| thing)));
                    let low = draws.below(60) as i64;
                    let high = low + draws.below(20) as i64;
                    let within = cover.within(partition, low, high);
                    assert_eq!(within, naive.within(partition, low, high));
                }
                for info in &infos {
                    assert_eq!(cover.containing(info), naive.containing(info));
                    let thing = naive.things.iter().find(|(one, _)| one == info);
                    assert_eq!(cover.get(info), thing.map(|(_, thing)| thing));
                }
            }
        }
    }

    #[test]
    fn names() {
        for name in ["all_0_0_0", "7_3_12_2", "7_3_12_2_40"] {
            assert_eq!(Info::named(name).name(), name);
        }
        assert_eq!(Info::named("7_3_12_2_40").version(), 40);
        assert_eq!(Info::named("7_3_12_2").version(), 3);
        let contained = |name| Info::named("7_3_5_1").contained_in(name);
        for name in ["7_3_5_1", "7_0_5_2", "7_3_6_1_9"] {
            assert_eq!(contained(name), Some(Info::named(name)));
        }
        for name in ["7_4_5_1", "7_3_4_2", "7_3_5_0", "77_3_5_1", "6_3_5_1"] {
            assert_eq!(contained(name), None);
        }
    }
}

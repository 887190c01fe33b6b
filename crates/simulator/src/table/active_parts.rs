//! Keeps sets of parts in which none covers another.

use std::cmp::Ordering;
use std::rc::Rc;

use crate::table::parts::{Info, Ordered};

/// Values by the Info of their part, none of which covers another: the active set.
#[derive(Clone)]
pub struct ActivePartSet<T> {
    /// The members of each partition, by block number.
    inside: Ordered<Rc<str>, Vec<Member<T>>>,
    len: usize,
    /// Number of values that were added.
    added: u64,
    /// Whether some members had block numbers of others, which means that a protocol is broken.
    overlaps: bool,
}

#[derive(Clone)]
struct Member<T> {
    info: Info,
    value: T,
    /// Number of values that were added before.
    turn: u64,
}

impl<T> Default for ActivePartSet<T> {
    fn default() -> ActivePartSet<T> {
        ActivePartSet {
            inside: Ordered::default(),
            len: 0,
            added: 0,
            overlaps: false,
        }
    }
}

impl<T> ActivePartSet<T> {
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether some member has ever had block numbers of another.
    pub fn overlaps(&self) -> bool {
        self.overlaps
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Iterates over the values in the order in which they were added.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.pairs().map(|(_, value)| value)
    }

    /// Iterates over the values with their parts.
    pub fn pairs(&self) -> impl Iterator<Item = (&Info, &T)> {
        in_turn(self.inside.values().flatten())
    }

    /// Iterates over the values of a partition in the order in which they were added.
    pub fn of(&self, partition: &str) -> impl Iterator<Item = &T> {
        in_turn(self.members(partition).iter()).map(|(_, value)| value)
    }

    /// Iterates over the parts of a partition by block number.
    pub fn infos(&self, partition: &str) -> impl ExactSizeIterator<Item = &Info> {
        self.members(partition).iter().map(|member| &member.info)
    }

    fn members(&self, partition: &str) -> &[Member<T>] {
        self.inside.get(partition).map_or(&[], Vec::as_slice)
    }

    /// Iterates over the partitions that have members.
    pub fn partitions(&self) -> impl Iterator<Item = &Rc<str>> {
        let inside = self.inside.iter().filter(|(_, inside)| !inside.is_empty());
        inside.map(|(name, _)| name)
    }

    /// Returns the value of exactly this part.
    pub fn get(&self, info: &Info) -> Option<&T> {
        let inside = self.members(&info.partition);
        let at = inside.binary_search_by_key(&info.place(), |member| member.info.place());
        at.ok().map(|at| &inside[at].value)
    }

    /// Returns the member that equals or covers the part.
    pub fn containing(&self, info: &Info) -> Option<&Info> {
        self.covering(info).map(|(info, _)| info)
    }

    /// Returns the member that equals or covers the part, and its value.
    pub fn covering(&self, info: &Info) -> Option<(&Info, &T)> {
        let found = covering(self.members(&info.partition), self.overlaps, info)?;
        Some((&found.info, &found.value))
    }

    /// Whether some part lies between these block numbers, both included.
    pub fn within(&self, partition: &str, low: i64, high: i64) -> bool {
        let mut inside = self.infos(partition);
        inside.any(|info| low <= info.min && info.max <= high)
    }

    /// Adds a part unless it is covered; removes and returns the values of the parts that it
    /// covers.
    pub fn add(&mut self, info: &Info, value: T) -> Vec<T> {
        assert!(info.min <= info.max, "a part has block numbers");
        let inside = match self.inside.get_mut(&info.partition) {
            Some(inside) => inside,
            None => self.inside.entry(info.partition.clone()).or_default(),
        };
        if covering(inside, self.overlaps, info).is_some() {
            return Vec::new();
        }
        let mut covered = Vec::new();
        let from = inside.partition_point(|other| other.info.min < info.min);
        let until = from + inside[from..].partition_point(|other| other.info.min <= info.max);
        if from < until {
            let near: Vec<_> = inside.drain(from..until).collect();
            let (within, others) = near
                .into_iter()
                .partition(|other| info.contains(&other.info));
            covered = Vec::into_iter(within).map(|other| other.value).collect();
            inside.splice(from..from, Vec::into_iter(others));
        }
        let behind = inside[from..].partition_point(|other| other.info.place() <= info.place());
        let at = from + behind;
        let (before, after) = inside.split_at(at);
        self.overlaps |= before
            .last()
            .is_some_and(|other| other.info.max >= info.min)
            || after
                .first()
                .is_some_and(|other| other.info.min <= info.max);
        let member = Member {
            info: info.clone(),
            value,
            turn: self.added,
        };
        inside.insert(at, member);
        assert!(
            covered.is_empty() || !info.is_block(),
            "an insert's own part covers no other"
        );
        self.added += 1;
        self.len = self.len + 1 - covered.len();
        covered
    }

    /// Removes a part; no-op if it is not a member.
    pub fn remove(&mut self, info: &Info) {
        if let Some(inside) = self.inside.get_mut(&info.partition) {
            let at = inside.binary_search_by_key(&info.place(), |member| member.info.place());
            if let Ok(at) = at {
                let member = inside.remove(at);
                assert_eq!(member.info, *info, "a position has one part");
                self.len -= 1;
            }
        }
    }

    /// Whether the predicate holds for every value.
    pub fn all(&self, so: impl Fn(&T) -> bool) -> bool {
        let mut members = self.inside.values().flatten();
        members.all(|member| so(&member.value))
    }

    /// Replaces each value.
    pub fn replace(&mut self, by: impl Fn(&Info, &T) -> T) {
        for member in self.inside.values_mut().flatten() {
            member.value = by(&member.info, &member.value);
        }
    }

    /// Sorts the members as if they had been added in this order.
    pub fn reorder(&mut self, order: impl Fn(&Info, &Info) -> Ordering) {
        let mut members: Vec<_> = self.inside.values_mut().flatten().collect();
        assert_eq!(members.len(), self.len, "every member is counted");
        members.sort_unstable_by(|one, other| order(&one.info, &other.info));
        for (turn, member) in (0..).zip(members) {
            member.turn = turn;
        }
    }
}

/// Returns the member that equals or covers the part: the last one that does not begin after it,
/// unless members overlap.
fn covering<'a, T>(inside: &'a [Member<T>], overlaps: bool, info: &Info) -> Option<&'a Member<T>> {
    let until = inside.partition_point(|other| other.info.min <= info.min);
    let from = if overlaps { 0 } else { until.saturating_sub(1) };
    let mut near = inside[from..until].iter().rev();
    near.find(|other| other.info.contains(info))
}

fn in_turn<'a, T: 'a>(
    members: impl Iterator<Item = &'a Member<T>>,
) -> impl Iterator<Item = (&'a Info, &'a T)> {
    let mut members: Vec<_> = members.collect();
    members.sort_unstable_by_key(|member| member.turn);
    members.into_iter().map(|one| (&one.info, &one.value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use seed::Seed;

    /// A sequence of draws.
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

    /// Returns the parts that a table has had: inserted, merged with neighbours, mutated.
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

    /// A straightforward implementation of the same set.
    #[derive(Default)]
    struct Naive {
        partitions: Vec<Rc<str>>,
        values: Vec<(Info, usize)>,
    }

    impl Naive {
        fn infos(&self, partition: &str) -> Vec<Info> {
            let infos = self.values.iter().map(|(info, _)| info.clone());
            let mut infos: Vec<Info> = infos.filter(|one| *one.partition == *partition).collect();
            infos.sort();
            infos
        }

        fn containing(&self, info: &Info) -> Option<&Info> {
            let mut infos = self.values.iter().map(|(info, _)| info);
            infos.find(|other| other.contains(info))
        }

        fn within(&self, partition: &str, low: i64, high: i64) -> bool {
            let infos = self.infos(partition);
            infos.iter().any(|info| low <= info.min && info.max <= high)
        }

        fn add(&mut self, info: &Info, value: usize) -> Vec<usize> {
            if self.containing(info).is_some() {
                return Vec::new();
            }
            if !self.partitions.contains(&info.partition) {
                self.partitions.push(info.partition.clone());
            }
            let covered = self.values.iter().filter(|(other, _)| info.contains(other));
            let mut covered: Vec<(Info, usize)> = covered.cloned().collect();
            covered.sort();
            self.values.retain(|(other, _)| !info.contains(other));
            self.values.push((info.clone(), value));
            covered.into_iter().map(|(_, value)| value).collect()
        }

        fn remove(&mut self, info: &Info) {
            self.values.retain(|(other, _)| other != info);
        }
    }

    #[test]
    fn the_set_equals_a_naive_one() {
        for seed in 0..200 {
            let mut draws = Draws {
                seed: Seed(seed),
                drawn: 0,
            };
            let infos = history(&mut draws);
            let (mut cover, mut naive) = (ActivePartSet::default(), Naive::default());
            for value in 0..150 {
                let info = &infos[draws.below(infos.len())];
                if draws.below(5) == 0 {
                    cover.remove(info);
                    naive.remove(info);
                } else {
                    assert_eq!(cover.add(info, value), naive.add(info, value));
                }
                let pairs = cover.pairs().map(|(info, value)| (info.clone(), *value));
                assert_eq!(pairs.collect::<Vec<_>>(), naive.values);
                assert_eq!(cover.len(), naive.values.len());
                let partitions = naive.partitions.iter();
                let partitions = partitions.filter(|one| !naive.infos(one).is_empty());
                assert!(cover.partitions().eq(partitions));
                for partition in &naive.partitions {
                    let infos: Vec<Info> = cover.infos(partition).cloned().collect();
                    assert_eq!(infos, naive.infos(partition));
                    let of_partition = naive.values.iter();
                    let of_partition = of_partition.filter(|(one, _)| one.partition == *partition);
                    assert!(cover.of(partition).eq(of_partition.map(|(_, value)| value)));
                    let low = draws.below(60) as i64;
                    let high = low + draws.below(20) as i64;
                    let within = cover.within(partition, low, high);
                    assert_eq!(within, naive.within(partition, low, high));
                }
                for info in &infos {
                    assert_eq!(cover.containing(info), naive.containing(info));
                    let value = naive.values.iter().find(|(one, _)| one == info);
                    assert_eq!(cover.get(info), value.map(|(_, value)| value));
                }
            }
        }
    }

    #[test]
    fn overlapping_parts_are_found_behind_a_neighbour() {
        let mut cover = ActivePartSet::default();
        for (value, name) in ["0_51_110_1", "0_57_102_3", "0_103_103_0"]
            .iter()
            .enumerate()
        {
            cover.add(&Info::named(name), value);
        }
        assert!(cover.values().eq(&[0, 1]));
        let inner = Info::named("0_103_103_0");
        assert_eq!(cover.containing(&inner), Some(&Info::named("0_51_110_1")));
    }
}

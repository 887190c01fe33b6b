//! Decides whether the values of a stack can live, each pop taking the last one that was pushed.
//!
//! Each value is in the stack for sure after the end of its push and before the start of its pop.
//! - At a moment at which no value is there for sure, the stack can be empty: what is popped by then
//!   can be popped before it, and what is pushed later can be pushed after it.
//! - While values are there without such a moment, from A to B, the stack is never empty, so that
//!   one value is at the bottom all the time. It is one whose push was called by A and whose pop
//!   returned after B. Any such value will do: it disturbs none of the others there. Without it,
//!   there may be moments at which none of the others is there for sure.
//!
//! So take away one bottom after the other. A push called by A of a value that is there only later,
//! and a pop that returned after B: these are values for which the point (A, B) lies in the rectangle
//! from push to push and from pop to pop. O(n log² n).

use super::lives::{always_covered, lasting, Life};
use super::ordered::Part;
use crate::order::NEVER;

/// Returns the parts among which no value is at the bottom, or a pop that found nothing with all
/// values; `None` if there is no such thing.
pub fn flaw<'a>(parts: &[Part<'a>]) -> Option<Vec<Part<'a>>> {
    let life = |part: &Part<'a>| match part {
        Part::Value(_, life) => Some(*life),
        Part::Empty(_) => None,
    };
    let lives: Vec<Life> = parts.iter().filter_map(life).collect();
    let there = lasting(&lives);
    let empties = parts.iter().filter_map(|part| match part {
        Part::Empty(op) => Some(*op),
        Part::Value(..) => None,
    });
    if let Some((op, run)) = always_covered(&there, empties) {
        let values = there[run].iter().map(|&life| Part::Value(0, life));
        return Some(values.chain([Part::Empty(op)]).collect());
    }
    let left = Nest::new(&there).without_bottom()?;
    Some(left.into_iter().map(|i| Part::Value(0, there[i])).collect())
}

/// The values of a stack that were not taken away.
struct Nest<'l, 'a> {
    lives: &'l [Life<'a>],
    /// The times at which lives begin and end.
    times: Vec<i64>,
    /// By moment, twice the index of a time for the time itself, and one more for those after it: how
    /// many lives cover it.
    cover: Cover,
    bottoms: Bottoms,
    is_left: Vec<bool>,
}

impl<'l, 'a> Nest<'l, 'a> {
    fn new(lives: &'l [Life<'a>]) -> Self {
        let ends = lives
            .iter()
            .flat_map(|life| [life.enqueue.ret, life.until()]);
        let mut times: Vec<i64> = ends.collect();
        times.sort_unstable();
        times.dedup();
        let mut nest = Self {
            cover: Cover::new(2 * times.len()),
            bottoms: Bottoms::new(lives, &times),
            is_left: vec![true; lives.len()],
            lives,
            times,
        };
        for life in lives {
            let (from, to) = nest.moments(life);
            nest.cover.add(from, to, 1);
        }
        nest
    }

    /// Returns the first and the last moment at which the value is there for sure.
    fn moments(&self, life: &Life) -> (usize, usize) {
        let index = |time: i64| self.times.binary_search(&time).expect("the time of a life");
        (2 * index(life.enqueue.ret) + 1, 2 * index(life.until()) - 1)
    }

    /// Takes bottoms away and returns values, by index, that are there without a gap and have none;
    /// `None` if every value is taken away.
    fn without_bottom(mut self) -> Option<Vec<usize>> {
        let mut open = Vec::new();
        let all = 2 * self.times.len();
        self.split(0, all, (0, all), &mut open);
        while let Some((from, to)) = open.pop() {
            let (a, b) = (self.times[from / 2], self.times[to / 2 + 1]);
            let Some(bottom) = self.bottoms.take(a, b) else {
                let is_within = |&i: &usize| {
                    let life = &self.lives[i];
                    self.is_left[i] && life.enqueue.ret >= a && life.until() <= b
                };
                return Some((0..self.lives.len()).filter(is_within).collect());
            };
            self.is_left[bottom] = false;
            let (first, last) = self.moments(&self.lives[bottom]);
            self.cover.add(first, last, -1);
            self.split(from, to + 1, (first, last + 1), &mut open);
        }
        None
    }

    /// Finds what is covered without a gap from one moment and before another; gaps are new only
    /// within `changed`.
    fn split(
        &mut self,
        from: usize,
        end: usize,
        changed: (usize, usize),
        open: &mut Vec<(usize, usize)>,
    ) {
        let mut begin = from;
        let mut search = changed.0;
        while let Some(gap) = self.cover.take_gap(search, changed.1) {
            if gap > begin {
                open.push((begin, gap - 1));
            }
            begin = gap + 1;
            search = gap + 1;
        }
        if begin < end {
            open.push((begin, end - 1));
        }
    }
}

/// Counts how many lives cover each moment: a tree of minima with additions to whole branches.
struct Cover {
    size: usize,
    /// By branch: the least count below it, without additions above it.
    least: Vec<i32>,
    added: Vec<i32>,
}

/// The count of a moment whose gap was taken.
const DONE: i32 = i32::MAX / 2;

impl Cover {
    fn new(moments: usize) -> Self {
        let size = moments.next_power_of_two().max(1);
        Self {
            size,
            least: vec![0; 2 * size],
            added: vec![0; 2 * size],
        }
    }

    /// Adds to the counts from one moment to another, inclusive.
    fn add(&mut self, from: usize, to: usize, count: i32) {
        self.add_below(1, (0, self.size), (from, to + 1), count);
    }

    fn add_below(&mut self, branch: usize, at: (usize, usize), range: (usize, usize), count: i32) {
        if range.1 <= at.0 || at.1 <= range.0 {
            return;
        }
        if range.0 <= at.0 && at.1 <= range.1 {
            self.least[branch] += count;
            self.added[branch] += count;
            return;
        }
        let middle = (at.0 + at.1) / 2;
        self.add_below(2 * branch, (at.0, middle), range, count);
        self.add_below(2 * branch + 1, (middle, at.1), range, count);
        let least = self.least[2 * branch].min(self.least[2 * branch + 1]);
        self.least[branch] = least + self.added[branch];
    }

    /// Returns the first moment of a range that nothing covers, once.
    fn take_gap(&mut self, from: usize, end: usize) -> Option<usize> {
        let gap = self.gap_below(1, (0, self.size), (from, end), 0)?;
        self.add(gap, gap, DONE);
        Some(gap)
    }

    fn gap_below(
        &self,
        branch: usize,
        at: (usize, usize),
        range: (usize, usize),
        above: i32,
    ) -> Option<usize> {
        if range.1 <= at.0 || at.1 <= range.0 || self.least[branch] + above > 0 {
            return None;
        }
        if at.1 - at.0 == 1 {
            return Some(at.0);
        }
        let above = above + self.added[branch];
        let middle = (at.0 + at.1) / 2;
        self.gap_below(2 * branch, (at.0, middle), range, above)
            .or_else(|| self.gap_below(2 * branch + 1, (middle, at.1), range, above))
    }
}

/// Finds values by the times of their pushes and pops: a tree over the times, in which each value is
/// kept at the branches that together are the times at which it can be pushed.
struct Bottoms {
    times: Vec<i64>,
    size: usize,
    branches: Vec<Pops>,
    /// By value: its place in each branch that has it.
    places: Vec<Vec<(u32, u32)>>,
}

impl Bottoms {
    fn new(lives: &[Life], times: &[i64]) -> Self {
        let size = times.len().next_power_of_two().max(1);
        let mut of: Vec<Vec<(i64, i64, u32)>> = vec![Vec::new(); 2 * size];
        for (i, life) in (0u32..).zip(lives) {
            let from = times.partition_point(|&time| time < life.enqueue.call);
            let to = times.partition_point(|&time| time <= life.enqueue.ret);
            let ret = life.dequeue.map_or(NEVER, |op| op.ret);
            let (mut from, mut to) = (from + size, to + size);
            while from < to {
                if from % 2 == 1 {
                    of[from].push((life.until(), ret, i));
                    from += 1;
                }
                if to % 2 == 1 {
                    to -= 1;
                    of[to].push((life.until(), ret, i));
                }
                (from, to) = (from / 2, to / 2);
            }
        }
        let mut places = vec![Vec::new(); lives.len()];
        let branches = (0u32..).zip(of).map(|(branch, mut values)| {
            values.sort_unstable();
            for (place, value) in (0u32..).zip(&values) {
                places[value.2 as usize].push((branch, place));
            }
            Pops::new(values)
        });
        Self {
            branches: branches.collect(),
            times: times.to_vec(),
            size,
            places,
        }
    }

    /// Takes a value away that can be pushed at `a`, is popped at `b` at the earliest but can be
    /// popped then.
    fn take(&mut self, a: i64, b: i64) -> Option<usize> {
        let mut branch = self.size + self.times.binary_search(&a).expect("the time of a life");
        let mut found = None;
        while branch > 0 && found.is_none() {
            found = self.branches[branch].find(b);
            branch /= 2;
        }
        let value = found? as usize;
        for &(branch, place) in &self.places[value] {
            self.branches[branch as usize].remove(place as usize);
        }
        Some(value)
    }
}

/// Values in order of the call of their pop, with a tree of the latest returns.
struct Pops {
    values: Vec<(i64, i64, u32)>,
    size: usize,
    /// By branch of a tree over the places: the latest return of a pop.
    latest: Vec<i64>,
}

impl Pops {
    fn new(values: Vec<(i64, i64, u32)>) -> Self {
        let size = values.len().next_power_of_two();
        let mut latest = vec![i64::MIN; if values.is_empty() { 0 } else { 2 * size }];
        for (place, value) in values.iter().enumerate() {
            latest[size + place] = value.1;
        }
        for branch in (1..size).rev().filter(|_| !values.is_empty()) {
            latest[branch] = latest[2 * branch].max(latest[2 * branch + 1]);
        }
        Self {
            values,
            size,
            latest,
        }
    }

    /// Returns a value whose pop was called by `b` and returned then or later.
    fn find(&self, b: i64) -> Option<u32> {
        let count = self.values.partition_point(|value| value.0 <= b);
        let (mut from, mut to) = (self.size, self.size + count);
        while from < to {
            let mut branches = [None; 2];
            if from % 2 == 1 {
                branches[0] = Some(from);
                from += 1;
            }
            if to % 2 == 1 {
                to -= 1;
                branches[1] = Some(to);
            }
            let found = branches
                .into_iter()
                .flatten()
                .find(|&at| self.latest[at] >= b);
            if let Some(branch) = found {
                return Some(self.values[self.latest_below(branch)].2);
            }
            (from, to) = (from / 2, to / 2);
        }
        None
    }

    /// Returns the place of the latest return below a branch.
    fn latest_below(&self, mut branch: usize) -> usize {
        while branch < self.size {
            branch *= 2;
            if self.latest[branch] < self.latest[branch / 2] {
                branch += 1;
            }
        }
        branch - self.size
    }

    fn remove(&mut self, place: usize) {
        let mut branch = self.size + place;
        self.latest[branch] = i64::MIN;
        while branch > 1 {
            branch /= 2;
            self.latest[branch] = self.latest[2 * branch].max(self.latest[2 * branch + 1]);
        }
    }
}

//! Decides a counter whose additions all add the same number, in O(n log n).
//!
//! The sum then only moves in one direction, step by step: after k additions it has reached level k.
//! An operation that returned a sum is *known*: an addition to level k is the k-th, and a read of
//! level k comes between the k-th and the next. So known operations are in the order of their
//! levels, and this order must agree with real time. The other additions, those that never returned
//! among them, share the levels that are left up to the highest known one; any number of them may
//! come later. One fits level k if
//! - it was called before anything of level k or above returned (a read of k or an addition above),
//! - it had not returned when something below level k was called.
//!
//! Both bounds rise with the level, so that each addition fits an interval of levels, and the rest is
//! a schedule: fill each level with an addition that fits, always the one whose last level is least.
//! If two additions are then in the wrong order in time, they can be exchanged.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::counter::{Action, Counter};
use super::lives::{bad, unexplained};
use crate::search::Op;
use crate::shrink;
use crate::verdict::{Request, Verdict};

/// Returns the verdict under real-time order; `None` if additions differ.
pub fn decide(counter: &Counter, ops: &[Op], request: &Request) -> Option<Verdict> {
    let by = addend(counter, ops)?;
    let steps = Steps::new(counter, by, ops);
    let Err(flaw) = steps.and_then(|steps| steps.check(false)) else {
        return Some(Verdict::valid(
            "the additions have an order that explains the sums",
        ));
    };
    Some(flaw.verdict(request, |part| {
        Steps::new(counter, by, part).is_ok_and(|steps| steps.check(true).is_err())
    }))
}

/// Returns the number that all additions add, 1 if there are none; `None` if they differ, or if sums
/// may leave 64 bits.
fn addend(counter: &Counter, ops: &[Op]) -> Option<i64> {
    let mut by = None;
    for op in ops {
        if let Action::Add(n) | Action::AddAndGet(n, _) = counter.actions[op.action as usize] {
            if n != 0 && *by.get_or_insert(n) != n {
                return None;
            }
        }
    }
    let by = by.unwrap_or(1);
    let most = by.checked_mul(i64::try_from(ops.len()).ok()?)?;
    counter.initial.checked_add(most)?;
    Some(by)
}

/// An operation that returned a sum.
#[derive(Clone, Copy)]
struct Known<'a> {
    /// How many additions lead to the sum.
    level: usize,
    adds: bool,
    op: &'a Op,
}

impl Known<'_> {
    /// Twice the level for the addition, and one more for the reads after it.
    fn place(&self) -> usize {
        2 * self.level + usize::from(!self.adds)
    }
}

/// Why no order explains the operations.
enum Flaw<'a> {
    /// The operation cannot have found its sum after any additions that were called by its return.
    Impossible(&'a Op),
    /// The first one has the later place, and returned before the second was called.
    Reversed(&'a Op, &'a Op),
    /// The operation returned too early for its level: too few additions are left beside those that
    /// returned the sums of higher levels.
    TooFew(&'a Op, Vec<&'a Op>),
    /// The additions lie between the `bounds`, whose levels leave room for fewer.
    TooMany {
        bounds: Vec<&'a Op>,
        /// Those that returned a sum between the levels.
        known: Vec<&'a Op>,
        adds: Vec<&'a Op>,
    },
}

impl Flaw<'_> {
    fn verdict(self, request: &Request, fails: impl Fn(&[Op]) -> bool) -> Verdict {
        match self {
            Flaw::Impossible(op) => bad(
                "no operations, in whatever order, make this one possible",
                &[op],
            ),
            Flaw::Reversed(later, earlier) => bad(
                "it found a sum that the counter had left before, as all additions are equal",
                &[earlier, later],
            ),
            Flaw::TooFew(op, mut higher) => {
                higher.insert(0, op);
                bad(
                    "too few additions were called in time beside those that led to higher sums",
                    &higher,
                )
            }
            Flaw::TooMany {
                bounds,
                known,
                adds,
            } => {
                if !known.is_empty() && !request.witness {
                    return unexplained(bounds[0]);
                }
                let mut reason = "more additions happened before this than its sum has".to_owned();
                let mut part = [bounds.as_slice(), &known, &adds].concat();
                if !known.is_empty() {
                    let all: Vec<Op> = part.iter().map(|&op| *op).collect();
                    let (kept, smallest) = shrink::smallest(&all, request.limits, |_| (), fails);
                    part.retain(|op| kept.contains(op));
                    if !smallest {
                        reason += "; the witness may not be the smallest (out of time)";
                    }
                }
                bad(&reason, &part)
            }
        }
    }
}

/// The operations by what is known of their levels.
struct Steps<'a> {
    /// In order of place, then of row.
    known: Vec<Known<'a>>,
    /// The additions of unknown sum.
    adds: Vec<&'a Op>,
}

impl<'a> Steps<'a> {
    fn new(counter: &Counter, by: i64, ops: &'a [Op]) -> Result<Self, Flaw<'a>> {
        let (mut known, mut adds) = (Vec::new(), Vec::new());
        for op in ops {
            let (sum, is_add) = match counter.actions[op.action as usize] {
                Action::Add(0) => continue,
                Action::Add(_) => {
                    adds.push(op);
                    continue;
                }
                Action::AddAndGet(by, sum) => (sum, by != 0),
                Action::Read(sum) => (sum, false),
            };
            let apart = i128::from(sum) - i128::from(counter.initial);
            let level = usize::try_from(apart / i128::from(by)).ok();
            let level =
                level.filter(|&level| apart % i128::from(by) == 0 && level >= usize::from(is_add));
            let level = level.ok_or(Flaw::Impossible(op))?;
            known.push(Known {
                level,
                adds: is_add,
                op,
            });
        }
        known.sort_by_key(|known| (known.place(), known.op.row));
        Ok(Self { known, adds })
    }

    /// Finds a flaw. With `more`, any number of further additions may have happened at any time.
    fn check(&self, more: bool) -> Result<(), Flaw<'a>> {
        if !more {
            self.check_counts()?;
        }
        self.check_order()?;
        let levels = Levels::new(&self.known);
        let placed = match self.fill(&levels, more) {
            Ok(()) => return Ok(()),
            Err(Unfilled::Starved(level)) => return Err(self.too_few(&levels, level)),
            Err(Unfilled::Missed(add, placed)) => self.too_many(&levels, add, &placed),
        };
        Err(placed)
    }

    /// Finds an operation that found a sum of more additions than had been called when it returned.
    fn check_counts(&self) -> Result<(), Flaw<'a>> {
        let known = self.known.iter().filter(|known| known.adds);
        let mut calls: Vec<i64> = known.map(|known| known.op.call).collect();
        calls.extend(self.adds.iter().map(|op| op.call));
        calls.sort_unstable();
        let called_by = |time| calls.partition_point(|&call| call <= time);
        let is_bad = |known: &&Known| known.level > called_by(known.op.ret);
        let bad = self.known.iter().filter(is_bad);
        match bad.min_by_key(|known| (known.op.ret, known.op.row)) {
            Some(known) => Err(Flaw::Impossible(known.op)),
            None => Ok(()),
        }
    }

    /// Finds two known operations whose real-time order contradicts that of their places.
    fn check_order(&self) -> Result<(), Flaw<'a>> {
        let mut latest: Option<&Op> = None;
        for group in self.known.chunk_by(|a, b| a.place() == b.place()) {
            if let [a, b, ..] = group {
                if a.adds {
                    return Err(Flaw::Reversed(a.op, b.op));
                }
            }
            if let Some(before) = latest {
                if let Some(known) = group.iter().find(|known| known.op.ret < before.call) {
                    return Err(Flaw::Reversed(known.op, before));
                }
            }
            let ops = group.iter().map(|known| known.op).chain(latest);
            latest = ops.max_by_key(|op| op.call);
        }
        Ok(())
    }

    /// Fills the levels up to the highest known one.
    fn fill(&self, levels: &Levels<'a>, more: bool) -> Result<(), Unfilled> {
        let mut adds: Vec<(usize, usize, usize)> = (self.adds.iter().enumerate())
            .map(|(i, op)| (levels.first(op.call), levels.last(op.ret), i))
            .collect();
        adds.sort_unstable();
        let mut adds = adds.into_iter().peekable();
        let mut placed: Vec<Placed> = Vec::new();
        let mut open = BinaryHeap::new();
        for level in (1..levels.count()).filter(|&level| !levels.taken[level]) {
            while let Some((first, last, add)) = adds.next_if(|&(first, ..)| first <= level) {
                open.push(Reverse((last, add, first)));
            }
            match open.pop() {
                Some(Reverse((last, add, first))) if last < level => {
                    return Err(Unfilled::Missed(
                        Placed {
                            level: last,
                            first,
                            add,
                        },
                        placed,
                    ));
                }
                Some(Reverse((_, add, first))) => placed.push(Placed { level, first, add }),
                None if more => {}
                None => return Err(Unfilled::Starved(level)),
            }
        }
        let open = open
            .into_iter()
            .map(|Reverse((last, add, first))| (first, last, add));
        let missed = open
            .chain(adds)
            .filter(|&(_, last, _)| last < levels.count());
        match missed.min_by_key(|&(_, last, add)| (last, add)) {
            Some((first, level, add)) => {
                Err(Unfilled::Missed(Placed { level, first, add }, placed))
            }
            None => Ok(()),
        }
    }

    fn too_few(&self, levels: &Levels<'a>, level: usize) -> Flaw<'a> {
        let early = levels.returned_first[level].expect("a bound of the level");
        let is_higher = |known: &&Known| {
            known.adds && known.level > early.level && known.op.call <= early.op.ret
        };
        let higher = self.known.iter().filter(is_higher);
        Flaw::TooFew(early.op, higher.map(|known| known.op).collect())
    }

    /// `missed` fits no level after its own, and all up to that are taken by additions that fit none
    /// of the later ones either.
    fn too_many(&self, levels: &Levels<'a>, missed: Placed, placed: &[Placed]) -> Flaw<'a> {
        let (mut first, last) = (missed.first, missed.level);
        let mut adds = vec![self.adds[missed.add]];
        let before = placed.partition_point(|placed| placed.level <= last);
        for other in placed[..before].iter().rev() {
            if other.level < first {
                break;
            }
            first = first.min(other.first);
            adds.push(self.adds[other.add]);
        }
        let after = levels.called_last[last + 1].expect("a bound of the last level");
        let before = levels.returned_first[first - 1].filter(|_| first > 1);
        let low = before.map_or(0, |known| known.level);
        let is_between =
            |known: &&Known| known.adds && known.level > low && known.level <= after.level;
        let between: Vec<&Op> = (self.known.iter().filter(is_between))
            .map(|known| known.op)
            .collect();
        adds.truncate((after.level - low + 1).saturating_sub(between.len()));
        let mut bounds = vec![after.op];
        bounds.extend(before.map(|known| known.op));
        Flaw::TooMany {
            known: (between.into_iter())
                .filter(|op| !bounds.contains(op))
                .collect(),
            bounds,
            adds,
        }
    }
}

/// An addition of unknown sum at a level.
#[derive(Clone, Copy)]
struct Placed {
    level: usize,
    /// The first level that it fits.
    first: usize,
    /// Its index.
    add: usize,
}

enum Unfilled {
    /// Nothing is left that fits the level.
    Starved(usize),
    /// The addition fits only levels that others have taken; with those that were placed before.
    Missed(Placed, Vec<Placed>),
}

/// The bounds of each level, from 0 to the one after the highest known one.
struct Levels<'a> {
    /// The first to return of the operations after the addition to the level.
    returned_first: Vec<Option<Known<'a>>>,
    /// The last to be called of the operations before the addition to the level.
    called_last: Vec<Option<Known<'a>>>,
    /// Whether the addition to the level is known.
    taken: Vec<bool>,
}

impl<'a> Levels<'a> {
    /// `known` is in order of place. O(highest level).
    fn new(known: &[Known<'a>]) -> Self {
        let count = known.last().map_or(0, |known| known.level) + 1;
        let mut levels = Self {
            returned_first: vec![None; count + 1],
            called_last: vec![None; count + 1],
            taken: vec![false; count + 1],
        };
        let mut rest = known.iter().peekable();
        let mut latest: Option<Known> = None;
        for level in 0..=count {
            while let Some(known) = rest.next_if(|known| known.place() < 2 * level) {
                if latest.is_none_or(|latest| known.op.call > latest.op.call) {
                    latest = Some(*known);
                }
            }
            levels.called_last[level] = latest;
        }
        let mut rest = known.iter().rev().peekable();
        let mut first: Option<Known> = None;
        for level in (0..=count).rev() {
            while let Some(known) = rest.next_if(|known| known.place() > 2 * level) {
                if first.is_none_or(|first| known.op.ret < first.op.ret) {
                    first = Some(*known);
                }
            }
            levels.returned_first[level] = first;
        }
        for known in known.iter().filter(|known| known.adds) {
            levels.taken[known.level] = true;
        }
        levels
    }

    /// Returns the number of levels up to the highest known one; level 0 has no addition.
    fn count(&self) -> usize {
        self.taken.len() - 1
    }

    /// Returns the first level that an addition with this call fits.
    fn first(&self, call: i64) -> usize {
        let is_over = |known: &Option<Known>| known.is_some_and(|known| known.op.ret < call);
        self.returned_first.partition_point(is_over).max(1)
    }

    /// Returns the last level that an addition with this return fits; `usize::MAX` if it may come
    /// after everything known.
    fn last(&self, ret: i64) -> usize {
        let is_later = |known: &Option<Known>| known.is_some_and(|known| known.op.call > ret);
        match self.called_last.partition_point(|known| !is_later(known)) {
            all if all == self.called_last.len() => usize::MAX,
            // Level 0, before which nothing is, comes first.
            fitting => fitting - 1,
        }
    }
}

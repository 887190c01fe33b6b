//! Finds an order that explains a set's history, or as much of it as possible.

use super::chain::{levels, UNSEEN};
use super::index::Indexed;
use super::{decide, History};
use crate::order::{intervals, Consistency, Timing, NEVER};
use crate::verdict::Status;

/// Returns the rows in an order that explains the history. If there is none, in real time, returns
/// an order that explains all that returned before some operation, and that operation's row. O(n
/// (log n)² + v log n).
pub fn linearization(history: &History, consistency: Consistency) -> (Vec<usize>, Option<usize>) {
    if decide(history, consistency).status == Status::Valid {
        return (order(history, consistency), None);
    }
    if consistency == Consistency::Sequential {
        return (Vec::new(), None);
    }
    let timings = history.adds.iter().map(|a| a.at);
    let timings = timings.chain(history.reads.iter().map(|r| r.at));
    let mut returned: Vec<Timing> = timings.filter(|at| at.ret != NEVER).collect();
    returned.sort_by_key(|at| (at.ret, at.call, at.row));
    let explained = |n: &usize| {
        let part = until(history, &returned[..*n], returned[*n - 1].ret);
        decide(&part, consistency).status == Status::Valid
    };
    // Search by the number of returns: if the first k cannot be explained, no more can.
    let counts: Vec<usize> = (1..=returned.len()).collect();
    let most = counts.partition_point(explained);
    let end = most
        .checked_sub(1)
        .map_or(i64::MIN, |last| returned[last].ret);
    let part = until(history, &returned[..most], end);
    (order(&part, consistency), Some(returned[most].row))
}

/// Returns the history up to a time, when only some operations had returned.
fn until<'a>(history: &'a History, returned: &[Timing], end: i64) -> History<'a> {
    let mut rows: Vec<usize> = returned.iter().map(|at| at.row).collect();
    rows.sort_unstable();
    let has = |at: &Timing| rows.binary_search(&at.row).is_ok();
    let mut part = History::default();
    for add in history.adds.iter().filter(|add| add.at.call <= end) {
        let mut add = *add;
        if !has(&add.at) {
            add.at.ret = NEVER;
        }
        part.adds.push(add);
    }
    for read in history.reads.iter().filter(|read| has(&read.at)) {
        part.push_read(read.at, &*read.values);
    }
    part
}

/// Returns the order of a history that has one: by level as in the proof of [`super`]. An add of a
/// value that is already there has no effect and is placed as late as its constraints allow.
fn order(history: &History, consistency: Consistency) -> Vec<usize> {
    let indexed = Indexed::new(history);
    let levels = levels(&indexed).unwrap_or_else(|_| unreachable!("it is explained"));
    let adds = history.adds.iter().zip(&indexed.of_add);
    let adds = adds.map(|(add, &value)| (add.at, levels.value[value as usize]));
    let reads = history.reads.iter().zip(&levels.read);
    let all = adds.chain(reads.map(|(read, &level)| (read.at, level)));
    let all: Vec<(Timing, u32)> = all
        .filter(|(at, l)| at.ret != NEVER || *l != UNSEEN)
        .collect();
    let timings: Vec<Timing> = all.iter().map(|(at, _)| *at).collect();
    let (places, _) = intervals(&timings, consistency);
    let mut called: Vec<usize> = (0..all.len()).collect();
    called.sort_by_key(|&i| (places[i].group, places[i].call));
    let mut ended: Vec<usize> = called.clone();
    ended.sort_by_key(|&i| (places[i].group, places[i].ret));
    let mut ended = ended.into_iter().peekable();
    let mut before = (0, 0);
    let mut keyed: Vec<(u32, i64, u32, usize)> = Vec::with_capacity(all.len());
    for i in called {
        let at = places[i];
        if before.0 != at.group {
            before = (at.group, 0);
        }
        while let Some(j) =
            ended.next_if(|&j| (places[j].group, places[j].ret) < (at.group, at.call))
        {
            if places[j].group == at.group {
                before.1 = before.1.max(all[j].1);
            }
        }
        keyed.push((all[i].1.max(before.1), at.call, at.group, all[i].0.row));
    }
    keyed.sort_unstable();
    keyed.into_iter().map(|(_, _, _, row)| row).collect()
}

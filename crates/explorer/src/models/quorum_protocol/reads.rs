//! The steps of selects. One select is in progress at a time.

use super::rules::{Defect, Reading, Rules};
use super::world::{Replica, Selecting, Status, World};
use crate::model::{act, alone, Action, Who, NONE};

/// Bits of `World::broken`.
pub const NOT_ENDED: u32 = 1;
pub const NOT_RECENT: u32 = 2;
pub const BACKWARDS: u32 = 4;
pub const WITHOUT_LAST: u32 = 8;

#[inline(always)]
pub fn steps(world: &World, at: usize, rules: &Rules, step: &mut impl FnMut(Action, World)) {
    let one = world.replicas[at];
    if one.reading {
        let mut after = *world;
        after.replicas[at].reading = false;
        after.selecting = Selecting::default();
        return match answer(world, at, rules, &world.selecting) {
            Some(answer) => {
                judge(world, &mut after, answer, &world.selecting);
                step(read(at, answer), after);
            }
            None => step(alone("RefuseRead", Who::Client, at as u32), after),
        };
    }
    if world.each().any(|r| r.reading) {
        return;
    }
    let Some(selecting) = begun(world, &one, rules) else {
        return;
    };
    let mut after = *world;
    if rules.reading == Reading::Linearizable && !rules.has(Defect::EarlySnapshot) {
        // It is one request, so its beginning and its end are one moment.
        if let Some(answer) = answer(world, at, rules, &selecting) {
            judge(world, &mut after, answer, &selecting);
            step(read(at, answer), after);
        }
        return;
    }
    after.replicas[at].reading = true;
    after.selecting = selecting;
    step(alone("BeginRead", Who::Client, at as u32), after);
}

/// Returns what a select sees first: the parts, if it takes them early; otherwise the limit. `None`
/// if it refuses at once.
#[inline(always)]
fn begun(world: &World, one: &Replica, rules: &Rules) -> Option<Selecting> {
    let mut selecting = Selecting {
        ended: world.are(Status::Ended),
        last: world.last,
        ..Selecting::default()
    };
    if rules.has(Defect::EarlySnapshot) {
        selecting.parts = one.shown(world.are(Status::Numbered));
        selecting.merged = one.merged;
    } else if rules.reading == Reading::Server {
        selecting.limit = limit(world, one, rules)?;
    }
    Some(selecting)
}

/// Returns what a select returns here: the one that is reading, or one that begins and ends now.
pub fn visible(world: &World, at: usize, rules: &Rules) -> u32 {
    let one = &world.replicas[at];
    let selecting = if one.reading {
        Some(world.selecting)
    } else {
        begun(world, one, rules)
    };
    let answered = selecting.and_then(|seen| answer(world, at, rules, &seen));
    answered.unwrap_or(0)
}

/// Whether a select by `last_part` would return here as much as if there were no merged part.
#[inline(always)]
pub fn merge_hides_nothing(world: &World, at: usize, rules: &Rules) -> bool {
    let one = &world.replicas[at];
    let Some(limit) = limit(world, one, rules) else {
        return true;
    };
    let shown = one.shown(world.are(Status::Numbered));
    let [merged, apart] = [one.merged, false].map(|m| units(world.merge, m, shown, limit));
    merged == apart
}

fn read(at: usize, answer: u32) -> Action {
    let last = answer.checked_ilog2().unwrap_or(NONE.into());
    act("Read", Who::Client, at as u32, last)
}

/// Returns what a select that has seen this returns now; `None` if it refuses.
#[inline(always)]
pub fn answer(world: &World, at: usize, rules: &Rules, selecting: &Selecting) -> Option<u32> {
    let one = &world.replicas[at];
    let shown = one.shown(world.are(Status::Numbered));
    let early = rules.has(Defect::EarlySnapshot);
    if rules.reading == Reading::Linearizable {
        let ended = world.are(Status::Ended);
        let taken = if early { selecting.parts } else { shown };
        let hidden = world.with(|s| matches!(s, Status::Pending | Status::Failed));
        let listed = if early { taken & !hidden } else { ended };
        return (ended & !shown == 0).then_some(listed);
    }
    if early {
        let limit = limit(world, one, rules)?;
        return Some(units(world.merge, selecting.merged, selecting.parts, limit));
    }
    Some(units(world.merge, one.merged, shown, selecting.limit))
}

fn up_to(number: u32) -> u32 {
    (1 << number) - 1
}

/// Returns the highest number that a select by `last_part` may return; `None` if this replica lacks
/// the part that it names. Source: StorageReplicatedMergeTree::read of 18.16.1.
#[inline(always)]
fn limit(world: &World, one: &Replica, rules: &Rules) -> Option<u32> {
    let shown = one.shown(world.are(Status::Numbered));
    if world.last != 0 {
        let has = shown >> (world.last - 1) & 1 == 1;
        return has.then_some(world.last);
    }
    let pending = world.are(Status::Pending);
    if pending != 0 && !rules.parallel {
        return Some(pending.trailing_zeros());
    }
    Some(u32::BITS - shown.leading_zeros())
}

/// Returns the records of these parts up to a number; the merged part counts as one.
#[inline(always)]
fn units(merge: u32, merged: bool, parts: u32, limit: u32) -> u32 {
    let hidden = merged && merge > limit;
    parts & up_to(limit) & if hidden { !up_to(merge) } else { u32::MAX }
}

#[inline(always)]
fn judge(world: &World, after: &mut World, answer: u32, selecting: &Selecting) {
    let last = (1 << selecting.last) >> 1;
    for (flag, missing) in [
        (NOT_ENDED, answer & !world.are(Status::Ended)),
        (NOT_RECENT, selecting.ended & !answer),
        (BACKWARDS, world.seen & !answer),
        (WITHOUT_LAST, last & !answer),
    ] {
        after.broken |= if missing == 0 { 0 } else { flag };
    }
    after.seen |= answer;
}

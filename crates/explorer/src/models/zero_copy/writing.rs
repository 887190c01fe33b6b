//! Generates the steps by which copies come into being: inserts, merges, moves to S3.

use super::rules::Rules;
use super::world::{Phase, World, MERGED};
use crate::model::{act, alone, Action, Who};

/// Generates the steps that insert a part, or find it on every disk.
pub fn insert(world: &World, records: u32, step: &mut impl FnMut(Action, World)) {
    if world.hybrid || world.dropped || world.inserted == records {
        return;
    }
    if world.inserted == 0 {
        let mut after = *world;
        (after.hybrid, after.inserted) = (true, 1);
        for one in &mut after.replicas[..world.count] {
            one.has[0] = world.local();
        }
        step(
            alone("FindOnDisks", Who::Client, crate::model::NONE.into()),
            after,
        );
    }
    let part = world.inserted as usize;
    for (at, one) in world.each().enumerate() {
        if one.active && !one.old && one.phase == Phase::Idle {
            let mut after = *world;
            after.inserted += 1;
            let own = &mut after.replicas[at];
            own.stored[part] = true;
            own.has[part] = at as u32 + 1;
            step(act("Insert", Who::Client, at as u32, world.inserted), after);
        }
    }
}

/// Generates the steps of replica `at` that write a copy: check that nobody else does, write,
/// commit.
#[inline(always)]
pub fn steps(world: &World, at: usize, rules: Rules, step: &mut impl FnMut(Action, World)) {
    let one = &world.replicas[at];
    let mut after = *world;
    let own = &mut after.replicas[at];
    match one.phase {
        Phase::Idle if !one.old && !world.dropped => {
            begin_merge(world, at, rules, step);
            begin_move(world, at, rules, step);
        }
        Phase::Writing => {
            own.stored[one.part] = true;
            own.phase = Phase::Wrote;
            step(act("WriteCopy", Who::Replica, at as u32, at as u32), after);
        }
        Phase::Wrote if world.hybrid && rules.fixes.exclusive_move && !one.marker => {
            own.phase = Phase::Deleting;
            step(alone("AbandonMove", Who::Replica, at as u32), after);
        }
        Phase::Wrote => {
            own.has[one.part] = one.copy;
            if world.hybrid {
                own.marker = false;
                own.lock[one.part] = one.copy;
            }
            own.rest();
            step(alone("CommitPart", Who::Replica, at as u32), after);
        }
        _ => (),
    }
}

/// Begins the merge unless another replica has its marker.
fn begin_merge(world: &World, at: usize, rules: Rules, step: &mut impl FnMut(Action, World)) {
    let one = &world.replicas[at];
    let sources = one.has[0] != 0 && one.has[1] != 0;
    let marked = world.each().any(|other| other.marker);
    let resumes = rules.fixes.durable_marker && one.marker;
    let free = !marked || resumes;
    if !world.hybrid && sources && one.has[MERGED] == 0 && free && world.may_write(at, MERGED) {
        let mut after = *world;
        let own = &mut after.replicas[at];
        own.marker = true;
        own.enter(Phase::Writing, MERGED, at as u32 + 1);
        step(alone("BeginMerge", Who::Replica, at as u32), after);
    }
}

/// Begins to move the part from the disk to S3, unless another replica has a lock on it there.
fn begin_move(world: &World, at: usize, rules: Rules, step: &mut impl FnMut(Action, World)) {
    let one = &world.replicas[at];
    let on_disk = world.hybrid && one.has[0] == world.local();
    let moved = world.each().any(|other| other.lock[0] != 0);
    let exclusive = rules.fixes.exclusive_move;
    let marked = exclusive && world.each().any(|other| other.marker);
    if on_disk && !moved && !marked && world.may_write(at, 0) {
        let mut after = *world;
        let own = &mut after.replicas[at];
        own.marker = exclusive;
        own.enter(Phase::Writing, 0, at as u32 + 1);
        step(alone("BeginMove", Who::Replica, at as u32), after);
    }
}

//! Generates the steps of a fetch: of metadata, or of the whole part.

use super::rules::{Mutant, Rules};
use super::world::{Phase, World, PARTS};
use crate::model::{act, alone, Action, Who};

/// Generates the steps of replica `at` that fetch a part.
#[inline(always)]
pub fn steps(world: &World, at: usize, rules: Rules, step: &mut impl FnMut(Action, World)) {
    match world.replicas[at].phase {
        Phase::Idle => begin(world, at, rules, step),
        Phase::Received | Phase::Looked | Phase::Locked | Phase::Renamed => {
            proceed(world, at, rules, step);
        }
        _ => (),
    }
}

/// Asks each source for each part that the replica wants.
fn begin(world: &World, at: usize, rules: Rules, step: &mut impl FnMut(Action, World)) {
    let one = &world.replicas[at];
    for part in 0..PARTS {
        // In hybrid storage a replica that has the part on its disk fetches the metadata of one
        // that was moved.
        let moves = world.hybrid && one.has[part] == world.local() && !world.dropped;
        if !moves && !world.wants(one, part) {
            continue;
        }
        for (source, other) in world.each().enumerate() {
            let copy = other.has[part];
            if source == at || !other.active || copy == 0 {
                continue;
            }
            let action = |name| act(name, Who::Replica, at as u32, source as u32);
            let mut after = *world;
            if copy == world.local() {
                if !moves {
                    after.replicas[at].has[part] = copy;
                    step(action("FetchFromDisk"), after);
                }
            } else if one.old || other.old {
                if !moves {
                    whole(world, at, source, part, step);
                }
            } else {
                send_metadata(&mut after, source, at, part, rules);
                step(action("FetchMetadata"), after);
            }
        }
    }
}

/// The source takes its lock, which nobody needed before, and sends its metadata.
fn send_metadata(world: &mut World, source: usize, to: usize, part: usize, rules: Rules) {
    let copy = world.replicas[source].has[part];
    assert!(copy <= world.count as u32, "metadata name a copy in S3");
    world.replicas[source].lock[part] = copy;
    let receiver = &mut world.replicas[to];
    receiver.enter(Phase::Received, part, copy);
    if rules.fixes.lock_first {
        receiver.temporary = (part, copy);
    }
}

/// Fetches the rows from a source that can read them, to write a copy of its own.
fn whole(
    world: &World,
    at: usize,
    source: usize,
    part: usize,
    step: &mut impl FnMut(Action, World),
) {
    let copy = world.replicas[source].has[part];
    if !world.exists(part, copy) || !world.may_write(at, part) {
        return;
    }
    let mut after = *world;
    let one = &mut after.replicas[at];
    one.enter(Phase::Writing, part, at as u32 + 1);
    one.temporary = (0, 0);
    after.whole = true;
    step(
        act("FetchWhole", Who::Replica, at as u32, source as u32),
        after,
    );
}

/// Looks into S3, locks, renames, unlocks what was temporary.
fn proceed(world: &World, at: usize, rules: Rules, step: &mut impl FnMut(Action, World)) {
    let (one, first) = (&world.replicas[at], rules.fixes.lock_first);
    let (part, copy) = (one.part, one.copy);
    let action = |name| act(name, Who::Replica, at as u32, copy - 1);
    let mut after = *world;
    let own = &mut after.replicas[at];
    match one.phase {
        Phase::Received if world.exists(part, copy) => {
            own.phase = if first { Phase::Locked } else { Phase::Looked };
            step(action("LookIntoS3"), after);
        }
        Phase::Received => {
            fall_back(world, at, step);
            own.rest();
            own.temporary = (0, 0);
            step(action("FetchFailed"), after);
        }
        Phase::Looked => {
            own.phase = Phase::Locked;
            own.temporary = (part, copy);
            step(action("LockTemporary"), after);
        }
        Phase::Locked => {
            own.phase = Phase::Renamed;
            own.has[part] = copy;
            own.lock[part] = copy;
            own.marker = own.marker && !world.hybrid;
            step(action("LockFinal"), after);
        }
        Phase::Renamed => {
            own.temporary = (0, 0);
            if rules.has(Mutant::OneLockPath) {
                own.lock[part] = 0;
            }
            own.rest();
            step(alone("UnlockTemporary", Who::Replica, at as u32), after);
        }
        _ => unreachable!("only these phases are of a fetch"),
    }
}

/// Fetches the part in the ordinary way, because the copy is not there.
fn fall_back(world: &World, at: usize, step: &mut impl FnMut(Action, World)) {
    let part = world.replicas[at].part;
    for (source, other) in world.each().enumerate() {
        let has = other.has[part];
        if source != at && other.active && has != 0 && has != world.local() {
            whole(world, at, source, part, step);
        }
    }
}

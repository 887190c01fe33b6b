//! Generates the steps that remove a part, and the faults: deaths, lost sessions, other versions.

use super::rules::{Mutant, Rules};
use super::world::{Phase, Replica, World, MERGED, PARTS};
use crate::model::{act, alone, Action, Who};

/// Generates the steps of replica `at` that remove a part: unlock, list the others' locks, then
/// delete or keep the copy.
#[inline(always)]
pub fn steps(world: &World, at: usize, rules: Rules, step: &mut impl FnMut(Action, World)) {
    let one = &world.replicas[at];
    let (part, copy) = (one.part, one.copy);
    let action = |name| act(name, Who::Replica, at as u32, copy - 1);
    let mut after = *world;
    let own = &mut after.replicas[at];
    match one.phase {
        Phase::Idle => begin(world, at, step),
        Phase::Aborted => {
            own.temporary = (0, 0);
            own.phase = Phase::Unlocked;
            step(action("UnlockTemporary"), after);
        }
        Phase::Unlocked => {
            let used = world.locked_by_other(at, part, copy);
            if used && !rules.has(Mutant::UncheckedDelete) {
                own.rest();
                step(action("KeepCopy"), after);
            } else {
                own.phase = Phase::Deleting;
                step(action("FindNoLock"), after);
            }
        }
        Phase::Deleting => {
            own.rest();
            after.replicas[copy as usize - 1].stored[part] = false;
            step(action("DeleteCopy"), after);
        }
        _ => (),
    }
}

/// Begins to remove a part that was dropped or is covered. An old server asks nobody.
fn begin(world: &World, at: usize, step: &mut impl FnMut(Action, World)) {
    let one = &world.replicas[at];
    for part in 0..PARTS {
        let copy = one.has[part];
        let covered = part != MERGED && one.has[MERGED] != 0;
        if copy == 0 || !(world.dropped || covered) {
            continue;
        }
        let mut after = *world;
        let own = &mut after.replicas[at];
        own.has[part] = 0;
        if copy == world.local() {
            step(alone("RemoveFromDisk", Who::Replica, at as u32), after);
            continue;
        }
        let phase = if one.old {
            Phase::Deleting
        } else {
            own.lock[part] = 0;
            Phase::Unlocked
        };
        own.enter(phase, part, copy);
        step(act("RemovePart", Who::Replica, at as u32, copy - 1), after);
    }
}

/// Generates the faults of replica `at`.
#[inline(always)]
pub fn faults(world: &World, at: usize, rules: Rules, step: &mut impl FnMut(Action, World)) {
    let fault = |name| alone(name, Who::Fault, at as u32);
    let mut after = *world;
    let own = &mut after.replicas[at];
    if !world.replicas[at].active {
        (own.active, own.old) = (true, false);
        step(fault("Restart"), after);
        let locked = world
            .each()
            .any(|one| one.temporary.1 != 0 || one.lock != [0; PARTS]);
        if rules.has(Mutant::Downgrade) && !(rules.fixes.refuse_downgrade && locked) {
            after.replicas[at].old = true;
            after.downgraded = true;
            step(fault("RestartOld"), after);
        }
        return;
    }
    lose_session(own, world, rules);
    if after != *world {
        step(fault("LoseSession"), after);
    }
    let own = &mut after.replicas[at];
    die(own, rules);
    own.active = false;
    step(fault("Die"), after);
}

/// Removes the ephemeral marker and interrupts what needs ZooKeeper.
fn lose_session(one: &mut Replica, world: &World, rules: Rules) {
    let fixes = rules.fixes;
    one.marker = one.marker && fixes.durable_marker && !world.hybrid;
    match one.phase {
        Phase::Received | Phase::Looked | Phase::Locked => {
            if fixes.resume && one.temporary.1 != 0 {
                one.phase = Phase::Aborted;
            } else {
                one.rest();
            }
        }
        // It cannot remove the temporary lock, or list the others' locks, so it must not delete.
        Phase::Renamed | Phase::Unlocked if !fixes.resume => one.rest(),
        _ => (),
    }
}

/// Forgets what the process was about to do, in addition to what its session loses.
fn die(one: &mut Replica, rules: Rules) {
    match one.phase {
        Phase::Wrote | Phase::Deleting if rules.fixes.resume => one.phase = Phase::Unlocked,
        Phase::Wrote | Phase::Deleting | Phase::Writing => one.rest(),
        _ => (),
    }
}

/// Generates the drop of the partition.
pub fn drop_partition(world: &World, step: &mut impl FnMut(Action, World)) {
    if world.inserted > 0 && !world.dropped {
        let mut after = *world;
        after.dropped = true;
        step(
            alone("DropPartition", Who::Client, crate::model::NONE.into()),
            after,
        );
    }
}

//! The steps of inserts, sessions and merges.

use super::rules::{Defect, Rules};
use super::world::{Replica, Status, World};
use crate::model::{act, alone, Action, Who};

/// A replica comes back, or its session ends.
#[inline(always)]
pub fn sessions(world: &World, at: usize, rules: &Rules, step: &mut impl FnMut(Action, World)) {
    let one = world.replicas[at];
    let name = |name| alone(name, Who::Fault, at as u32);
    if one.active {
        return step(name("BecomeInactive"), session_lost(world, at));
    }
    let failed = one.parts & world.are(Status::Failed);
    if !one.checked || failed != 0 {
        let mut back = Replica {
            checked: true,
            ..one
        };
        if !rules.has(Defect::FailedPartKept) {
            back.parts &= !failed;
        }
        if back != one {
            step(name("DropFailed"), world.put(at, back));
        }
    }
    let asked_too_early = rules.has(Defect::FailedPartMissed) || rules.has(Defect::FailedPartKept);
    if one.checked && (failed == 0 || asked_too_early) {
        let back = Replica {
            active: true,
            checked: false,
            ..one
        };
        step(name("BecomeActive"), world.put(at, back));
    }
}

/// The nodes of the replica's block numbers go with its session, so that what was not committed
/// cannot be committed any more.
fn session_lost(world: &World, at: usize) -> World {
    let mut after = *world;
    let mut one = world.replicas[at];
    for record in 0..world.records {
        let own = one.parts >> record & 1 == 1;
        if world.status[record] == Status::Numbered && own {
            after.set(record, Status::Gone);
            if one.doubted() >> record & 1 == 0 {
                one.parts &= !(1 << record);
            } else if one.kept {
                (one.doubt, one.kept) = (0, false);
            }
        }
    }
    if one.reading {
        after.selecting = Default::default();
    }
    after.put(
        at,
        Replica {
            active: false,
            fetching: 0,
            joining: 0,
            counted: 0,
            reading: false,
            ..one
        },
    )
}

#[inline(always)]
pub fn steps(world: &World, at: usize, rules: &Rules, step: &mut impl FnMut(Action, World)) {
    let one = world.replicas[at];
    if let Some(free) = (0..world.records).find(|i| world.status[*i] == Status::Unused) {
        let mut after = *world;
        after.status[free] = Status::Numbered;
        after.replicas[at].parts |= 1 << free;
        step(
            act("TakeNumber", Who::Client, at as u32, free as u32),
            after,
        );
    }
    for record in 0..world.records {
        if world.status[record] == Status::Numbered && one.parts >> record & 1 == 1 {
            commit(world, at, record, rules, step);
        }
    }
    if one.doubt != 0 && !one.kept {
        answer_missing(world, at, rules, step);
    }
}

#[inline(always)]
fn commit(
    world: &World,
    at: usize,
    record: usize,
    rules: &Rules,
    step: &mut impl FnMut(Action, World),
) {
    let one = world.replicas[at];
    let action = |name, who| act(name, who, at as u32, record as u32);
    let doubted = one.doubted() >> record & 1 == 1;
    if rules.parallel || world.are(Status::Pending) == 0 {
        let mut after = *world;
        after.status[record] = Status::Pending;
        after.replicas[at].joined |= 1 << record;
        if doubted && one.kept {
            (after.replicas[at].doubt, after.replicas[at].kept) = (0, false);
        }
        step(action("Commit", Who::Client), after);
    }
    if one.doubt == 0 {
        let kept = rules.has(Defect::PhantomPart) && !rules.retries;
        let after = Replica {
            doubt: record as u32 + 1,
            kept,
            ..one
        };
        step(action("LoseAnswer", Who::Fault), world.put(at, after));
    }
}

/// What an insert does that has no answer to its commit. A look-up that finds nothing ends the
/// request; the insert then begins again with another number.
#[inline(always)]
fn answer_missing(world: &World, at: usize, rules: &Rules, step: &mut impl FnMut(Action, World)) {
    let one = world.replicas[at];
    let record = one.doubt as usize - 1;
    let action = |name, who| act(name, who, at as u32, record as u32);
    let settled = Replica { doubt: 0, ..one };
    let without = Replica {
        parts: one.parts & !(1 << record),
        ..settled
    };
    let committed = matches!(world.status[record], Status::Pending | Status::Ended);
    let removed = if world.status[record] == Status::Numbered {
        let mut after = world.put(at, without);
        after.set(record, Status::Gone);
        after
    } else {
        world.put(at, without)
    };
    let found = if committed {
        world.put(at, settled)
    } else {
        removed
    };
    step(action("LookUp", Who::Replica), found);
    if rules.retries && rules.has(Defect::PhantomPart) {
        // Whether it was committed is no longer of interest: the part stays in either case.
        let open = world.status[record] == Status::Numbered;
        let kept = if open {
            Replica { kept: true, ..one }
        } else {
            settled
        };
        step(action("GiveUp", Who::Fault), world.put(at, kept));
    }
    if rules.has(Defect::LostRetry) {
        let mut after = removed;
        if committed {
            after.replicas[at].ghosts |= 1 << record;
        }
        step(action("TimeOut", Who::Fault), after);
    }
}

/// The one merge, of all parts up to some number. A number that may still be committed, a pending
/// quorum, and the part that `last_part` names are spared.
#[inline(always)]
pub fn merges(world: &World, at: usize, rules: &Rules, step: &mut impl FnMut(Action, World)) {
    let one = world.replicas[at];
    let ended = world.are(Status::Ended);
    let action = |name, high| act(name, Who::Replica, at as u32, high);
    let mut up_to = 0;
    for record in 0..world.records {
        up_to |= 1 << record;
        let high = record as u32 + 1;
        let sources = ended & up_to;
        let open = world.with(|s| matches!(s, Status::Numbered | Status::Pending));
        let whole = one.parts & up_to == sources && one.doubted() & up_to == 0;
        if world.merge == high && !one.merged && whole {
            let after = Replica {
                merged: true,
                ..one
            };
            step(action("ExecuteMerge", record as u32), world.put(at, after));
        }
        let spared = rules.has(Defect::MergedAway) || world.last == 0 || world.last > high;
        let ends_here = ended >> record & 1 == 1;
        let several = sources.count_ones() > 1 && ends_here;
        if world.merge == 0 && several && spared && whole && open & up_to == 0 {
            let mut after = *world;
            after.merge = high;
            after.replicas[at].merged = true;
            step(action("AssignMerge", record as u32), after);
        }
    }
}

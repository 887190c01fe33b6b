//! The steps by which replicas fetch parts and count the replicas that have them.

use super::rules::{Defect, Rules};
use super::world::{Replica, Status, World};
use crate::model::{act, Action, Who};

#[inline(always)]
pub fn steps(world: &World, at: usize, rules: &Rules, step: &mut impl FnMut(Action, World)) {
    let one = world.replicas[at];
    let numbered = world.are(Status::Numbered);
    for record in 0..world.records {
        let bit = 1 << record;
        let action = |name| act(name, Who::Replica, at as u32, record as u32);
        let status = world.status[record];
        if one.ghosts & bit != 0 {
            // The part check finds that a listed part is not on the disk.
            let after = Replica {
                ghosts: one.ghosts & !bit,
                ..one
            };
            step(action("FindMissing"), world.put(at, after));
            continue;
        }
        let lacks = one.parts & bit == 0 && one.fetching != record as u32 + 1;
        let held = |r: &Replica| r.active && (r.shown(numbered) & bit != 0);
        if lacks && matches!(status, Status::Pending | Status::Ended) {
            if one.fetching == 0 && world.each().any(held) {
                let after = Replica {
                    fetching: record as u32 + 1,
                    ..one
                };
                step(action("BeginFetch"), world.put(at, after));
            }
            let listed = |r: &Replica| r.active && (r.parts | r.ghosts | r.joined) & bit != 0;
            if status == Status::Pending && !world.each().any(listed) {
                let mut after = *world;
                after.set(record, Status::Failed);
                step(action("FailedQuorum"), after);
            }
        }
        let own = one.shown(numbered) & !one.joined & bit != 0;
        let uncounted = rules.has(Defect::QuorumUncounted) && one.parts & bit != 0;
        if status == Status::Pending && one.joining == 0 && (own || uncounted) {
            let after = Replica {
                joining: record as u32 + 1,
                counted: world.counted(record),
                ..one
            };
            step(action("ReadStatus"), world.put(at, after));
        }
    }
    if one.fetching != 0 {
        let record = one.fetching as usize - 1;
        let action = act("FinishFetch", Who::Replica, at as u32, record as u32);
        let mut after = Replica { fetching: 0, ..one };
        let failed = world.status[record] == Status::Failed;
        if !failed || rules.has(Defect::FailedPartFetched) {
            after.parts |= 1 << record;
        }
        step(action, world.put(at, after));
    }
    if one.joining != 0 {
        write_status(world, at, rules, step);
    }
}

/// Writes the status that was read, with this replica added, if it has not changed since. The
/// version of the node begins anew with each quorum, so it does not say of which one it is.
fn write_status(world: &World, at: usize, rules: &Rules, step: &mut impl FnMut(Action, World)) {
    let one = world.replicas[at];
    let record = one.joining as usize - 1;
    let mut after = world.put(
        at,
        Replica {
            joining: 0,
            counted: 0,
            ..one
        },
    );
    let action = |name, of: usize| act(name, Who::Replica, at as u32, of as u32);
    let same = |of: usize| world.status[of] == Status::Pending && world.counted(of) == one.counted;
    let completes = one.counted + 1 >= rules.quorum || rules.has(Defect::QuorumUncounted);
    let aba = rules.has(Defect::QuorumAba) && !rules.parallel && completes;
    let target = if aba {
        (0..world.records).find(|of| same(*of))
    } else {
        Some(record).filter(|of| same(*of))
    };
    let Some(target) = target else {
        return step(action("FindChanged", record), after);
    };
    if !completes {
        after.replicas[at].joined |= 1 << record;
        return step(action("UpdateQuorum", record), after);
    }
    after.set(target, Status::Ended);
    if !rules.parallel {
        let number = record as u32 + 1;
        after.last = if rules.has(Defect::LastPartLate) || world.last == 0 {
            number
        } else if rules.has(Defect::LastPartBack) {
            number.min(world.last)
        } else {
            number.max(world.last)
        };
    }
    step(action("EndQuorum", target), after);
}

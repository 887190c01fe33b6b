//! The claims, and the work that is left to the replicas.

use super::reads::{self, BACKWARDS, NOT_ENDED, NOT_RECENT, WITHOUT_LAST};
use super::rules::{Reading, Rules};
use super::world::{Replica, Status, World};
use crate::model::{Claim, Marks};

pub const CLAIMS: &[Claim] = &[
    Claim {
        name: "durable",
        text: "every record whose quorum has ended is on a quorum of disks",
    },
    Claim {
        name: "last-part-highest",
        text: "`last_part` names the highest record whose quorum has ended",
    },
    Claim {
        name: "failed-gone",
        text: "no active replica shows a record whose quorum has failed",
    },
    Claim {
        name: "no-phantom",
        text: "no replica shows a record that can no longer be committed",
    },
    Claim {
        name: "merged-shown",
        text: "a select by `last_part` returns after a merge what it returned before",
    },
    Claim {
        name: "reads-of-ended",
        text: "a read returns only records whose quorum has ended",
    },
    Claim {
        name: "reads-have-last",
        text: "a read returns the record that `last_part` named when it began",
    },
    Claim {
        name: "reads-in-order",
        text: "a read returns every record that an earlier read returned",
    },
    Claim {
        name: "reads-are-recent",
        text: "a read returns every record whose quorum had ended when it began",
    },
    Claim {
        name: "equal-at-rest",
        text: "at rest, with all replicas active, each has exactly the records whose quorum has \
               ended, and none is pending",
    },
];

/// Returns the marks of a state; `at_rest` is asked only where it matters.
#[inline(always)]
pub fn judge(world: &World, rules: &Rules, at_rest: impl FnOnce() -> bool) -> Marks {
    let mut marks = Marks::default();
    let ended = world.are(Status::Ended);
    let failed = world.are(Status::Failed);
    let numbered = world.are(Status::Numbered);
    if ended != 0 {
        let on_quorum = |record: &usize| {
            let holders: u32 = world.each().map(|r| r.parts >> record & 1).sum();
            ended >> record & 1 == 0 || holders >= rules.quorum
        };
        marks.judge(0, (0..world.records).all(|record| on_quorum(&record)));
    }
    if world.last != 0 {
        marks.judge(1, world.last == ended.ilog2() + 1);
    }
    if failed != 0 {
        let gone = |r: &Replica| !r.active || r.shown(numbered) & failed == 0;
        marks.judge(2, world.each().all(gone));
    }
    let gone = world.are(Status::Gone);
    if gone != 0 {
        marks.judge(3, world.each().all(|r| r.shown(numbered) & gone == 0));
    }
    if world.merge != 0 && rules.reading == Reading::Server {
        let same = |at| reads::merge_hides_nothing(world, at, rules);
        marks.judge(4, (0..world.count).all(same));
    }
    if world.seen != 0 || world.broken != 0 {
        for (claim, flag) in [
            (5, NOT_ENDED),
            (6, WITHOUT_LAST),
            (7, BACKWARDS),
            (8, NOT_RECENT),
        ] {
            marks.judge(claim, world.broken & flag == 0);
        }
    }
    let committed = world.with(|s| matches!(s, Status::Pending | Status::Ended | Status::Failed));
    if committed != 0 && world.each().all(|r| r.active) && at_rest() {
        let equal = |r: &Replica| r.parts & !numbered == ended;
        let none_pending = world.are(Status::Pending) == 0;
        marks.judge(9, none_pending && world.each().all(equal));
    }
    marks
}

/// Returns a number that each step of a replica decreases. A replica that counts itself makes what
/// others have read of the status stale, which weighs less than the count.
pub fn work_left(world: &World) -> u32 {
    let count = world.count as u32;
    let mut left = if world.merge == 0 { count + 1 } else { 0 };
    for record in 0..world.records {
        if world.status[record] == Status::Pending {
            left += (count + 1 - world.counted(record)) * (2 * count + 2);
        }
        let each = world.each().map(|r| work_on(world, r, record));
        left += each.sum::<u32>();
    }
    let own = |r: &Replica| {
        u32::from(world.merge != 0 && !r.merged) + if r.doubt != 0 && !r.kept { 8 } else { 0 }
    };
    left + world.each().map(own).sum::<u32>()
}

/// Returns the work of one replica on one record.
fn work_on(world: &World, one: &Replica, record: usize) -> u32 {
    let bit = 1 << record;
    let number = record as u32 + 1;
    let pending = world.status[record] == Status::Pending;
    let committed = pending || world.status[record] == Status::Ended;
    if one.ghosts & bit != 0 {
        return 7;
    }
    if one.joining == number {
        let stale = !pending || world.counted(record) != one.counted;
        return if stale { 4 } else { 2 };
    }
    if one.fetching == number {
        4
    } else if one.parts & bit == 0 && committed {
        6
    } else if pending {
        3
    } else {
        0
    }
}

//! Judges a state.

use super::world::{Phase, World, MERGED, PARTS};
use crate::model::{Claim, Marks};

pub const CLAIMS: &[Claim] = &[
    Claim {
        name: "referenced-exists",
        text: "every copy in S3 that a part's metadata name exists",
    },
    Claim {
        name: "locked-exists",
        text: "a copy in S3 is deleted only when no lock on it is left",
    },
    Claim {
        name: "no-orphan",
        text: "no copy stays in S3 that no replica knows of",
    },
    Claim {
        name: "no-idle-lock",
        text: "no lock stays of a replica that neither has the part nor fetches it",
    },
    Claim {
        name: "merged-once",
        text: "the parts of a merge share one copy, unless one was fetched whole",
    },
    Claim {
        name: "moved-once",
        text: "one replica moves a part to S3",
    },
    Claim {
        name: "downgrade-harmless",
        text: "every copy that a part's metadata name exists after an old server ran",
    },
];

/// Judges every claim. What an old server left is judged by `downgrade-harmless` alone.
#[inline(always)]
pub fn judge(world: &World) -> Marks {
    let mut marks = Marks::default();
    let exists = if world.downgraded { 6 } else { 0 };
    for one in world.each() {
        for (part, copy) in one.has.into_iter().enumerate() {
            if copy != 0 && copy != world.local() {
                marks.judge(exists, world.exists(part, copy));
            }
        }
    }
    if world.downgraded {
        return marks;
    }
    locks(world, &mut marks);
    for part in 0..PARTS {
        for copy in (1..world.local()).filter(|copy| world.exists(part, *copy)) {
            marks.judge(2, known(world, part, copy));
        }
    }
    if !world.whole {
        once(world, &mut marks);
    }
    marks
}

fn locks(world: &World, marks: &mut Marks) {
    for one in world.each() {
        for (part, lock) in one.lock.into_iter().enumerate() {
            if lock != 0 {
                marks.judge(1, world.exists(part, lock));
                marks.judge(3, one.has[part] == lock);
            }
        }
        if one.temporary.1 != 0 {
            let works = matches!(
                one.phase,
                Phase::Received | Phase::Looked | Phase::Locked | Phase::Renamed | Phase::Aborted
            );
            marks.judge(3, works);
        }
    }
}

/// Whether some replica has the copy, or works on it.
fn known(world: &World, part: usize, copy: u32) -> bool {
    world.each().any(|one| {
        one.has[part] == copy || (one.phase != Phase::Idle && (one.part, one.copy) == (part, copy))
    })
}

fn once(world: &World, marks: &mut Marks) {
    let copies = |part: usize| {
        let named = |copy: &u32| world.each().any(|one| one.has[part] == *copy);
        (1..world.local()).filter(named).count()
    };
    let merged = copies(MERGED);
    if merged > 0 {
        marks.judge(4, merged == 1);
    }
    if world.hybrid && copies(0) > 0 {
        marks.judge(5, copies(0) == 1);
    }
}

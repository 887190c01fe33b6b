//! Models zero-copy replication over S3 as first described: one part, whose copies in S3 replicas
//! share by fetching only metadata.
//!
//! The part comes into being in one of three ways: one replica inserts it; every replica could
//! merge it; every replica has it on its disk and could move it to S3. A copy in S3 has the number
//! of the replica that wrote it. A lock in ZooKeeper belongs to one replica and one copy.

use crate::fields::{Chunks, Field, Layout, State};
use crate::model::{act, alone, in_range, Action, Claim, Marks, Model, Scope, Who, NONE};

/// Changes that each prevent a race of the description.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fixes {
    /// The receiver of a fetch takes its lock before it checks that the copy still exists.
    pub lock_first: bool,
    /// After a death or a lost session, a replica resumes what was interrupted: a delete, and with
    /// `lock_first` a fetch too.
    pub resume: bool,
    /// The marker of a merge outlives the session, and is removed only when no copy is left.
    pub durable_marker: bool,
    /// A replica that moves a part holds a marker of its own from the check to the lock.
    pub exclusive_move: bool,
}

pub const FIXES: &[&str] = &["lock-first", "resume", "durable-marker", "exclusive-move"];

impl Fixes {
    pub fn from_names(names: &[String]) -> Result<Self, String> {
        let mut fixes = Self::default();
        for name in names {
            match name.as_str() {
                "lock-first" => fixes.lock_first = true,
                "resume" => fixes.resume = true,
                "durable-marker" => fixes.durable_marker = true,
                "exclusive-move" => fixes.exclusive_move = true,
                _ => {
                    return Err(format!(
                        "fix {name:?}: expected some of {}",
                        FIXES.join(", ")
                    ))
                }
            }
        }
        Ok(fixes)
    }
}

pub struct ZeroCopy {
    fixes: Fixes,
    chunks: Chunks,
    origin: Field,
    /// Whether the part was dropped, after which nobody fetches it.
    dropped: Field,
    /// Whether the copy that this replica wrote is in S3.
    exists: Field,
    phase: Field,
    /// The copy that the local metadata name, from 1; 0 for none. During a fetch, the received one.
    copy: Field,
    /// The copy on which the replica has a lock, from 1; 0 for none.
    lock: Field,
    /// Whether the replica has the marker of the merge, or of the move.
    marker: Field,
}

const INSERTED: u32 = 1;
const MERGED: u32 = 2;
const MOVED: u32 = 3;

/// Phases of a replica.
const IDLE: u32 = 0;
/// It has received metadata that are not its part yet.
const RECEIVED: u32 = 1;
/// As `RECEIVED`, and it has checked that the copy exists.
const LOOKED: u32 = 2;
/// It merges or moves, and has not written anything.
const WRITING: u32 = 3;
/// It has released its lock and has not listed the others' locks.
const UNLOCKED: u32 = 4;
/// It found no lock and is about to delete the copy.
const DELETING: u32 = 5;

const CLAIMS: &[Claim] = &[
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
        name: "merged-once",
        text: "a merged part has one copy in S3",
    },
    Claim {
        name: "moved-once",
        text: "one replica moves a part to S3",
    },
];

impl ZeroCopy {
    pub fn new(scope: &Scope) -> Result<Self, String> {
        let replicas = scope.replicas;
        in_range("replicas", replicas, 1, 6)?;
        let mut layout = Layout::default();
        Ok(Self {
            fixes: Fixes::from_names(scope.fixes)?,
            origin: layout.global.number(MOVED),
            dropped: layout.global.flag(),
            exists: layout.chunk.flag(),
            phase: layout.chunk.number(DELETING),
            copy: layout.chunk.number(replicas),
            lock: layout.chunk.number(replicas),
            marker: layout.chunk.flag(),
            chunks: layout.chunks(replicas)?,
        })
    }

    #[inline(always)]
    fn exists(&self, state: State, copy: u32) -> bool {
        copy != 0 && self.exists.is(self.chunks.get(state, copy - 1))
    }

    #[inline(always)]
    fn locked_by_other(&self, state: State, replica: u32, copy: u32) -> bool {
        (0..self.chunks.count)
            .any(|r| r != replica && self.lock.get(self.chunks.get(state, r)) == copy)
    }

    /// Returns the copy of the replica's part; 0 if it was only received or is being deleted.
    #[inline(always)]
    fn part(&self, chunk: u128) -> u32 {
        match self.phase.get(chunk) {
            IDLE | WRITING => self.copy.get(chunk),
            _ => 0,
        }
    }

    fn set_exists(&self, state: State, copy: u32, on: u32) -> State {
        let chunk = self.chunks.get(state, copy - 1);
        self.chunks.set(state, copy - 1, self.exists.set(chunk, on))
    }

    fn doing(&self, chunk: u128, phase: u32, copy: u32, lock: u32) -> u128 {
        self.lock
            .set(self.copy.set(self.phase.set(chunk, phase), copy), lock)
    }

    /// Lets the replica write its own copy, take the lock and have the part.
    fn written(&self, state: State, replica: u32) -> State {
        let own = replica + 1;
        let mut chunk = self.doing(self.chunks.get(state, replica), IDLE, own, own);
        if self.origin.get(state) == MOVED {
            chunk = self.marker.set(chunk, 0);
        }
        self.set_exists(self.chunks.set(state, replica, chunk), own, 1)
    }

    /// Generates the steps by which the part comes into being.
    fn begin_steps(&self, state: State, step: &mut impl FnMut(Action, State)) {
        for r in 0..self.chunks.count {
            let after = self.written(self.origin.set(state, INSERTED), r);
            step(act("Insert", Who::Client, r, 0), after);
        }
        let none = u32::from(NONE);
        let merge = self.origin.set(state, MERGED);
        step(alone("AssignMerge", Who::Client, none), merge);
        let moving = self.origin.set(state, MOVED);
        step(alone("AssignMove", Who::Client, none), moving);
    }

    /// Generates the steps of merging or moving: check that nobody else does it, then write.
    #[inline(always)]
    fn write_steps(&self, state: State, replica: u32, step: &mut impl FnMut(Action, State)) {
        let chunk = self.chunks.get(state, replica);
        let with = |after| self.chunks.set(state, replica, after);
        let (origin, phase) = (self.origin.get(state), self.phase.get(chunk));
        let merging = origin == MERGED;
        if phase == WRITING {
            let name = if merging { "WriteMerged" } else { "WriteMoved" };
            step(
                act(name, Who::Replica, replica, replica),
                self.written(state, replica),
            );
            return;
        }
        if phase != IDLE || self.copy.is(chunk) || self.dropped.is(state) {
            return;
        }
        let locked = (0..self.chunks.count).any(|r| self.lock.is(self.chunks.get(state, r)));
        let marked = self.chunks.each(state).any(|c| self.marker.is(c));
        let fixes = self.fixes;
        if merging && !marked {
            let after = self.marker.set(self.phase.set(chunk, WRITING), 1);
            step(alone("BeginMerge", Who::Replica, replica), with(after));
        }
        if origin == MOVED && !locked && !(fixes.exclusive_move && marked) {
            let after = self.phase.set(chunk, WRITING);
            let after = self.marker.set(after, fixes.exclusive_move.into());
            step(alone("BeginMove", Who::Replica, replica), with(after));
        }
    }

    /// Generates the steps of a fetch: receive, check, lock; or receive, lock, check.
    #[inline(always)]
    fn fetch_steps(&self, state: State, replica: u32, step: &mut impl FnMut(Action, State)) {
        let chunk = self.chunks.get(state, replica);
        let with = |after| self.chunks.set(state, replica, after);
        let (phase, copy) = (self.phase.get(chunk), self.copy.get(chunk));
        let first = self.fixes.lock_first;
        let action = |name| act(name, Who::Replica, replica, copy.wrapping_sub(1));
        match phase {
            IDLE if copy == 0 && !self.dropped.is(state) => {
                for source in (0..self.chunks.count).filter(|s| *s != replica) {
                    let of = self.chunks.get(state, source);
                    let sent = self.part(of);
                    if self.chunks.active.is(of) && sent != 0 {
                        let lock = if first { sent } else { 0 };
                        let after = self.doing(chunk, RECEIVED, sent, lock);
                        step(
                            act("FetchMetadata", Who::Replica, replica, source),
                            with(after),
                        );
                    }
                }
            }
            RECEIVED if self.exists(state, copy) => {
                let after = if first {
                    self.doing(chunk, IDLE, copy, copy)
                } else {
                    self.doing(chunk, LOOKED, copy, 0)
                };
                step(action("LookIntoS3"), with(after));
            }
            RECEIVED => step(action("FetchFailed"), with(self.doing(chunk, IDLE, 0, 0))),
            LOOKED => step(action("Lock"), with(self.doing(chunk, IDLE, copy, copy))),
            _ => (),
        }
    }

    /// Generates the steps of dropping the part: unlock, list the others' locks, then delete or
    /// keep the copy.
    #[inline(always)]
    fn delete_steps(&self, state: State, replica: u32, step: &mut impl FnMut(Action, State)) {
        let chunk = self.chunks.get(state, replica);
        let with = |after| self.chunks.set(state, replica, after);
        let (phase, copy) = (self.phase.get(chunk), self.copy.get(chunk));
        let action = |name, who| act(name, who, replica, copy.wrapping_sub(1));
        let forgotten = self.doing(chunk, IDLE, 0, 0);
        let dropped = self.dropped.set(state, 1);
        match phase {
            IDLE if copy != 0 => {
                let after = self.doing(chunk, UNLOCKED, copy, 0);
                let after = self.chunks.set(dropped, replica, after);
                step(action("DropPart", Who::Client), after);
            }
            UNLOCKED if self.locked_by_other(state, replica, copy) => {
                step(action("KeepCopy", Who::Replica), with(forgotten));
            }
            UNLOCKED => {
                let after = self.phase.set(chunk, DELETING);
                step(action("FindNoLock", Who::Replica), with(after));
            }
            DELETING => {
                let after = self.set_exists(with(forgotten), copy, 0);
                step(action("DeleteCopy", Who::Replica), after);
            }
            _ => (),
        }
        if phase == UNLOCKED && !self.fixes.resume {
            // It cannot know whether another replica has a lock, so it must not delete.
            step(action("LoseKeeper", Who::Fault), with(forgotten));
        }
    }

    /// Kills the process: its session's ephemeral markers and its phase are lost.
    fn died(&self, state: State, replica: u32) -> State {
        let chunk = self.chunks.get(state, replica);
        let fixes = self.fixes;
        let phase = self.phase.get(chunk);
        let mut after = self.chunks.active.set(chunk, 0);
        after = match phase {
            RECEIVED if fixes.resume && fixes.lock_first => after,
            UNLOCKED | DELETING if fixes.resume => after,
            RECEIVED | LOOKED | UNLOCKED | DELETING => self.doing(after, IDLE, 0, 0),
            _ => self.phase.set(after, IDLE),
        };
        let written = self.copy.is(chunk);
        if !(fixes.durable_marker && self.origin.get(state) == MERGED && written) {
            after = self.marker.set(after, 0);
        }
        self.chunks.set(state, replica, after)
    }

    /// Renumbers the replicas; `order[old]` is the new number.
    fn renumbered(&self, state: State, order: &[u32]) -> State {
        let name = |copy: u32| {
            if copy == 0 {
                0
            } else {
                order[copy as usize - 1] + 1
            }
        };
        (0..self.chunks.count).fold(state, |after, r| {
            let chunk = self.chunks.get(state, r);
            let chunk = self.copy.set(chunk, name(self.copy.get(chunk)));
            let chunk = self.lock.set(chunk, name(self.lock.get(chunk)));
            self.chunks.set(after, order[r as usize], chunk)
        })
    }
}

impl Model for ZeroCopy {
    const INACTIVE: &'static str = "dead";

    fn chunks(&self) -> &Chunks {
        &self.chunks
    }

    #[inline(always)]
    fn steps(&self, state: State, step: &mut impl FnMut(Action, State)) {
        if !self.origin.is(state) {
            return self.begin_steps(state, step);
        }
        for r in 0..self.chunks.count {
            let chunk = self.chunks.get(state, r);
            if !self.chunks.active.is(chunk) {
                let after = self.chunks.switched(state, r, true);
                step(alone("Restart", Who::Fault, r), after);
                continue;
            }
            step(alone("Die", Who::Fault, r), self.died(state, r));
            self.write_steps(state, r, step);
            self.fetch_steps(state, r, step);
            self.delete_steps(state, r, step);
        }
    }

    fn claims(&self) -> &[Claim] {
        CLAIMS
    }

    #[inline(always)]
    fn judge(&self, state: State) -> Marks {
        let mut marks = Marks::default();
        let count = self.chunks.count;
        for chunk in self.chunks.each(state) {
            let (part, lock) = (self.part(chunk), self.lock.get(chunk));
            if part != 0 {
                marks.judge(0, self.exists(state, part));
            }
            // The lock that a fetch takes first is no claim on the copy until the fetch has checked
            // it.
            if lock != 0 && self.phase.get(chunk) != RECEIVED {
                marks.judge(1, self.exists(state, lock));
            }
        }
        let mut copies = 0;
        for copy in (1..=count).filter(|c| self.exists(state, *c)) {
            copies += 1;
            marks.judge(2, self.chunks.each(state).any(|c| self.copy.get(c) == copy));
        }
        match self.origin.get(state) {
            MERGED if copies > 0 => marks.judge(3, copies == 1),
            MOVED if copies > 0 => marks.judge(4, copies == 1),
            _ => (),
        }
        marks
    }

    /// Fetches may be repeated forever, so there is no such number.
    fn work_left(&self, _: State) -> Option<u32> {
        None
    }

    fn canonical(&self, state: State) -> State {
        let mut order: Vec<u32> = (0..self.chunks.count).collect();
        let mut least = state;
        permute(&mut order, 0, &mut |order| {
            least = least.min(self.renumbered(state, order));
        });
        least
    }

    fn show_global(&self, state: State) -> Vec<(&'static str, String)> {
        const ORIGINS: [&str; 4] = ["-", "inserted", "merged", "moved"];
        let copies: Vec<String> = (1..=self.chunks.count)
            .filter(|copy| self.exists(state, *copy))
            .map(|copy| format!("s3:{copy}"))
            .collect();
        vec![
            ("part", ORIGINS[self.origin.get(state) as usize].into()),
            ("copies", copies.join(" ")),
        ]
    }

    fn show_chunk(&self, chunk: u128) -> String {
        const PHASES: [&str; 6] = [
            "",
            "received ",
            "looked ",
            "writing ",
            "unlocked ",
            "deleting ",
        ];
        let named = |field: Field, what| match field.get(chunk) {
            0 => String::new(),
            copy => format!("{what}s3:{copy} "),
        };
        let text = format!(
            "{}{}{}{}",
            PHASES[self.phase.get(chunk) as usize],
            named(self.copy, ""),
            named(self.lock, "lock "),
            if self.marker.is(chunk) { "marker" } else { "" },
        );
        text.trim_end().into()
    }

    fn visible(&self, state: State, replica: u32) -> Vec<u32> {
        let part = self.part(self.chunks.get(state, replica));
        if self.exists(state, part) {
            vec![1]
        } else {
            vec![]
        }
    }
}

fn permute(order: &mut Vec<u32>, from: usize, each: &mut impl FnMut(&[u32])) {
    if from == order.len() {
        return each(order);
    }
    for i in from..order.len() {
        order.swap(from, i);
        permute(order, from + 1, each);
        order.swap(from, i);
    }
}

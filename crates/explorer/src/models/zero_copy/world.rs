//! Defines what the model knows of replicas, S3 and ZooKeeper, and packs it into a state.
//!
//! A copy of a part in S3 has the number of the replica that wrote it, from 1. A lock belongs to
//! one replica and one copy.

use crate::fields::{Chunks, Field, Layout, State};

/// Number of parts: two that are inserted, and the one that they are merged into.
pub const PARTS: usize = 3;
/// The part that a merge makes.
pub const MERGED: usize = 2;
/// Greatest number of replicas.
pub const REPLICAS: usize = 4;

/// What a replica is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Phase {
    #[default]
    Idle,
    /// It has received metadata that are not its part yet.
    Received,
    /// As `Received`, and it has checked that the copy exists.
    Looked,
    /// It has the lock of the temporary part.
    Locked,
    /// The part is its own, with the final lock; the temporary lock is still there.
    Renamed,
    /// Its fetch was interrupted, and the temporary lock is still there.
    Aborted,
    /// It inserts, merges, moves or fetches whole, and has not written anything.
    Writing,
    /// Its copy is in S3, and the part is not its own yet.
    Wrote,
    /// It has released its lock and has not listed the others' locks.
    Unlocked,
    /// It found no lock and is about to delete the copy.
    Deleting,
}

const PHASES: [Phase; 10] = [
    Phase::Idle,
    Phase::Received,
    Phase::Looked,
    Phase::Locked,
    Phase::Renamed,
    Phase::Aborted,
    Phase::Writing,
    Phase::Wrote,
    Phase::Unlocked,
    Phase::Deleting,
];

/// A replica, with what belongs to it in S3 and ZooKeeper.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replica {
    pub active: bool,
    /// Whether it runs a server that does not know the locks.
    pub old: bool,
    pub phase: Phase,
    /// The part and the copy that the phase is about.
    pub part: usize,
    pub copy: u32,
    /// The part and the copy of the temporary lock; copy 0 for none.
    pub temporary: (usize, u32),
    /// Whether it has the marker of the merge, or of the move.
    pub marker: bool,
    /// The copy that its metadata name, by part: 0 for none, `World::local` for data on its disk.
    pub has: [u32; PARTS],
    /// The copy on which it has a lock, by part; 0 for none.
    pub lock: [u32; PARTS],
    /// Whether its own copy is in S3, by part.
    pub stored: [bool; PARTS],
}

impl Replica {
    /// Begins a phase about a part and a copy.
    pub fn enter(&mut self, phase: Phase, part: usize, copy: u32) {
        assert!(part < PARTS, "there is such a part");
        (self.phase, self.part, self.copy) = (phase, part, copy);
    }

    /// Ends the phase.
    pub fn rest(&mut self) {
        self.enter(Phase::Idle, 0, 0);
    }
}

/// Everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct World {
    pub count: usize,
    pub replicas: [Replica; REPLICAS],
    /// Number of parts that were inserted.
    pub inserted: u32,
    /// Whether the first part was inserted before there was S3: every replica has it on its disk
    /// and may move it.
    pub hybrid: bool,
    /// Whether the partition was dropped.
    pub dropped: bool,
    /// Whether a part was fetched whole, so that it has a copy for each replica.
    pub whole: bool,
    /// Whether an old server has ever run.
    pub downgraded: bool,
}

impl World {
    /// Returns the number that stands for data on a replica's own disk.
    pub fn local(&self) -> u32 {
        self.count as u32 + 1
    }

    pub fn each(&self) -> impl Iterator<Item = &Replica> {
        self.replicas[..self.count].iter()
    }

    /// Whether the copy is in S3.
    pub fn exists(&self, part: usize, copy: u32) -> bool {
        copy != 0 && copy != self.local() && self.replicas[copy as usize - 1].stored[part]
    }

    /// Whether some replica but this one has a lock on the copy, temporary or final.
    pub fn locked_by_other(&self, replica: usize, part: usize, copy: u32) -> bool {
        let mut others = self.each().enumerate().filter(|(at, _)| *at != replica);
        others.any(|(_, other)| other.lock[part] == copy || other.temporary == (part, copy))
    }

    /// Whether the replica may write a copy of its own: S3 does not have it, and nobody uses one
    /// that is gone. (Real copies have random names.)
    pub fn may_write(&self, replica: usize, part: usize) -> bool {
        let own = replica as u32 + 1;
        let named = |one: &Replica| {
            one.has[part] == own
                || one.lock[part] == own
                || one.temporary == (part, own)
                || (one.phase != Phase::Idle && (one.part, one.copy) == (part, own))
        };
        !self.exists(part, own) && !self.each().any(named)
    }

    /// Whether the replica wants the part: it is there, not dropped, and not covered by one that
    /// the replica has.
    pub fn wants(&self, replica: &Replica, part: usize) -> bool {
        !self.dropped && replica.has[part] == 0 && replica.has[MERGED] == 0
    }

    /// Renumbers the replicas; `order[old]` is the new number.
    pub fn renumbered(&self, order: &[usize]) -> World {
        let name = |copy: u32| match copy as usize {
            0 => 0,
            copy if copy > self.count => copy as u32,
            copy => order[copy - 1] as u32 + 1,
        };
        let mut out = *self;
        for (at, one) in self.each().enumerate() {
            out.replicas[order[at]] = Replica {
                copy: name(one.copy),
                temporary: (one.temporary.0, name(one.temporary.1)),
                has: one.has.map(name),
                lock: one.lock.map(name),
                ..*one
            };
        }
        out
    }
}

/// The fields of a state.
pub struct Shape {
    pub chunks: Chunks,
    inserted: Field,
    flags: [Field; 4],
    old: Field,
    marker: Field,
    phase: Field,
    part: Field,
    copy: Field,
    temporary: (Field, Field),
    has: [Field; PARTS],
    lock: [Field; PARTS],
    stored: [Field; PARTS],
}

impl Shape {
    pub fn new(replicas: u32) -> Result<Shape, String> {
        let mut layout = Layout::default();
        let (global, chunk) = (&mut layout.global, &mut layout.chunk);
        Ok(Shape {
            inserted: global.number(MERGED as u32),
            flags: std::array::from_fn(|_| global.flag()),
            old: chunk.flag(),
            marker: chunk.flag(),
            phase: chunk.number(PHASES.len() as u32 - 1),
            part: chunk.number(MERGED as u32),
            copy: chunk.number(replicas),
            temporary: (chunk.number(MERGED as u32), chunk.number(replicas)),
            has: std::array::from_fn(|_| chunk.number(replicas + 1)),
            lock: std::array::from_fn(|_| chunk.number(replicas)),
            stored: std::array::from_fn(|_| chunk.flag()),
            chunks: layout.chunks(replicas)?,
        })
    }

    #[inline(always)]
    pub fn replica(&self, chunk: u128) -> Replica {
        Replica {
            active: self.chunks.active.is(chunk),
            old: self.old.is(chunk),
            marker: self.marker.is(chunk),
            phase: PHASES[self.phase.get(chunk) as usize],
            part: self.part.get(chunk) as usize,
            copy: self.copy.get(chunk),
            temporary: (
                self.temporary.0.get(chunk) as usize,
                self.temporary.1.get(chunk),
            ),
            has: self.has.map(|field| field.get(chunk)),
            lock: self.lock.map(|field| field.get(chunk)),
            stored: self.stored.map(|field| field.is(chunk)),
        }
    }

    #[inline(always)]
    pub fn unpacked(&self, state: State) -> World {
        let [hybrid, dropped, whole, downgraded] = self.flags.map(|field| field.is(state));
        let mut world = World {
            count: self.chunks.count as usize,
            inserted: self.inserted.get(state),
            hybrid,
            dropped,
            whole,
            downgraded,
            ..World::default()
        };
        for at in 0..world.count {
            world.replicas[at] = self.replica(self.chunks.get(state, at as u32));
        }
        world
    }

    #[inline(always)]
    pub fn packed(&self, world: &World) -> State {
        let flags = [world.hybrid, world.dropped, world.whole, world.downgraded];
        let mut state = self.inserted.set(0, world.inserted);
        for (field, on) in self.flags.iter().zip(flags) {
            state = field.set(state, on.into());
        }
        for (at, one) in world.each().enumerate() {
            state = self.chunks.set(state, at as u32, self.chunk(one));
        }
        state
    }

    #[inline(always)]
    fn chunk(&self, one: &Replica) -> u128 {
        let mut chunk = self.chunks.active.set(0, one.active.into());
        chunk = self.old.set(chunk, one.old.into());
        chunk = self.marker.set(chunk, one.marker.into());
        chunk = self.phase.set(chunk, one.phase as u32);
        chunk = self.part.set(chunk, one.part as u32);
        chunk = self.copy.set(chunk, one.copy);
        chunk = self.temporary.0.set(chunk, one.temporary.0 as u32);
        chunk = self.temporary.1.set(chunk, one.temporary.1);
        for part in 0..PARTS {
            chunk = self.has[part].set(chunk, one.has[part]);
            chunk = self.lock[part].set(chunk, one.lock[part]);
            chunk = self.stored[part].set(chunk, one.stored[part].into());
        }
        chunk
    }
}

//! Defines what the model knows of replicas and ZooKeeper, and packs it into a state.
//!
//! Record i has block number i + 1; fields that name a record have its number, and 0 is none. Sets
//! of records are bits.

use crate::fields::{Chunks, Field, Layout, State};

/// Greatest number of replicas.
pub const REPLICAS: usize = 4;
/// Greatest number of records.
pub const RECORDS: usize = 4;

/// What has become of a block number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Status {
    #[default]
    Unused,
    /// Taken, and not committed yet. The only replica with the part is its writer.
    Numbered,
    /// Given up: it cannot be committed any more.
    Gone,
    /// Committed; its quorum is pending.
    Pending,
    /// Committed; its quorum has ended.
    Ended,
    /// Committed; its quorum has failed.
    Failed,
}

const STATUSES: [Status; 6] = [
    Status::Unused,
    Status::Numbered,
    Status::Gone,
    Status::Pending,
    Status::Ended,
    Status::Failed,
];

/// A replica, with what ZooKeeper knows of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replica {
    pub active: bool,
    /// Whether a replica that comes back has removed the failed parts.
    pub checked: bool,
    /// Parts on its disk.
    pub parts: u32,
    /// Parts that ZooKeeper lists and the disk lacks.
    pub ghosts: u32,
    /// Pending quorums that count it.
    pub joined: u32,
    /// The insert whose commit was not answered.
    pub doubt: u32,
    /// Whether that insert has ended, and has kept its part.
    pub kept: bool,
    pub fetching: u32,
    /// The quorum whose status it has read, to add itself, and how many were counted then.
    pub joining: u32,
    pub counted: u32,
    /// Whether it has the merged part.
    pub merged: bool,
    /// Whether a select is reading here.
    pub reading: bool,
}

/// What a select has seen so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Selecting {
    /// Records whose quorum had ended when it began.
    pub ended: u32,
    /// `last_part` when it began.
    pub last: u32,
    /// The highest number that it may return, if it has looked already.
    pub limit: u32,
    /// The parts that it took, if it has taken them already.
    pub parts: u32,
    /// Whether the merged part is among these.
    pub merged: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct World {
    pub count: usize,
    pub records: usize,
    pub status: [Status; RECORDS],
    pub last: u32,
    /// The one merge: it replaces all parts up to this number.
    pub merge: u32,
    /// What selects have returned so far.
    pub seen: u32,
    pub selecting: Selecting,
    /// Which claims the last step, a select, broke: bits of `reads`.
    pub broken: u32,
    pub replicas: [Replica; REPLICAS],
}

impl World {
    /// Returns the records with one of these statuses, as bits.
    #[inline(always)]
    pub fn with(&self, wanted: impl Fn(Status) -> bool) -> u32 {
        (0..self.records)
            .filter(|i| wanted(self.status[*i]))
            .fold(0, |bits, i| bits | 1 << i)
    }

    #[inline(always)]
    pub fn are(&self, status: Status) -> u32 {
        self.with(|s| s == status)
    }

    #[inline(always)]
    pub fn each(&self) -> impl Iterator<Item = &Replica> + '_ {
        self.replicas[..self.count].iter()
    }

    /// Returns the number of replicas that the record's quorum counts.
    #[inline(always)]
    pub fn counted(&self, record: usize) -> u32 {
        self.each().map(|r| r.joined >> record & 1).sum()
    }

    /// Returns the world in which one replica is another.
    #[inline(always)]
    pub fn put(mut self, at: usize, replica: Replica) -> Self {
        self.replicas[at] = replica;
        self
    }

    /// Sets the record's status; a quorum that is no longer pending counts nobody.
    #[inline(always)]
    pub fn set(&mut self, record: usize, status: Status) {
        self.status[record] = status;
        if status != Status::Pending {
            for replica in &mut self.replicas[..self.count] {
                replica.joined &= !(1 << record);
            }
        }
    }
}

impl Replica {
    /// Returns the insert in doubt as bits.
    #[inline(always)]
    pub fn doubted(&self) -> u32 {
        (1 << self.doubt) >> 1
    }

    /// Returns the parts that selects and other replicas see: without those that are being
    /// inserted, and without the one in doubt unless it was kept.
    #[inline(always)]
    pub fn shown(&self, numbered: u32) -> u32 {
        if self.kept {
            self.parts & (!numbered | self.doubted())
        } else {
            self.parts & !numbered & !self.doubted()
        }
    }
}

/// The layout of a state.
pub struct Shape {
    pub chunks: Chunks,
    records: usize,
    status: Vec<Field>,
    last: Field,
    merge: Field,
    seen: Field,
    /// The fields of `Selecting`, in order.
    selecting: [Field; 5],
    broken: Field,
    checked: Field,
    /// Parts, ghosts and joined.
    sets: [Field; 3],
    /// Doubt, fetching and joining.
    named: [Field; 3],
    counted: Field,
    /// Kept, merged and reading.
    flags: [Field; 3],
}

impl Shape {
    pub fn new(replicas: u32, records: u32) -> Result<Self, String> {
        let mut layout = Layout::default();
        let global = &mut layout.global;
        let status = (0..records).map(|_| global.field(3)).collect();
        let (last, merge) = (global.number(records), global.number(records));
        let seen = global.field(records);
        let selecting = [
            global.field(records),
            global.number(records),
            global.number(records),
            global.field(records),
            global.flag(),
        ];
        let broken = global.field(4);
        let chunk = &mut layout.chunk;
        Ok(Self {
            records: records as usize,
            status,
            last,
            merge,
            seen,
            selecting,
            broken,
            checked: chunk.flag(),
            sets: [(); 3].map(|()| chunk.field(records)),
            named: [(); 3].map(|()| chunk.number(records)),
            counted: chunk.number(replicas),
            flags: [(); 3].map(|()| chunk.flag()),
            chunks: layout.chunks(replicas)?,
        })
    }

    #[inline(always)]
    pub fn replica(&self, chunk: u128) -> Replica {
        let [parts, ghosts, joined] = self.sets.map(|field| field.get(chunk));
        let [doubt, fetching, joining] = self.named.map(|field| field.get(chunk));
        let [kept, merged, reading] = self.flags.map(|field| field.is(chunk));
        Replica {
            active: self.chunks.active.is(chunk),
            checked: self.checked.is(chunk),
            counted: self.counted.get(chunk),
            parts,
            ghosts,
            joined,
            doubt,
            kept,
            fetching,
            joining,
            merged,
            reading,
        }
    }

    #[inline(always)]
    pub fn unpacked(&self, state: State) -> World {
        let mut world = World {
            count: self.chunks.count as usize,
            records: self.records,
            last: self.last.get(state),
            merge: self.merge.get(state),
            seen: self.seen.get(state),
            broken: self.broken.get(state),
            selecting: Selecting {
                ended: self.selecting[0].get(state),
                last: self.selecting[1].get(state),
                limit: self.selecting[2].get(state),
                parts: self.selecting[3].get(state),
                merged: self.selecting[4].is(state),
            },
            ..World::default()
        };
        for (record, field) in self.status.iter().enumerate() {
            world.status[record] = STATUSES[field.get(state) as usize];
        }
        for at in 0..world.count {
            world.replicas[at] = self.replica(self.chunks.get(state, at as u32));
        }
        world
    }

    #[inline(always)]
    pub fn packed(&self, world: &World) -> State {
        let mut state = 0;
        for (record, field) in self.status.iter().enumerate() {
            state = field.set(state, world.status[record] as u32);
        }
        let selecting = &world.selecting;
        for (field, value) in [
            (self.last, world.last),
            (self.merge, world.merge),
            (self.seen, world.seen),
            (self.broken, world.broken),
            (self.selecting[0], selecting.ended),
            (self.selecting[1], selecting.last),
            (self.selecting[2], selecting.limit),
            (self.selecting[3], selecting.parts),
            (self.selecting[4], selecting.merged.into()),
        ] {
            state = field.set(state, value);
        }
        for (at, one) in world.each().enumerate() {
            state = self.chunks.set(state, at as u32, self.chunk(one));
        }
        state
    }

    #[inline(always)]
    fn chunk(&self, one: &Replica) -> u128 {
        let mut chunk = self.chunks.active.set(0, one.active.into());
        for (field, value) in [
            (self.checked, one.checked.into()),
            (self.sets[0], one.parts),
            (self.sets[1], one.ghosts),
            (self.sets[2], one.joined),
            (self.named[0], one.doubt),
            (self.named[1], one.fetching),
            (self.named[2], one.joining),
            (self.counted, one.counted),
            (self.flags[0], one.kept.into()),
            (self.flags[1], one.merged.into()),
            (self.flags[2], one.reading.into()),
        ] {
            chunk = field.set(chunk, value);
        }
        chunk
    }
}

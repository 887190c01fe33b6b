//! Quorum inserts and sequentially consistent selects.
//!
//! A quorum insert appends its record to the log and is pending until enough replicas have it;
//! one is pending at a time. A record that only dead replicas have has failed. Events are kept
//! in the state, for what is claimed is about their order.

use super::{act, in_range};
use crate::fields::{Bits, Chunks, Field, State};
use crate::model::{members, set_text, Action, Claim, Marks, Model, Who, NONE};

/// How a select decides that it may answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// As the server does it: what the replica has is answered.
    Server,
    /// Only with every committed record.
    Linearizable,
}

/// One wrong line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A quorum ends before enough replicas have the part.
    Uncounted,
    /// Parts of failed inserts stay visible.
    FailedVisible,
    /// The part of the pending insert is visible.
    PendingVisible,
}

pub const MUTANTS: &[(&str, Mutant)] = &[
    ("uncounted", Mutant::Uncounted),
    ("failed-visible", Mutant::FailedVisible),
    ("pending-visible", Mutant::PendingVisible),
];

#[derive(Clone, Copy, Debug)]
pub struct Scope {
    pub replicas: u32,
    pub records: u32,
    pub reads: u32,
    pub quorum: u32,
    pub read: Read,
    /// Whether a replica passes a failed entry. The thesis's never does.
    pub skip_failed: bool,
    pub mutant: Option<Mutant>,
}

pub struct Quorum {
    scope: Scope,
    chunks: Chunks,
    /// Entries in the log. Entry i is record i + 1: an insert takes the lowest unused number.
    length: Field,
    failed: Field,
    /// Events in order, 0 where none has happened yet.
    events: Vec<Field>,
    active: Field,
    /// Whether the replica is named in the pending quorum.
    joined: Field,
    /// Entries that the replica has executed: the server's log_pointer.
    pointer: Field,
    parts: Field,
    claims: Vec<Claim>,
}

/// Events: an insert starts, ends, fails; from `READ` on, the record that a read returned.
const START: u32 = 1;
const END: u32 = 2;
const FAILED: u32 = 3;
const READ: u32 = 4;

const CLAIMS: [Claim; 6] = [
    Claim {
        name: "types",
        text: "pointers and parts are within the log, a quorum names replicas that have its part",
    },
    Claim {
        name: "durable",
        text: "every log entry is on a quorum of replicas, or pending, or failed",
    },
    Claim {
        name: "reads-follow-inserts",
        text: "a read follows the start and the end of the insert that it returns",
    },
    Claim {
        name: "reads-in-order",
        text: "two reads in order return inserts in the order of their ends",
    },
    Claim {
        name: "reads-are-recent",
        text: "a read returns the insert that ended last before it",
    },
    Claim {
        name: "equal-at-rest",
        text:
            "at rest, with all replicas active, each has every committed part and none is pending",
    },
];

impl Quorum {
    pub fn new(scope: Scope) -> Result<Self, String> {
        let Scope {
            replicas,
            records,
            reads,
            quorum,
            ..
        } = scope;
        in_range("replicas", replicas, 1, 8)?;
        in_range("records", records, 1, 12)?;
        in_range("reads", reads, 0, 16)?;
        in_range("quorum", quorum, 1, replicas)?;
        let mut global = Bits::default();
        let length = global.number(records);
        let failed = global.field(records);
        let events = (0..2 * records + reads)
            .map(|_| global.number(READ + records - 1))
            .collect();
        let mut chunk = Bits::default();
        // At rest a replica before a failed entry waits for ever: only those who skip can agree.
        let claims = CLAIMS[..if scope.skip_failed { 6 } else { 5 }].to_vec();
        Ok(Self {
            scope,
            active: chunk.flag(),
            joined: chunk.flag(),
            pointer: chunk.number(records),
            parts: chunk.field(records),
            chunks: Chunks::new(global.used(), chunk.used(), replicas)?,
            length,
            failed,
            events,
            claims,
        })
    }

    /// The bit of the pending record; 0 when none is.
    #[inline(always)]
    fn pending(&self, state: State) -> u32 {
        if self.chunks.each(state).any(|c| self.joined.is(c)) {
            1 << (self.length.get(state) - 1)
        } else {
            0
        }
    }

    #[inline(always)]
    fn committed(&self, state: State) -> u32 {
        let log = (1 << self.length.get(state)) - 1;
        log & !self.failed.get(state) & !self.pending(state)
    }

    #[inline(always)]
    fn visible_bits(&self, state: State, chunk: u128) -> u32 {
        let mut hidden = self.pending(state) | self.failed.get(state);
        match self.scope.mutant {
            Some(Mutant::FailedVisible) => hidden = self.pending(state),
            Some(Mutant::PendingVisible) => hidden = self.failed.get(state),
            _ => (),
        }
        self.parts.get(chunk) & !hidden
    }

    fn with_event(&self, state: State, event: u32) -> State {
        let free = self.events.iter().find(|field| !field.is(state));
        free.expect("there is a place for every event")
            .set(state, event)
    }

    fn happened(&self, state: State) -> impl Iterator<Item = u32> + '_ {
        self.events
            .iter()
            .map(move |field| field.get(state))
            .take_while(|event| *event != 0)
    }

    /// No quorum is pending any more.
    fn cleared(&self, state: State) -> State {
        (0..self.chunks.count).fold(state, |state, r| {
            let chunk = self.chunks.get(state, r);
            self.chunks.set(state, r, self.joined.set(chunk, 0))
        })
    }

    /// The replica gets the part of the entry at its pointer.
    fn fetched(&self, state: State, replica: u32, join: bool) -> State {
        let chunk = self.chunks.get(state, replica);
        let pointer = self.pointer.get(chunk);
        let mut after = self.pointer.set(chunk, pointer + 1);
        after = self.parts.set(after, self.parts.get(chunk) | 1 << pointer);
        if join {
            after = self.joined.set(after, 1);
        }
        self.chunks.set(state, replica, after)
    }

    fn inserted(&self, state: State, replica: u32) -> State {
        let length = self.length.get(state);
        let chunk = self.chunks.get(state, replica);
        let parts = self.parts.get(chunk) | 1 << length;
        let after = self.joined.set(self.parts.set(chunk, parts), 1);
        let after = self.chunks.set(state, replica, after);
        self.with_event(self.length.set(after, length + 1), START)
    }

    /// What an active replica may do with the entry at its pointer.
    #[inline(always)]
    fn entry_steps(
        &self,
        state: State,
        replica: u32,
        pending: u32,
        step: &mut impl FnMut(Action, State),
    ) {
        let chunk = self.chunks.get(state, replica);
        let pointer = self.pointer.get(chunk);
        let length = self.length.get(state);
        if pointer >= length {
            return;
        }
        let entry = 1 << pointer;
        let action = |name| act(name, Who::Replica, replica, pointer);
        if entry == pending && !self.joined.is(chunk) {
            let alive = (self.chunks.each(state)).any(|c| self.joined.is(c) && self.active.is(c));
            if alive {
                step(action("UpdateQuorum"), self.fetched(state, replica, true));
            } else {
                let failed = self.failed.set(state, self.failed.get(state) | entry);
                let after = self.with_event(self.cleared(failed), FAILED);
                step(action("FailedQuorum"), after);
            }
        } else if self.failed.get(state) & entry == 0 {
            step(action("ExecuteLog"), self.fetched(state, replica, false));
        } else if self.scope.skip_failed {
            let after = self.pointer.set(chunk, pointer + 1);
            step(action("SkipFailed"), self.chunks.set(state, replica, after));
        }
    }

    fn read_step(&self, state: State, replica: u32, step: &mut impl FnMut(Action, State)) {
        let visible = self.visible_bits(state, self.chunks.get(state, replica));
        let allowed = match self.scope.read {
            Read::Server => true,
            Read::Linearizable => visible.count_ones() == self.committed(state).count_ones(),
        };
        if visible != 0 && allowed {
            let last = visible.ilog2();
            let after = self.with_event(state, READ + last);
            step(act("Read", Who::Client, replica, last), after);
        }
    }

    /// `reads-follow-inserts`, `reads-in-order`, `reads-are-recent`.
    #[inline(always)]
    fn judge_reads(&self, state: State, marks: &mut Marks) {
        let (mut starts, mut last_end, mut last_read) = (0, None, 0);
        // When each insert ended, counted in ends; an insert that never does is later than all.
        let (mut ended, mut ends) = ([u32::MAX; 12], 0);
        let mut read = false;
        let (mut follow, mut in_order, mut recent) = (true, true, true);
        for (at, field) in self.events.iter().enumerate() {
            match field.get(state) {
                0 => break,
                START => starts += 1,
                // One insert is pending at a time: what ends is what started last.
                END => {
                    ends += 1;
                    ended[starts - 1] = ends;
                    last_end = Some(starts - 1);
                }
                FAILED => (),
                event => {
                    let record = (event - READ) as usize;
                    read = true;
                    follow &= record < starts && ended[record] != u32::MAX;
                    recent &= last_end.is_none() || last_end == Some(record);
                    let end = self.end_of(state, record, at, ended[record]);
                    in_order &= end >= last_read;
                    last_read = last_read.max(end);
                }
            }
        }
        if read {
            marks.judge(2, follow);
            marks.judge(3, in_order);
            marks.judge(4, recent);
        }
    }

    /// When the insert ended, counted in ends of the whole history: a read may return an insert
    /// that ends after it.
    fn end_of(&self, state: State, record: usize, at: usize, known: u32) -> u32 {
        if known != u32::MAX {
            return known;
        }
        let (mut starts, mut ends) = (0, 0);
        for (i, event) in self.happened(state).enumerate() {
            starts += usize::from(event == START);
            ends += u32::from(event == END);
            if i > at && event == END && starts == record + 1 {
                return ends;
            }
        }
        u32::MAX
    }

    fn at_rest(&self, state: State) -> bool {
        let active = self.chunks.each(state).all(|c| self.active.is(c));
        let mut busy = false;
        self.steps(state, &mut |action, after| {
            busy |= action.who == Who::Replica && after != state;
        });
        active && !busy
    }
}

impl Model for Quorum {
    fn initial(&self) -> State {
        let chunk = self.active.set(0, 1);
        (0..self.chunks.count).fold(0, |state, r| self.chunks.set(state, r, chunk))
    }

    fn bits(&self) -> u32 {
        self.chunks.bits()
    }

    fn replicas(&self) -> u32 {
        self.chunks.count
    }

    #[inline(always)]
    fn steps(&self, state: State, step: &mut impl FnMut(Action, State)) {
        let length = self.length.get(state);
        let pending = self.pending(state);
        let joined = (self.chunks.each(state))
            .filter(|c| self.joined.is(*c))
            .count() as u32;
        let enough = joined >= self.scope.quorum || self.scope.mutant == Some(Mutant::Uncounted);
        let reads = self.happened(state).filter(|e| *e >= READ).count() as u32;
        for r in 0..self.chunks.count {
            let chunk = self.chunks.get(state, r);
            let toggled = |on| self.chunks.set(state, r, self.active.set(chunk, on));
            if !self.active.is(chunk) {
                step(act("BecomeActive", Who::Fault, r, NONE.into()), toggled(1));
                continue;
            }
            step(
                act("BecomeInactive", Who::Fault, r, NONE.into()),
                toggled(0),
            );
            if pending == 0 && length < self.scope.records {
                step(
                    act("QuorumInsert", Who::Client, r, length),
                    self.inserted(state, r),
                );
            }
            self.entry_steps(state, r, pending, step);
            if self.joined.is(chunk) && enough {
                let after = self.with_event(self.cleared(state), END);
                step(act("EndQuorum", Who::Replica, r, length - 1), after);
            }
            if reads < self.scope.reads {
                self.read_step(state, r, step);
            }
        }
    }

    fn claims(&self) -> &[Claim] {
        &self.claims
    }

    #[inline(always)]
    fn judge(&self, state: State) -> Marks {
        let mut marks = Marks::default();
        let length = self.length.get(state);
        let log = (1u32 << length) - 1;
        let (pending, failed) = (self.pending(state), self.failed.get(state));
        let types = self.chunks.each(state).all(|c| {
            self.pointer.get(c) <= length
                && self.parts.get(c) & !log == 0
                && (!self.joined.is(c) || self.parts.get(c) & pending != 0)
        });
        marks.judge(0, types && failed & !log == 0);
        if length > 0 {
            let durable = (0..length).all(|i| {
                let holders = self
                    .chunks
                    .each(state)
                    .filter(|c| self.parts.get(*c) >> i & 1 == 1);
                (pending | failed) >> i & 1 == 1 || holders.count() as u32 >= self.scope.quorum
            });
            marks.judge(1, durable);
        }
        self.judge_reads(state, &mut marks);
        if self.scope.skip_failed && length > 0 && self.at_rest(state) {
            let committed = self.committed(state);
            let equal = self
                .chunks
                .each(state)
                .all(|c| self.parts.get(c) & committed == committed);
            marks.judge(5, pending == 0 && equal);
        }
        marks
    }

    fn work_left(&self, state: State) -> Option<u32> {
        let length = self.length.get(state);
        let behind: u32 = self
            .chunks
            .each(state)
            .map(|c| length - self.pointer.get(c))
            .sum();
        Some(2 * behind + u32::from(self.pending(state) != 0))
    }

    fn canonical(&self, state: State) -> State {
        self.chunks.sorted(state)
    }

    fn show(&self, state: State) -> Vec<(String, String)> {
        let number = |bits: u32| {
            if bits == 0 {
                "-".into()
            } else {
                (bits.ilog2() + 1).to_string()
            }
        };
        let mut out = vec![
            ("log".into(), set_text((1 << self.length.get(state)) - 1)),
            ("pending".into(), number(self.pending(state))),
            ("failed".into(), set_text(self.failed.get(state))),
        ];
        for (i, chunk) in self.chunks.each(state).enumerate() {
            let text = format!(
                "{} at {}{}{}",
                set_text(self.parts.get(chunk)),
                self.pointer.get(chunk),
                if self.joined.is(chunk) { " joined" } else { "" },
                if self.active.is(chunk) {
                    ""
                } else {
                    " inactive"
                },
            );
            out.push((format!("ch{}", i + 1), text));
        }
        out
    }

    fn visible(&self, state: State, replica: u32) -> Vec<u32> {
        members(self.visible_bits(state, self.chunks.get(state, replica)))
    }
}

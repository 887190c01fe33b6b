//! Models quorum inserts and sequentially consistent selects.
//!
//! A quorum insert appends its record to the log and is pending until enough replicas have it; one
//! is pending at a time. A record that only dead replicas have has failed. The state contains the
//! events, because the claims are about their order.

use super::log::Log;
use crate::fields::{Chunks, Field, Layout, State};
use crate::model::{
    act, alone, in_range, members, set_text, Action, Claim, Marks, Model, Scope, Who,
};

/// How a select decides whether it may answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// As the server does: the replica's own records are returned.
    Server,
    /// Only with every committed record.
    Linearizable,
}

impl Read {
    fn from_name(name: &str) -> Result<Self, String> {
        match name {
            "server" => Ok(Self::Server),
            "linearizable" => Ok(Self::Linearizable),
            _ => Err(format!("read {name:?}: expected server or linearizable")),
        }
    }
}

/// A change of one line that breaks the protocol.
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

pub struct Quorum {
    records: u32,
    reads: u32,
    /// Number of replicas that form a quorum.
    quorum: u32,
    read: Read,
    /// Whether a replica skips a failed entry. In the thesis it never does.
    skip_failed: bool,
    mutant: Option<Mutant>,
    chunks: Chunks,
    /// Entry i is record i + 1: an insert takes the lowest unused number.
    log: Log,
    failed: Field,
    /// Events in order; 0 if none has happened there yet.
    events: Vec<Field>,
    /// Whether the replica is named in the pending quorum.
    joined: Field,
    parts: Field,
    claims: &'static [Claim],
}

/// Events: an insert starts, ends or fails; from `READ` on, the record that a read returned.
const START: u32 = 1;
const END: u32 = 2;
const FAILED: u32 = 3;
const READ: u32 = 4;

const CLAIMS: &[Claim] = &[
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
    pub fn new(scope: &Scope) -> Result<Self, String> {
        let (records, reads) = (scope.records, scope.reads);
        in_range("replicas", scope.replicas, 1, 8)?;
        in_range("records", records, 1, 12)?;
        in_range("reads", reads, 0, 16)?;
        in_range("quorum", scope.quorum, 1, scope.replicas)?;
        let mut layout = Layout::default();
        let joined = layout.chunk.flag();
        let log = Log::new(&mut layout, records);
        let failed = layout.global.field(records);
        let event = |_| layout.global.number(READ + records - 1);
        let events = (0..2 * records + reads).map(event).collect();
        Ok(Self {
            records,
            reads,
            quorum: scope.quorum,
            read: Read::from_name(scope.read)?,
            skip_failed: scope.skip_failed,
            mutant: scope.mutant(MUTANTS)?,
            log,
            failed,
            events,
            joined,
            parts: layout.chunk.field(records),
            chunks: layout.chunks(scope.replicas)?,
            // Without skipping, a replica waits forever before a failed entry, so replicas need not
            // agree at rest.
            claims: &CLAIMS[..if scope.skip_failed { 6 } else { 5 }],
        })
    }

    /// Returns the bit of the pending record; 0 if there is none.
    #[inline(always)]
    fn pending(&self, state: State) -> u32 {
        if self.chunks.each(state).any(|c| self.joined.is(c)) {
            1 << (self.log.length.get(state) - 1)
        } else {
            0
        }
    }

    #[inline(always)]
    fn committed(&self, state: State) -> u32 {
        let log = (1 << self.log.length.get(state)) - 1;
        log & !self.failed.get(state) & !self.pending(state)
    }

    #[inline(always)]
    fn visible_bits(&self, state: State, chunk: u128) -> u32 {
        let mut hidden = self.pending(state) | self.failed.get(state);
        match self.mutant {
            Some(Mutant::FailedVisible) => hidden = self.pending(state),
            Some(Mutant::PendingVisible) => hidden = self.failed.get(state),
            _ => (),
        }
        self.parts.get(chunk) & !hidden
    }

    fn with_event(&self, state: State, event: u32) -> State {
        let free = self.events.iter().find(|field| !field.is(state));
        free.expect("the state has room for every event")
            .set(state, event)
    }

    fn happened(&self, state: State) -> impl Iterator<Item = u32> + '_ {
        self.events
            .iter()
            .map(move |field| field.get(state))
            .take_while(|event| *event != 0)
    }

    /// Ends the pending quorum.
    fn cleared(&self, state: State) -> State {
        (0..self.chunks.count).fold(state, |state, r| {
            let chunk = self.chunks.get(state, r);
            self.chunks.set(state, r, self.joined.set(chunk, 0))
        })
    }

    /// Gives the replica the part of the entry at its pointer.
    fn fetched(&self, state: State, replica: u32, join: bool) -> State {
        let chunk = self.chunks.get(state, replica);
        let parts = self.parts.get(chunk) | 1 << self.log.pointer.get(chunk);
        let mut after = self.parts.set(self.log.advanced(chunk), parts);
        if join {
            after = self.joined.set(after, 1);
        }
        self.chunks.set(state, replica, after)
    }

    fn inserted(&self, state: State, replica: u32) -> State {
        let length = self.log.length.get(state);
        let chunk = self.chunks.get(state, replica);
        let parts = self.parts.get(chunk) | 1 << length;
        let after = self.joined.set(self.parts.set(chunk, parts), 1);
        let after = self.chunks.set(state, replica, after);
        self.with_event(self.log.length.set(after, length + 1), START)
    }

    /// Generates what an active replica may do with the entry at its pointer.
    #[inline(always)]
    fn entry_steps(
        &self,
        state: State,
        replica: u32,
        pending: u32,
        step: &mut impl FnMut(Action, State),
    ) {
        let chunk = self.chunks.get(state, replica);
        let Some(next) = self.log.next(state, chunk) else {
            return;
        };
        let entry = 1 << next;
        let action = |name| act(name, Who::Replica, replica, next);
        if entry == pending && !self.joined.is(chunk) {
            let alive =
                (self.chunks.each(state)).any(|c| self.joined.is(c) && self.chunks.active.is(c));
            if alive {
                step(action("UpdateQuorum"), self.fetched(state, replica, true));
            } else {
                let failed = self.failed.set(state, self.failed.get(state) | entry);
                let after = self.with_event(self.cleared(failed), FAILED);
                step(action("FailedQuorum"), after);
            }
        } else if self.failed.get(state) & entry == 0 {
            step(action("ExecuteLog"), self.fetched(state, replica, false));
        } else if self.skip_failed {
            let after = self.chunks.set(state, replica, self.log.advanced(chunk));
            step(action("SkipFailed"), after);
        }
    }

    fn read_step(&self, state: State, replica: u32, step: &mut impl FnMut(Action, State)) {
        let visible = self.visible_bits(state, self.chunks.get(state, replica));
        let allowed = match self.read {
            Read::Server => true,
            Read::Linearizable => visible.count_ones() == self.committed(state).count_ones(),
        };
        if visible != 0 && allowed {
            let last = visible.ilog2();
            let after = self.with_event(state, READ + last);
            step(act("Read", Who::Client, replica, last), after);
        }
    }

    /// Judges `reads-follow-inserts`, `reads-in-order` and `reads-are-recent`.
    #[inline(always)]
    fn judge_reads(&self, state: State, marks: &mut Marks) {
        let (mut starts, mut last_end, mut last_read) = (0, None, 0);
        // The rank of each insert among all ends; an insert that never ends ranks last.
        let (mut ended, mut ends) = ([u32::MAX; 12], 0);
        let mut read = false;
        let (mut follow, mut in_order, mut recent) = (true, true, true);
        for (at, field) in self.events.iter().enumerate() {
            match field.get(state) {
                0 => break,
                START => starts += 1,
                // One insert is pending at a time, so the one that ends is the one that started
                // last.
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

    /// Returns the rank of the insert's end in the whole history, because a read may return an
    /// insert that ends after it.
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
}

impl Model for Quorum {
    fn chunks(&self) -> &Chunks {
        &self.chunks
    }

    #[inline(always)]
    fn steps(&self, state: State, step: &mut impl FnMut(Action, State)) {
        let length = self.log.length.get(state);
        let pending = self.pending(state);
        let joined = (self.chunks.each(state))
            .filter(|c| self.joined.is(*c))
            .count() as u32;
        let enough = joined >= self.quorum || self.mutant == Some(Mutant::Uncounted);
        let reads = self.happened(state).filter(|e| *e >= READ).count() as u32;
        for r in 0..self.chunks.count {
            let chunk = self.chunks.get(state, r);
            let switched = |on| self.chunks.switched(state, r, on);
            if !self.chunks.active.is(chunk) {
                step(alone("BecomeActive", Who::Fault, r), switched(true));
                continue;
            }
            step(alone("BecomeInactive", Who::Fault, r), switched(false));
            if pending == 0 && length < self.records {
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
            if reads < self.reads {
                self.read_step(state, r, step);
            }
        }
    }

    fn claims(&self) -> &[Claim] {
        self.claims
    }

    #[inline(always)]
    fn judge(&self, state: State) -> Marks {
        let mut marks = Marks::default();
        let length = self.log.length.get(state);
        let log = (1u32 << length) - 1;
        let (pending, failed) = (self.pending(state), self.failed.get(state));
        let types = self.chunks.each(state).all(|c| {
            self.log.pointer.get(c) <= length
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
                (pending | failed) >> i & 1 == 1 || holders.count() as u32 >= self.quorum
            });
            marks.judge(1, durable);
        }
        self.judge_reads(state, &mut marks);
        let judged = self.skip_failed && length > 0 && self.chunks.all_active(state);
        if judged && self.at_rest(state) {
            let committed = self.committed(state);
            let mut parts = self.chunks.each(state).map(|c| self.parts.get(c));
            let equal = parts.all(|parts| parts & committed == committed);
            marks.judge(5, pending == 0 && equal);
        }
        marks
    }

    fn work_left(&self, state: State) -> Option<u32> {
        let behind = self.log.behind(&self.chunks, state);
        Some(2 * behind + u32::from(self.pending(state) != 0))
    }

    fn show_global(&self, state: State) -> Vec<(&'static str, String)> {
        let pending = match self.pending(state) {
            0 => "-".into(),
            bit => (bit.ilog2() + 1).to_string(),
        };
        vec![
            ("log", set_text((1 << self.log.length.get(state)) - 1)),
            ("pending", pending),
            ("failed", set_text(self.failed.get(state))),
        ]
    }

    fn show_chunk(&self, chunk: u128) -> String {
        let parts = set_text(self.parts.get(chunk));
        let joined = if self.joined.is(chunk) { " joined" } else { "" };
        format!("{parts} at {}{joined}", self.log.pointer.get(chunk))
    }

    fn visible(&self, state: State, replica: u32) -> Vec<u32> {
        members(self.visible_bits(state, self.chunks.get(state, replica)))
    }
}

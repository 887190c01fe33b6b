//! What a model of the protocol tells the search.

use crate::fields::{Chunks, State};

/// One step: what, by which replica, about what else. Numbers count from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Action {
    pub name: &'static str,
    pub who: Who,
    pub replica: u8,
    /// A record, a log entry or another replica; `NONE` when there is none.
    pub other: u8,
}

pub const NONE: u8 = u8::MAX;

/// An action about a replica and something else, each counted from 0.
#[inline(always)]
pub fn act(name: &'static str, who: Who, replica: u32, other: u32) -> Action {
    Action {
        name,
        who,
        replica: replica as u8,
        other: other as u8,
    }
}

/// An action about a replica and nothing else.
#[inline(always)]
pub fn alone(name: &'static str, who: Who, replica: u32) -> Action {
    act(name, who, replica, NONE.into())
}

/// Whose step it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// A client inserts, reads or drops.
    Client,
    /// The protocol's own work, which goes on by itself when nothing hinders it.
    Replica,
    /// Something breaks or comes back.
    Fault,
}

/// A property that every state must have.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    pub name: &'static str,
    pub text: &'static str,
}

/// How a claim fares in one state.
#[derive(Clone, Copy, Default)]
pub struct Marks {
    /// Bit i: claim i says something about this state (a claim "at rest" only at rest).
    pub applies: u32,
    /// Bit i: claim i is broken.
    pub broken: u32,
}

impl Marks {
    #[inline(always)]
    pub fn judge(&mut self, claim: u32, holds: bool) {
        self.applies |= 1 << claim;
        self.broken |= u32::from(!holds) << claim;
    }
}

/// A state machine. Pure: the same state has the same steps in the same order.
pub trait Model {
    /// What a replica is that is not active.
    const INACTIVE: &'static str = "inactive";

    /// Where a state has what is of each replica.
    fn chunks(&self) -> &Chunks;

    fn initial(&self) -> State {
        self.chunks().initial()
    }

    /// Calls `step` with every action that is possible and the state after it. A step may lead
    /// to the same state.
    fn steps(&self, state: State, step: &mut impl FnMut(Action, State));

    /// The invariants and the claims at rest; at most 31.
    fn claims(&self) -> &[Claim];

    fn judge(&self, state: State) -> Marks;

    /// Becomes less with every step of `Who::Replica` that changes the state. Such a number
    /// proves that the replicas come to rest once clients and faults have stopped; the search
    /// looks at every step.
    fn work_left(&self, state: State) -> Option<u32>;

    /// Whether the replicas have nothing left to do by themselves.
    #[inline(always)]
    fn at_rest(&self, state: State) -> bool {
        let mut busy = false;
        self.steps(state, &mut |action, after| {
            busy |= action.who == Who::Replica && after != state;
        });
        !busy
    }

    /// One state for all that differ only by who is who; another than this where chunks name
    /// replicas.
    fn canonical(&self, state: State) -> State {
        self.chunks().sorted(state)
    }

    /// What everybody has in common in words, as (column, text).
    fn show_global(&self, state: State) -> Vec<(&'static str, String)>;

    /// What a replica has of its own in words; but not whether it is active.
    fn show_chunk(&self, chunk: u128) -> String;

    /// A state in words, as (column, text).
    fn show(&self, state: State) -> Vec<(String, String)> {
        let global = self.show_global(state).into_iter();
        let mut columns: Vec<_> = global.map(|(name, text)| (name.into(), text)).collect();
        for (i, chunk) in self.chunks().each(state).enumerate() {
            let mut text = self.show_chunk(chunk);
            if !self.chunks().active.is(chunk) {
                text = format!("{text} {}", Self::INACTIVE).trim_start().into();
            }
            columns.push((format!("ch{}", i + 1), text));
        }
        columns
    }

    /// What a client can read at a replica: record numbers from 1.
    fn visible(&self, state: State, replica: u32) -> Vec<u32>;
}

/// The numbers of the bits that are set, from 1, with commas: "{1,3}".
pub fn set_text(bits: u32) -> String {
    let numbers: Vec<String> = members(bits).iter().map(u32::to_string).collect();
    format!("{{{}}}", numbers.join(","))
}

/// The numbers of the bits that are set, from 1.
pub fn members(bits: u32) -> Vec<u32> {
    (0..32)
        .filter(|i| bits >> i & 1 == 1)
        .map(|i| i + 1)
        .collect()
}

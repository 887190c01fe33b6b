//! What a model of the protocol tells the search.

use crate::fields::State;

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
    fn initial(&self) -> State;

    /// Bits that a state takes.
    fn bits(&self) -> u32;

    fn replicas(&self) -> u32;

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

    /// One state for all that differ only by who is who.
    fn canonical(&self, state: State) -> State;

    /// A state in words, as (column, text).
    fn show(&self, state: State) -> Vec<(String, String)>;

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

//! Defines what the search requires of a model, and the parameters of models.

use crate::fields::{Chunks, State};

/// A step: its name, the replica that takes it, and what else it concerns. Numbers count from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Action {
    pub name: &'static str,
    pub who: Who,
    pub replica: u8,
    /// A record, a log entry or another replica; `NONE` if there is none.
    pub other: u8,
}

pub const NONE: u8 = u8::MAX;

/// Creates an action of a replica that concerns something else, both counted from 0.
#[inline(always)]
pub fn act(name: &'static str, who: Who, replica: u32, other: u32) -> Action {
    Action {
        name,
        who,
        replica: replica as u8,
        other: other as u8,
    }
}

/// Creates an action that concerns only a replica.
#[inline(always)]
pub fn alone(name: &'static str, who: Who, replica: u32) -> Action {
    act(name, who, replica, NONE.into())
}

/// Who takes a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// A client, which inserts, reads or drops.
    Client,
    /// The protocol itself, whose steps happen unless something prevents them.
    Replica,
    /// A failure or a recovery.
    Fault,
}

/// A property that every state must have.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    pub name: &'static str,
    pub text: &'static str,
}

/// The result of all claims in one state.
#[derive(Clone, Copy, Default)]
pub struct Marks {
    /// Bit i is set if claim i applies to this state (a claim "at rest" only at rest).
    pub applies: u32,
    /// Bit i is set if claim i is violated.
    pub broken: u32,
}

impl Marks {
    #[inline(always)]
    pub fn judge(&mut self, claim: u32, holds: bool) {
        self.applies |= 1 << claim;
        self.broken |= u32::from(!holds) << claim;
    }
}

/// A state machine. It is pure: the same state has the same steps in the same order.
pub trait Model {
    /// How a replica that is not active is called.
    const INACTIVE: &'static str = "inactive";

    /// Returns where the replicas' chunks are.
    fn chunks(&self) -> &Chunks;

    fn initial(&self) -> State {
        self.chunks().initial()
    }

    /// Calls `step` with every possible action and the state after it, which may be the same state.
    fn steps(&self, state: State, step: &mut impl FnMut(Action, State));

    /// Returns the invariants and the claims at rest; at most 31.
    fn claims(&self) -> &[Claim];

    fn judge(&self, state: State) -> Marks;

    /// Returns a number that decreases with every step of `Who::Replica` that changes the state.
    /// Such a number proves that the replicas come to rest once clients and faults have stopped;
    /// the search checks every step.
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

    /// Returns one representative of all states that differ only by a permutation of replicas.
    /// Models whose chunks name replicas override it.
    fn canonical(&self, state: State) -> State {
        self.chunks().sorted(state)
    }

    /// Returns the global fields as (column, text).
    fn show_global(&self, state: State) -> Vec<(&'static str, String)>;

    /// Returns the fields of a replica as text, except whether it is active.
    fn show_chunk(&self, chunk: u128) -> String;

    /// Returns the state as (column, text).
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

    /// Returns the records, from 1, that a client can read at a replica.
    fn visible(&self, state: State, replica: u32) -> Vec<u32>;
}

/// The protocol of a server version, by the names of harness/sim/bugs.py.
pub struct Protocol {
    /// What its servers have and 18.16.1 lacks.
    pub mechanisms: Vec<String>,
    pub defects: Vec<String>,
}

impl Protocol {
    pub fn has(&self, mechanism: &str) -> bool {
        self.mechanisms.iter().any(|name| name == mechanism)
    }
}

/// The parameters of a model. Each model uses those that it knows.
pub struct Scope<'a> {
    pub replicas: u32,
    pub records: u32,
    pub reads: u32,
    pub quorum: u32,
    pub read: &'a str,
    pub skip_failed: bool,
    /// `None` for the rules of the thesis.
    pub protocol: Option<&'a Protocol>,
    pub parallel: bool,
    pub mutant: Option<&'a str>,
    pub fixes: &'a [String],
}

impl Scope<'_> {
    /// Returns the requested one of the mutants that the model knows. The `Err` is a message for
    /// the user.
    pub fn mutant<T: Copy>(&self, known: &[(&'static str, T)]) -> Result<Option<T>, String> {
        let Some(name) = self.mutant else {
            return Ok(None);
        };
        match known.iter().find(|(known, _)| *known == name) {
            Some((_, mutant)) => Ok(Some(*mutant)),
            None => {
                let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
                Err(format!(
                    "mutant {name:?}: expected one of {}",
                    names.join(", ")
                ))
            }
        }
    }
}

/// Checks that a number is in `min..=max`. The `Err` is a message for the user.
pub fn in_range(what: &str, given: u32, min: u32, max: u32) -> Result<(), String> {
    if (min..=max).contains(&given) {
        return Ok(());
    }
    Err(format!("{what}: {given} given, expected {min} to {max}"))
}

/// Formats the numbers of the set bits, from 1: "{1,3}".
pub fn set_text(bits: u32) -> String {
    let numbers: Vec<String> = members(bits).iter().map(u32::to_string).collect();
    format!("{{{}}}", numbers.join(","))
}

/// Returns the numbers of the set bits, from 1.
pub fn members(bits: u32) -> Vec<u32> {
    (0..32)
        .filter(|i| bits >> i & 1 == 1)
        .map(|i| i + 1)
        .collect()
}

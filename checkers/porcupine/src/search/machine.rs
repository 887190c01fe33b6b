//! A model of few states as a table.

use super::plan::Nature;
use super::Model;

/// The states that the actions lead to, numbered from 0, which is the initial one.
pub(super) struct Machine {
    pub states: usize,
    pub acts: Vec<Act>,
    /// By state and action: the state after; [`NONE`] where the action is not possible.
    after: Vec<u8>,
}

/// What an action does.
#[derive(Clone, Copy)]
pub(super) struct Act {
    pub pure: bool,
    pub blind: bool,
    pub overwrites: bool,
    /// The states in which it is possible; those that it leaves as they are.
    pub fits: u64,
    pub stays: u64,
}

const NONE: u8 = u8::MAX;

impl Machine {
    /// None where there are more than `most` states, of 64, or an action is eager. O(states² · actions).
    pub fn new<M: Model>(model: &mut M, natures: &[Nature], most: usize) -> Option<Self> {
        if natures.iter().any(|nature| nature.eager) {
            return None;
        }
        let mut states = vec![model.initial()];
        let mut after = Vec::new();
        let mut acts: Vec<Act> = natures.iter().map(Act::new).collect();
        let mut at = 0;
        while let Some(&state) = states.get(at) {
            for (act, action) in acts.iter_mut().zip(0..) {
                let next = model.step(state, action).map(|next| {
                    let known = states.iter().position(|&known| known == next);
                    known.unwrap_or_else(|| {
                        states.push(next);
                        states.len() - 1
                    })
                });
                if states.len() > most {
                    return None;
                }
                act.fits |= u64::from(next.is_some()) << at;
                act.stays |= u64::from(next == Some(at)) << at;
                after.push(next.map_or(NONE, |next| next as u8));
            }
            at += 1;
        }
        Some(Self {
            states: states.len(),
            acts,
            after,
        })
    }

    #[inline(always)]
    pub fn act(&self, action: u32) -> Act {
        self.acts[action as usize]
    }

    /// The state after the action, if it is possible.
    #[inline(always)]
    pub fn after(&self, state: u64, action: u32) -> Option<u64> {
        let after = self.after[state as usize * self.acts.len() + action as usize];
        (after != NONE).then_some(after.into())
    }
}

impl Act {
    fn new(nature: &Nature) -> Self {
        Self {
            pure: nature.pure,
            blind: nature.blind,
            overwrites: nature.overwrites,
            fits: 0,
            stays: 0,
        }
    }
}

/// The numbers of the bits that are set.
#[inline(always)]
pub(super) fn ones(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let one = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
        bits &= bits - 1;
        Some(one)
    })
}

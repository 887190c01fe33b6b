//! A model of few states as a table.

use rustc_hash::FxHashMap;

use crate::search::plan::Nature;
use crate::search::Model;

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
    /// None where there are more than `most` states, of 64. O(states · actions).
    pub fn new<M: Model>(model: &mut M, natures: &[Nature], most: usize) -> Option<Self> {
        let mut states = vec![model.initial()];
        let mut number = FxHashMap::from_iter([(states[0], 0)]);
        let mut after = Vec::new();
        let mut acts: Vec<Act> = natures.iter().map(Act::new).collect();
        let mut at = 0;
        while let Some(&state) = states.get(at) {
            for (act, action) in acts.iter_mut().zip(0..) {
                let next = model.step(state, action).map(|next| {
                    *number.entry(next).or_insert_with(|| {
                        states.push(next);
                        (states.len() - 1) as u8
                    })
                });
                if states.len() > most {
                    return None;
                }
                act.fits |= u64::from(next.is_some()) << at;
                act.stays |= u64::from(next == Some(at as u8)) << at;
                after.push(next.unwrap_or(NONE));
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

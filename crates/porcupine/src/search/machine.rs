//! Tabulates a model that has few states.

use super::plan::Properties;
use super::Model;

/// The states that the actions can reach, numbered from 0, the initial one.
pub(super) struct Machine {
    pub states: usize,
    pub effects: Vec<Effect>,
    /// By state and action: the next state, or [`NONE`] if the action is not possible.
    after: Vec<u8>,
}

/// The effect of an action.
#[derive(Clone, Copy)]
pub(super) struct Effect {
    pub pure: bool,
    pub blind: bool,
    pub overwrites: bool,
    /// Bit sets of the states in which the action is possible, and of those that it leaves
    /// unchanged.
    pub fits: u64,
    pub stays: u64,
}

const NONE: u8 = u8::MAX;

impl Machine {
    /// Returns `None` if there are more than `most` states (at most 64) or an action is eager.
    /// O(states² · actions).
    pub fn new<M: Model>(model: &mut M, properties: &[Properties], most: usize) -> Option<Self> {
        if properties.iter().any(|properties| properties.eager) {
            return None;
        }
        let mut states = vec![model.initial()];
        let mut after = Vec::new();
        let mut effects: Vec<Effect> = properties.iter().map(Effect::new).collect();
        let mut at = 0;
        while let Some(&state) = states.get(at) {
            for (effect, action) in effects.iter_mut().zip(0..) {
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
                effect.fits |= u64::from(next.is_some()) << at;
                effect.stays |= u64::from(next == Some(at)) << at;
                after.push(next.map_or(NONE, |next| next as u8));
            }
            at += 1;
        }
        Some(Self {
            states: states.len(),
            effects,
            after,
        })
    }

    #[inline(always)]
    pub fn effect(&self, action: u32) -> Effect {
        self.effects[action as usize]
    }

    /// Returns the state after the action, if the action is possible.
    #[inline(always)]
    pub fn after(&self, state: u64, action: u32) -> Option<u64> {
        let after = self.after[state as usize * self.effects.len() + action as usize];
        (after != NONE).then_some(after.into())
    }
}

impl Effect {
    fn new(properties: &Properties) -> Self {
        Self {
            pure: properties.pure,
            blind: properties.blind,
            overwrites: properties.overwrites,
            fits: 0,
            stays: 0,
        }
    }
}

/// Iterates over the indices of the set bits.
#[inline(always)]
pub(super) fn ones(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let one = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
        bits &= bits - 1;
        Some(one)
    })
}

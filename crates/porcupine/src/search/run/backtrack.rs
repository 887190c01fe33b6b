//! Lets a search that kept only a few configurations go back from where it is stuck.
//!
//! A configuration that was discarded too early is almost always missed soon after. So the search
//! keeps checkpoints. Where it is stuck, it goes back a little, keeps more configurations until it
//! is past that event, and then few again. This adds only the cost of the detour; starting again
//! with more configurations everywhere would multiply the time for the whole history.

use std::collections::VecDeque;

use super::state::Slots;
use super::Search;
use crate::search::frontier::{Config, Frontier};
use crate::search::Model;

/// Number of events between two checkpoints.
const STRIDE: usize = 256;
/// Maximum number of checkpoints.
const CHECKPOINTS: usize = 32;
/// Maximum number of detours for one event. Each goes back twice as far as the one before and keeps
/// four times as many configurations.
const DETOURS: u32 = 3;
/// Maximum number of configurations on a detour.
const WIDEST: usize = 4096;

/// The search before an event.
struct Checkpoint<C> {
    event: usize,
    now: Frontier<C>,
    slots: Slots,
    open: Vec<u32>,
    called: Vec<u64>,
    spent: Vec<u64>,
}

/// The checkpoints, oldest first.
pub(super) struct Backtracker<C> {
    checkpoints: VecDeque<Checkpoint<C>>,
    /// Number of configurations that are kept outside detours.
    width: usize,
    /// The number of detours since the search was last past the event, and where the current detour
    /// ends.
    detours: u32,
    detour_end: usize,
}

impl<C: Config> Backtracker<C> {
    pub fn new(width: usize) -> Self {
        Self {
            checkpoints: VecDeque::new(),
            width,
            detours: 0,
            detour_end: 0,
        }
    }

    /// Drops the checkpoints, because the model renumbered its states.
    pub fn forget(&mut self) {
        self.checkpoints.clear();
    }

    fn is_due(&self, event: usize) -> bool {
        let last = self.checkpoints.back().map(|checkpoint| checkpoint.event);
        last.is_none_or(|last| event >= last + STRIDE)
    }
}

impl<M: Model, C: Config> Search<'_, M, C> {
    /// Before an event: stores a checkpoint if one is due, and ends a detour that is over.
    pub(super) fn remember(&mut self, event: usize) {
        let Some(backtracker) = &mut self.backtracker else {
            return;
        };
        if backtracker.detours > 0 && event >= backtracker.detour_end {
            backtracker.detours = 0;
            self.width = backtracker.width;
        }
        if !backtracker.is_due(event) {
            return;
        }
        if backtracker.checkpoints.len() == CHECKPOINTS {
            backtracker.checkpoints.pop_front();
        }
        backtracker.checkpoints.push_back(Checkpoint {
            event,
            now: self.now.clone(),
            slots: self.state.slots.clone(),
            open: self.open.clone(),
            called: self.called.clone(),
            spent: self.spent.clone(),
        });
    }

    /// Goes back from the event where the search is stuck, and returns the event at which it
    /// continues; `None` if that would not help or was tried often enough.
    pub(super) fn backtrack(&mut self, stuck: usize) -> Option<usize> {
        let backtracker = self.backtracker.as_mut()?;
        if !self.trimmed || backtracker.detours == DETOURS {
            return None;
        }
        backtracker.detours += 1;
        let far = STRIDE << (backtracker.detours - 1);
        while backtracker.checkpoints.len() > 1
            && backtracker.checkpoints.back()?.event + far > stuck
        {
            backtracker.checkpoints.pop_back();
        }
        let checkpoint = backtracker.checkpoints.pop_back()?;
        backtracker.detour_end = backtracker.detour_end.max(stuck + STRIDE);
        let wider = backtracker.width << (2 * backtracker.detours);
        self.width = wider.min(WIDEST.max(backtracker.width));
        self.now = checkpoint.now;
        self.state.slots = checkpoint.slots;
        self.open = checkpoint.open;
        self.called = checkpoint.called;
        self.spent = checkpoint.spent;
        Some(checkpoint.event)
    }
}

//! The way back from where a search is stuck that kept only a few configurations.
//!
//! What was trimmed away too early is almost always missed soon after. So the search remembers
//! what it kept at some places behind it; where it is stuck, it goes back a little, keeps more until it
//! is past that place, and then few again. Only what a detour explores is added: to begin anew with more
//! everywhere would multiply the time for the whole history.

use std::collections::VecDeque;

use super::board::Seated;
use super::Search;
use crate::search::frontier::{Config, Frontier};
use crate::search::Model;

/// Events from one place to the next.
const STRIDE: usize = 256;
/// How many places are remembered.
const PLACES: usize = 32;
/// How often it may go back from one place where it is stuck: each time twice as far, and four
/// times as many configurations are kept.
const DETOURS: u32 = 3;
/// More are not kept on a detour.
const WIDEST: usize = 4096;

/// The search before an event.
struct Place<C> {
    event: usize,
    now: Frontier<C>,
    seated: Seated,
    open: Vec<u32>,
    called: Vec<u64>,
    spent: Vec<u64>,
}

/// Places that the search may go back to, oldest first.
pub(super) struct Retreat<C> {
    places: VecDeque<Place<C>>,
    /// How many configurations are kept where there is no detour.
    width: usize,
    /// How often it went back since it was last on its way, and where it is on its way again.
    detours: u32,
    past: usize,
}

impl<C: Config> Retreat<C> {
    pub fn new(width: usize) -> Self {
        Self {
            places: VecDeque::new(),
            width,
            detours: 0,
            past: 0,
        }
    }

    /// No state that is remembered means anything any more.
    pub fn forget(&mut self) {
        self.places.clear();
    }

    fn is_due(&self, event: usize) -> bool {
        let last = self.places.back().map(|place| place.event);
        last.is_none_or(|last| event >= last + STRIDE)
    }
}

impl<M: Model, C: Config> Search<'_, M, C> {
    /// Before an event: remembers the place, and ends a detour that is over.
    pub(super) fn pass(&mut self, event: usize) {
        let Some(retreat) = &mut self.retreat else {
            return;
        };
        if retreat.detours > 0 && event >= retreat.past {
            retreat.detours = 0;
            self.width = retreat.width;
        }
        if !retreat.is_due(event) {
            return;
        }
        if retreat.places.len() == PLACES {
            retreat.places.pop_front();
        }
        retreat.places.push_back(Place {
            event,
            now: self.now.clone(),
            seated: self.board.seated.clone(),
            open: self.open.clone(),
            called: self.called.clone(),
            spent: self.spent.clone(),
        });
    }

    /// Goes back from the event where it is stuck, and tells where it is then. None: that would
    /// not help, or not enough.
    pub(super) fn go_back(&mut self, stuck: usize) -> Option<usize> {
        let retreat = self.retreat.as_mut()?;
        if !self.trimmed || retreat.detours == DETOURS {
            return None;
        }
        retreat.detours += 1;
        let far = STRIDE << (retreat.detours - 1);
        while retreat.places.len() > 1 && retreat.places.back()?.event + far > stuck {
            retreat.places.pop_back();
        }
        let place = retreat.places.pop_back()?;
        retreat.past = retreat.past.max(stuck + STRIDE);
        let wider = retreat.width << (2 * retreat.detours);
        self.width = wider.min(WIDEST.max(retreat.width));
        self.now = place.now;
        self.board.seated = place.seated;
        self.open = place.open;
        self.called = place.called;
        self.spent = place.spent;
        Some(place.event)
    }
}

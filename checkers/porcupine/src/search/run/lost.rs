//! Calls that never returned: a cheap search for an explanation that need not remember which were used.
//!
//! Each kind of such calls may be used as often as it was called, and what is used now is missing
//! later. To remember every trade between kinds is what makes an exact search explode.
//!
//! Here each kind has a price, and of configurations that are alike but for what was spent
//! only the cheapest is kept. What comes through is an explanation, for the counts are kept as
//! well. What does not says nothing, but shows which kinds ran out: these are dearer in the next
//! round (as multipliers are in Lagrangian relaxation).

use super::{Asked, Ended, Frontier, Layout, Reached, Retreat, Search};
use crate::search::frontier::Config;
use crate::search::Model;

/// How often prices are tried.
const ROUNDS: usize = 12;
/// The price of each kind at first; it can double in each round.
const PRICE: u64 = 16;

/// So few are kept in the first round: what is missed, a detour finds.
const NARROW: usize = 8;

/// An explanation, if one is found.
pub(super) fn search_lost<M: Model, C: Config>(model: &mut M, asked: Asked) -> Option<Ended> {
    let mut prices = None;
    for round in 0..ROUNDS {
        let mut search = Search::<M, C>::new(model, asked);
        search.width = width(asked.widths, round);
        search.charge(prices);
        prices = match search.run() {
            ended @ Ended::Explained { .. } => return Some(ended),
            Ended::GaveUp { .. } => return None,
            Ended::Stuck { .. } => Some(search.dearer()?),
        };
    }
    None
}

/// How many configurations a round keeps at a time: hardly any, then `widths[0]`, `widths[1]` and
/// so on; the last is that of all further rounds.
fn width(widths: &[usize], round: usize) -> usize {
    match round {
        0 => widths[0].min(NARROW),
        _ => widths[(round - 1).min(widths.len() - 1)],
    }
}

impl<M: Model, C: Config> Search<'_, M, C> {
    /// Makes every kind cost something, and the search go back where it is stuck; before it begins.
    fn charge(&mut self, prices: Option<Vec<u64>>) {
        let kinds = self.plan.kinds.len();
        self.prices = prices.unwrap_or_else(|| vec![PRICE; kinds]);
        let layout = Layout::new(self.plan.seats, kinds, true);
        self.board.layout = layout;
        self.now = Frontier::new(layout);
        self.reached = Reached::new(layout);
        self.retreat = Some(Retreat::new(self.width));
    }

    /// Higher prices for the kinds that had run out where the search was stuck. None: that would be
    /// no other search.
    fn dearer(&self) -> Option<Vec<u64>> {
        let configs = || self.now.live().map(|kept| kept.config.words());
        let all = configs().count() as u64;
        let dearer = |(kind, &price): (usize, &u64)| {
            let (word, shift) = self.board.layout.count(kind);
            let used = |c: &[u64]| self.spent[kind] + (c[word] >> shift & 0xff);
            let out = configs().filter(|c| used(c) == self.called[kind]).count() as u64;
            match self.called[kind] {
                0 => price,
                _ => price + price * out / all,
            }
        };
        let prices: Vec<u64> = self.prices.iter().enumerate().map(dearer).collect();
        (self.trimmed || prices != self.prices).then_some(prices)
    }
}

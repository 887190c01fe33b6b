//! Searches cheaply for an explanation if calls never returned, without remembering which were
//! used.
//!
//! Each kind of such calls may be used as often as it was called, and what is used now is missing
//! later. Remembering every trade-off between kinds makes an exact search explode.
//!
//! Here each kind has a price, and of configurations that differ only in what was spent, only the
//! cheapest is kept. A configuration that reaches the end is an explanation, because the counts are
//! kept as well. If none does, this proves nothing, but it shows which kinds ran out. These cost
//! more in the next round, like multipliers in Lagrangian relaxation.

use super::{Backtracker, Ended, Frontier, Layout, Reached, Search, SearchRequest};
use crate::search::frontier::Config;
use crate::search::Model;

/// Maximum number of rounds.
const ROUNDS: usize = 12;
/// The initial price of each kind; it can double in each round.
const PRICE: u64 = 16;

/// Number of configurations in the first round. A detour finds what they miss.
const NARROW: usize = 8;

/// Returns an explanation, if one is found.
pub(super) fn search_lost<M: Model, C: Config>(
    model: &mut M,
    request: SearchRequest,
) -> Option<Ended> {
    let mut prices = None;
    for round in 0..ROUNDS {
        let mut search = Search::<M, C>::new(model, request);
        search.width = width(request.widths, round);
        search.charge(prices);
        prices = match search.run() {
            ended @ Ended::Explained { .. } => return Some(ended),
            Ended::GaveUp { .. } => return None,
            Ended::Stuck { .. } => Some(search.raised_prices()?),
        };
    }
    None
}

/// Returns the number of configurations that a round keeps: [`NARROW`], then `widths[0]`,
/// `widths[1]` and so on, then the last one.
fn width(widths: &[usize], round: usize) -> usize {
    match round {
        0 => widths[0].min(NARROW),
        _ => widths[(round - 1).min(widths.len() - 1)],
    }
}

impl<M: Model, C: Config> Search<'_, M, C> {
    /// Gives every kind a price and lets the search backtrack. Must be called before the search
    /// runs.
    fn charge(&mut self, prices: Option<Vec<u64>>) {
        let kinds = self.plan.kinds.len();
        self.prices = prices.unwrap_or_else(|| vec![PRICE; kinds]);
        let layout = Layout::new(self.plan.slots, &self.plan.lost, true);
        self.state.layout = layout;
        self.now = Frontier::new(layout);
        self.reached = Reached::new(layout);
        self.backtracker = Some(Backtracker::new(self.width));
    }

    /// Returns higher prices for the kinds that had run out where the search was stuck; `None` if
    /// that would not change the search.
    fn raised_prices(&self) -> Option<Vec<u64>> {
        let configs = || self.now.live().map(|entry| entry.config.words());
        let all = configs().count() as u64;
        let raised_prices = |(kind, &price): (usize, &u64)| {
            let count = self.state.layout.count(kind);
            let used = |c: &[u64]| self.spent[kind] + count.of(c);
            let out = configs().filter(|c| used(c) == self.called[kind]).count() as u64;
            match self.called[kind] {
                0 => price,
                _ => price + price * out / all,
            }
        };
        let prices: Vec<u64> = self.prices.iter().enumerate().map(raised_prices).collect();
        (self.trimmed || prices != self.prices).then_some(prices)
    }
}

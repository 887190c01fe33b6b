//! What keeps a search within its time, its memory and the range of its counts.

use std::time::Instant;

use super::{Exhausted, Search};
use crate::search::frontier::Frontier;
use crate::search::Model;

/// A model that keeps less than this is left alone.
pub(super) const RENEW_BYTES: usize = 1 << 20;

impl<M: Model> Search<'_, M> {
    /// Keeps the best: of each state those with the fewest pending, then the fewest used.
    pub(super) fn trim(&mut self) {
        self.trimmed = true;
        let seats = self.layout.seats;
        let bits = |words: &[u64]| words.iter().map(|w| w.count_ones()).sum::<u32>();
        let configs = (0..self.next.len()).filter_map(|i| Some((i, self.next.get(i)?.0)));
        let mut ranked: Vec<(u64, [u32; 3], usize)> = configs
            .map(|(i, c)| {
                let lost = match c.last() {
                    Some(&paid) if self.layout.priced => paid as u32,
                    _ => bits(&c[1 + 2 * seats..]),
                };
                let (pending, used) = (bits(&c[1..1 + seats]), bits(&c[1 + seats..1 + 2 * seats]));
                (c[0], [pending, used + lost, lost], i)
            })
            .collect();
        ranked.sort_unstable();
        let mut place = 0;
        let mut state = None;
        let mut best: Vec<(u32, [u32; 3], usize)> = ranked
            .into_iter()
            .map(|(s, rank, i)| {
                place = if state.replace(s) == Some(s) {
                    place + 1
                } else {
                    0
                };
                (place, rank, i)
            })
            .collect();
        best.sort_unstable();
        let mut kept = Frontier::new(self.layout);
        for &(_, _, i) in best.iter().take(self.width) {
            let (config, trace) = self.next.get(i).expect("it is kept");
            kept.insert(config, trace);
        }
        self.next = kept;
    }

    /// True once in sixteen returns.
    pub(super) fn is_time_to_rebase(&mut self) -> bool {
        self.returns += 1;
        self.returns % 16 == 0
    }

    /// Lets the model forget the states of the past.
    pub(super) fn renew(&mut self) {
        let places: Vec<usize> = (0..self.next.len())
            .filter(|&i| self.next.get(i).is_some())
            .collect();
        let state = |&i: &usize| self.next.get(i).map_or(0, |(config, _)| config[0]);
        let mut states: Vec<u64> = places.iter().map(state).collect();
        self.model.renew(&mut states);
        for (i, state) in places.into_iter().zip(states) {
            if let Some((config, _)) = self.next.get_mut(i) {
                config[0] = state;
            }
        }
        self.renew_at = (2 * self.model.bytes()).max(RENEW_BYTES);
    }

    /// Subtracts from the counts what every configuration has used.
    pub(super) fn rebase(&mut self) {
        for kind in 0..self.plan.kinds.len() {
            let (word, shift) = self.layout.count(kind);
            let counts = |next: &Frontier| {
                let configs = (0..next.len()).filter_map(|i| next.get(i));
                configs.map(|(c, _)| c[word] >> shift & 0xff).min()
            };
            let Some(least) = counts(&self.next).filter(|&c| c > 0) else {
                continue;
            };
            self.spent[kind] += least;
            for i in 0..self.next.len() {
                if let Some((config, _)) = self.next.get_mut(i) {
                    config[word] -= least << shift;
                }
            }
        }
    }

    pub(super) fn check_limits(&self) -> Result<(), Exhausted> {
        if let Some(why) = self.model.halted() {
            return Err(Exhausted(why));
        }
        if self
            .limits
            .until
            .is_some_and(|until| Instant::now() >= until)
        {
            return Err(Exhausted("out of time"));
        }
        self.check_memory()
    }

    fn check_memory(&self) -> Result<(), Exhausted> {
        let frontiers = self.now.bytes() + self.next.bytes() + self.waiting.bytes();
        let bytes = frontiers + self.model.bytes() + self.traces.bytes() + 40 * self.ops.len();
        if self.limits.bytes.is_some_and(|most| bytes > most) || self.traces.full() {
            return Err(Exhausted("out of memory"));
        }
        Ok(())
    }
}

//! Keeps a search within its time, its memory and the range of its counts.

use super::{Exhausted, Search};
use crate::search::frontier::{Config, Frontier};
use crate::search::Model;

/// A model that keeps less than this is not asked to forget.
pub(super) const RENEW_BYTES: usize = 1 << 20;

impl<M: Model, C: Config> Search<'_, M, C> {
    /// Keeps the best configurations: of each state those with the fewest pending, then the fewest
    /// used operations.
    pub(super) fn trim(&mut self) {
        self.trimmed = true;
        let layout = self.state.layout;
        let slot_words = layout.slot_words();
        let bits = |words: &[u64]| words.iter().map(|w| w.count_ones()).sum::<u32>();
        let next = &self.reached.next;
        let live = (0..next.len()).filter_map(|i| Some((i, next.get(i)?.config.words())));
        let mut ranked: Vec<(u64, [u32; 3], usize)> = live
            .map(|(i, c)| {
                let lost = match c.last() {
                    Some(&paid) if layout.priced => paid as u32,
                    _ => bits(&c[1 + 2 * slot_words..]),
                };
                let (pending, used) = (
                    bits(&c[1..1 + slot_words]),
                    bits(&c[1 + slot_words..1 + 2 * slot_words]),
                );
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
        let mut best_few = Frontier::new(layout);
        for &(_, _, i) in best.iter().take(self.width) {
            let entry = next.get(i).expect("the entry is live");
            best_few.insert(entry.config.clone(), entry.trace);
        }
        self.reached.next = best_few;
    }

    /// Returns true once in sixteen returns.
    pub(super) fn is_time_to_rebase(&mut self) -> bool {
        self.returns += 1;
        self.returns % 16 == 0
    }

    /// Lets the model forget past states.
    pub(super) fn renew(&mut self) {
        let next = &mut self.reached.next;
        let mut states: Vec<u64> = next.live().map(|entry| entry.config.words()[0]).collect();
        self.state.model.renew(&mut states);
        for (entry, state) in next.live_mut().zip(states) {
            entry.config.words_mut()[0] = state;
        }
        if let Some(backtracker) = &mut self.backtracker {
            backtracker.forget();
        }
        self.renew_at = (2 * self.state.model.bytes()).max(RENEW_BYTES);
    }

    /// Subtracts from the counts what every configuration has used.
    pub(super) fn rebase(&mut self) {
        for kind in 0..self.plan.kinds.len() {
            let count = self.state.layout.count(kind);
            let next = &mut self.reached.next;
            let counts = next.live().map(|entry| count.of(entry.config.words()));
            let Some(least) = counts.min().filter(|&c| c > 0) else {
                continue;
            };
            self.spent[kind] += least;
            for entry in next.live_mut() {
                entry.config.words_mut()[count.word] -= least << count.shift;
            }
        }
    }

    pub(super) fn check_limits(&self) -> Result<(), Exhausted> {
        if let Some(why) = self.state.model.halted() {
            return Err(Exhausted(why));
        }
        if self.state.traces.is_full() {
            return Err(Exhausted("out of memory"));
        }
        let is_full = || {
            self.limits
                .out_of_memory(self.state.model.bytes_elsewhere())
        };
        self.limits
            .out_of_time()
            .or_else(is_full)
            .map_or(Ok(()), |why| Err(Exhausted(why)))
    }
}

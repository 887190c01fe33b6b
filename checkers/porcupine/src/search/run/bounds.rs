//! What keeps a search within its time, its memory and the range of its counts.

use super::{Exhausted, Search};
use crate::search::frontier::{Config, Frontier};
use crate::search::Model;

/// A model that keeps less than this is left alone.
pub(super) const RENEW_BYTES: usize = 1 << 20;

impl<M: Model, C: Config> Search<'_, M, C> {
    /// Keeps the best: of each state those with the fewest pending, then the fewest used.
    pub(super) fn trim(&mut self) {
        self.trimmed = true;
        let layout = self.board.layout;
        let seats = layout.seats();
        let bits = |words: &[u64]| words.iter().map(|w| w.count_ones()).sum::<u32>();
        let next = &self.reached.next;
        let live = (0..next.len()).filter_map(|i| Some((i, next.get(i)?.config.words())));
        let mut ranked: Vec<(u64, [u32; 3], usize)> = live
            .map(|(i, c)| {
                let lost = match c.last() {
                    Some(&paid) if layout.priced => paid as u32,
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
        let mut few = Frontier::new(layout);
        for &(_, _, i) in best.iter().take(self.width) {
            let kept = next.get(i).expect("it is kept");
            few.insert(kept.config.clone(), kept.trace);
        }
        self.reached.next = few;
    }

    /// True once in sixteen returns.
    pub(super) fn is_time_to_rebase(&mut self) -> bool {
        self.returns += 1;
        self.returns % 16 == 0
    }

    /// Lets the model forget the states of the past.
    pub(super) fn renew(&mut self) {
        let next = &mut self.reached.next;
        let mut states: Vec<u64> = next.live().map(|kept| kept.config.words()[0]).collect();
        self.board.model.renew(&mut states);
        for (kept, state) in next.live_mut().zip(states) {
            kept.config.words_mut()[0] = state;
        }
        if let Some(retreat) = &mut self.retreat {
            retreat.forget();
        }
        self.renew_at = (2 * self.board.model.bytes()).max(RENEW_BYTES);
    }

    /// Subtracts from the counts what every configuration has used.
    pub(super) fn rebase(&mut self) {
        for kind in 0..self.plan.kinds.len() {
            let (word, shift) = self.board.layout.count(kind);
            let next = &mut self.reached.next;
            let counts = next
                .live()
                .map(|kept| kept.config.words()[word] >> shift & 0xff);
            let Some(least) = counts.min().filter(|&c| c > 0) else {
                continue;
            };
            self.spent[kind] += least;
            for kept in next.live_mut() {
                kept.config.words_mut()[word] -= least << shift;
            }
        }
    }

    pub(super) fn check_limits(&self) -> Result<(), Exhausted> {
        if let Some(why) = self.board.model.halted() {
            return Err(Exhausted(why));
        }
        if self.board.traces.full() {
            return Err(Exhausted("out of memory"));
        }
        let full = || self.limits.full(self.board.model.bytes_elsewhere());
        self.limits
            .late()
            .or_else(full)
            .map_or(Ok(()), |why| Err(Exhausted(why)))
    }
}

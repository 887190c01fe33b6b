//! The walk through the calls and returns.

use std::time::Instant;

use super::frontier::{Frontier, Layout};
use super::plan::{Event, Plan};
use super::trace::{Traces, START};
use super::{Model, Op};

/// When to give up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    pub until: Option<Instant>,
    pub bytes: Option<usize>,
}

/// How a search ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Everything is explained; the linearization, if it was asked for.
    Explained { order: Vec<u32> },
    /// Everything that returned before the operation `at` is explained (by `order`, a longest linearization,
    /// if it was asked for), and nothing explains that one as well.
    Stuck { at: u32, order: Vec<u32> },
    /// A limit was reached; `explored` configurations, and all that returned before `at` is explained.
    GaveUp {
        why: &'static str,
        at: u32,
        explored: u64,
    },
}

/// Decides the operations of one object. With `traced`, memory grows with the history.
///
/// Where there are many configurations, a few of the best are tried first: if these come through,
/// that is an explanation; if not, nothing is known, and more are tried. Where calls never returned, it is
/// also tried whether the history could be explained if each might take effect any number
/// of times, for then there are few configurations: if not even so, it cannot be.
pub fn search<M: Model>(model: &mut M, ops: &[Op], limits: Limits, traced: bool) -> Ended {
    search_widening(model, ops, limits, traced, &WIDTHS)
}

/// The same with other numbers of configurations that are kept, before all are.
pub fn search_widening<M: Model>(
    model: &mut M,
    ops: &[Op],
    limits: Limits,
    traced: bool,
    widths: &[usize],
) -> Ended {
    for (i, &width) in widths.iter().enumerate() {
        let mut search = Search::new(model, ops, limits, traced);
        search.width = width;
        let ended = search.run();
        if !search.trimmed || matches!(ended, Ended::Explained { .. }) {
            return ended;
        }
        let lost = !search.plan.kinds.is_empty();
        if i == 0 && lost && model.finite() {
            let mut search = Search::new(model, ops, limits, traced);
            search.unlimited = true;
            if let Ended::Stuck { at, .. } = search.run() {
                // Its orders may have an operation twice.
                let order = Vec::new();
                return Ended::Stuck { at, order };
            }
        }
    }
    Search::new(model, ops, limits, traced).run()
}

/// How many configurations are kept at a time, before all are.
const WIDTHS: [usize; 2] = [64, 1024];

/// Counts are kept below this; what is used by all configurations is subtracted.
const COUNT_MAX: u64 = 120;
/// A model that keeps less than this is left alone.
const RENEW_BYTES: usize = 1 << 20;

fn copy(spare: &mut Vec<Vec<u64>>, config: &[u64]) -> Vec<u64> {
    let mut copy = spare.pop().unwrap_or_default();
    copy.clear();
    copy.extend_from_slice(config);
    copy
}

struct Search<'a, M> {
    model: &'a mut M,
    ops: &'a [Op],
    plan: Plan,
    layout: Layout,
    limits: Limits,
    traces: Traces,
    /// What explains everything that returned so far.
    now: Frontier,
    next: Frontier,
    /// Configurations from which the operation that returns is still to be placed.
    waiting: Frontier,
    /// By waiting configuration: the operation placed last was blind and nothing came of it.
    idle: Vec<bool>,
    /// Room for copies of configurations.
    spare: Vec<Vec<u64>>,
    /// By seat: the operation in it.
    sitting: Vec<u32>,
    /// Seats in use, in order of their operations' returns.
    open: Vec<u32>,
    /// By word: the seats whose operations are blind.
    blind: Vec<u64>,
    /// By kind of lost calls: called so far; used by every configuration.
    called: Vec<u64>,
    spent: Vec<u64>,
    /// By action: the round in which it was seen, and whether pending (1) or free (0).
    seen: Vec<u64>,
    round: u64,
    states: Vec<u64>,
    explored: u64,
    returns: u64,
    /// How many configurations are kept at a time.
    width: usize,
    /// More there were.
    trimmed: bool,
    /// Calls that never returned may take effect any number of times.
    unlimited: bool,
    /// Bytes of the model at which it is to forget.
    renew_at: usize,
}

/// A limit was reached.
struct Exhausted(&'static str);

impl<'a, M: Model> Search<'a, M> {
    fn new(model: &'a mut M, ops: &'a [Op], limits: Limits, traced: bool) -> Self {
        let plan = Plan::new(model, ops);
        let layout = Layout::new(plan.seats, plan.kinds.len());
        let actions = ops.iter().map(|o| o.action as usize + 1).max().unwrap_or(0);
        Self {
            model,
            ops,
            layout,
            limits,
            traces: Traces::new(traced),
            now: Frontier::new(layout),
            next: Frontier::new(layout),
            waiting: Frontier::new(layout),
            idle: Vec::new(),
            spare: Vec::new(),
            sitting: vec![0; plan.seats],
            open: Vec::new(),
            blind: vec![0; layout.seats],
            called: vec![0; plan.kinds.len()],
            spent: vec![0; plan.kinds.len()],
            seen: vec![0; actions],
            round: 0,
            states: Vec::new(),
            explored: 0,
            returns: 0,
            width: usize::MAX,
            trimmed: false,
            unlimited: false,
            renew_at: RENEW_BYTES,
            plan,
        }
    }

    fn run(&mut self) -> Ended {
        let mut start = vec![0; self.layout.words];
        start[0] = self.model.initial();
        self.now.insert(&start, START);
        let events = std::mem::take(&mut self.plan.events);
        for event in events {
            match event {
                Event::Lost(kind) => self.called[kind as usize] += 1,
                Event::Call(op) => self.call(op),
                Event::Return(op) => match self.ret(op) {
                    Err(Exhausted(why)) => {
                        let explored = self.explored;
                        return Ended::GaveUp {
                            why,
                            at: self.ops[op as usize].row,
                            explored,
                        };
                    }
                    Ok(()) if self.next.is_empty() => return self.stuck(op),
                    Ok(()) => {
                        std::mem::swap(&mut self.now, &mut self.next);
                        self.now.seal();
                    }
                },
            }
        }
        let trace = (0..self.now.len()).find_map(|i| self.now.get(i));
        let trace = trace.expect("what is left explains everything").1;
        Ended::Explained {
            order: self.rows(trace),
        }
    }

    fn stuck(&self, op: u32) -> Ended {
        let traces = (0..self.now.len()).filter_map(|i| self.now.get(i));
        let orders = traces.map(|(_, trace)| self.rows(trace));
        Ended::Stuck {
            at: self.ops[op as usize].row,
            order: orders.max_by_key(Vec::len).unwrap_or_default(),
        }
    }

    fn rows(&self, trace: u32) -> Vec<u32> {
        let order = self.traces.order(trace, self.ops.len());
        order.iter().map(|&op| self.ops[op as usize].row).collect()
    }

    /// Seats the operation, and places it where that cannot be wrong.
    fn call(&mut self, op: u32) {
        let seat = self.plan.seat[op as usize];
        self.sitting[seat as usize] = op;
        let rank = |s: &u32| self.plan.rank[self.sitting[*s as usize] as usize];
        let place = self
            .open
            .partition_point(|s| rank(s) < self.plan.rank[op as usize]);
        self.open.insert(place, seat);
        let action = self.ops[op as usize].action;
        if self.model.blind(action) {
            self.blind[seat as usize / 64] |= 1 << (seat % 64);
        }
        let (word, bit) = self.layout.pending(seat);
        let eager = self.model.eager(action);
        let mut now = std::mem::replace(&mut self.now, Frontier::new(self.layout));
        for i in 0..now.len() {
            let Some((config, trace)) = now.get_mut(i) else {
                continue;
            };
            config[word] |= bit;
            if eager {
                *trace = self.settle(config, *trace);
            } else {
                *trace = self.settle_one(config, *trace, seat);
            }
        }
        self.now = now;
    }

    /// Frees the seat in every configuration: the operation has been placed, is placed now, or,
    /// where it is free, is dropped.
    fn ret(&mut self, op: u32) -> Result<(), Exhausted> {
        let seat = self.plan.seat[op as usize];
        self.next.clear();
        self.waiting.clear();
        self.idle.clear();
        let now = std::mem::replace(&mut self.now, Frontier::new(self.layout));
        for i in 0..now.len() {
            if let Some((config, trace)) = now.get(i) {
                self.sort(config, trace, seat, false);
            }
        }
        self.now = now;
        let first = self.waiting.len();
        let mut i = 0;
        while i < self.waiting.len() {
            if let Some((config, trace)) = self.waiting.get(i) {
                let config = copy(&mut self.spare, config);
                self.expand(&config, trace, seat, self.idle[i])?;
                self.spare.push(config);
            }
            i += 1;
            self.explored += 1;
            if self.explored % 256 == 0 {
                self.check_limits()?;
            }
            let enough = i >= first && self.next.len() / 8 > self.width;
            if (enough || i / 32 > self.width) && i < self.waiting.len() {
                self.trimmed = true;
                break;
            }
        }
        self.check_limits()?;
        if self.next.len() > self.width {
            self.trim();
        }
        self.open.retain(|&s| s != seat);
        self.blind[seat as usize / 64] &= !(1 << (seat % 64));
        if self.is_time_to_rebase() {
            self.rebase();
        }
        if self.model.bytes() > self.renew_at {
            self.renew();
        }
        Ok(())
    }

    /// Keeps the best: of each state those with the fewest pending, then the fewest used.
    fn trim(&mut self) {
        self.trimmed = true;
        let seats = self.layout.seats;
        let bits = |words: &[u64]| words.iter().map(|w| w.count_ones()).sum::<u32>();
        let configs = (0..self.next.len()).filter_map(|i| Some((i, self.next.get(i)?.0)));
        let mut ranked: Vec<(u64, [u32; 3], usize)> = configs
            .map(|(i, c)| {
                let lost = bits(&c[1 + 2 * seats..]);
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

    /// Where the operation in the seat is not pending, the configuration is kept; where it is not
    /// used, it waits for the operation to be used. `idle`: the last placed was blind and nothing came of it.
    fn sort(&mut self, config: &[u64], trace: u32, seat: u32, idle: bool) {
        let (word, bit) = self.layout.pending(seat);
        let (used, used_bit) = self.layout.used(seat);
        let pending = config[word] & bit != 0;
        if !pending {
            let mut left = copy(&mut self.spare, config);
            left[used] &= !used_bit;
            self.next.insert(&left, trace);
            self.spare.push(left);
        }
        let unused = config[used] & used_bit == 0 && !self.model.pure(self.action(seat));
        if (pending || unused) && self.waiting.insert(config, trace) {
            self.idle.push(idle);
        }
    }

    /// Places each operation that may come next. The target's seat is the one that returns.
    ///
    /// After an idle placement no overwriting one is tried: instead of blind y and then w, place w at once, which
    /// leaves y free.
    fn expand(
        &mut self,
        config: &[u64],
        trace: u32,
        target: u32,
        idle: bool,
    ) -> Result<(), Exhausted> {
        self.round += 2;
        let alone = self.only_blind(config, target);
        for o in 0..self.open.len() {
            let seat = self.open[o];
            let action = self.action(seat);
            let (used, used_bit) = self.layout.used(seat);
            if config[used] & used_bit != 0 || self.model.pure(action) {
                continue;
            }
            let (word, bit) = self.layout.pending(seat);
            let pending = u64::from(config[word] & bit != 0);
            let seen = &mut self.seen[action as usize];
            if *seen == self.round + 1 || (*seen == self.round && pending == 0) {
                continue; // an identical one returns no later and is no less pressing
            }
            *seen = self.round + pending;
            let aimed = seat == target && !(idle && self.model.overwrites(action));
            if !aimed && (alone || !self.worthwhile(action, idle)) {
                continue;
            }
            let op = self.sitting[seat as usize];
            self.place(config, trace, op, target, |config| {
                config[word] &= !bit;
                config[used] |= used_bit;
            });
        }
        let kinds = if alone { 0 } else { self.plan.kinds.len() };
        for kind in 0..kinds {
            let action = self.plan.kinds[kind];
            let (word, shift) = self.layout.count(kind);
            let count = config[word] >> shift & 0xff;
            let taken = if self.unlimited {
                0
            } else {
                self.spent[kind] + count
            };
            if taken == self.called[kind] || self.seen[action as usize] >= self.round {
                continue;
            }
            if !self.worthwhile(action, idle) {
                continue;
            }
            if count == COUNT_MAX {
                return Err(Exhausted(
                    "too many operations that never returned were used",
                ));
            }
            let op = self.plan.lost[kind][taken as usize];
            self.place(config, trace, op, target, |config| {
                config[word] += 1 << shift
            });
        }
        Ok(())
    }

    /// Blind operations that commute are all that is pending, so that any but the target can wait.
    fn only_blind(&self, config: &[u64], target: u32) -> bool {
        let pending = &config[1..1 + self.layout.seats];
        let blind = |(pending, blind): (&u64, &u64)| pending & !blind == 0;
        self.model.commutes()
            && self.model.blind(self.action(target))
            && pending.iter().zip(&self.blind).all(blind)
    }

    fn worthwhile(&self, action: u32, idle: bool) -> bool {
        self.model.helps(action) && !(idle && self.model.overwrites(action))
    }

    /// Takes in the configurations after the operation.
    fn place(
        &mut self,
        config: &[u64],
        trace: u32,
        op: u32,
        target: u32,
        mark: impl Fn(&mut [u64]),
    ) {
        let action = self.ops[op as usize].action;
        let mut states = std::mem::take(&mut self.states);
        states.clear();
        self.model.steps(config[0], action, &mut states);
        let overwrites = self.model.overwrites(action);
        for &state in &states {
            let mut config = copy(&mut self.spare, config);
            let mut trace = trace;
            mark(&mut config);
            config[0] = state;
            if overwrites {
                trace = self.overwrite(&mut config, trace);
            }
            trace = self.traces.placed(trace, op);
            let before = copy(&mut self.spare, &config);
            trace = self.settle(&mut config, trace);
            let idle = self.model.blind(action) && config == before;
            self.sort(&config, trace, target, idle);
            self.spare.push(config);
            self.spare.push(before);
        }
        self.states = states;
    }

    /// Every blind operation in flight could have been placed just before.
    fn overwrite(&mut self, config: &mut [u64], mut trace: u32) -> u32 {
        for w in 0..self.layout.seats {
            let mut bits = config[1 + w] & self.blind[w];
            config[1 + w] &= !bits;
            while bits != 0 {
                let seat = 64 * w + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                trace = self.traces.freed(trace, self.sitting[seat]);
            }
        }
        trace
    }

    /// Places whatever is pending and cannot be wrong now, until nothing more can.
    fn settle(&mut self, config: &mut [u64], mut trace: u32) -> u32 {
        loop {
            let state = config[0];
            for w in 0..self.layout.seats {
                let mut bits = config[1 + w];
                while bits != 0 {
                    let seat = 64 * w as u32 + bits.trailing_zeros();
                    bits &= bits - 1;
                    trace = self.settle_one(config, trace, seat);
                }
            }
            if config[0] == state {
                return trace;
            }
        }
    }

    /// Places the pending operation of one seat if that cannot be wrong now.
    fn settle_one(&mut self, config: &mut [u64], trace: u32, seat: u32) -> u32 {
        let op = self.sitting[seat as usize];
        let action = self.action(seat);
        let (word, bit) = self.layout.pending(seat);
        let Some(state) = self.model.step(config[0], action) else {
            return trace;
        };
        if self.model.eager(action) {
            let (used, used_bit) = self.layout.used(seat);
            config[0] = state;
            config[word] &= !bit;
            config[used] |= used_bit;
            return self.traces.placed(trace, op);
        }
        if state != config[0] {
            return trace;
        }
        config[word] &= !bit;
        if self.model.pure(action) {
            return self.traces.placed(trace, op);
        }
        self.traces.freed(trace, op)
    }

    fn action(&self, seat: u32) -> u32 {
        self.ops[self.sitting[seat as usize] as usize].action
    }

    /// True once in sixteen returns.
    fn is_time_to_rebase(&mut self) -> bool {
        self.returns += 1;
        self.returns % 16 == 0
    }

    /// Lets the model forget the states of the past.
    fn renew(&mut self) {
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
    fn rebase(&mut self) {
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

    fn check_limits(&self) -> Result<(), Exhausted> {
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

//! The walk through the calls and returns.

mod bounds;
mod lost;
mod place;

use std::time::Instant;

use bounds::RENEW_BYTES;
use rustc_hash::FxHashSet;

use super::frontier::{copy, Frontier, Layout};
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
    /// if it was asked for), and nothing explains that one as well. `others` are some of its kind,
    /// which have among them what can be placed of the operations in flight.
    Stuck {
        at: u32,
        order: Vec<u32>,
        others: Vec<Vec<u32>>,
    },
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
/// that is an explanation; if not, nothing is known, and more are tried. Where calls never returned,
/// there is more to try before that: see [`lost`].
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
    let mut furthest = Furthest::default();
    for (i, &width) in widths.iter().enumerate() {
        let mut search = Search::new(model, ops, limits, traced);
        search.width = width;
        let lost = !search.plan.kinds.is_empty();
        search.brief = i == 0 && lost;
        let ended = search.run();
        if !search.trimmed || matches!(ended, Ended::Explained { .. }) {
            return furthest.of(ended);
        }
        furthest.take(ended);
        if i == 0 && lost {
            if let Some(ended) = lost::search_lost(model, ops, limits, traced, widths) {
                return ended;
            }
        }
    }
    furthest.of(Search::new(model, ops, limits, traced).run())
}

/// How many configurations are kept at a time, before all are.
const WIDTHS: [usize; 2] = [64, 1024];

/// Of several searches that reached a limit, the one that explored most.
#[derive(Default)]
struct Furthest(Option<Ended>);

impl Furthest {
    fn take(&mut self, ended: Ended) {
        let explored = |ended: &Ended| match ended {
            Ended::GaveUp { explored, .. } => Some(*explored),
            _ => None,
        };
        if explored(&ended) > self.0.as_ref().and_then(explored) {
            self.0 = Some(ended);
        }
    }

    /// How it ends, if this is the last.
    fn of(mut self, ended: Ended) -> Ended {
        if !matches!(ended, Ended::GaveUp { .. }) {
            return ended;
        }
        self.take(ended.clone());
        self.0.unwrap_or(ended)
    }
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
    /// Seats of operations that are not pure, in order of their returns.
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
    /// To end where there are more.
    brief: bool,
    /// Calls that never returned may take effect any number of times.
    unlimited: bool,
    /// By kind of lost calls: what one that is used costs; empty: nothing.
    prices: Vec<u64>,
    /// Bytes of the model at which it is to forget.
    renew_at: usize,
}

/// A limit was reached.
struct Exhausted(&'static str);

impl<'a, M: Model> Search<'a, M> {
    fn new(model: &'a mut M, ops: &'a [Op], limits: Limits, traced: bool) -> Self {
        let plan = Plan::new(model, ops);
        let layout = Layout::new(plan.seats, plan.kinds.len(), false);
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
            brief: false,
            unlimited: false,
            prices: Vec::new(),
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
                    Ok(()) if self.brief && self.trimmed => {
                        return Ended::GaveUp {
                            why: "too many configurations",
                            at: self.ops[op as usize].row,
                            explored: 0,
                        }
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
        let mut orders: Vec<Vec<u32>> = match self.traces.is_on() {
            true => traces.map(|(_, trace)| self.rows(trace)).collect(),
            false => Vec::new(),
        };
        orders.sort_by_key(|order| usize::MAX - order.len());
        let mut orders = orders.into_iter();
        let order = orders.next().unwrap_or_default();
        let mut placed: FxHashSet<u32> = order.iter().copied().collect();
        let new = |order: &Vec<u32>| order.iter().filter(|&&row| placed.insert(row)).count() > 0;
        Ended::Stuck {
            at: self.ops[op as usize].row,
            order,
            others: orders.filter(new).collect(),
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
        let action = self.ops[op as usize].action;
        if !self.model.pure(action) {
            let rank = |s: &u32| self.plan.rank[self.sitting[*s as usize] as usize];
            let own = self.plan.rank[op as usize];
            let place = self.open.partition_point(|s| rank(s) < own);
            self.open.insert(place, seat);
        }
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
        if self.settled_everywhere(seat) {
            std::mem::swap(&mut self.now, &mut self.next);
            self.leave(seat);
            return Ok(());
        }
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
        self.leave(seat);
        if self.is_time_to_rebase() {
            self.rebase();
        }
        if self.model.bytes() > self.renew_at {
            self.renew();
        }
        Ok(())
    }

    /// The operation is pure and placed in every configuration, so that its return changes none.
    fn settled_everywhere(&self, seat: u32) -> bool {
        let (word, bit) = self.layout.pending(seat);
        let mut configs = (0..self.now.len()).filter_map(|i| self.now.get(i));
        self.model.pure(self.action(seat)) && configs.all(|(config, _)| config[word] & bit == 0)
    }

    fn leave(&mut self, seat: u32) {
        self.open.retain(|&s| s != seat);
        self.blind[seat as usize / 64] &= !(1 << (seat % 64));
    }

    /// Where the operation in the seat is not pending, the configuration is kept; where it is not
    /// used, it waits for the operation to be used. `idle`: the last placed was blind and nothing came of it.
    fn sort(&mut self, config: &[u64], trace: u32, seat: u32, idle: bool) {
        let (word, bit) = self.layout.pending(seat);
        let (used, used_bit) = self.layout.used(seat);
        let pending = config[word] & bit != 0;
        if !pending && config[used] & used_bit == 0 {
            self.next.insert(config, trace);
        } else if !pending {
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
}

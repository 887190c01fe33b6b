//! Walks through the calls and returns.

mod backtrack;
mod bounds;
mod expand;
mod lost;
mod state;

use backtrack::Backtracker;
use bounds::RENEW_BYTES;
use rustc_hash::FxHashSet;
use state::SearchState;

use super::frontier::{count_words, Config, Frontier, Layout};
use super::plan::{Event, Plan};
use super::trace::{Traces, START};
use super::{packed, subsets, Model, Op};
use crate::budget::Limits;

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Everything is explained; with the linearization, if it was requested.
    Explained { order: Vec<u32> },
    /// Everything that returned before the operation `at` is explained, and nothing explains `at`
    /// as well. `order` is a longest linearization, if one was requested. `others` are further ones
    /// that together place every operation in flight that can be placed.
    Stuck {
        at: u32,
        order: Vec<u32>,
        others: Vec<Vec<u32>>,
    },
    /// A limit was reached after `explored` configurations. Everything that returned before `at` is
    /// explained.
    GaveUp {
        why: &'static str,
        at: u32,
        explored: u64,
    },
}

impl Ended {
    /// Stuck at a row, without a linearization.
    pub fn stuck(at: u32) -> Self {
        Self::Stuck {
            at,
            order: Vec::new(),
            others: Vec::new(),
        }
    }
}

/// Decides the operations of one object. With `traced`, memory grows with the history.
///
/// If there are many configurations, the search first keeps a few of the best. If these reach the
/// end, the history is explained; if not, nothing is known, and the search starts again with more.
/// If some calls never returned, it tries more before that; see [`lost`].
pub fn search<M: Model>(model: &mut M, ops: &[Op], limits: Limits, traced: bool) -> Ended {
    if !traced {
        if let Some(ended) = subsets::decide(model, ops, limits) {
            return ended;
        }
    }
    let plan = Plan::new(model, ops);
    if !traced {
        if let Some(ended) = packed::decide(model, ops, &plan, limits) {
            return ended;
        }
    }
    walk(
        model,
        SearchRequest {
            ops,
            plan: &plan,
            limits,
            traced,
            widths: &WIDTHS,
        },
    )
}

/// Runs the search with the given widths before the exact one.
pub fn search_widening<M: Model>(
    model: &mut M,
    ops: &[Op],
    limits: Limits,
    traced: bool,
    widths: &[usize],
) -> Ended {
    let plan = Plan::new(model, ops);
    walk(
        model,
        SearchRequest {
            ops,
            plan: &plan,
            limits,
            traced,
            widths,
        },
    )
}

fn walk<M: Model>(model: &mut M, request: SearchRequest) -> Ended {
    // A configuration has a state, pending and used bits, counts of lost calls, and a price.
    match (request.plan.slots, count_words(&request.plan.lost)) {
        (..=64, 0) => widen::<M, [u64; 3]>(model, request),
        (..=64, ..=4) => widen::<M, [u64; 8]>(model, request),
        _ => widen::<M, Box<[u64]>>(model, request),
    }
}

/// What to decide.
#[derive(Clone, Copy)]
struct SearchRequest<'a> {
    ops: &'a [Op],
    plan: &'a Plan,
    limits: Limits<'a>,
    traced: bool,
    widths: &'a [usize],
}

fn widen<M: Model, C: Config>(model: &mut M, request: SearchRequest) -> Ended {
    let mut furthest = Furthest::default();
    let lost = !request.plan.kinds.is_empty();
    for (i, &width) in request.widths.iter().enumerate() {
        let mut search = Search::<M, C>::new(model, request);
        search.width = width;
        search.stop_if_trimmed = i == 0 && lost;
        search.backtracker = (!lost).then(|| Backtracker::new(width));
        let ended = search.run();
        if !search.trimmed || matches!(ended, Ended::Explained { .. }) {
            return furthest.or(ended);
        }
        furthest.add(ended);
        if i > 0 {
            continue;
        }
        if let Some(ended) = packed::refute(model, request.ops, request.plan, request.limits) {
            return ended;
        }
        if lost {
            if let Some(ended) = lost::search_lost::<M, C>(model, request) {
                return ended;
            }
        }
    }
    furthest.or(Search::<M, C>::new(model, request).run())
}

/// Maximum numbers of configurations that are kept, in order, before the search keeps all.
const WIDTHS: [usize; 2] = [64, 1024];

/// Of several searches that reached a limit, the one that explored most.
#[derive(Default)]
struct Furthest(Option<Ended>);

impl Furthest {
    fn add(&mut self, ended: Ended) {
        let explored = |ended: &Ended| match ended {
            Ended::GaveUp { explored, .. } => Some(*explored),
            _ => None,
        };
        if explored(&ended) > self.0.as_ref().and_then(explored) {
            self.0 = Some(ended);
        }
    }

    /// Returns the result of all searches, `ended` being the last one's.
    fn or(mut self, ended: Ended) -> Ended {
        if !matches!(ended, Ended::GaveUp { .. }) {
            return ended;
        }
        self.add(ended.clone());
        self.0.unwrap_or(ended)
    }
}

struct Search<'a, M, C> {
    state: SearchState<'a, M, C>,
    plan: &'a Plan,
    limits: Limits<'a>,
    /// The configurations that explain everything that returned so far.
    now: Frontier<C>,
    reached: Reached<C>,
    /// Slots of operations that are not pure, in order of their returns.
    open: Vec<u32>,
    /// By kind of lost calls: the number called so far, and the number used by every configuration.
    called: Vec<u64>,
    spent: Vec<u64>,
    /// By action: the round in which it was tried, plus 1 if the operation was pending.
    seen: Vec<u64>,
    round: u64,
    states: Vec<u64>,
    explored: u64,
    returns: u64,
    /// Maximum number of configurations that are kept.
    width: usize,
    /// Configurations were discarded.
    trimmed: bool,
    /// Give up as soon as configurations are discarded.
    stop_if_trimmed: bool,
    /// By kind of lost calls: the price of each use; empty if they are free of charge.
    prices: Vec<u64>,
    /// The checkpoints, if the search may go back.
    backtracker: Option<Backtracker<C>>,
    /// Memory of the model in bytes at which it must forget past states.
    renew_at: usize,
}

/// The configurations that a return leads to.
struct Reached<C> {
    /// The configurations that explain the return as well.
    next: Frontier<C>,
    /// Configurations in which the returning operation is still to be placed.
    waiting: Frontier<C>,
    /// By waiting configuration: whether the last placement was blind and idle, that is, it changed
    /// nothing else.
    idle: Vec<bool>,
}

/// The returning operation.
#[derive(Clone, Copy)]
struct Target {
    slot: u32,
    pure: bool,
}

/// A limit was reached.
struct Exhausted(&'static str);

impl<'a, M: Model, C: Config> Search<'a, M, C> {
    fn new(model: &'a mut M, request: SearchRequest<'a>) -> Self {
        let SearchRequest { ops, plan, .. } = request;
        let layout = Layout::new(plan.slots, &plan.lost, false);
        Self {
            state: SearchState::new(model, ops, plan, layout, Traces::new(request.traced)),
            plan,
            limits: request.limits,
            now: Frontier::new(layout),
            reached: Reached::new(layout),
            open: Vec::new(),
            called: vec![0; plan.kinds.len()],
            spent: vec![0; plan.kinds.len()],
            seen: vec![0; plan.properties.len()],
            round: 0,
            states: Vec::new(),
            explored: 0,
            returns: 0,
            width: usize::MAX,
            trimmed: false,
            stop_if_trimmed: false,
            prices: Vec::new(),
            backtracker: None,
            renew_at: RENEW_BYTES,
        }
    }

    fn run(&mut self) -> Ended {
        let mut start = C::new(self.state.layout.words);
        start.words_mut()[0] = self.state.model.initial();
        self.now.insert(start, START);
        let mut at = 0;
        while let Some(&event) = self.plan.events.get(at) {
            self.remember(at);
            at += 1;
            match event {
                Event::Lost(kind) => self.called[kind as usize] += 1,
                Event::Call(op) => self.call(op),
                Event::Return(op) => match self.ret(op) {
                    Err(Exhausted(why)) => return self.gave_up(why, op, self.explored),
                    Ok(()) if self.stop_if_trimmed && self.trimmed => {
                        return self.gave_up("too many configurations", op, 0)
                    }
                    Ok(()) if self.reached.next.is_empty() => match self.backtrack(at) {
                        Some(event) => at = event,
                        None => return self.stuck(op),
                    },
                    Ok(()) => {
                        std::mem::swap(&mut self.now, &mut self.reached.next);
                        self.now.seal();
                    }
                },
            }
        }
        let trace = self.now.live().next().map(|entry| entry.trace);
        Ended::Explained {
            order: self.rows(trace.expect("what is left explains everything")),
        }
    }

    fn gave_up(&self, why: &'static str, op: u32, explored: u64) -> Ended {
        Ended::GaveUp {
            why,
            at: self.state.ops[op as usize].row,
            explored,
        }
    }

    fn stuck(&self, op: u32) -> Ended {
        let orders: Vec<Vec<u32>> = match self.state.traces.is_on() {
            true => self
                .now
                .live()
                .map(|entry| self.rows(entry.trace))
                .collect(),
            false => Vec::new(),
        };
        stuck_at(self.state.ops[op as usize].row, orders)
    }

    fn rows(&self, trace: u32) -> Vec<u32> {
        let ops = self.state.ops;
        let order = self.state.traces.order(trace, ops.len());
        order.iter().map(|&op| ops[op as usize].row).collect()
    }

    /// Assigns the operation its slot, and places it if that cannot be wrong.
    fn call(&mut self, op: u32) {
        let slot = self.plan.slot[op as usize];
        let properties = self.state.assign(slot, op);
        if !properties.pure {
            let own = self.plan.rank[op as usize];
            let place = self
                .open
                .iter()
                .rposition(|&s| self.state.rank(s) < own)
                .map_or(0, |before| before + 1);
            self.open.insert(place, slot);
        }
        let (word, bit) = self.state.layout.pending(slot);
        for entry in self.now.live_mut() {
            entry.config.words_mut()[word] |= bit;
            entry.trace = if properties.eager {
                self.state.settle(&mut entry.config, entry.trace)
            } else {
                self.state.settle_one(&mut entry.config, entry.trace, slot)
            };
        }
    }

    /// Frees the slot in every configuration: the operation was placed before, is placed now, or,
    /// if it is free, is dropped.
    fn ret(&mut self, op: u32) -> Result<(), Exhausted> {
        let slot = self.plan.slot[op as usize];
        let pure = self.state.properties(self.state.action(slot)).pure;
        let target = Target { slot, pure };
        if pure && self.settled_everywhere(slot) {
            std::mem::swap(&mut self.now, &mut self.reached.next);
            return Ok(());
        }
        self.reached.clear();
        let layout = self.state.layout;
        for entry in self.now.live() {
            self.reached
                .add(layout, entry.config.clone(), entry.trace, target, false);
        }
        self.explore(target)?;
        self.check_limits()?;
        if self.reached.next.len() > self.width {
            self.trim();
        }
        self.open.retain(|&s| s != slot);
        self.state.release(slot);
        if self.is_time_to_rebase() {
            self.rebase();
        }
        if self.state.model.bytes() > self.renew_at {
            self.renew();
        }
        Ok(())
    }

    /// Places what must be placed before the target, and the target.
    fn explore(&mut self, target: Target) -> Result<(), Exhausted> {
        let first = self.reached.waiting.len();
        let mut i = 0;
        while i < self.reached.waiting.len() {
            if let Some(entry) = self.reached.waiting.get(i).cloned() {
                self.expand(&entry.config, entry.trace, target, self.reached.idle[i]);
            }
            i += 1;
            self.explored += 1;
            if self.explored % 256 == 0 {
                self.check_limits()?;
            }
            let enough = i >= first && self.reached.next.len() / 8 > self.width;
            if (enough || i / 32 > self.width) && i < self.reached.waiting.len() {
                self.trimmed = true;
                break;
            }
        }
        Ok(())
    }

    /// Whether the operation is placed in every configuration.
    fn settled_everywhere(&self, slot: u32) -> bool {
        let (word, bit) = self.state.layout.pending(slot);
        self.now
            .live()
            .all(|entry| entry.config.words()[word] & bit == 0)
    }
}

/// Returns the failure at `row`: the longest of the orders that led to it, and each other one that
/// places an operation which none of the longer ones places. Not generic, so that it is compiled
/// only once.
fn stuck_at(row: u32, mut orders: Vec<Vec<u32>>) -> Ended {
    orders.sort_by_key(|order| usize::MAX - order.len());
    let mut orders = orders.into_iter();
    let order = orders.next().unwrap_or_default();
    let mut placed: FxHashSet<u32> = order.iter().copied().collect();
    let new = |order: &Vec<u32>| order.iter().filter(|&&row| placed.insert(row)).count() > 0;
    Ended::Stuck {
        at: row,
        order,
        others: orders.filter(new).collect(),
    }
}

impl<C: Config> Reached<C> {
    fn new(layout: Layout<C>) -> Self {
        Self {
            next: Frontier::new(layout),
            waiting: Frontier::new(layout),
            idle: Vec::new(),
        }
    }

    fn clear(&mut self) {
        self.next.clear();
        self.waiting.clear();
        self.idle.clear();
    }

    /// Keeps the configuration if the target is not pending. Lets it wait for the target if the
    /// target is not used. `idle` says that the last placement was blind and changed nothing else.
    fn add(&mut self, layout: Layout<C>, config: C, trace: u32, target: Target, idle: bool) {
        let (word, bit) = layout.pending(target.slot);
        let (used, used_bit) = layout.used(target.slot);
        if config.words()[used] & used_bit != 0 {
            let mut left = config;
            left.words_mut()[used] &= !used_bit;
            self.next.insert(left, trace);
            return;
        }
        let pending = config.words()[word] & bit != 0;
        if !pending {
            self.next.insert(config.clone(), trace);
        }
        if (pending || !target.pure) && self.waiting.insert(config, trace) {
            self.idle.push(idle);
        }
    }
}

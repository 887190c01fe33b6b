//! The walk through the calls and returns.

mod board;
mod bounds;
mod lost;
mod place;
mod retreat;

use board::Board;
use bounds::RENEW_BYTES;
use retreat::Retreat;
use rustc_hash::FxHashSet;

use super::frontier::{Config, Frontier, Layout};
use super::plan::{Event, Plan};
use super::trace::{Traces, START};
use super::{packed, subsets, Model, Op};
use crate::budget::Limits;

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

impl Ended {
    /// Stuck at a row, where no order was asked for.
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
/// Where there are many configurations, a few of the best are tried first: if these come through,
/// that is an explanation; if not, nothing is known, and more are tried. Where calls never returned,
/// there is more to try before that: see [`lost`].
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
        Asked {
            ops,
            plan: &plan,
            limits,
            traced,
            widths: &WIDTHS,
        },
    )
}

/// The search alone, with other numbers of configurations that are kept, before all are.
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
        Asked {
            ops,
            plan: &plan,
            limits,
            traced,
            widths,
        },
    )
}

fn walk<M: Model>(model: &mut M, asked: Asked) -> Ended {
    // The state, who is pending, who is used, counts of lost calls, a price.
    match (asked.plan.seats, asked.plan.kinds.len()) {
        (..=64, 0) => widen::<M, [u64; 3]>(model, asked),
        (..=64, ..=32) => widen::<M, [u64; 8]>(model, asked),
        _ => widen::<M, Box<[u64]>>(model, asked),
    }
}

/// What is to be decided.
#[derive(Clone, Copy)]
struct Asked<'a> {
    ops: &'a [Op],
    plan: &'a Plan,
    limits: Limits<'a>,
    traced: bool,
    widths: &'a [usize],
}

fn widen<M: Model, C: Config>(model: &mut M, asked: Asked) -> Ended {
    let mut furthest = Furthest::default();
    let lost = !asked.plan.kinds.is_empty();
    for (i, &width) in asked.widths.iter().enumerate() {
        let mut search = Search::<M, C>::new(model, asked);
        search.width = width;
        search.brief = i == 0 && lost;
        search.retreat = (!lost).then(|| Retreat::new(width));
        let ended = search.run();
        if !search.trimmed || matches!(ended, Ended::Explained { .. }) {
            return furthest.of(ended);
        }
        furthest.take(ended);
        if i > 0 {
            continue;
        }
        if let Some(ended) = packed::refute(model, asked.ops, asked.plan, asked.limits) {
            return ended;
        }
        if lost {
            if let Some(ended) = lost::search_lost::<M, C>(model, asked) {
                return ended;
            }
        }
    }
    furthest.of(Search::<M, C>::new(model, asked).run())
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

struct Search<'a, M, C> {
    board: Board<'a, M, C>,
    plan: &'a Plan,
    limits: Limits<'a>,
    /// What explains everything that returned so far.
    now: Frontier<C>,
    reached: Reached<C>,
    /// Seats of operations that are not pure, in order of their returns.
    open: Vec<u32>,
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
    /// By kind of lost calls: what one that is used costs; empty: nothing.
    prices: Vec<u64>,
    /// Where to go back to, if it is to.
    retreat: Option<Retreat<C>>,
    /// Bytes of the model at which it is to forget.
    renew_at: usize,
}

/// What a return leads to.
struct Reached<C> {
    /// What explains it as well.
    next: Frontier<C>,
    /// Configurations from which the operation that returns is still to be placed.
    waiting: Frontier<C>,
    /// By waiting configuration: the operation placed last was blind and nothing came of it.
    idle: Vec<bool>,
}

/// The operation that returns.
#[derive(Clone, Copy)]
struct Target {
    seat: u32,
    pure: bool,
}

/// A limit was reached.
struct Exhausted(&'static str);

impl<'a, M: Model, C: Config> Search<'a, M, C> {
    fn new(model: &'a mut M, asked: Asked<'a>) -> Self {
        let Asked { ops, plan, .. } = asked;
        let layout = Layout::new(plan.seats, plan.kinds.len(), false);
        Self {
            board: Board::new(model, ops, plan, layout, Traces::new(asked.traced)),
            plan,
            limits: asked.limits,
            now: Frontier::new(layout),
            reached: Reached::new(layout),
            open: Vec::new(),
            called: vec![0; plan.kinds.len()],
            spent: vec![0; plan.kinds.len()],
            seen: vec![0; plan.natures.len()],
            round: 0,
            states: Vec::new(),
            explored: 0,
            returns: 0,
            width: usize::MAX,
            trimmed: false,
            brief: false,
            prices: Vec::new(),
            retreat: None,
            renew_at: RENEW_BYTES,
        }
    }

    fn run(&mut self) -> Ended {
        let mut start = C::new(self.board.layout.words);
        start.words_mut()[0] = self.board.model.initial();
        self.now.insert(start, START);
        let mut at = 0;
        while let Some(&event) = self.plan.events.get(at) {
            self.pass(at);
            at += 1;
            match event {
                Event::Lost(kind) => self.called[kind as usize] += 1,
                Event::Call(op) => self.call(op),
                Event::Return(op) => match self.ret(op) {
                    Err(Exhausted(why)) => return self.gave_up(why, op, self.explored),
                    Ok(()) if self.brief && self.trimmed => {
                        return self.gave_up("too many configurations", op, 0)
                    }
                    Ok(()) if self.reached.next.is_empty() => match self.go_back(at) {
                        Some(place) => at = place,
                        None => return self.stuck(op),
                    },
                    Ok(()) => {
                        std::mem::swap(&mut self.now, &mut self.reached.next);
                        self.now.seal();
                    }
                },
            }
        }
        let trace = self.now.live().next().map(|kept| kept.trace);
        Ended::Explained {
            order: self.rows(trace.expect("what is left explains everything")),
        }
    }

    fn gave_up(&self, why: &'static str, op: u32, explored: u64) -> Ended {
        Ended::GaveUp {
            why,
            at: self.board.ops[op as usize].row,
            explored,
        }
    }

    fn stuck(&self, op: u32) -> Ended {
        let mut orders: Vec<Vec<u32>> = match self.board.traces.is_on() {
            true => self.now.live().map(|kept| self.rows(kept.trace)).collect(),
            false => Vec::new(),
        };
        orders.sort_by_key(|order| usize::MAX - order.len());
        let mut orders = orders.into_iter();
        let order = orders.next().unwrap_or_default();
        let mut placed: FxHashSet<u32> = order.iter().copied().collect();
        let new = |order: &Vec<u32>| order.iter().filter(|&&row| placed.insert(row)).count() > 0;
        Ended::Stuck {
            at: self.board.ops[op as usize].row,
            order,
            others: orders.filter(new).collect(),
        }
    }

    fn rows(&self, trace: u32) -> Vec<u32> {
        let ops = self.board.ops;
        let order = self.board.traces.order(trace, ops.len());
        order.iter().map(|&op| ops[op as usize].row).collect()
    }

    /// Seats the operation, and places it where that cannot be wrong.
    fn call(&mut self, op: u32) {
        let seat = self.plan.seat[op as usize];
        let nature = self.board.seat(seat, op);
        if !nature.pure {
            let own = self.plan.rank[op as usize];
            let place = self
                .open
                .iter()
                .rposition(|&s| self.board.rank(s) < own)
                .map_or(0, |before| before + 1);
            self.open.insert(place, seat);
        }
        let (word, bit) = self.board.layout.pending(seat);
        for kept in self.now.live_mut() {
            kept.config.words_mut()[word] |= bit;
            kept.trace = if nature.eager {
                self.board.settle(&mut kept.config, kept.trace)
            } else {
                self.board.settle_one(&mut kept.config, kept.trace, seat)
            };
        }
    }

    /// Frees the seat in every configuration: the operation has been placed, is placed now, or,
    /// where it is free, is dropped.
    fn ret(&mut self, op: u32) -> Result<(), Exhausted> {
        let seat = self.plan.seat[op as usize];
        let pure = self.board.nature(self.board.action(seat)).pure;
        let target = Target { seat, pure };
        if pure && self.settled_everywhere(seat) {
            std::mem::swap(&mut self.now, &mut self.reached.next);
            return Ok(());
        }
        self.reached.clear();
        let layout = self.board.layout;
        for kept in self.now.live() {
            self.reached
                .sort(layout, kept.config.clone(), kept.trace, target, false);
        }
        self.explore(target)?;
        self.check_limits()?;
        if self.reached.next.len() > self.width {
            self.trim();
        }
        self.open.retain(|&s| s != seat);
        self.board.leave(seat);
        if self.is_time_to_rebase() {
            self.rebase();
        }
        if self.board.model.bytes() > self.renew_at {
            self.renew();
        }
        Ok(())
    }

    /// Places what must be placed before the target can be, and the target.
    fn explore(&mut self, target: Target) -> Result<(), Exhausted> {
        let first = self.reached.waiting.len();
        let mut i = 0;
        while i < self.reached.waiting.len() {
            if let Some(kept) = self.reached.waiting.get(i).cloned() {
                self.expand(&kept.config, kept.trace, target, self.reached.idle[i])?;
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

    /// The operation is placed in every configuration.
    fn settled_everywhere(&self, seat: u32) -> bool {
        let (word, bit) = self.board.layout.pending(seat);
        self.now
            .live()
            .all(|kept| kept.config.words()[word] & bit == 0)
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

    /// Where the target is not pending, the configuration is kept; where it is not used, it waits
    /// for the target to be used. `idle`: the last placed was blind and nothing came of it.
    fn sort(&mut self, layout: Layout<C>, config: C, trace: u32, target: Target, idle: bool) {
        let (word, bit) = layout.pending(target.seat);
        let (used, used_bit) = layout.used(target.seat);
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

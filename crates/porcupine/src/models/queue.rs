//! Models what holds values and gives them back one by one: queues, a stack, a priority queue, a
//! double-ended queue. An operation puts a value in; another one takes a value out and returns it,
//! or returns None if there is none.

use rustc_hash::{FxHashMap, FxHashSet};

use super::numbers::{Actions, Numbers};
use crate::datum::Datum;
use crate::order::NEVER;
use crate::rows::{each, BadRow, Rows};
use crate::search::{Model, Op};

/// Which value is taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Any.
    Any,
    /// The least.
    Least,
    /// The one at an end of the row in which they were put in.
    Ends,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    Front,
    Back,
}

/// What the operations are called, and on which end they act.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    order: Order,
    puts: &'static [(&'static str, End)],
    takes: &'static [(&'static str, End)],
}

pub const UNORDERED: Kind = Kind {
    order: Order::Any,
    puts: &[("enqueue", End::Back)],
    takes: &[("dequeue", End::Front)],
};
pub const FIFO: Kind = Kind {
    order: Order::Ends,
    ..UNORDERED
};
pub const STACK: Kind = Kind {
    order: Order::Ends,
    puts: &[("push", End::Back)],
    takes: &[("pop", End::Back)],
};
pub const PRIORITY: Kind = Kind {
    order: Order::Least,
    puts: &[("insert", End::Back)],
    takes: &[("delete-min", End::Front)],
};
pub const DEQUE: Kind = Kind {
    order: Order::Ends,
    puts: &[("push-front", End::Front), ("push-back", End::Back)],
    takes: &[("pop-front", End::Front), ("pop-back", End::Back)],
};

impl Kind {
    /// Returns whether the operation puts a value in, and its end.
    fn find(self, f: &str) -> Option<(bool, End)> {
        let names =
            |names: &[(&str, End)]| names.iter().find(|name| name.0 == f).map(|name| name.1);
        let puts = names(self.puts).map(|end| (true, end));
        puts.or_else(|| names(self.takes).map(|end| (false, end)))
    }

    fn names(self) -> String {
        let names = self.puts.iter().chain(self.takes);
        let quoted: Vec<String> = names.map(|(name, _)| format!("{name:?}")).collect();
        quoted.join(" or ")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    Enqueue(u32, End),
    Dequeue(u32, End),
    /// Found nothing.
    Empty,
    /// Never returned, and took the value that was there, if any.
    Lost(End),
}

/// The state is the number of a content, sorted unless the ends matter.
pub struct Queue {
    pub(super) order: Order,
    /// A dequeue found nothing or its value is unknown, so an early enqueue can do harm.
    watched: bool,
    pub(super) actions: Vec<Action>,
    contents: Vec<Box<[u32]>>,
    numbers: FxHashMap<Box<[u32]>, u32>,
    bytes: usize,
    /// By value: how many more of the operations under minimization enqueue it than dequeue it.
    left: FxHashMap<u32, usize>,
}

/// Parses the operations. O(n), and O(n log n) if the least value is taken out.
pub fn parse(rows: &dyn Rows, object: &[u32], kind: Kind) -> Result<(Queue, Vec<Op>), BadRow> {
    let mut values = Values::new(kind.order);
    let mut actions = Actions::default();
    let mut ops = Vec::with_capacity(object.len());
    for at in each(rows, object) {
        let timing = rows.timing(at);
        let Some((puts, end)) = kind.find(rows.f(at)) else {
            return Err(BadRow::f(at, rows.f(at), &kind.names()));
        };
        let action = match (puts, rows.output(at)) {
            (true, _) => Action::Enqueue(values.number(at, "value", rows.value(at))?, end),
            (false, _) if timing.ret == NEVER => Action::Lost(end),
            (false, Datum::Null) => Action::Empty,
            (false, value) => Action::Dequeue(values.number(at, "output", value)?, end),
        };
        ops.push(Op {
            row: at as u32,
            action: actions.number(action),
            call: timing.call,
            ret: timing.ret,
        });
    }
    values.rank(&mut actions.all);
    let watched = actions.all.contains(&Action::Empty);
    if kind.order == Order::Any && !watched {
        // A dequeue that never returned can only take away values.
        ops.retain(|op| !matches!(actions.all[op.action as usize], Action::Lost(_)));
    }
    let queue = Queue::new(actions.all, kind.order, watched);
    Ok((queue, ops))
}

/// Numbers the values.
struct Values<'a> {
    order: Order,
    numbers: Numbers<'a>,
    /// By number, if the least value is taken out.
    ints: Vec<i64>,
}

impl<'a> Values<'a> {
    fn new(order: Order) -> Self {
        Self {
            order,
            numbers: Numbers::default(),
            ints: Vec::new(),
        }
    }

    fn number(&mut self, row: usize, field: &str, value: Datum<'a>) -> Result<u32, BadRow> {
        match (self.order, &value) {
            (Order::Least, &Datum::Int(int)) => {
                let number = self.numbers.number(value);
                if number as usize == self.ints.len() {
                    self.ints.push(int);
                }
                Ok(number)
            }
            (Order::Any | Order::Ends, Datum::Int(_) | Datum::Text(_)) => {
                Ok(self.numbers.number(value))
            }
            _ => {
                let what = match self.order {
                    Order::Least => "an int",
                    _ => "an int or a str",
                };
                let expected = match field {
                    "value" => what.to_owned(),
                    _ => format!("{}, or None (there was nothing)", what.replace(" or", ",")),
                };
                Err(BadRow::field(row, field, &value, &expected))
            }
        }
    }

    /// Numbers the values in their own order, if the least is taken out.
    fn rank(&self, actions: &mut [Action]) {
        if self.order != Order::Least {
            return;
        }
        let mut sorted: Vec<usize> = (0..self.ints.len()).collect();
        sorted.sort_unstable_by_key(|&number| self.ints[number]);
        let mut ranks = vec![0; sorted.len()];
        for (rank, number) in (0u32..).zip(sorted) {
            ranks[number] = rank;
        }
        for action in actions {
            if let Action::Enqueue(value, _) | Action::Dequeue(value, _) = action {
                *value = ranks[*value as usize];
            }
        }
    }
}

impl Queue {
    fn new(actions: Vec<Action>, order: Order, watched: bool) -> Self {
        Self {
            order,
            watched,
            actions,
            contents: Vec::new(),
            numbers: FxHashMap::default(),
            bytes: 0,
            left: FxHashMap::default(),
        }
    }

    /// Returns the value that the operation puts in or takes out; `None` if there is none, or if it
    /// is unknown.
    pub(super) fn value(&self, op: &Op) -> Option<u32> {
        match self.actions[op.action as usize] {
            Action::Enqueue(value, _) | Action::Dequeue(value, _) => Some(value),
            Action::Empty | Action::Lost(_) => None,
        }
    }

    fn number(&mut self, content: Box<[u32]>) -> u64 {
        if let Some(&number) = self.numbers.get(&content) {
            return number.into();
        }
        let number = self.contents.len() as u32;
        self.bytes += 8 * content.len() + 80;
        self.contents.push(content.clone());
        self.numbers.insert(content, number);
        number.into()
    }

    /// Returns an empty one of the same actions.
    pub(super) fn emptied(&self) -> Self {
        Self::new(self.actions.clone(), self.order, self.watched)
    }

    /// Returns an unordered queue of the same actions, in which no dequeue finds nothing.
    pub(super) fn unordered(&self) -> Self {
        Self::new(self.actions.clone(), Order::Any, false)
    }

    /// Returns the number of values that the actions name.
    pub(super) fn values(&self) -> usize {
        let values = self.actions.iter().filter_map(|action| match action {
            Action::Enqueue(value, _) | Action::Dequeue(value, _) => Some(*value as usize + 1),
            Action::Empty | Action::Lost(_) => None,
        });
        values.max().unwrap_or(0)
    }

    fn without(&mut self, state: u64, place: usize) -> u64 {
        let mut content = self.contents[state as usize].to_vec();
        content.remove(place);
        self.number(content.into())
    }

    fn with(&mut self, state: u64, value: u32, end: End) -> u64 {
        let mut content = self.contents[state as usize].to_vec();
        let place = match (self.order, end) {
            (Order::Ends, End::Front) => 0,
            (Order::Ends, End::Back) => content.len(),
            (Order::Any | Order::Least, _) => content.partition_point(|&v| v < value),
        };
        content.insert(place, value);
        self.number(content.into())
    }

    /// Returns the place of the value that is taken out at an end; `None` if there is none.
    fn taken(&self, state: u64, end: End) -> Option<usize> {
        let last = self.contents[state as usize].len().checked_sub(1)?;
        Some(match end {
            End::Front => 0,
            End::Back => last,
        })
    }
}

impl Queue {
    /// By value: how many more times it was enqueued than dequeued, where this is positive.
    fn surplus(&self, ops: &[Op]) -> FxHashMap<u32, usize> {
        let mut counts: FxHashMap<u32, (usize, usize)> = FxHashMap::default();
        for op in ops {
            match self.actions[op.action as usize] {
                Action::Enqueue(value, _) => counts.entry(value).or_default().0 += 1,
                Action::Dequeue(value, _) => counts.entry(value).or_default().1 += 1,
                Action::Empty | Action::Lost(_) => {}
            }
        }
        let surplus =
            |(value, (given, taken)): (u32, (usize, usize))| (value, given.saturating_sub(taken));
        counts.into_iter().map(surplus).collect()
    }
}

impl Model for Queue {
    fn initial(&mut self) -> u64 {
        self.number(Box::default())
    }

    fn step(&mut self, state: u64, action: u32) -> Option<u64> {
        match self.actions[action as usize] {
            Action::Enqueue(value, end) => Some(self.with(state, value, end)),
            Action::Empty => self.contents[state as usize].is_empty().then_some(state),
            Action::Dequeue(value, end) => {
                let content = &self.contents[state as usize];
                let place = match self.order {
                    Order::Any => content.binary_search(&value).ok()?,
                    Order::Least | Order::Ends => self.taken(state, end)?,
                };
                (content[place] == value).then(|| self.without(state, place))
            }
            Action::Lost(end) => {
                let place = self.taken(state, end)?;
                Some(self.without(state, place))
            }
        }
    }

    fn steps(&mut self, state: u64, action: u32, out: &mut Vec<u64>) {
        let is_lost = matches!(self.actions[action as usize], Action::Lost(_));
        if self.order != Order::Any || !is_lost {
            out.extend(self.step(state, action));
            return;
        }
        for place in 0..self.contents[state as usize].len() {
            let next = self.without(state, place);
            out.push(next);
        }
    }

    fn pure(&self, action: u32) -> bool {
        self.actions[action as usize] == Action::Empty
    }

    fn eager(&self, action: u32) -> bool {
        let enqueues = matches!(self.actions[action as usize], Action::Enqueue(_, _));
        enqueues && self.order == Order::Any && !self.watched
    }

    fn helps(&self, action: u32) -> bool {
        let enqueues = matches!(self.actions[action as usize], Action::Enqueue(_, _));
        enqueues || self.order != Order::Any || self.watched
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn renew(&mut self, states: &mut [u64]) {
        let contents = std::mem::take(&mut self.contents);
        self.numbers.clear();
        self.bytes = 0;
        for state in states {
            *state = self.number(contents[*state as usize].clone());
        }
    }

    fn suspect(&mut self, ops: &[Op]) {
        self.left = self.surplus(ops);
    }

    /// Drops the last dequeues of a value for which no enqueue is left, and with each dequeue that
    /// was dropped an enqueue of its value. Consider that 1 was enqueued, dequeued, and then a
    /// dequeue found nothing: without the dequeue of 1, which explains them, the enqueue and the
    /// last dequeue would fail.
    fn close(&self, part: &mut Vec<Op>) {
        let mut given: FxHashSet<u32> = FxHashSet::default();
        for op in part.iter() {
            if let Action::Enqueue(value, _) = self.actions[op.action as usize] {
                given.insert(value);
            }
        }
        let mut over = self.surplus(part);
        over.iter_mut().for_each(|(value, more)| {
            *more -= (*more).min(self.left.get(value).copied().unwrap_or(0))
        });
        // Drop the last surplus operations.
        let mut kept = part.len();
        for at in (0..part.len()).rev() {
            let dropped = match self.actions[part[at].action as usize] {
                Action::Dequeue(value, _) => !given.contains(&value),
                Action::Enqueue(value, _) => match over.get_mut(&value) {
                    Some(more) if *more > 0 => {
                        *more -= 1;
                        true
                    }
                    _ => false,
                },
                Action::Empty | Action::Lost(_) => false,
            };
            if !dropped {
                kept -= 1;
                part[kept] = part[at];
            }
        }
        part.drain(..kept);
    }

    /// Whether no value is left in the queue more often than after all suspect operations.
    fn is_fair(&self, part: &[Op]) -> bool {
        let left = |value: u32| self.left.get(&value).copied().unwrap_or(0);
        let mut surplus = self.surplus(part).into_iter();
        surplus.all(|(value, more)| more <= left(value))
    }
}

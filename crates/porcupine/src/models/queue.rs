//! Models queues: "enqueue" adds a value; "dequeue" returns one, or None if there is none. An
//! unordered queue returns any value, a FIFO queue the first.

use rustc_hash::{FxHashMap, FxHashSet};

use super::numbers::{Actions, Numbers};
use crate::datum::Datum;
use crate::order::NEVER;
use crate::rows::{each, BadRow, Rows};
use crate::search::{Model, Op};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    Enqueue(u32),
    Dequeue(u32),
    /// Found nothing.
    Empty,
    /// Never returned, and took any value that was there.
    Lost,
}

/// The state is the number of a content, in order of arrival for FIFO, otherwise sorted.
pub struct Queue {
    pub(super) fifo: bool,
    /// A dequeue found nothing or its value is unknown, so an early enqueue can do harm.
    watched: bool,
    pub(super) actions: Vec<Action>,
    contents: Vec<Box<[u32]>>,
    numbers: FxHashMap<Box<[u32]>, u32>,
    bytes: usize,
    /// By value: how many more of the operations under minimization enqueue it than dequeue it.
    left: FxHashMap<u32, usize>,
}

/// Parses the operations. O(n).
pub fn parse(rows: &dyn Rows, object: &[u32], fifo: bool) -> Result<(Queue, Vec<Op>), BadRow> {
    let mut values = Numbers::default();
    let mut actions = Actions::default();
    let mut ops = Vec::with_capacity(object.len());
    for at in each(rows, object) {
        let timing = rows.timing(at);
        let action = match rows.f(at) {
            "enqueue" => match rows.value(at) {
                value @ (Datum::Int(_) | Datum::Text(_)) => Action::Enqueue(values.number(value)),
                other => return Err(BadRow::field(at, "value", &other, "an int or a str")),
            },
            "dequeue" if timing.ret == NEVER => Action::Lost,
            "dequeue" => match rows.output(at) {
                Datum::Null => Action::Empty,
                value @ (Datum::Int(_) | Datum::Text(_)) => Action::Dequeue(values.number(value)),
                other => {
                    let expected = "an int, a str, or None (there was nothing)";
                    return Err(BadRow::field(at, "output", &other, expected));
                }
            },
            f => return Err(BadRow::f(at, f, "\"enqueue\" or \"dequeue\"")),
        };
        ops.push(Op {
            row: at as u32,
            action: actions.number(action),
            call: timing.call,
            ret: timing.ret,
        });
    }
    let watched = actions.all.contains(&Action::Empty);
    if !fifo && !watched {
        // A dequeue that never returned can only take away values.
        ops.retain(|op| actions.all[op.action as usize] != Action::Lost);
    }
    let queue = Queue::new(actions.all, fifo, watched);
    Ok((queue, ops))
}

impl Queue {
    fn new(actions: Vec<Action>, fifo: bool, watched: bool) -> Self {
        Self {
            fifo,
            watched,
            actions,
            contents: Vec::new(),
            numbers: FxHashMap::default(),
            bytes: 0,
            left: FxHashMap::default(),
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

    /// Returns an unordered queue of the same actions, in which no dequeue finds nothing.
    pub(super) fn unordered(&self) -> Self {
        Self::new(self.actions.clone(), false, false)
    }

    /// Returns the number of values that the actions name.
    pub(super) fn values(&self) -> usize {
        let values = self.actions.iter().filter_map(|action| match action {
            Action::Enqueue(value) | Action::Dequeue(value) => Some(*value as usize + 1),
            Action::Empty | Action::Lost => None,
        });
        values.max().unwrap_or(0)
    }

    fn without(&mut self, state: u64, place: usize) -> u64 {
        let mut content = self.contents[state as usize].to_vec();
        content.remove(place);
        self.number(content.into())
    }

    fn with(&mut self, state: u64, value: u32) -> u64 {
        let mut content = self.contents[state as usize].to_vec();
        let place = match self.fifo {
            true => content.len(),
            false => content.partition_point(|&v| v < value),
        };
        content.insert(place, value);
        self.number(content.into())
    }
}

impl Queue {
    /// By value: how many more times it was enqueued than dequeued, where this is positive.
    fn surplus(&self, ops: &[Op]) -> FxHashMap<u32, usize> {
        let mut counts: FxHashMap<u32, (usize, usize)> = FxHashMap::default();
        for op in ops {
            match self.actions[op.action as usize] {
                Action::Enqueue(value) => counts.entry(value).or_default().0 += 1,
                Action::Dequeue(value) => counts.entry(value).or_default().1 += 1,
                Action::Empty | Action::Lost => {}
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
        let content = &self.contents[state as usize];
        match self.actions[action as usize] {
            Action::Enqueue(value) => Some(self.with(state, value)),
            Action::Empty => content.is_empty().then_some(state),
            Action::Dequeue(value) if self.fifo => {
                (content.first() == Some(&value)).then(|| self.without(state, 0))
            }
            Action::Dequeue(value) => {
                let place = content.binary_search(&value).ok()?;
                Some(self.without(state, place))
            }
            Action::Lost => (!content.is_empty()).then(|| self.without(state, 0)),
        }
    }

    fn steps(&mut self, state: u64, action: u32, out: &mut Vec<u64>) {
        if self.fifo || self.actions[action as usize] != Action::Lost {
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
        let enqueues = matches!(self.actions[action as usize], Action::Enqueue(_));
        enqueues && !self.fifo && !self.watched
    }

    fn helps(&self, action: u32) -> bool {
        let enqueues = matches!(self.actions[action as usize], Action::Enqueue(_));
        enqueues || self.fifo || self.watched
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
            if let Action::Enqueue(value) = self.actions[op.action as usize] {
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
                Action::Dequeue(value) => !given.contains(&value),
                Action::Enqueue(value) => match over.get_mut(&value) {
                    Some(more) if *more > 0 => {
                        *more -= 1;
                        true
                    }
                    _ => false,
                },
                Action::Empty | Action::Lost => false,
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

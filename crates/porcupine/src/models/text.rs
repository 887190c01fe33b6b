//! Models a text that is put, appended to, and got.
//!
//! A get can only tell whether the text is the one that it found. A text therefore matters only as
//! long as it is a prefix of one that some get found, and such a prefix fixes the order of the
//! appends in it. All other texts are one state, which only a put leaves. Nothing in a state grows
//! with the text, and if the pieces differ, the search need hardly distinguish any two orders of
//! appends.

use rustc_hash::{FxHashMap, FxHashSet};

use super::numbers::Actions;
use super::starts::{Starts, NONE};
use crate::datum::Datum;
use crate::order::NEVER;
use crate::rows::{each, BadRow, Rows};
use crate::search::{Model, Op};

/// An action, with the number of its piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
    Put(u32),
    Append(u32),
    Get(u32),
}

/// The state is the number of a prefix of the texts that gets found.
pub struct TextModel<'a> {
    initial: &'a [u8],
    actions: Vec<Action>,
    pieces: Vec<&'a [u8]>,
    starts: Starts<'a>,
    /// By piece: the state of this text.
    states: Vec<u64>,
}

/// Parses the operations. Gets that never returned say nothing and are skipped; so are puts that
/// never returned and whose text no get found. O(n log n) comparisons of texts.
pub fn parse<'a>(
    rows: &'a dyn Rows,
    object: &[u32],
    initial: &Datum<'a>,
) -> Result<(TextModel<'a>, Vec<Op>), BadRow> {
    let mut actions = Actions::default();
    let mut pieces: Vec<&'a [u8]> = Vec::new();
    let mut numbers: FxHashMap<&'a [u8], u32> = FxHashMap::default();
    let mut ops = Vec::with_capacity(object.len());
    for at in each(rows, object) {
        let timing = rows.timing(at);
        let f = rows.f(at);
        if f == "get" && timing.ret == NEVER {
            continue;
        }
        let (field, datum) = match f {
            "get" => ("output", rows.output(at)),
            "put" | "append" => ("value", rows.value(at)),
            f => return Err(BadRow::f(at, f, "\"get\", \"put\" or \"append\"")),
        };
        let Datum::Text(text) = datum else {
            let expected = "a str (where a key is appended to, all its values are)";
            return Err(BadRow::field(at, field, &datum, expected));
        };
        let piece = *numbers.entry(text.as_bytes()).or_insert_with(|| {
            pieces.push(text.as_bytes());
            pieces.len() as u32 - 1
        });
        let action = match f {
            "get" => Action::Get(piece),
            "put" => Action::Put(piece),
            _ => Action::Append(piece),
        };
        ops.push(Op {
            row: at as u32,
            action: actions.number(action),
            call: timing.call,
            ret: timing.ret,
        });
    }
    let initial = match initial {
        Datum::Text(text) => text.as_bytes(),
        _ => &[],
    };
    let model = TextModel::new(initial, actions.all, pieces);
    ops.retain(|op| op.ret != NEVER || !model.is_unseen_put(op.action));
    Ok((model, ops))
}

impl<'a> TextModel<'a> {
    fn new(initial: &'a [u8], actions: Vec<Action>, pieces: Vec<&'a [u8]>) -> Self {
        let found = actions.iter().filter_map(|action| match action {
            Action::Get(piece) => Some(pieces[*piece as usize]),
            _ => None,
        });
        let starts = Starts::new(found.collect());
        let mut states = vec![NONE; pieces.len()];
        for action in &actions {
            if let Action::Put(piece) | Action::Get(piece) = *action {
                states[piece as usize] = starts.of(pieces[piece as usize]);
            }
        }
        Self {
            initial,
            actions,
            pieces,
            starts,
            states,
        }
    }

    fn is_unseen_put(&self, action: u32) -> bool {
        match self.actions[action as usize] {
            Action::Put(piece) => self.states[piece as usize] == NONE,
            _ => false,
        }
    }
}

impl Model for TextModel<'_> {
    fn initial(&mut self) -> u64 {
        self.starts.of(self.initial)
    }

    #[inline]
    fn step(&mut self, state: u64, action: u32) -> Option<u64> {
        match self.actions[action as usize] {
            Action::Put(piece) => Some(self.states[piece as usize]),
            Action::Append(piece) => {
                let text = self.pieces[piece as usize];
                Some(self.starts.longer(state, piece, text))
            }
            Action::Get(piece) => (state == self.states[piece as usize]).then_some(state),
        }
    }

    fn pure(&self, action: u32) -> bool {
        matches!(self.actions[action as usize], Action::Get(_))
    }

    fn blind(&self, action: u32) -> bool {
        !self.pure(action)
    }

    fn overwrites(&self, action: u32) -> bool {
        matches!(self.actions[action as usize], Action::Put(_))
    }

    fn blank(&self, state: u64) -> bool {
        state == NONE
    }

    /// Keeps the gets of texts that consist of the initial text or a put one, followed by appended
    /// pieces, each any number of times.
    fn close(&self, part: &mut Vec<Op>) {
        let (mut wholes, mut pieces) = (FxHashSet::default(), FxHashSet::default());
        wholes.insert(self.initial);
        for op in part.iter() {
            match self.actions[op.action as usize] {
                Action::Put(piece) => wholes.insert(self.pieces[piece as usize]),
                Action::Append(piece) => pieces.insert(self.pieces[piece as usize]),
                Action::Get(_) => false,
            };
        }
        let made = self.starts.made_of(&wholes, &pieces);
        part.retain(|op| match self.actions[op.action as usize] {
            Action::Get(piece) => made.contains(&self.states[piece as usize]),
            Action::Put(_) | Action::Append(_) => true,
        });
    }
}

//! A text that is put, appended to, and got.

use rustc_hash::{FxHashMap, FxHashSet};

use super::numbers::Actions;
use crate::order::NEVER;
use crate::rows::{each, BadRow, Datum, Rows};
use crate::search::{Model, Op};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
    Put(u32),
    /// The piece of this number.
    Append(u32),
    Get(u32),
}

/// A text: a piece, or another text and a piece.
#[derive(Clone, Copy, Debug)]
struct Text {
    before: Option<u32>,
    piece: u32,
    length: usize,
    hash: u64,
}

/// The state is the number of a text. Equal texts have equal numbers: texts of equal hash and
/// length are compared.
pub struct TextModel<'a> {
    initial: u32,
    actions: Vec<Action>,
    pieces: Vec<&'a str>,
    texts: Vec<Text>,
    by_hash: FxHashMap<(u64, usize), Vec<u32>>,
    appended: FxHashMap<(u32, u32), u32>,
}

/// Gets that never returned say nothing and are left out. O(n + length of all texts).
pub fn parse<'a>(
    rows: &'a dyn Rows,
    object: &[u32],
    initial: &Datum<'a>,
) -> Result<(TextModel<'a>, Vec<Op>), BadRow> {
    let mut actions = Actions::default();
    let mut model = TextModel {
        initial: 0,
        actions: Vec::new(),
        pieces: Vec::new(),
        texts: Vec::new(),
        by_hash: FxHashMap::default(),
        appended: FxHashMap::default(),
    };
    let mut numbers: FxHashMap<&str, u32> = FxHashMap::default();
    let mut piece = |model: &mut TextModel<'a>, text: &'a str| {
        *numbers.entry(text).or_insert_with(|| {
            model.pieces.push(text);
            model.pieces.len() as u32 - 1
        })
    };
    let initial = piece(
        &mut model,
        if let Datum::Text(text) = initial {
            text
        } else {
            ""
        },
    );
    model.initial = model.whole(initial);
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
        let piece = piece(&mut model, text);
        let action = match f {
            "get" => Action::Get(model.whole(piece)),
            "put" => Action::Put(model.whole(piece)),
            _ => Action::Append(piece),
        };
        ops.push(Op {
            row: at as u32,
            action: actions.number(action),
            call: timing.call,
            ret: timing.ret,
        });
    }
    model.actions = actions.all;
    Ok((model, ops))
}

impl TextModel<'_> {
    /// The text that is one piece.
    fn whole(&mut self, piece: u32) -> u32 {
        let text = self.pieces[piece as usize];
        let (hash, length) = (hash(0, text), text.len());
        self.number(Text {
            before: None,
            piece,
            length,
            hash,
        })
    }

    /// What a text that is one piece says.
    fn only_piece(&self, text: u32) -> &str {
        self.pieces[self.texts[text as usize].piece as usize]
    }

    fn append(&mut self, before: u32, piece: u32) -> u32 {
        if let Some(&text) = self.appended.get(&(before, piece)) {
            return text;
        }
        let (old, added) = (self.texts[before as usize], self.pieces[piece as usize]);
        let text = self.number(Text {
            before: Some(before),
            piece,
            length: old.length + added.len(),
            hash: hash(old.hash, added),
        });
        self.appended.insert((before, piece), text);
        text
    }

    fn number(&mut self, text: Text) -> u32 {
        let key = (text.hash, text.length);
        if let Some(alike) = self.by_hash.get(&key) {
            if let Some(&same) = alike
                .iter()
                .find(|&&t| self.equal(text, self.texts[t as usize]))
            {
                return same;
            }
        }
        let number = self.texts.len() as u32;
        self.texts.push(text);
        self.by_hash.entry(key).or_default().push(number);
        number
    }

    /// Compares two texts of equal length from their ends.
    fn equal(&self, mut a: Text, mut b: Text) -> bool {
        let piece = |t: Text| self.pieces[t.piece as usize].as_bytes();
        let (mut end_a, mut end_b) = (piece(a), piece(b));
        loop {
            let same = end_a.len().min(end_b.len());
            let (rest_a, tail_a) = end_a.split_at(end_a.len() - same);
            let (rest_b, tail_b) = end_b.split_at(end_b.len() - same);
            if tail_a != tail_b {
                return false;
            }
            (end_a, end_b) = (rest_a, rest_b);
            while end_a.is_empty() {
                let Some(before) = a.before else {
                    return true;
                };
                a = self.texts[before as usize];
                end_a = piece(a);
            }
            while end_b.is_empty() {
                let Some(before) = b.before else {
                    return true;
                };
                b = self.texts[before as usize];
                end_b = piece(b);
            }
        }
    }
}

/// Whether a text is one of the starts and then any of the pieces, which have one of these lengths.
fn made_of(text: &str, starts: &[&str], pieces: &FxHashSet<&str>, lengths: &[usize]) -> bool {
    let mut reached = vec![false; text.len() + 1];
    for start in starts.iter().filter(|start| text.starts_with(**start)) {
        reached[start.len()] = true;
    }
    for from in 0..text.len() {
        if !reached[from] {
            continue;
        }
        for length in lengths {
            let piece = text.get(from..from + length);
            if piece.is_some_and(|piece| pieces.contains(piece)) {
                reached[from + length] = true;
            }
        }
    }
    reached[text.len()]
}

/// Of a text that goes on: the same whatever pieces it is in.
fn hash(before: u64, text: &str) -> u64 {
    text.bytes().fold(before, |hash, byte| {
        (hash ^ u64::from(byte))
            .wrapping_mul(0x0100_0000_01b3)
            .rotate_left(23)
    })
}

impl Model for TextModel<'_> {
    fn initial(&mut self) -> u64 {
        self.initial.into()
    }

    fn step(&mut self, state: u64, action: u32) -> Option<u64> {
        match self.actions[action as usize] {
            Action::Put(text) => Some(text.into()),
            Action::Append(piece) => Some(self.append(state as u32, piece).into()),
            Action::Get(text) => (state == u64::from(text)).then_some(state),
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

    /// Keeps the gets of texts that can be put together of what was there at first or is put, and then
    /// of pieces that are appended, each as often as need be.
    fn close(&self, part: &mut Vec<Op>) {
        let (mut starts, mut pieces) = (vec![self.only_piece(self.initial)], FxHashSet::default());
        for op in part.iter() {
            match self.actions[op.action as usize] {
                Action::Put(text) => starts.push(self.only_piece(text)),
                Action::Append(piece) => {
                    pieces.insert(self.pieces[piece as usize]);
                }
                Action::Get(_) => {}
            }
        }
        let mut lengths: Vec<usize> = pieces.iter().map(|piece| piece.len()).collect();
        lengths.sort_unstable();
        lengths.dedup();
        part.retain(|op| match self.actions[op.action as usize] {
            Action::Get(text) => made_of(self.only_piece(text), &starts, &pieces, &lengths),
            Action::Put(_) | Action::Append(_) => true,
        });
    }
}

//! The reads as a chain under inclusion.

use super::index::{Indexed, NONE};

/// Levels as in the module's proof.
pub(super) struct Levels {
    /// By read: 2k for the k-th content of the chain, counted from 1.
    pub read: Vec<u32>,
    /// By value: 2k−1 where the k-th content is the first that has it; [`UNSEEN`] if none has.
    pub value: Vec<u32>,
    /// Some read of each content, the smallest first.
    pub contents: Vec<u32>,
}

/// The level of a value that no read saw.
pub(super) const UNSEEN: u32 = NONE;

impl Levels {
    /// Before any read was looked at.
    fn new(indexed: &Indexed) -> Self {
        Self {
            read: vec![0; indexed.reads()],
            value: vec![UNSEEN; indexed.values.len()],
            contents: Vec::new(),
        }
    }
}

/// The levels, where each read has the values of the next smaller one in the same order: so have reads of
/// a log, and sorted ones. None where that is not so, or a read is illegal by itself.
///
/// Then to know a read is to know what it has beyond the one before. O(n log n + v), of which v are comparisons of
/// neighbouring memory.
pub(super) fn grown(indexed: &Indexed) -> Option<Levels> {
    let mut levels = Levels::new(indexed);
    let mut before: &[i64] = &[];
    let mut more = Vec::new();
    for r in indexed.by_size() {
        let values = indexed.seen(r);
        more.clear();
        if !additions(before, values, &mut more) {
            return None;
        }
        if !more.is_empty() || levels.contents.is_empty() {
            levels.contents.push(r as u32);
        }
        let k = levels.contents.len() as u32;
        for &value in &more {
            let level = &mut levels.value[indexed.number(value)? as usize];
            if *level != UNSEEN {
                return None;
            }
            *level = 2 * k - 1;
        }
        levels.read[r] = 2 * k;
        before = values;
    }
    Some(levels)
}

/// What `after` has between and behind the values of `before`; false where it does not have all of those in
/// their order. It is no shorter.
fn additions(before: &[i64], after: &[i64], more: &mut Vec<i64>) -> bool {
    let most = after.len() - before.len();
    let mut at = 0;
    loop {
        at += common(&before[at..], &after[at + more.len()..]);
        if at == before.len() {
            more.extend_from_slice(&after[at + more.len()..]);
            return true;
        }
        if more.len() == most {
            return false;
        }
        more.push(after[at + more.len()]);
    }
}

/// How many values both begin with.
fn common(a: &[i64], b: &[i64]) -> usize {
    const BLOCK: usize = 256;
    let blocks = a.chunks_exact(BLOCK).zip(b.chunks_exact(BLOCK));
    let whole = BLOCK * blocks.take_while(|(a, b)| a == b).count();
    let rest = a[whole..].iter().zip(&b[whole..]);
    whole + rest.take_while(|(a, b)| a == b).count()
}

/// The levels, or two reads neither of which contains the other. O(n log n + v).
///
/// Reads are taken by size. As long as they form a chain, the values seen so far are those of
/// the read before; the next read contains it exactly when it has as many values already seen.
pub(super) fn levels(indexed: &Indexed) -> Result<Levels, (usize, usize)> {
    let mut levels = Levels::new(indexed);
    let mut size = 0;
    let mut last = None;
    for r in indexed.by_size() {
        let grows = indexed.seen(r).len() > size || last.is_none();
        let mut old = 0;
        let k = levels.contents.len() as u32 + u32::from(grows);
        for v in indexed.read(r) {
            let level = &mut levels.value[v as usize];
            if *level == UNSEEN {
                *level = 2 * k - 1;
            } else {
                old += 1;
            }
        }
        if old != size {
            return Err((last.expect("the empty set is in every read"), r));
        }
        if grows {
            levels.contents.push(r as u32);
            size = indexed.seen(r).len();
        }
        last = Some(r);
        levels.read[r] = 2 * k;
    }
    Ok(levels)
}

//! Orders the reads as a chain under inclusion.

use super::index::{Indexed, NONE};

/// The levels of the module's proof.
pub(super) struct Levels {
    /// By read: 2k for the k-th content of the chain, counted from 1.
    pub read: Vec<u32>,
    /// By value: 2k−1 if the k-th content is the first that has it; [`UNSEEN`] if none has.
    pub value: Vec<u32>,
    /// A read of each content, the smallest content first.
    pub contents: Vec<u32>,
}

/// The level of a value that no read saw.
pub(super) const UNSEEN: u32 = NONE;

impl Levels {
    /// Creates the levels before any read is examined.
    fn new(indexed: &Indexed) -> Self {
        Self {
            read: vec![0; indexed.reads()],
            value: vec![UNSEEN; indexed.values.len()],
            contents: Vec::new(),
        }
    }
}

/// Returns the levels if each read has the values of the next smaller one in the same order, as
/// reads of a log and sorted reads do; `None` if not, or if a read is illegal by itself.
///
/// Knowing a read then means knowing what it has beyond its predecessor. O(n log n + v), of which v
/// are comparisons of adjacent memory.
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

/// Collects what `after` has between and behind the values of `before`; returns false if `after`
/// does not have all of them in their order. `after` must not be shorter.
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

/// Returns the length of the common prefix.
fn common(a: &[i64], b: &[i64]) -> usize {
    const BLOCK: usize = 256;
    let blocks = a.chunks_exact(BLOCK).zip(b.chunks_exact(BLOCK));
    let whole = BLOCK * blocks.take_while(|(a, b)| a == b).count();
    let rest = a[whole..].iter().zip(&b[whole..]);
    whole + rest.take_while(|(a, b)| a == b).count()
}

/// Returns the levels, or two reads neither of which contains the other. O(n log n + v).
///
/// Reads are taken by size. As long as they form a chain, the values seen so far are those of the
/// previous read; the next read contains that one exactly if it has as many values already seen.
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
